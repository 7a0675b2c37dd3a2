//! Tests of the product through its real binary.

mod cli;
#[cfg(unix)]
mod kill;
