//! The project's own commands, which work without an installation.
//!
//! `cargo xtask help` lists them. Each command is one module; this file only dispatches to it.

#![allow(
    clippy::disallowed_methods,
    reason = "these commands measure themselves; they are not part of the product"
)]

mod bench;
mod ci;
mod install;
mod lint;
mod mutants;
mod process;
mod rows;
mod test;
mod tidy;
mod tree;
mod vendor;

use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask <COMMAND> [ARGUMENTS]

  test [--full] [-- NEXTEST ARGUMENTS]   install what the tests need, build the binary, run every test
  ci [--full]                            every check required before a merge; --full: long schedules, clouds, traces
  tidy [--lower]                         check sizes, names, layers and words; --lower: record counts that have fallen
  rows [--claim ID,ID | --claim-tested]  check docs/rows.md against the tests, print the counts
  mutants [--quick] [--only NAME]        break the code on purpose, check that a test fails
  bench [ARGUMENTS]                      run the benchmark, fully optimised
  vendor                                 download the web UI's libraries again, at the pinned versions
  help                                   print this";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = arguments.first().map_or("help", String::as_str);
    let rest = arguments.get(1..).unwrap_or_default();
    let outcome = match command {
        "test" => test::run(rest),
        "ci" => ci::run(rest),
        "tidy" => tidy::run(rest),
        "rows" => rows::run(rest),
        "mutants" => mutants::run(rest),
        "bench" => bench::run(rest),
        "vendor" => vendor::run(rest),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(())
        }
        unknown => Err(anyhow::anyhow!("unknown command `{unknown}`\nhint: `cargo xtask help` lists them")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
