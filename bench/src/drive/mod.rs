//! One program under measurement: it plays runs against the model server and reports their cost.
//!
//! Each program is measured in a separate process, so that its CPU and memory are isolated. The table determines
//! repetitions and the order of programs.

mod bare;
mod find;
mod load;
mod open;
mod peer;
mod probe;
mod rig;
mod windlass;

use std::path::PathBuf;

use anyhow::Result;
use async_trait::async_trait;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

pub use self::find::{Find, Found};
pub(crate) use self::load::quantile;
pub use self::load::{Figures, Load};
pub use self::open::{Open, Opened};
pub use self::peer::Peer;
pub use self::probe::RunProbe;

use crate::machine;

/// The prompt of every run.
pub const PROMPT: &str = "Call echo until you are done, then answer.";

/// The one tool that every program offers.
pub const TOOL_NAME: &str = "echo";
/// The tool's description.
pub const TOOL_DESCRIPTION: &str = "Echo the text.";

/// Returns the JSON schema of the tool's arguments.
pub fn tool_schema() -> Value {
    json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
}

/// A program that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Program {
    /// A bare HTTP client with minimal parsing that plays a script to its end: the floor.
    Bare,
    /// `rig` alone, with a hand-written loop over its streaming model.
    Rig,
    /// Windlass, with its durable store.
    Windlass,
}

/// How much of a conversation a request contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Window {
    /// The program's default. The bare client and `rig` send everything.
    Default,
    /// Everything.
    Off,
}

/// Who consumes a run's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// A consumer receives each fragment as it arrives. The bare client and `rig` support only this.
    Stream,
    /// The caller waits for the whole answer.
    Invoke,
}

/// Settings of a program.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// URL of the model server, ending in `/v1`
    #[arg(long)]
    pub base_url: String,
    /// The model; its name is the script
    #[arg(long)]
    pub model: String,
    /// How much of a conversation a request contains
    #[arg(long, value_enum, default_value_t = Window::Default)]
    pub window: Window,
    /// Make the first call of each run require approval, and count a waiting run as played (Windlass only)
    #[arg(long)]
    pub waits: bool,
    /// Who consumes a run's text
    #[arg(long, value_enum, default_value_t = Mode::Stream)]
    pub mode: Mode,
    /// An empty folder for the program's data
    #[arg(long)]
    pub folder: PathBuf,
}

/// A started program.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Plays one new run from its first message to its last text, and returns that text. In streaming mode, passes each
    /// fragment to the probe when a consumer of the stream would receive it.
    async fn run(&self, probe: &RunProbe) -> Result<String>;

    /// Returns the size of all journals so far in bytes; `None` without a journal.
    async fn journal_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Returns and clears the times of the tool's calls, by the monotonic clock. Returns an empty list
    /// if the program does not record them.
    fn take_tool_calls_ns(&self) -> Vec<u64> {
        Vec::new()
    }
}

impl Program {
    /// All programs, in the order of the table's columns.
    pub const ALL: [Program; 3] = [Program::Bare, Program::Rig, Program::Windlass];

    /// Returns the program's name on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Program::Bare => "bare",
            Program::Rig => "rig",
            Program::Windlass => "windlass",
        }
    }

    /// Whether the measurement of this program is implemented.
    pub fn is_written(self) -> bool {
        match self {
            Program::Bare | Program::Rig => true,
            Program::Windlass => windlass::IS_WRITTEN,
        }
    }

    async fn start(self, settings: &Settings) -> Result<Box<dyn Driver>> {
        Ok(match self {
            Program::Bare => Box::new(bare::Bare::start(settings)?),
            Program::Rig => Box::new(rig::Rig::start(settings)?),
            Program::Windlass => windlass::start(settings).await?,
        })
    }
}

/// Starts a program in this process, runs the load on it, and returns the figures.
///
/// # Errors
/// If the program cannot be started or a warm-up run fails. A run that fails later is counted.
pub fn drive(program: Program, settings: &Settings, load: &Load) -> Result<Figures> {
    if let Some(core) = load.core {
        // Pin the process before the runtime starts: the runtime's threads inherit the core,
        // which also determines their number.
        machine::pin_to_core(core)?;
    }
    runtime()?.block_on(async {
        let driver = program.start(settings).await?;
        load::measure(driver.into(), settings, load).await
    })
}

/// Opens the engine on a store, and measures the opening.
///
/// # Errors
/// If the store cannot be opened.
pub fn open(open: &Open) -> Result<Opened> {
    runtime()?.block_on(open.measure())
}

/// Measures searches in a large catalogue of tools.
///
/// # Errors
/// If the engine cannot be built or a search does not run.
pub fn find(find: &Find) -> Result<Found> {
    runtime()?.block_on(find.measure())
}

/// Plays Windlass for an external harness, and returns the figures in its format.
///
/// # Errors
/// If the store cannot be opened or a warm-up run fails. A run that fails later is counted.
pub fn play_peer(peer: &Peer) -> Result<Value> {
    runtime()?.block_on(peer.play())
}

fn runtime() -> Result<Runtime> {
    machine::raise_open_files_limit();
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
