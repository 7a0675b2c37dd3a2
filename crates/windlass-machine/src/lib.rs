//! The pure state machine of Windlass.

pub mod agent;
pub mod context;
pub mod id;
pub mod message;
pub mod policy;

pub use agent::*;
pub use context::*;
pub use id::*;
pub use message::*;
pub use policy::*;
