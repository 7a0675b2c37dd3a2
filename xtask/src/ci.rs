//! `cargo xtask ci`: everything that has to pass before a merge, phase by phase.
//!
//! The cheap phases come first, the first failure ends the run, and a summary with times follows.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::test::{self, Extent};
use crate::{install, mutants, process, rows, tidy};

/// One phase of the run.
struct Phase {
    name: &'static str,
    run: fn(Extent) -> Result<()>,
}

const PHASES: &[Phase] = &[
    Phase { name: "format", run: |_| process::run(process::cargo().args(["fmt", "--all", "--check"])) },
    Phase { name: "tidy", run: |_| tidy::run(&[]) },
    Phase { name: "rows", run: |_| rows::run(&[]) },
    Phase { name: "clippy", run: |_| clippy() },
    Phase { name: "types", run: |_| types() },
    Phase { name: "clouds", run: clouds },
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

/// Prints each phase with its time; `last` is the outcome of the last one, the others passed.
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

fn clippy() -> Result<()> {
    let mut command = process::cargo();
    command.args(["clippy", "--all-targets"]).args(test::FEATURES).args(["--", "--deny", "warnings"]);
    process::run(&mut command)
}

/// Lints the features that a plain build leaves out, so that they keep compiling; with `--full` their tests over the
/// wire run too, which means building the clouds' SDKs.
fn clouds(extent: Extent) -> Result<()> {
    // The library as a program gets it that asks for nothing more.
    process::run(process::cargo().args([
        "clippy",
        "--package",
        "windlass",
        "--lib",
        "--",
        "--deny",
        "warnings",
    ]))?;
    for features in [test::CLOUDS, test::TRACES] {
        let mut lint = process::cargo();
        lint.args(["clippy", "--all-targets"]).args(features).args(["--", "--deny", "warnings"]);
        process::run(&mut lint)?;
    }
    if extent == Extent::Ordinary {
        return Ok(());
    }
    install::cargo_tool(&install::NEXTEST)?;
    for (features, tests) in [(test::CLOUDS, "test(provider::)"), (test::TRACES, "test(http::traces)")] {
        let mut nextest = process::cargo();
        nextest.args(["nextest", "run"]).args(features).args(["--profile", "ci", "-E", tests]);
        process::run(&mut nextest)?;
    }
    Ok(())
}

/// Checks the types of the web UI's scripts, which stand in their comments.
fn types() -> Result<()> {
    install::ui()?;
    process::run(install::type_checker().arg("--project").arg(process::root().join("crates/windlass-app/ui")))
}

/// Only libraries: the product's binary bears the library's name, and cargo would write both to one place.
fn docs() -> Result<()> {
    let mut command = process::cargo();
    command.args(["doc", "--no-deps", "--lib"]).args(test::FEATURES).env("RUSTDOCFLAGS", "-D warnings");
    process::run(&mut command)
}

fn deny() -> Result<()> {
    install::cargo_tool(&install::DENY)?;
    process::run(process::cargo().args(["deny", "check", "licenses", "bans", "sources"]))
}
