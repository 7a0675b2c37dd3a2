//! Runs a load on a program and sums up its cost.
//!
//! Measures only the time from the end of the warm-up to the final text of the last run. A run that does not return its
//! script's text is a failure.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::{Driver, RunProbe, Settings};
use crate::machine;
use crate::server::script::{Kind, Script};

/// Number of tokens in the text that ends a script with tool calls.
const LAST_TEXT_TOKENS: usize = 50;

/// The number and concurrency of runs.
#[derive(Clone, Copy, Debug, Args)]
pub struct Load {
    /// Runs that are measured
    #[arg(long, default_value_t = 1)]
    pub runs: usize,
    /// Runs at once
    #[arg(long, default_value_t = 1)]
    pub concurrency: usize,
    /// Runs before the measurement starts
    #[arg(long, default_value_t = 0)]
    pub warmup: usize,
    /// Run on this core only
    #[arg(long)]
    pub core: Option<usize>,
}

/// The cost of the runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Number of runs that the load started.
    pub runs: usize,
    /// Number of runs that returned their script's text.
    pub completed: usize,
    /// The first failure.
    pub error: Option<String>,
    /// Number of model requests of all runs.
    pub steps: u64,
    /// Time from the first start to the last text, in seconds.
    pub wall_s: f64,
    /// CPU time of this process in the measured section, in seconds.
    pub cpu_s: f64,
    /// CPU time of this process in total, in seconds.
    pub cpu_total_s: f64,
    /// Number of text fragments that reached the consumer.
    pub chunks: u64,
    /// Median duration of a run in milliseconds.
    pub run_ms: f64,
    /// Median time from the start of all runs to a run's first text, in milliseconds.
    pub ttft_ms: Option<f64>,
    /// 99th percentile of the time to the first text, in milliseconds.
    pub ttft_p99_ms: Option<f64>,
    /// Resident memory after the warm-up, while idle, in KiB.
    pub resident_kib: u64,
    /// Peak resident memory in KiB.
    pub resident_peak_kib: u64,
    /// Resident memory after the last run, in KiB.
    pub resident_after_kib: u64,
    /// Size of the measured runs' journals in bytes; `None` for a program without a journal.
    pub journal_bytes: Option<u64>,
    /// Number of bytes that the measured runs wrote to the disk; `None` for a program without a journal.
    pub written_bytes: Option<u64>,
}

/// The section between the warm-up and the last text.
pub(super) struct Section {
    pub(super) finished: Vec<Finished>,
    pub(super) wall_s: f64,
    pub(super) cpu_s: f64,
    pub(super) resident_before_kib: u64,
    pub(super) resident_after_kib: u64,
    pub(super) resident_peak_kib: u64,
}

/// The measurements of one run.
pub(super) struct Finished {
    /// Number of tokens in the run's final text, or the failure.
    pub(super) tokens: Result<usize>,
    pub(super) took_ms: f64,
    pub(super) ttft_ms: Option<f64>,
    pub(super) chunks: u64,
    /// Times of the tool calls by the monotonic clock. Concurrent runs share one list.
    pub(super) tool_calls_ns: Vec<u64>,
}

pub(super) async fn measure(driver: Arc<dyn Driver>, settings: &Settings, load: &Load) -> Result<Figures> {
    let script = Script::parse(&settings.model);
    // A waiting run produces no text.
    let tokens = if settings.waits { 0 } else { tokens_of(&script) };
    warm_up(&*driver, load).await?;
    let journal_before = driver.journal_bytes().await?;
    let written_before = machine::written_bytes();
    let section = play_section(&driver, load).await?;
    let written_bytes = machine::written_bytes().zip(written_before).map(|(after, before)| after - before);
    let journal_after = driver.journal_bytes().await?;

    let mut ttft_ms: Vec<f64> = section.finished.iter().filter_map(|run| run.ttft_ms).collect();
    let mut run_ms: Vec<f64> = section.finished.iter().map(|run| run.took_ms).collect();
    let chunks = section.finished.iter().map(|run| run.chunks).sum();
    let outcomes: Vec<Result<()>> =
        section.finished.into_iter().map(|run| check(run.tokens?, tokens)).collect();
    Ok(Figures {
        runs: load.runs,
        completed: outcomes.iter().filter(|outcome| outcome.is_ok()).count(),
        steps: steps_of(&script) * load.runs as u64,
        wall_s: section.wall_s,
        cpu_s: section.cpu_s,
        cpu_total_s: machine::cpu_seconds(),
        chunks,
        run_ms: quantile(&mut run_ms, 0.5).unwrap_or_default(),
        ttft_ms: quantile(&mut ttft_ms, 0.5),
        ttft_p99_ms: quantile(&mut ttft_ms, 0.99),
        resident_kib: section.resident_before_kib,
        resident_peak_kib: section.resident_peak_kib,
        resident_after_kib: section.resident_after_kib,
        journal_bytes: journal_after.zip(journal_before).map(|(after, before)| after.saturating_sub(before)),
        written_bytes: written_bytes.filter(|_| journal_after.is_some()),
        error: outcomes.into_iter().find_map(Result::err).map(|error| format!("{error:#}")),
    })
}

/// Plays the warm-up runs, which are not measured.
pub(super) async fn warm_up(driver: &dyn Driver, load: &Load) -> Result<()> {
    for _ in 0..load.warmup {
        play(driver, machine::monotonic_ns()).await.tokens.context("a warm-up run failed")?;
    }
    Ok(())
}

/// Plays the measured runs.
pub(super) async fn play_section(driver: &Arc<dyn Driver>, load: &Load) -> Result<Section> {
    let resident_before_kib = machine::resident_kib();
    let (cpu_before, start_ns) = (machine::cpu_seconds(), machine::monotonic_ns());
    let finished = play_all(driver, load, start_ns).await?;
    Ok(Section {
        finished,
        wall_s: milliseconds_since(start_ns) / 1e3,
        cpu_s: machine::cpu_seconds() - cpu_before,
        resident_before_kib,
        resident_after_kib: machine::resident_kib(),
        resident_peak_kib: machine::resident_peak_kib(),
    })
}

/// Plays all runs. A worker takes the next run as soon as it is free.
async fn play_all(driver: &Arc<dyn Driver>, load: &Load, start_ns: u64) -> Result<Vec<Finished>> {
    let started = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..load.concurrency {
        let (driver, started, runs) = (driver.clone(), started.clone(), load.runs);
        workers.spawn(async move {
            let mut finished = Vec::new();
            while started.fetch_add(1, Relaxed) < runs {
                finished.push(play(&*driver, start_ns).await);
            }
            finished
        });
    }
    let mut finished = Vec::new();
    while let Some(worker) = workers.join_next().await {
        finished.extend(worker.context("a worker panicked")?);
    }
    Ok(finished)
}

async fn play(driver: &dyn Driver, start_ns: u64) -> Finished {
    let (probe, run_start_ns) = (RunProbe::default(), machine::monotonic_ns());
    let tokens = driver.run(&probe).await.map(|text| text.matches("tok").count());
    let ttft_ms = probe.first_ns().map(|first_ns| first_ns.saturating_sub(start_ns) as f64 / 1e6);
    let took_ms = milliseconds_since(run_start_ns);
    Finished { tokens, took_ms, ttft_ms, chunks: probe.chunks(), tool_calls_ns: driver.take_tool_calls_ns() }
}

fn check(found: usize, tokens: usize) -> Result<()> {
    if found != tokens {
        bail!("the text has {found} tokens instead of {tokens}");
    }
    Ok(())
}

fn tokens_of(script: &Script) -> usize {
    match script.kind {
        Kind::Text(tokens) | Kind::Markdown(tokens) => tokens,
        Kind::Loop { .. } => LAST_TEXT_TOKENS,
        // The first token is the word `done`, which `play` does not count: it counts only `tok`.
        Kind::Files(_) => LAST_TEXT_TOKENS - 1,
    }
}

fn steps_of(script: &Script) -> u64 {
    match script.kind {
        Kind::Text(_) | Kind::Markdown(_) => 1,
        Kind::Loop { turns, .. } | Kind::Files(turns) => turns,
    }
}

fn milliseconds_since(start_ns: u64) -> f64 {
    (machine::monotonic_ns() - start_ns) as f64 / 1e6
}

/// Returns the quantile of the values at `share`.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let index = (share * values.len() as f64) as usize;
    values.get(index.min(values.len().saturating_sub(1))).copied()
}
