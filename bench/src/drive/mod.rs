//! One program under measurement: it plays runs against the model server and tells what they cost.
//!
//! A program is measured in a process of its own, so that its CPU and memory are nobody else's. How often,
//! and beside which other programs, is the table's business.

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

/// What every run is asked.
pub const PROMPT: &str = "Call echo until you are done, then answer.";

/// The one tool that every program offers.
pub const TOOL_NAME: &str = "echo";
/// What the tool is said to do.
pub const TOOL_DESCRIPTION: &str = "Echo the text.";

/// The JSON schema of the tool's arguments.
pub fn tool_schema() -> Value {
    json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
}

/// The programs that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Program {
    /// A bare HTTP client with the least parsing that plays a script to its end: the floor.
    Bare,
    /// `rig` alone, with the loop over its streaming model written by hand.
    Rig,
    /// Windlass, with its durable store.
    Windlass,
}

/// How much of a conversation goes into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Window {
    /// What the program does by default. The bare client and `rig` send everything.
    Default,
    /// Everything.
    Off,
}

/// Who reads what a run says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// A consumer gets every piece of text as it comes. The bare client and `rig` know only this.
    Stream,
    /// Somebody waits for the whole answer.
    Invoke,
}

/// What a program needs to know to start.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Address of the model server, with its `/v1`
    #[arg(long)]
    pub base_url: String,
    /// The model, whose name is the script
    #[arg(long)]
    pub model: String,
    /// How much of a conversation goes into a request
    #[arg(long, value_enum, default_value_t = Window::Default)]
    pub window: Window,
    /// Have the first call of each run ask a person, and count a run that waits for one as played (Windlass only)
    #[arg(long)]
    pub waits: bool,
    /// Who reads what a run says
    #[arg(long, value_enum, default_value_t = Mode::Stream)]
    pub mode: Mode,
    /// An empty folder for what the program stores
    #[arg(long)]
    pub folder: PathBuf,
}

/// A program, started and ready for runs.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Plays one new run from its first message to its last text and returns that text. Where the mode is to
    /// stream, every piece of text goes to the probe at the moment when a consumer of the stream would have it.
    async fn run(&self, probe: &RunProbe) -> Result<String>;

    /// Bytes that all runs so far have left in the journal; none where there is no journal.
    async fn journal_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Takes the times of the tool's calls since the last taking, by the monotonic clock; empty where nobody
    /// notes them.
    fn take_tool_calls_ns(&self) -> Vec<u64> {
        Vec::new()
    }
}

impl Program {
    /// All programs, in the order of the table's columns.
    pub const ALL: [Program; 3] = [Program::Bare, Program::Rig, Program::Windlass];

    /// Its name, on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Program::Bare => "bare",
            Program::Rig => "rig",
            Program::Windlass => "windlass",
        }
    }

    /// Whether it can be measured yet.
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

/// Starts a program in this process, puts the load on it and tells the figures.
///
/// # Errors
/// Where the program cannot be started or a warm-up run fails. A run that fails later is counted.
pub fn drive(program: Program, settings: &Settings, load: &Load) -> Result<Figures> {
    if let Some(core) = load.core {
        // Before the runtime starts: its threads inherit the core, and their number follows from it.
        machine::pin_to_core(core)?;
    }
    runtime()?.block_on(async {
        let driver = program.start(settings).await?;
        load::measure(driver.into(), settings, load).await
    })
}

/// Opens the engine on a store and tells what that took.
///
/// # Errors
/// Where the store cannot be opened.
pub fn open(open: &Open) -> Result<Opened> {
    runtime()?.block_on(open.measure())
}

/// Searches in a large catalogue of tools and tells what that takes.
///
/// # Errors
/// Where the engine cannot be built or a search does not run.
pub fn find(find: &Find) -> Result<Found> {
    runtime()?.block_on(find.measure())
}

/// Plays Windlass for a harness from outside and tells the figures in its words.
///
/// # Errors
/// Where the store cannot be opened or a warm-up run fails. A run that fails later is counted.
pub fn play_peer(peer: &Peer) -> Result<Value> {
    runtime()?.block_on(peer.play())
}

fn runtime() -> Result<Runtime> {
    machine::raise_open_files_limit();
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
