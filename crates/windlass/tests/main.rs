//! Integration tests of the library, one binary.

mod drive;
mod store;
mod tools;
