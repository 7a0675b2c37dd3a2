//! Tests of the product through its real binary.

mod cli;
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "a kill comes at a moment of real time")]
mod kill;
