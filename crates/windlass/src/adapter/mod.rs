//! Adapters: the ports over real databases, files, sockets and clocks.

pub mod bus;
pub mod clock;
pub mod memory;
pub mod node;
#[cfg(feature = "sqlite")]
pub mod sqlite;
