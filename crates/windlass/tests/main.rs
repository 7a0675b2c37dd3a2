//! Integration tests of the library, one binary.

mod drive;
mod gate;
#[cfg(feature = "mcp")]
mod hostile;
#[cfg(feature = "mcp")]
mod mcp;
mod outbound;
mod provider;
#[cfg(unix)]
mod store;
mod tools;
