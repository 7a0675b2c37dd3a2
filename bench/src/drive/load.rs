//! Puts a number of runs on a program and adds up what they cost.
//!
//! Only the section between the warm-up and the last text counts; a run that does not say what its script
//! says is a failure.

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

/// Tokens of the text that ends a script with tool calls.
const LAST_TEXT_TOKENS: usize = 50;

/// How many runs, and how.
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

/// What the runs cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Runs asked for.
    pub runs: usize,
    /// Runs that said what their script says.
    pub completed: usize,
    /// The first failure.
    pub error: Option<String>,
    /// Model requests of all runs.
    pub steps: u64,
    /// Seconds from the first start to the last text.
    pub wall_s: f64,
    /// Seconds of CPU of this process in that time.
    pub cpu_s: f64,
    /// Seconds of CPU of this process in all.
    pub cpu_total_s: f64,
    /// Pieces of text that reached the consumer.
    pub chunks: u64,
    /// Milliseconds of a run, the median.
    pub run_ms: f64,
    /// Milliseconds from the start of all runs to a run's first text, the median.
    pub ttft_ms: Option<f64>,
    /// The same, of the slowest hundredth.
    pub ttft_p99_ms: Option<f64>,
    /// KiB resident after the warm-up, when nothing ran.
    pub resident_kib: u64,
    /// KiB resident at most.
    pub resident_peak_kib: u64,
    /// KiB resident after the last run.
    pub resident_after_kib: u64,
    /// Bytes that the measured runs left in the journal.
    pub journal_bytes: Option<u64>,
}

/// One run, as a worker saw it.
struct Finished {
    outcome: Result<()>,
    took_ms: f64,
    ttft_ms: Option<f64>,
    chunks: u64,
}

pub(super) async fn measure(driver: Arc<dyn Driver>, settings: &Settings, load: &Load) -> Result<Figures> {
    let script = Script::parse(&settings.model);
    // A run that waits has not said anything.
    let tokens = if settings.waits { 0 } else { tokens_of(&script) };
    for _ in 0..load.warmup {
        play(&*driver, tokens, machine::monotonic_ns()).await.outcome.context("a warm-up run failed")?;
    }
    let journal_before = driver.journal_bytes().await?;
    let resident_kib = machine::resident_kib();
    let (cpu_before, start_ns) = (machine::cpu_seconds(), machine::monotonic_ns());
    let mut finished = play_all(&driver, tokens, load, start_ns).await?;
    let (wall_s, cpu_s) = (milliseconds_since(start_ns) / 1e3, machine::cpu_seconds() - cpu_before);
    let (resident_peak_kib, resident_after_kib) = (machine::resident_peak_kib(), machine::resident_kib());
    let journal_after = driver.journal_bytes().await?;

    let mut ttft_ms: Vec<f64> = finished.iter().filter_map(|run| run.ttft_ms).collect();
    let mut run_ms: Vec<f64> = finished.iter().map(|run| run.took_ms).collect();
    Ok(Figures {
        runs: load.runs,
        completed: finished.iter().filter(|run| run.outcome.is_ok()).count(),
        steps: steps_of(&script) * load.runs as u64,
        wall_s,
        cpu_s,
        cpu_total_s: machine::cpu_seconds(),
        chunks: finished.iter().map(|run| run.chunks).sum(),
        run_ms: quantile(&mut run_ms, 0.5).unwrap_or_default(),
        ttft_ms: quantile(&mut ttft_ms, 0.5),
        ttft_p99_ms: quantile(&mut ttft_ms, 0.99),
        resident_kib,
        resident_peak_kib,
        resident_after_kib,
        journal_bytes: journal_after.zip(journal_before).map(|(after, before)| after.saturating_sub(before)),
        error: finished.drain(..).find_map(|run| run.outcome.err()).map(|error| format!("{error:#}")),
    })
}

/// Workers take the next run as soon as they are free.
async fn play_all(
    driver: &Arc<dyn Driver>,
    tokens: usize,
    load: &Load,
    start_ns: u64,
) -> Result<Vec<Finished>> {
    let started = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..load.concurrency {
        let (driver, started, runs) = (driver.clone(), started.clone(), load.runs);
        workers.spawn(async move {
            let mut finished = Vec::new();
            while started.fetch_add(1, Relaxed) < runs {
                finished.push(play(&*driver, tokens, start_ns).await);
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

async fn play(driver: &dyn Driver, tokens: usize, start_ns: u64) -> Finished {
    let (probe, run_start_ns) = (RunProbe::default(), machine::monotonic_ns());
    let outcome = match driver.run(&probe).await {
        Ok(text) => check(&text, tokens),
        Err(error) => Err(error),
    };
    let ttft_ms = probe.first_ns().map(|first_ns| first_ns.saturating_sub(start_ns) as f64 / 1e6);
    Finished { outcome, took_ms: milliseconds_since(run_start_ns), ttft_ms, chunks: probe.chunks() }
}

fn check(text: &str, tokens: usize) -> Result<()> {
    let found = text.matches(" tok").count();
    if found != tokens {
        bail!("the text has {found} tokens instead of {tokens}");
    }
    Ok(())
}

fn tokens_of(script: &Script) -> usize {
    match script.kind {
        Kind::Text(tokens) => tokens,
        Kind::Loop { .. } => LAST_TEXT_TOKENS,
        // Its first token is the word `done`.
        Kind::Files(_) => LAST_TEXT_TOKENS - 1,
    }
}

fn steps_of(script: &Script) -> u64 {
    match script.kind {
        Kind::Text(_) => 1,
        Kind::Loop { turns, .. } | Kind::Files(turns) => turns,
    }
}

fn milliseconds_since(start_ns: u64) -> f64 {
    (machine::monotonic_ns() - start_ns) as f64 / 1e6
}

/// The value below which this share of the values lies.
fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let index = (share * values.len() as f64) as usize;
    values.get(index.min(values.len().saturating_sub(1))).copied()
}
