//! Integration tests of the library, one binary.

mod drive;
mod gate;
mod provider;
#[cfg(unix)]
mod store;
mod tools;
