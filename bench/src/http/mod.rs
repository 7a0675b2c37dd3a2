//! Measures Windlass as people run it: `windlass serve` in a separate process, and clients over HTTP.
//!
//! Server, clients and model server share the cores of one machine. A run is completed if the fragments that its client
//! received equal the run's final answer.

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

/// Script with the number of tokens in a run's answer, and the delay before each token:
/// four seconds of a model of usual speed.
const MODEL: &str = "openai-chat/delay20ms-200";
const TOKENS: usize = 200;
const TOKEN_MS: f64 = 20.0;
/// Script of a run that is active while a thousand readers connect.
const LONG_MODEL: &str = "openai-chat/delay20ms-600";
const LONG_TOKENS: usize = 600;
/// Number of concurrent streams while the time to the first token is measured, and number of runs of each stream. The
/// first run of each stream is not counted, because all streams begin together.
const STEADY: usize = 200;
const STEADY_RUNS: usize = 3;
/// Number of concurrent runs, and of readers of one run.
const MANY: usize = 1_000;
/// Number of connections that repeatedly request one resource, and the duration of these requests.
const ASKERS: usize = 16;
const ASK_FOR: Duration = Duration::from_secs(3);
/// Time after its start when the server is treated as idle for the measurement of its memory.
const SETTLE: Duration = Duration::from_secs(2);

/// The server and its environment.
#[derive(Debug, Args)]
pub struct Http {
    /// The program `windlass`
    #[arg(long)]
    binary: PathBuf,
    /// URL of the model server, ending in `/v1`
    #[arg(long)]
    base_url: String,
    /// An empty folder for the server's store and settings
    #[arg(long)]
    folder: PathBuf,
    /// A fifth of the load
    #[arg(long)]
    quick: bool,
}

/// The cost of serving.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Served {
    /// Resident memory of the idle server in KiB.
    pub resident_kib: u64,
    /// Number of responses per second to `GET /threads/{id}`.
    pub requests_per_s: f64,
    /// Median time from the request for a run to the first text of its stream in milliseconds, minus the
    /// model's delay, beside many other streams.
    pub added_ttft_ms: f64,
    /// 99th percentile of the same time.
    pub added_ttft_p99_ms: f64,
    /// Number of concurrent runs that were started.
    pub runs: usize,
    /// Number of runs whose clients received the whole answer.
    pub completed: usize,
    /// The first failure of any kind.
    pub error: Option<String>,
    /// Time from the first start to the last end, in seconds.
    pub wall_s: f64,
    /// Peak memory of the server per run and its reader, in KiB.
    pub run_kib: f64,
    /// Number of readers of one run.
    pub readers: usize,
    /// Number of readers that received the whole answer.
    pub readers_completed: usize,
    /// Peak memory of the server per reader, in KiB.
    pub reader_kib: f64,
    /// 99th percentile of the time until a reader received the head of its response, in
    /// milliseconds. All readers connect at once.
    pub attach_p99_ms: f64,
    /// CPU time of this process, which runs the clients, in seconds.
    pub clients_cpu_s: f64,
    /// CPU time of the server in seconds.
    pub server_cpu_s: f64,
}

/// Starts the server, runs several loads one after another, and ends it.
pub async fn measure(http: &Http) -> Result<Served> {
    machine::raise_open_files_limit();
    let process = Process::start(&http.binary, &http.folder, &http.base_url, MODEL).await?;
    let client = Arc::new(Client::new(process.address.clone(), process.key.clone()));
    let size = |whole: usize| if http.quick { whole / 5 } else { whole };
    // The first run initializes resources that the server opens only once.
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

/// Starts one run and reads it to its end.
async fn run(client: &Client, model: &str, tokens: usize) -> Result<Told> {
    let started = machine::monotonic_ns();
    let mut connection = client.connect().await?;
    let run = connection.start(model).await?;
    let told = connection.read(&run.run, started).await?;
    if told.text != told.answer || told.text.matches("tok").count() != tokens {
        let (told, said) = (told.text.len(), told.answer.len());
        bail!("a client received {told} bytes, but the run produced {said} in `{}`", run.run);
    }
    Ok(told)
}

/// Requests one thread repeatedly. Returns the number of responses per second.
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

/// Starts runs one after another on many connections. The connections start evenly spread over the duration of one run.
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

/// Starts many concurrent runs, and measures them.
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

/// Lets many readers connect to one active run at once, and measures them.
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
                bail!("a reader received {} of {LONG_TOKENS} tokens", told.text.matches("tok").count());
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
