//! `cargo xtask bench`: builds the benchmark with the profile `dist` and prints its table, with the given arguments.
//!
//! The package `windlass-bench` defines the measurements.

use anyhow::{Result, bail};

use crate::process;

/// Folder of the benchmark's package, relative to the root of the workspace.
const FOLDER: &str = "bench";

/// Builds the server with the profile `dist`, then runs `windlass-bench run`.
pub fn run(arguments: &[String]) -> Result<()> {
    if !process::root().join(FOLDER).join("Cargo.toml").is_file() {
        bail!("no package at `{FOLDER}/`: nothing to measure");
    }
    // Build the binary that the benchmark measures as a server.
    process::run(process::cargo().args(["build", "--profile", "dist", "--package", "windlass-cli"]))?;
    let table = ["run", "--profile", "dist", "--package", "windlass-bench", "--", "run"];
    process::run(process::cargo().args(table).args(arguments))
}
