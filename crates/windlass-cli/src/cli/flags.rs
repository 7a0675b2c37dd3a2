//! Flags that several commands take.

use clap::Args;
use windlass::machine::Mode;

pub use crate::place::{ModelFlags, PlaceFlags};

/// What lists take.
#[derive(Args, Debug)]
pub struct ListFlags {
    /// Print a line of JSON for each
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: PlaceFlags,
}

/// What a run may do at all.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ModeFlag {
    /// What the run may do: `agent` everything, `ask` answer, `plan` make a plan [default: as before in the
    /// conversation, else the agent's]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<Mode>,
}

/// What is printed.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct OutputFlags {
    /// Print one outcome as JSON at the end
    #[arg(long, conflicts_with = "stream_json")]
    pub json: bool,
    /// Print each event and live fragment as a line of JSON
    #[arg(long)]
    pub stream_json: bool,
}
