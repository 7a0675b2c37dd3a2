//! The pure state machine of Windlass.

mod agent;
mod command;
mod context;
mod event;
mod id;
mod input;
mod machine;
mod message;
mod on;
mod policy;
mod reject;
mod state;

pub use agent::*;
pub use command::Command;
pub use context::{EMPTY_RETRIES, ModelRequest, OVERRUN_RETRIES, repair_arguments};
pub use event::*;
pub use id::*;
pub use input::*;
pub use machine::{CorruptJournal, Machine, Snapshot};
pub use message::*;
pub use policy::*;
pub use reject::Reject;
pub use state::*;
