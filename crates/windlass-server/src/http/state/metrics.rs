//! Metrics of the server and its engine, exported as Prometheus text.
//!
//! Label values come from fixed lists and the configuration. Names that a client or a model can choose are bounded:
//! further names are counted as `other`.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use serde::Serialize;
use windlass::Engine;
use windlass::port::observe::{Measure, Observer};

use crate::http::problem::Problem;

/// Maximum number of distinct names in labels. Further names are counted as `other`.
const NAMES: usize = 200;
type Labels = Vec<(&'static str, String)>;

/// Constructor of a histogram in seconds, from a millisecond to an hour.
#[derive(Clone)]
struct Seconds;

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0, 3600.0])
    }
}

type Durations = Family<Labels, Histogram, Seconds>;

/// All metrics.
pub struct Metrics {
    // tidy: fields one for each figure
    registry: Registry,
    requests: Family<Labels, Counter>,
    request_seconds: Durations,
    streams: Gauge,
    runs_started: Counter,
    runs: Family<Labels, Counter>,
    run_seconds: Histogram,
    steps: Family<Labels, Counter>,
    step_seconds: Durations,
    tokens: Family<Labels, Counter>,
    cost: Family<Labels, Counter<f64, AtomicU64>>,
    calls: Family<Labels, Counter>,
    call_seconds: Durations,
    model_errors: Family<Labels, Counter>,
    append_seconds: Histogram,
    append_failures: Counter,
    threads: Family<Labels, Gauge>,
    active_runs: Gauge,
    interrupts: Gauge,
    names: Mutex<HashSet<String>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("windlass"),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(Seconds),
            streams: Gauge::default(),
            runs_started: Counter::default(),
            runs: Family::default(),
            run_seconds: Seconds.new_metric(),
            steps: Family::default(),
            step_seconds: Family::new_with_constructor(Seconds),
            tokens: Family::default(),
            cost: Family::default(),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(Seconds),
            model_errors: Family::default(),
            append_seconds: Seconds.new_metric(),
            append_failures: Counter::default(),
            threads: Family::default(),
            active_runs: Gauge::default(),
            interrupts: Gauge::default(),
            names: Mutex::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let it = &mut self.registry;
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        it.register("build", "The build", build);
        it.register("http_requests", "Requests by route, method and status", self.requests.clone());
        it.register(
            "http_request_seconds",
            "Time until the response started, by route",
            self.request_seconds.clone(),
        );
        it.register("http_streams", "Open event streams", self.streams.clone());
        it.register("runs_started", "Runs started in this process", self.runs_started.clone());
        it.register("runs", "Runs ended in this process, by status", self.runs.clone());
        it.register("run_seconds", "Time from the start to the end of a run", self.run_seconds.clone());
        it.register("steps", "Model replies, by model", self.steps.clone());
        it.register(
            "step_seconds",
            "Time from the request to the end of the reply",
            self.step_seconds.clone(),
        );
        it.register("tokens", "Tokens by model and kind", self.tokens.clone());
        it.register("cost_usd", "Cost in US dollars by model, at list prices", self.cost.clone());
        it.register("tool_calls", "Tool calls by tool and outcome", self.calls.clone());
        it.register("tool_call_seconds", "Time from dispatch to result, by tool", self.call_seconds.clone());
        it.register("model_errors", "Failed model calls by class", self.model_errors.clone());
        it.register("store_append_seconds", "Appends to the store", self.append_seconds.clone());
        it.register("store_append_failures", "Failed appends to the store", self.append_failures.clone());
        it.register("threads", "Threads that are running or waiting", self.threads.clone());
        it.register("runs_active", "Runs that have not ended", self.active_runs.clone());
        it.register("interrupts_waiting", "Interrupts waiting for people", self.interrupts.clone());
    }

    /// Counts a request when its response begins.
    pub fn answered(&self, route: &str, method: &http::Method, status: u16, took_ms: u64) {
        let method = match *method {
            http::Method::GET | http::Method::POST | http::Method::PUT | http::Method::PATCH => {
                method.as_str()
            }
            http::Method::DELETE | http::Method::HEAD | http::Method::OPTIONS => method.as_str(),
            _ => "other",
        };
        let by_route = |route: &str| vec![("route", route.to_owned()), ("method", method.to_owned())];
        let mut labels = by_route(route);
        self.request_seconds.get_or_create(&labels).observe(seconds(took_ms));
        labels.push(("status", status.to_string()));
        self.requests.get_or_create(&labels).inc();
    }

    /// Counts an event stream until the returned value is dropped.
    pub fn stream(&self) -> OpenStream {
        self.streams.inc();
        OpenStream(self.streams.clone())
    }

    /// Returns a name as a label value, or `other` if the set of names is full.
    fn bounded(&self, name: &str) -> String {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.contains(name) || names.len() < NAMES && name.len() <= 128 && names.insert(name.to_owned()) {
            return name.to_owned();
        }
        "other".to_owned()
    }

    /// Reads the current counts from the store, and encodes all metrics.
    pub async fn text(&self, engine: &Engine) -> Result<String, Problem> {
        let counts = engine.thread_counts().await?;
        let by_status =
            [(counts.running, "running"), (counts.waiting, "waiting"), (counts.sleeping, "sleeping")];
        for (count, word) in by_status {
            let labels = vec![("status", word.to_owned())];
            self.threads.get_or_create(&labels).set(count.cast_signed());
        }
        self.interrupts.set(counts.interrupts.cast_signed());
        self.active_runs.set(counts.active_runs().cast_signed());
        let mut text = String::new();
        encode(&mut text, &self.registry).map_err(Problem::internal)?;
        Ok(text)
    }
}

/// An open event stream in the metrics.
pub struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

/// Returns the serialized name of an enum variant, as in the journal.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
}

impl Observer for Metrics {
    fn observe(&self, measure: &Measure) {
        match measure {
            Measure::RunStarted => drop(self.runs_started.inc()),
            Measure::RunFinished { status, duration_ms } => {
                self.runs.get_or_create(&vec![("status", word(status))]).inc();
                self.run_seconds.observe(seconds(*duration_ms));
            }
            Measure::StepReplied { model, usage, cost, duration_ms } => {
                let model = vec![("model", self.bounded(model.as_str()))];
                self.steps.get_or_create(&model).inc();
                self.step_seconds.get_or_create(&model).observe(seconds(*duration_ms));
                let kinds = [("input", usage.input), ("output", usage.output), ("cached", usage.cached)];
                for (kind, tokens) in kinds {
                    let mut labels = model.clone();
                    labels.push(("kind", kind.to_owned()));
                    self.tokens.get_or_create(&labels).inc_by(tokens.unwrap_or_default());
                }
                if let Some(cost) = cost {
                    self.cost.get_or_create(&model).inc_by(cost.0 as f64 / 1e6);
                }
            }
            Measure::StepFailed { class } => {
                self.model_errors.get_or_create(&vec![("class", word(class))]).inc();
            }
            Measure::CallFinished { tool, outcome, error, duration_ms } => {
                let tool = ("tool", self.bounded(tool.as_str()));
                let error = ("error", error.to_string());
                self.calls.get_or_create(&vec![tool.clone(), ("outcome", word(outcome)), error]).inc();
                self.call_seconds.get_or_create(&vec![tool]).observe(seconds(*duration_ms));
            }
            Measure::Appended { took_ms, written } => {
                self.append_seconds.observe(seconds(*took_ms));
                self.append_failures.inc_by(u64::from(!written));
            }
            // Ignore measures that later versions of the library add, until this module has a metric for them.
            _ => {}
        }
    }
}
