//! Integration tests of the library, one binary.

mod drive;
mod tools;
