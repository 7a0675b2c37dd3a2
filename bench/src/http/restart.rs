//! Measures `windlass serve` on a store in which thousands of runs wait for a person. The figures are the time until
//! the server listens, and the time that it then needs for new runs.
//!
//! Another workload creates the store. Answers to the waiting runs are not measured.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::run;
use super::served::Process;

/// Script of a run whose one token arrives at once.
const MODEL: &str = "openai-chat/stream-1";
const TOKENS: usize = 1;
/// Number of new runs, one after another. Together, they take longer than the first sweeps of the store.
const RUNS: usize = 200;

/// The server and its store.
#[derive(Debug, Args)]
pub struct Restart {
    /// The program `windlass`
    #[arg(long)]
    binary: PathBuf,
    /// URL of the model server, ending in `/v1`
    #[arg(long)]
    base_url: String,
    /// A folder with the store in `store`, which is moved to the server's data folder
    #[arg(long)]
    folder: PathBuf,
}

/// Figures of a start.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Restarted {
    /// Time from the start of the process until it listens, in milliseconds.
    pub listen_ms: f64,
    /// Time from the request for a new run to the first text of its stream in milliseconds, for the slowest run.
    pub slowest_text_ms: f64,
}

/// Starts the server, runs a few new runs, and ends it.
///
/// # Errors
/// If the store cannot be moved, the server cannot be started, or a run fails.
pub async fn measure(restart: &Restart) -> Result<Restarted> {
    let folder = restart.folder.join("served");
    let data = folder.join("data");
    std::fs::create_dir_all(&data)?;
    std::fs::rename(restart.folder.join("store"), data.join("windlass")).context("there is no store")?;
    let process = Process::start(&restart.binary, &folder, &restart.base_url, MODEL).await?;
    let client = Client::new(process.address.clone(), process.key.clone());
    let mut restarted = Restarted { listen_ms: process.listen_ms, slowest_text_ms: 0.0 };
    for _ in 0..RUNS {
        let told = run(&client, MODEL, TOKENS).await?;
        restarted.slowest_text_ms = restarted.slowest_text_ms.max(told.first_ms);
    }
    process.end().await?;
    Ok(restarted)
}
