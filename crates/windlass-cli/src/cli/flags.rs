//! Flags shared by several commands.

use clap::Args;
use windlass::machine::Mode;

pub use crate::place::{ModelFlags, PlaceFlags};

#[derive(Args, Debug)]
pub struct ListFlags {
    /// Print one line of JSON per entry
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: PlaceFlags,
}

#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ModeFlag {
    /// Restrict the run: `agent` allows all tools, `ask` only answers, `plan` makes a plan [default: the conversation's
    /// mode, else the agent's]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<Mode>,
}

/// The output format of a run.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct OutputFlags {
    /// Print one outcome as JSON at the end
    #[arg(long, conflicts_with = "stream_json")]
    pub json: bool,
    /// Print each event and delta as a line of JSON
    #[arg(long)]
    pub stream_json: bool,
}
