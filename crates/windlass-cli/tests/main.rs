//! Tests of the product through its real binary.

mod cli;
mod docs;
#[cfg(target_os = "linux")]
mod fault;
#[cfg(unix)]
mod http;
#[cfg(unix)]
// Real processes are killed at real moments, so these tests need the real clock.
#[allow(clippy::disallowed_methods)]
mod kill;
#[cfg(target_os = "linux")]
mod ui;
