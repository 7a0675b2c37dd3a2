//! `cargo xtask test`: installs what the tests need, builds the binary, runs every test.
//!
//! Heavy optional adapters are not compiled; their features are tested by the commands of their own.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{install, process};

/// The features that tests, lints and docs are built with, in one place so that all share one build.
pub const FEATURES: &[&str] = &["--workspace", "--features", "windlass/testing"];

/// The library with the features that a plain build leaves out: their SDKs take minutes to build.
pub const CLOUDS: &[&str] = &["--package", "windlass", "--features", "testing,mcp,bedrock,vertex"];

/// The product with traces over OTLP.
pub const TRACES: &[&str] = &["--package", "windlass-app", "--features", "otel"];

/// Debian packages that the tests need: the browser that the web UI is tested in, and its driver.
const DEBIAN_PACKAGES: &[&str] = &["chromium", "chromium-driver"];

/// How many random schedules a full run plays; the ordinary number is the tests' own default.
const FULL_SCHEDULES: &str = "200000";

/// How much is tested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// What runs at every change.
    Ordinary,
    /// The same with long random schedules.
    Full,
}

impl Extent {
    /// Reads `--full` or nothing from the arguments.
    pub fn parse(arguments: &[String]) -> Result<Self> {
        match arguments {
            [] => Ok(Self::Ordinary),
            [flag] if flag == "--full" => Ok(Self::Full),
            other => bail!("unexpected arguments `{}`\nhint: only `--full` is known here", other.join(" ")),
        }
    }

    fn apply(self, command: &mut Command) {
        if self == Self::Full {
            command.env("WINDLASS_SCHEDULES", FULL_SCHEDULES);
        }
    }
}

/// Runs the command: what stands after `--` goes to nextest.
pub fn run(arguments: &[String]) -> Result<()> {
    let (ours, theirs) = match arguments.iter().position(|argument| argument == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (arguments, &[][..]),
    };
    everything(Extent::parse(ours)?, theirs)
}

/// Builds the binary, then runs unit, integration and documentation tests.
pub fn everything(extent: Extent, nextest_arguments: &[String]) -> Result<()> {
    install::debian_packages(DEBIAN_PACKAGES)?;
    install::cargo_tool(&install::NEXTEST)?;
    install::schemathesis()?;
    install::ag_ui()?;
    install::mcp()?;
    install::ui()?;
    // With `--tests` the binary shares its dependencies with the tests; alone it would have them built twice,
    // because dev-dependencies switch on features of their own.
    process::run(process::cargo().args(["build", "--bins", "--tests"]).args(FEATURES))?;
    let mut nextest = process::cargo();
    nextest.args(["nextest", "run"]).args(FEATURES).args(nextest_arguments);
    extent.apply(&mut nextest);
    process::run(&mut nextest)?;
    process::run(process::cargo().args(["test", "--doc"]).args(FEATURES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extent_knows_one_flag() {
        assert_eq!(Extent::parse(&[]).unwrap(), Extent::Ordinary);
        assert_eq!(Extent::parse(&["--full".to_owned()]).unwrap(), Extent::Full);
        let error = Extent::parse(&["--fast".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("`--fast`"), "{error}");
    }
}
