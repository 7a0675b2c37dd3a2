//! The pure state machine of Windlass.

mod agent;
mod command;
mod context;
mod event;
mod id;
mod input;
mod message;
mod policy;
mod reject;

pub use agent::*;
pub use command::Command;
pub use context::*;
pub use event::*;
pub use id::*;
pub use input::*;
pub use message::*;
pub use policy::*;
pub use reject::Reject;
