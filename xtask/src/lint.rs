//! Runs Clippy over the workspace, and over combinations of features that an ordinary build excludes.
//!
//! Checking the cloud SDKs takes minutes. They are linted only if their inputs have changed since the last lint;
//! `xtask/linted.txt` contains the digest of the inputs at that time.

use std::process::Command;

use anyhow::{Context, Result};

use crate::test::{self, Extent};
use crate::{install, process};

/// The inputs of the features `bedrock`, `vertex` and `otel`: all code that their lints compile. Tests that the
/// workspace's lint compiles identically are excluded.
const INPUTS: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "clippy.toml",
    "crates/*/Cargo.toml",
    "crates/*/src/*.rs",
    "crates/windlass/tests/provider",
    "crates/windlass-cli/tests/http",
    "xtask/src/lint.rs",
];

/// The file with the digest of the last linted inputs.
const LINTED: &str = "xtask/linted.txt";

/// Lints the workspace with the features of the tests.
pub fn workspace() -> Result<()> {
    clippy(&[&["--all-targets"], test::FEATURES].concat())
}

/// Lints builds with fewer and with more features than the tests have. `--full` also runs the provider tests of the
/// latter.
pub fn features(extent: Extent) -> Result<()> {
    install::git()?;
    // The library with its default features.
    clippy(&["--package", "windlass", "--lib"])?;
    // The product without its default features.
    clippy(&["--package", "windlass-cli", "--no-default-features"])?;
    let inputs = digest_of_inputs()?;
    let path = process::root().join(LINTED);
    let is_linted = std::fs::read_to_string(&path).is_ok_and(|linted| linted.trim() == inputs);
    if is_linted && extent == Extent::Ordinary {
        println!("skipped `bedrock`, `vertex` and `otel`: their inputs have not changed since the last lint");
        return Ok(());
    }
    for features in [test::CLOUDS, test::TRACES] {
        clippy(&[&["--all-targets"], features].concat())?;
    }
    if !is_linted {
        std::fs::write(&path, format!("{inputs}\n"))?;
        println!("updated `{LINTED}`; commit it to skip these features until their inputs change");
    }
    match extent {
        Extent::Ordinary => Ok(()),
        Extent::Full => run_tests(),
    }
}

fn clippy(arguments: &[&str]) -> Result<()> {
    process::run(process::cargo().arg("clippy").args(arguments).args(["--", "--deny", "warnings"]))
}

/// Runs the tests of features that an ordinary build excludes.
fn run_tests() -> Result<()> {
    install::cargo_tool(&install::NEXTEST)?;
    for (features, tests) in [(test::CLOUDS, "test(provider::)"), (test::TRACES, "test(http::traces)")] {
        let mut nextest = process::cargo();
        nextest.args(["nextest", "run"]).args(features).args(["--profile", "ci", "-E", tests]);
        process::run(&mut nextest)?;
    }
    Ok(())
}

/// Hashes the inputs in the working tree and the compiler's version, because each compiler version has its own lints.
fn digest_of_inputs() -> Result<String> {
    let listed = git(&["ls-files", "--cached", "--others", "--exclude-standard", "--"], INPUTS)?;
    let paths: Vec<&str> = listed.lines().filter(|path| process::root().join(path).exists()).collect();
    let hashes = git(&["hash-object", "--"], &paths)?;
    let mut entries =
        process::output(Command::new("rustc").arg("--version")).context("`rustc` does not run")?;
    entries.extend(paths.iter().zip(hashes.lines()).map(|(path, hash)| format!("{hash} {path}\n")));
    let list = process::root().join("target/linted-inputs.txt");
    std::fs::write(&list, entries)?;
    Ok(git(&["hash-object", "--", &list.to_string_lossy()], &[])?.trim().to_owned())
}

fn git(arguments: &[&str], paths: &[&str]) -> Result<String> {
    process::output(Command::new("git").args(arguments).args(paths))
        .context("`git` cannot read the workspace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inputs_include_all_code_of_the_product() {
        let listed = git(&["ls-files", "--"], INPUTS).unwrap();
        for path in [
            "crates/windlass-outbound/src/secret.rs",
            "crates/windlass-cli/src/telemetry/otel.rs",
            "crates/windlass-cli/tests/http/sentinel.rs",
            "crates/windlass-machine/src/event/run.rs",
            "clippy.toml",
        ] {
            assert!(listed.lines().any(|listed| listed == path), "{path}");
        }
        assert!(!listed.contains("crates/windlass-server/ui/"), "assets are not compiled");
    }
}
