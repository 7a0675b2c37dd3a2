//! Integration tests of the library, one binary.

mod tools;
