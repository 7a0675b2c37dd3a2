//! Logs and traces. Logs go to standard error, at `warn` unless `WINDLASS_LOG` or `RUST_LOG` sets another filter.
//! Traces go to `OTEL_EXPORTER_OTLP_ENDPOINT`, in builds with the feature `otel`.
//!
//! The libraries decide what is logged; this module filters and formats the logs.

#[cfg(feature = "otel")]
mod otel;

use std::io;

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::console::Console;
use crate::paint::Paint;

/// The section on logs in `--help`.
pub const LOGS: &str = "\
Logs (on stderr):
  WINDLASS_LOG=windlass=info   each step and call: its ids, outcome, duration and tokens
  WINDLASS_LOG=windlass=debug  also decisions; `trace` adds texts, arguments and results
                               (libraries log at `info` and above only, because they log secrets
                               below; the MCP library logs nothing)
  WINDLASS_LOG_FORMAT=json     a line of JSON each, with request, thread, run, step and call";

/// The variable that selects the log format.
const FORMAT: &str = "WINDLASS_LOG_FORMAT";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    /// One JSON object per line.
    Json,
}

/// The default filter. `rig_core` also logs each error that it returns, and the engine logs the same errors.
const USUAL: &str = "warn,rig_core=error";

/// Starts logging. An invalid filter or format causes a warning and is ignored.
pub fn start(console: &Console) {
    let wanted = ["WINDLASS_LOG", "RUST_LOG"].iter().find_map(|name| Some((name, variable(name)?)));
    let filter = wanted.and_then(|(name, value)| match EnvFilter::try_new(&value) {
        Ok(filter) => Some(filter),
        Err(error) => {
            let hint = format!("write {name} as `warn` or `windlass=info`");
            console.warn(&format!("{name}=`{value}` is not a log filter: {error}"), &[&hint]);
            None
        }
    });
    let form = match variable(FORMAT).as_deref() {
        None | Some("text") => Form::Text,
        Some("json") => Form::Json,
        Some(other) => {
            console.warn(&format!("{FORMAT}=`{other}` is not a log format"), &["write `text` or `json`"]);
            Form::Text
        }
    };
    let filter = filter.unwrap_or_else(|| EnvFilter::new(USUAL));
    let subscriber = tracing_subscriber::registry()
        .with(lines(form, console.paint).with_filter(filter.and(filter_fn(is_shown))));
    #[cfg(feature = "otel")]
    let subscriber = subscriber.with(otel::layer(console));
    #[cfg(not(feature = "otel"))]
    if variable("OTEL_EXPORTER_OTLP_ENDPOINT").is_some() {
        console.warn(
            "this build cannot send traces, but OTEL_EXPORTER_OTLP_ENDPOINT is set",
            &["build it with `--features otel`, or unset the variable"],
        );
    }
    // Cannot fail: this is the first subscriber of the process.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Whether a line may be displayed under any filter. Below `info`, libraries for HTTP and MCP log
/// unredacted bytes, including secrets. `rmcp` logs untrusted server text at every level, so it is
/// excluded; the engine logs the same text, redacted.
fn is_shown(metadata: &Metadata<'_>) -> bool {
    let of = |crate_name: &str| metadata.target().split("::").next() == Some(crate_name);
    metadata.target().starts_with("windlass") || !of("rmcp") && *metadata.level() <= Level::INFO
}

fn variable(name: &str) -> Option<String> {
    windlass_server::config::environment(name)
}

fn lines<S>(form: Form, paint: Paint) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    let layer = fmt::layer().with_writer(io::stderr);
    match form {
        Form::Text => layer.with_ansi(paint == Paint::Colored).boxed(),
        Form::Json => layer.json().flatten_event(true).with_current_span(false).boxed(),
    }
}

/// Sends the remaining traces, with a time-out of a few seconds.
pub async fn finish() {
    #[cfg(feature = "otel")]
    otel::finish().await;
}
