//! Integration tests of the library, one binary.

mod drive;
mod provider;
mod store;
mod tools;
