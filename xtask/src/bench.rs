//! `cargo xtask bench`: builds the benchmark in release mode and runs it with the given arguments.
//!
//! What is measured, and how, belongs to the package `windlass-bench`.

use anyhow::{Result, bail};

use crate::process;

/// The folder of the package, relative to the root of the workspace.
const FOLDER: &str = "bench";

/// Runs the binary `bench` of the package `windlass-bench`.
pub fn run(arguments: &[String]) -> Result<()> {
    if !process::root().join(FOLDER).join("Cargo.toml").is_file() {
        bail!("there is no package at `{FOLDER}/`, so there is nothing to measure yet");
    }
    let release = ["run", "--release", "--package", "windlass-bench", "--bin", "bench", "--"];
    process::run(process::cargo().args(release).args(arguments))
}
