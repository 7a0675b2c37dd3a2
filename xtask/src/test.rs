//! `cargo xtask test`: installs the tests' requirements, builds the binary, and runs all tests.
//!
//! Large optional adapters are not compiled; separate commands test their features.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{install, process};

/// The features of tests, lints and docs, defined once so that all share one build.
pub const FEATURES: &[&str] = &["--workspace", "--features", "windlass/testing"];

/// Arguments that select the library with the features that a default build excludes,
/// because their SDKs take minutes to build.
pub const CLOUDS: &[&str] = &["--package", "windlass", "--features", "testing,mcp,bedrock,vertex"];

/// Arguments that select the product with traces over OTLP.
pub const TRACES: &[&str] = &["--package", "windlass-cli", "--features", "otel"];

/// Debian packages for tests of the web UI: the browser and its driver.
const DEBIAN_PACKAGES: &[&str] = &["chromium-headless-shell", "chromium-driver"];

/// Number of concurrent tests per core. Most tests mostly wait for a process, a socket or a timer.
const TESTS_PER_CORE: usize = 2;

/// Number of schedules and kills in a full run. An ordinary run uses the tests' defaults.
const FULL: [(&str, &str); 2] = [("WINDLASS_SCHEDULES", "200000"), ("WINDLASS_KILLS", "200")];

/// The variable that selects random schedules, kills and cuts.
const SEED: &str = "WINDLASS_SEED";

/// The extent of a test run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// The tests of every change.
    Ordinary,
    /// The same tests with long random schedules.
    Full,
}

impl Extent {
    /// Parses the arguments: `--full` or nothing.
    pub fn parse(arguments: &[String]) -> Result<Self> {
        match arguments {
            [] => Ok(Self::Ordinary),
            [flag] if flag == "--full" => Ok(Self::Full),
            other => bail!("unexpected arguments `{}`\nhint: the only option is `--full`", other.join(" ")),
        }
    }

    fn apply(self, command: &mut Command) {
        if self == Self::Full {
            command.envs(FULL);
        }
    }
}

/// Returns `WINDLASS_SEED`, or else the first 32 bits of the commit id. Each commit has its own schedules, and all runs
/// of a commit have the same ones.
fn seed() -> Result<u64> {
    if let Some(given) = std::env::var_os(SEED) {
        return parse_seed(&given.to_string_lossy());
    }
    let commit = process::output(Command::new("git").args(["rev-parse", "HEAD"]));
    Ok(commit.and_then(|id| seed_of_commit(&id)).unwrap_or(0))
}

fn parse_seed(given: &str) -> Result<u64> {
    given.parse().with_context(|| format!("{SEED} is `{given}`\nhint: it takes a number below 2^64"))
}

fn seed_of_commit(id: &str) -> Option<u64> {
    u64::from_str_radix(id.get(..8)?, 16).ok()
}

/// Runs the command. Arguments after `--` are passed to nextest.
pub fn run(arguments: &[String]) -> Result<()> {
    let (ours, theirs) = match arguments.iter().position(|argument| argument == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (arguments, &[][..]),
    };
    everything(Extent::parse(ours)?, theirs)
}

/// Builds the binary, then runs unit, integration and documentation tests.
pub fn everything(extent: Extent, nextest_arguments: &[String]) -> Result<()> {
    install::git()?;
    let seed = seed()?;
    install::debian_packages(DEBIAN_PACKAGES)?;
    install::cargo_tool(&install::NEXTEST)?;
    install::schemathesis()?;
    install::ag_ui()?;
    install::mcp()?;
    install::ui()?;
    println!("building the product and its tests: several minutes in a new checkout");
    // With `--tests` the binary and the tests share dependencies. Without it they would be built twice, because
    // dev-dependencies enable additional features.
    process::run(process::cargo().args(["build", "--bins", "--tests"]).args(FEATURES))?;
    let mut nextest = process::cargo();
    nextest.args(["nextest", "run"]).args(FEATURES).args(nextest_arguments);
    extent.apply(&mut nextest);
    if std::env::var_os("NEXTEST_TEST_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        nextest.env("NEXTEST_TEST_THREADS", (TESTS_PER_CORE * cores).to_string());
    }
    println!("seed of random schedules, kills and cuts: {seed}; set {SEED}={seed} to repeat them");
    process::run(nextest.env(SEED, seed.to_string()))?;
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

    #[test]
    fn a_seed_that_is_no_number_is_rejected() {
        assert_eq!(parse_seed("18446744073709551615").unwrap(), u64::MAX);
        for given in ["", "0x7", "-1", "18446744073709551616"] {
            let error = format!("{:#}", parse_seed(given).unwrap_err());
            assert!(error.contains(&format!("WINDLASS_SEED is `{given}`")), "{error}");
        }
    }

    #[test]
    fn seed_is_the_prefix_of_the_commit_id() {
        assert_eq!(seed_of_commit("917a75c53ec439b2945c3e0ccaf6cf74f3ced870\n"), Some(0x917a_75c5));
        assert_eq!(seed_of_commit(""), None);
    }
}
