//! Adapters: the ports over real databases, files, sockets, clocks and model providers.
//!
//! Each is replaceable; none knows the driver.

pub mod bus;
pub mod clock;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod memory;
pub mod model;
pub mod node;
#[cfg(feature = "sqlite")]
pub mod sqlite;
