//! Measures `windlass serve` while idle after work: its memory, and the duration of the next run. Then measures
//! read-only commands on the same store.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::client::Client;
use super::run;
use super::served::Process;
use crate::drive::quantile;
use crate::machine;

/// Script of a run with one step.
const MODEL: &str = "openai-chat/stream-50";
const TOKENS: usize = 50;
/// Script of a run whose first call waits for a person.
const WAITING_MODEL: &str = "openai-chat/loop-2";
/// Number of runs of each kind.
const RUNS: usize = 100;
const WAITING_RUNS: usize = 15;
/// Duration for which the server idles.
const IDLE: Duration = Duration::from_secs(60);
const IDLE_QUICK: Duration = Duration::from_secs(2);
/// Number of starts of each command.
const STARTS: usize = 15;

/// The server to measure.
#[derive(Debug, Args)]
pub struct Idle {
    /// The program `windlass`
    #[arg(long)]
    binary: PathBuf,
    /// URL of the model server, ending in `/v1`
    #[arg(long)]
    base_url: String,
    /// An empty folder for the server's store and settings
    #[arg(long)]
    folder: PathBuf,
    /// Waits two seconds instead of sixty
    #[arg(long)]
    quick: bool,
}

/// Figures of an idle server and of commands.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Rested {
    /// Private memory in KiB, without mapped files.
    pub private_kib: u64,
    /// Resident memory in KiB.
    pub resident_kib: u64,
    /// Duration of the first run after the idle time in milliseconds, from before its
    /// connection to the end of its stream.
    pub first_run_ms: f64,
    /// Median duration of `windlass --help` in milliseconds.
    pub help_ms: f64,
    /// Median duration of `windlass threads list` in milliseconds.
    pub threads_ms: f64,
    /// Median duration of `windlass approvals list` in milliseconds.
    pub approvals_ms: f64,
}

/// Starts the server, gives it work, waits, and measures.
///
/// # Errors
/// If the server or a command cannot be started, or a run fails.
pub async fn measure(idle: &Idle) -> Result<Rested> {
    let process = Process::start(&idle.binary, &idle.folder, &idle.base_url, MODEL).await?;
    let client = Client::new(process.address.clone(), process.key.clone());
    for _ in 0..RUNS {
        run(&client, MODEL, TOKENS).await?;
    }
    for _ in 0..WAITING_RUNS {
        let mut connection = client.connect().await?;
        let started = connection.start(WAITING_MODEL).await?;
        connection.get(&format!("/api/v1/runs/{}/wait", started.run)).await?;
    }
    sleep(if idle.quick { IDLE_QUICK } else { IDLE }).await;
    let (private_kib, resident_kib) = (process.private_kib()?, process.resident_kib()?);
    let begun_ns = machine::monotonic_ns();
    run(&client, MODEL, TOKENS).await?;
    let first_run_ms = (machine::monotonic_ns() - begun_ns) as f64 / 1e6;
    let rested = Rested {
        private_kib,
        resident_kib,
        first_run_ms,
        help_ms: start(&process, &["--help"]).await?,
        threads_ms: start(&process, &["threads", "list"]).await?,
        approvals_ms: start(&process, &["approvals", "list"]).await?,
    };
    process.end().await?;
    Ok(rested)
}

/// Returns the median duration of a command in milliseconds, from its start to its end.
async fn start(process: &Process, arguments: &[&str]) -> Result<f64> {
    let mut took_ms = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        let begun_ns = machine::monotonic_ns();
        process.says(arguments).await?;
        took_ms.push((machine::monotonic_ns() - begun_ns) as f64 / 1e6);
    }
    quantile(&mut took_ms, 0.5).context("no command was started")
}
