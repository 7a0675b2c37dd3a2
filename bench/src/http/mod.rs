//! Windlass as people run it: `windlass serve` in a process of its own, and clients over HTTP.
//!
//! Everything is one machine's: server, clients and model server share its cores. A run counts as completed when the
//! fragments that its client was told are the answer that the run ended with.

pub(crate) mod client;
mod idle;
mod restart;
pub(crate) mod served;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::client::{Client, Told};
pub use self::idle::{Idle, Rested, measure as idle};
pub use self::restart::{Restart, Restarted, measure as restart};
use self::served::Process;
use crate::drive::quantile;
use crate::machine;

/// Tokens of a run's answer, and the wait before each: four seconds of a model that talks at a usual speed.
const MODEL: &str = "openai-chat/delay20ms-200";
const TOKENS: usize = 200;
const TOKEN_MS: f64 = 20.0;
/// A run that goes on while a thousand readers come.
const LONG_MODEL: &str = "openai-chat/delay20ms-600";
const LONG_TOKENS: usize = 600;
/// Streams beside each other while the time to a first token is taken, and runs of each; its first, with which all
/// begin, is not counted.
const STEADY: usize = 200;
const STEADY_RUNS: usize = 3;
/// Runs at once, and readers of one run.
const MANY: usize = 1_000;
/// Connections that ask for one resource over and over, and for how long.
const ASKERS: usize = 16;
const ASK_FOR: Duration = Duration::from_secs(3);
/// How long after its start the server's memory is taken for idle.
const SETTLE: Duration = Duration::from_secs(2);

/// Which server, and against what.
#[derive(Debug, Args)]
pub struct Http {
    /// The program `windlass`
    #[arg(long)]
    binary: PathBuf,
    /// Address of the model server, with its `/v1`
    #[arg(long)]
    base_url: String,
    /// An empty folder for the server's store and settings
    #[arg(long)]
    folder: PathBuf,
    /// A fifth of the load
    #[arg(long)]
    quick: bool,
}

/// What serving cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Served {
    /// KiB of the server when nothing is asked of it.
    pub resident_kib: u64,
    /// Answers for a second to `GET /threads/{id}`.
    pub requests_per_s: f64,
    /// Milliseconds from a request to run to the first text of its stream, less the model's own, beside so many other
    /// streams; in the middle.
    pub added_ttft_ms: f64,
    /// The same, of the slowest hundredth.
    pub added_ttft_p99_ms: f64,
    /// Runs at once that were asked for.
    pub runs: usize,
    /// Those whose clients were told their whole answer.
    pub completed: usize,
    /// The first failure of anything.
    pub error: Option<String>,
    /// Seconds from the first to the last.
    pub wall_s: f64,
    /// KiB of the server for each run and its reader, at most.
    pub run_kib: f64,
    /// Readers of one run.
    pub readers: usize,
    /// Those that were told its whole answer.
    pub readers_completed: usize,
    /// KiB of the server for each of them, at most.
    pub reader_kib: f64,
    /// Milliseconds until a reader had the head of its answer, all having come at once; of the slowest hundredth.
    pub attach_p99_ms: f64,
    /// Seconds of CPU of this process, which the clients took.
    pub clients_cpu_s: f64,
    /// Seconds of CPU of the server.
    pub server_cpu_s: f64,
}

/// Starts the server, loads it in several ways one after the other, and ends it.
pub async fn measure(http: &Http) -> Result<Served> {
    machine::raise_open_files_limit();
    let process = Process::start(&http.binary, &http.folder, &http.base_url, MODEL).await?;
    let client = Arc::new(Client::new(process.address.clone(), process.key.clone()));
    let size = |whole: usize| if http.quick { whole / 5 } else { whole };
    // The first run opens what is opened once.
    run(&client, MODEL, TOKENS).await?;
    sleep(SETTLE).await;
    let mut served = Served { resident_kib: process.resident_kib()?, ..Served::default() };
    served.requests_per_s = ask(&client).await?;
    steady(&client, size(STEADY), &mut served).await?;
    at_once(&process, &client, size(MANY), &mut served).await?;
    sleep(SETTLE).await;
    read_one(&process, &client, size(MANY), &mut served).await?;
    served.clients_cpu_s = machine::cpu_seconds();
    served.server_cpu_s = process.cpu_seconds()?;
    process.end().await?;
    Ok(served)
}

/// One run: started, and read to its end.
async fn run(client: &Client, model: &str, tokens: usize) -> Result<Told> {
    let started = machine::monotonic_ns();
    let mut connection = client.connect().await?;
    let run = connection.start(model).await?;
    let told = connection.read(&run.run, started).await?;
    if told.text != told.answer || told.text.matches("tok").count() != tokens {
        let (told, said) = (told.text.len(), told.answer.len());
        bail!("a client was told {told} bytes, and the run said {said} in `{}`", run.run);
    }
    Ok(told)
}

/// Asks for one thread over and over.
async fn ask(client: &Arc<Client>) -> Result<f64> {
    let thread = client.connect().await?.start(MODEL).await?.thread;
    sleep(SETTLE).await;
    let path = format!("/api/v1/threads/{thread}");
    let until = machine::monotonic_ns() + ASK_FOR.as_nanos() as u64;
    let mut askers = JoinSet::new();
    for _ in 0..ASKERS {
        let (client, path) = (client.clone(), path.clone());
        askers.spawn(async move {
            let mut connection = client.connect().await?;
            let mut answers = 0_u64;
            while machine::monotonic_ns() < until {
                connection.get(&path).await?;
                answers += 1;
            }
            anyhow::Ok(answers)
        });
    }
    let mut answers = 0;
    while let Some(asker) = askers.join_next().await {
        answers += asker??;
    }
    Ok(answers as f64 / ASK_FOR.as_secs_f64())
}

/// Runs one after another on many connections, which begin evenly spread over the time of one.
async fn steady(client: &Arc<Client>, streams: usize, served: &mut Served) -> Result<()> {
    let apart = Duration::from_secs_f64(TOKENS as f64 * TOKEN_MS / 1e3 / streams as f64);
    let mut clients = JoinSet::new();
    for index in 0..streams {
        let client = client.clone();
        clients.spawn(async move {
            sleep(apart * u32::try_from(index)?).await;
            let mut added = Vec::new();
            for nth in 0..STEADY_RUNS {
                let told = run(&client, MODEL, TOKENS).await?;
                if nth > 0 {
                    added.push(told.first_ms - TOKEN_MS);
                }
            }
            anyhow::Ok(added)
        });
    }
    let mut added = Vec::new();
    while let Some(of_one) = clients.join_next().await {
        added.extend(of_one??);
    }
    served.added_ttft_ms = quantile(&mut added, 0.5).context("no run was measured")?;
    served.added_ttft_p99_ms = quantile(&mut added, 0.99).context("no run was measured")?;
    Ok(())
}

/// Many runs at once.
async fn at_once(process: &Process, client: &Arc<Client>, runs: usize, served: &mut Served) -> Result<()> {
    let before = process.resident_kib()?;
    process.forget_peak()?;
    let start = machine::monotonic_ns();
    let mut clients = JoinSet::new();
    for _ in 0..runs {
        let client = client.clone();
        clients.spawn(async move { run(&client, MODEL, TOKENS).await });
    }
    served.runs = runs;
    while let Some(told) = clients.join_next().await {
        match told? {
            Ok(_) => served.completed += 1,
            Err(error) => served.note(&error),
        }
    }
    served.wall_s = (machine::monotonic_ns() - start) as f64 / 1e9;
    served.run_kib = process.resident_peak_kib()?.saturating_sub(before) as f64 / runs as f64;
    Ok(())
}

/// Many readers of one run, who all come at once while it goes on.
async fn read_one(
    process: &Process,
    client: &Arc<Client>,
    readers: usize,
    served: &mut Served,
) -> Result<()> {
    let before = process.resident_kib()?;
    process.forget_peak()?;
    let run = client.connect().await?.start(LONG_MODEL).await?.run;
    let mut clients = JoinSet::new();
    for _ in 0..readers {
        let (client, run) = (client.clone(), run.clone());
        clients.spawn(async move {
            let started = machine::monotonic_ns();
            let mut connection = client.connect().await?;
            let told = connection.read(&run, started).await?;
            if told.text != told.answer || told.text.matches("tok").count() != LONG_TOKENS {
                bail!("a reader was told {} of {LONG_TOKENS} tokens", told.text.matches("tok").count());
            }
            anyhow::Ok(told.head_ms)
        });
    }
    served.readers = readers;
    let mut attached = Vec::new();
    while let Some(head_ms) = clients.join_next().await {
        match head_ms? {
            Ok(head_ms) => attached.push(head_ms),
            Err(error) => served.note(&error),
        }
    }
    served.readers_completed = attached.len();
    served.attach_p99_ms = quantile(&mut attached, 0.99).unwrap_or_default();
    served.reader_kib = process.resident_peak_kib()?.saturating_sub(before) as f64 / readers as f64;
    Ok(())
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { completed, runs, readers_completed, readers, server_cpu_s, clients_cpu_s, .. } = self;
        write!(f, "{completed} of {runs} runs, {readers_completed} of {readers} readers, ")?;
        write!(f, "CPU {server_cpu_s:.2} s, of its clients {clients_cpu_s:.2} s")?;
        self.error.as_ref().map_or(Ok(()), |error| write!(f, ", first failure: {error}"))
    }
}

impl Served {
    fn note(&mut self, error: &anyhow::Error) {
        self.error.get_or_insert_with(|| format!("{error:#}"));
    }
}
