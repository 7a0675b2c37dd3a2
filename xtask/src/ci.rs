//! `cargo xtask ci`: runs all checks that are required before a merge, phase by phase.
//!
//! Fast phases come first. The first failure ends the run, and a summary with times follows.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::test::{self, Extent};
use crate::{install, lint, mutants, process, rows, tidy};

/// One phase of the run.
struct Phase {
    name: &'static str,
    run: fn(Extent) -> Result<()>,
}

const PHASES: &[Phase] = &[
    Phase { name: "format", run: |_| process::run(process::cargo().args(["fmt", "--all", "--check"])) },
    Phase { name: "tidy", run: |_| tidy::run(&[]) },
    Phase { name: "rows", run: |_| rows::run(&[]) },
    Phase { name: "clippy", run: |_| lint::workspace() },
    Phase { name: "types", run: |_| types() },
    Phase { name: "features", run: lint::features },
    Phase { name: "test", run: |extent| test::everything(extent, &["--profile".into(), "ci".into()]) },
    Phase { name: "docs", run: |_| docs() },
    Phase { name: "deny", run: |_| deny() },
    Phase { name: "mutants", run: |_| mutants::run(&["--quick".into()]) },
];

/// Runs every phase; `--full` lengthens the random schedules of the tests.
pub fn run(arguments: &[String]) -> Result<()> {
    let extent = Extent::parse(arguments)?;
    let mut done: Vec<(&str, Duration)> = Vec::new();
    for phase in PHASES {
        println!("\n== {}", phase.name);
        let start = Instant::now();
        let outcome = (phase.run)(extent);
        done.push((phase.name, start.elapsed()));
        if let Err(error) = outcome {
            summarise(&done, "failed");
            return Err(error).with_context(|| format!("phase `{}` failed", phase.name));
        }
        println!("== {} passed in {:.1} s", phase.name, start.elapsed().as_secs_f64());
    }
    summarise(&done, "passed");
    Ok(())
}

/// Prints each phase with its time. `last` is the outcome of the last phase; all earlier phases passed.
fn summarise(done: &[(&str, Duration)], last: &str) {
    println!("\nsummary");
    for (place, (name, time)) in done.iter().enumerate() {
        let outcome = if place + 1 == done.len() { last } else { "passed" };
        println!("  {name:<8} {outcome:<7} {:>7.1} s", time.as_secs_f64());
    }
    for phase in &PHASES[done.len()..] {
        println!("  {:<8} not run", phase.name);
    }
}

/// Checks the types in the comments of the web UI's scripts.
fn types() -> Result<()> {
    install::ui()?;
    process::run(
        install::type_checker().arg("--project").arg(process::root().join("crates/windlass-server/ui")),
    )
}

/// Builds the docs of libraries only: the binary has the name of the library, so cargo would write both to one path.
fn docs() -> Result<()> {
    let mut command = process::cargo();
    command.args(["doc", "--no-deps", "--lib"]).args(test::FEATURES).env("RUSTDOCFLAGS", "-D warnings");
    process::run(&mut command)
}

fn deny() -> Result<()> {
    install::cargo_tool(&install::DENY)?;
    process::run(process::cargo().args(["deny", "check", "licenses", "bans", "sources"]))
}
