//! Tests of the product through its real binary.

mod cli;
mod docs;
#[cfg(target_os = "linux")]
mod fault;
#[cfg(unix)]
mod http;
#[cfg(unix)]
// Real processes die at real moments: these tests need the machine's own clock.
#[allow(clippy::disallowed_methods)]
mod kill;
#[cfg(target_os = "linux")]
mod ui;
