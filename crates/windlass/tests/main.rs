//! Integration tests of the library, one binary.

mod drive;
mod gate;
mod outbound;
mod provider;
#[cfg(unix)]
mod store;
mod tools;
