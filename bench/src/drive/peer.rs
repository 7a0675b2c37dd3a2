//! Windlass as a driver of an external harness, which has its own model server.
//!
//! The environment contains the settings, and the figures are returned in that harness's format. The load plays and
//! counts the runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

use super::load::{self, Finished, Load, Section, quantile};
use super::{Driver, Mode, Program, Settings, Window};

/// The harness's settings.
#[derive(Clone, Debug, Args)]
pub struct Peer {
    /// URL of the model server, ending in `/v1`
    #[arg(long, env = "BASE_URL")]
    base_url: String,
    /// The model; its name is the script
    #[arg(long, env = "MODEL")]
    model: String,
    /// Number of measured runs
    #[arg(long, env = "RUNS", default_value_t = 1)]
    runs: usize,
    /// Number of concurrent runs
    #[arg(long, env = "CONCURRENCY", default_value_t = 1)]
    concurrency: usize,
    /// Runs before the measurement
    #[arg(long, env = "WARMUP", default_value_t = 0)]
    warmup: usize,
    /// Who consumes a run's text
    #[arg(long, env = "MODE", value_enum, default_value_t = Mode::Invoke)]
    mode: Mode,
    /// A file in whose folder the store is created; it becomes a link to the store's database. Without it, the store is in
    /// a temporary folder
    #[arg(long, env = "DB", value_name = "FILE")]
    db: Option<PathBuf>,
}

impl Peer {
    pub(super) async fn play(&self) -> Result<Value> {
        let temporary = tempfile::Builder::new().prefix("windlass-bench-").tempdir()?;
        let folder = match &self.db {
            Some(file) => file.parent().with_context(|| format!("no folder contains {}", file.display()))?,
            None => temporary.path(),
        };
        let driver: Arc<dyn Driver> = Program::Windlass.start(&self.settings(folder)).await?.into();
        let load = self.load();
        load::warm_up(&*driver, &load).await?;
        let section = load::play_section(&driver, &load).await?;
        if let Some(file) = &self.db {
            link_database(folder, file)?;
        }
        Ok(figures(section, &load))
    }

    fn settings(&self, folder: &Path) -> Settings {
        Settings {
            base_url: self.base_url.clone(),
            model: self.model.clone(),
            // The other drivers send the whole conversation. With a window, a model server that counts results would
            // never reach the end of its script.
            window: Window::Off,
            mode: self.mode,
            waits: false,
            folder: folder.to_owned(),
        }
    }

    fn load(&self) -> Load {
        Load { runs: self.runs, concurrency: self.concurrency, warmup: self.warmup, core: None }
    }
}

/// Links the store's database and its write-ahead log into the folder where the harness measures their sizes.
fn link_database(folder: &Path, file: &Path) -> Result<()> {
    for ending in ["", "-wal"] {
        let database = format!("store/windlass.db{ending}");
        let mut link = file.as_os_str().to_owned();
        link.push(ending);
        // The link is in the same folder as the store.
        if folder.join(&database).exists() {
            std::os::unix::fs::symlink(&database, &link)
                .with_context(|| format!("no link at {}", Path::new(&link).display()))?;
        }
    }
    Ok(())
}

fn figures(section: Section, load: &Load) -> Value {
    let finished = &section.finished;
    let run_ms = spread(finished.iter().map(|run| run.took_ms));
    let ttft_ms = spread(finished.iter().filter_map(|run| run.ttft_ms));
    // Concurrent runs share one list of calls, so the gaps of a single run are unknown.
    let turn_ms = spread(finished.iter().filter(|_| load.concurrency == 1).flat_map(turns_ms));
    let ok = finished.iter().filter(|run| run.tokens.is_ok()).count();
    let error = finished.iter().find_map(|run| run.tokens.as_ref().err());
    json!({
        "driver": Program::Windlass.name(),
        "versions": {"windlass": env!("CARGO_PKG_VERSION")},
        "ok": ok,
        "errors": finished.len() - ok,
        "error": error.map(|error| format!("{error:#}")),
        "wall_s": section.wall_s,
        "cpu_s": section.cpu_s,
        "chunks": finished.iter().map(|run| run.chunks).sum::<u64>(),
        "tokens": finished.iter().filter_map(|run| run.tokens.as_ref().ok()).sum::<usize>(),
        "run_ms": run_ms,
        "turn_ms": turn_ms,
        "ttft_ms": ttft_ms,
        "rss0_kb": section.resident_before_kib,
        "rss1_kb": section.resident_after_kib,
        "hwm_kb": section.resident_peak_kib,
    })
}

/// Returns the times between successive calls of the tool, in milliseconds.
fn turns_ms(run: &Finished) -> impl Iterator<Item = f64> {
    run.tool_calls_ns.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6)
}

/// Returns the number of values and their quantiles; null without values.
fn spread(values: impl Iterator<Item = f64>) -> Value {
    let mut values: Vec<f64> = values.collect();
    let mut at = |share| quantile(&mut values, share);
    match (at(0.0), at(0.5), at(0.9), at(0.99), at(1.0)) {
        (None, ..) => Value::Null,
        (min, p50, p90, p99, max) => {
            json!({"n": values.len(), "min": min, "p50": p50, "p90": p90, "p99": p99, "max": max})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ModelServer;

    /// Returns the figures that depend neither on the clock nor on the machine.
    async fn played(peer: Peer) -> Value {
        let server = ModelServer::start(0).await.unwrap();
        let mut figures = Peer { base_url: server.base_url(), ..peer }.play().await.unwrap();
        let told = figures.as_object_mut().unwrap();
        for name in ["run_ms", "turn_ms", "ttft_ms"] {
            let count = told[name]["n"].clone();
            told.insert(name.to_owned(), count);
        }
        for name in ["wall_s", "cpu_s", "rss0_kb", "rss1_kb", "hwm_kb", "versions"] {
            told.remove(name).unwrap();
        }
        figures
    }

    fn peer(model: &str, mode: Mode) -> Peer {
        let base_url = String::new();
        Peer { base_url, model: model.to_owned(), runs: 2, concurrency: 1, warmup: 1, mode, db: None }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_streaming_peer_tells_chunks_and_the_gaps_between_calls() {
        let told = played(peer("loop-4", Mode::Stream)).await;
        let expected = json!({
            "driver": "windlass", "ok": 2, "errors": 0, "error": null,
            "chunks": 100, "tokens": 100, "run_ms": 2, "turn_ms": 4, "ttft_ms": 2,
        });
        assert_eq!(told, expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_waiting_peer_at_once_with_others_tells_neither() {
        let told = played(Peer { concurrency: 2, ..peer("loop-4", Mode::Invoke) }).await;
        let expected = json!({
            "driver": "windlass", "ok": 2, "errors": 0, "error": null,
            "chunks": 0, "tokens": 100, "run_ms": 2, "turn_ms": null, "ttft_ms": null,
        });
        assert_eq!(told, expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_store_is_made_beside_the_named_file() {
        let folder = tempfile::tempdir().unwrap();
        played(Peer { db: Some(folder.path().join("state.db")), ..peer("loop-2", Mode::Invoke) }).await;
        let header = std::fs::read(folder.path().join("state.db")).unwrap();
        assert!(header.starts_with(b"SQLite format 3"));
        assert!(folder.path().join("store/windlass.db").is_file());
    }

    #[test]
    fn what_the_harness_says_is_read_from_its_variables() {
        let command = Peer::augment_args(clap::Command::new("peer"));
        let read: Vec<_> = command.get_arguments().map(|argument| argument.get_env().unwrap()).collect();
        assert_eq!(read, ["BASE_URL", "MODEL", "RUNS", "CONCURRENCY", "WARMUP", "MODE", "DB"]);
    }

    #[test]
    fn a_gap_is_from_call_to_call_of_one_run() {
        let run =
            |tool_calls_ns| Finished { tokens: Ok(0), took_ms: 0.0, ttft_ms: None, chunks: 0, tool_calls_ns };
        let runs = [run(vec![1_000_000, 3_000_000, 8_000_000]), run(vec![90_000_000]), run(Vec::new())];
        assert_eq!(runs.iter().flat_map(turns_ms).collect::<Vec<_>>(), [2.0, 5.0]);
    }
}
