//! The parts of the benchmark: the scripted model server, the measured programs, and the harness that runs them and
//! prints the table.
//!
//! The model server is part of the library for tests that need a deterministic model. This
//! package is not part of the product.

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
