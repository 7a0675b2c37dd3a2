//! What the benchmark is made of: the scripted model server, the programs that are measured against it,
//! and the harness that runs them and prints the table.
//!
//! The server is a library too, for tests that need a model which always says the same. Nothing here is
//! part of the product.

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
