//! `cargo xtask bench`: builds the benchmark with the profile `dist` and prints its table, with the given arguments.
//!
//! What is measured, and how, belongs to the package `windlass-bench`.

use anyhow::{Result, bail};

use crate::process;

/// The folder of the package, relative to the root of the workspace.
const FOLDER: &str = "bench";

/// Has the package `windlass-bench` run its table.
pub fn run(arguments: &[String]) -> Result<()> {
    if !process::root().join(FOLDER).join("Cargo.toml").is_file() {
        bail!("there is no package at `{FOLDER}/`, so there is nothing to measure");
    }
    // The program that is measured as a server.
    process::run(process::cargo().args(["build", "--profile", "dist", "--package", "windlass-cli"]))?;
    let table = ["run", "--profile", "dist", "--package", "windlass-bench", "--", "run"];
    process::run(process::cargo().args(table).args(arguments))
}
