//! The parts of the benchmark: the scripted model server, the measured programs, and the harness that runs them and
//! prints the table.
//!
//! The server is a library too, for tests that need a deterministic model. Nothing here is part of the product.

#[cfg(unix)]
pub mod browser;
pub mod conversation;
pub mod drive;
pub mod growth;
pub mod http;
pub mod machine;
pub mod pages;
pub mod server;
pub mod table;
