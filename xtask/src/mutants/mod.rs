//! `cargo xtask mutants`: breaks the code deliberately, and checks that a test fails.
//!
//! Works on a copy of the workspace in `target/mutants/`. The copy shares the build folder, and so the dependencies,
//! with the workspace, but has a separate folder for binaries. The original sources are never changed. Mutations are
//! fixed text replacements, not random.

mod list;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

use self::list::Mutant;
use crate::{install, process, test, tree};

const LIST: &str = "xtask/mutants.txt";

/// nextest's exit code for "some tests failed". With any other error code, the tests have not run.
const TESTS_FAILED: i32 = 100;

/// Cargo settings for mutants. A mutant is compiled more often than it runs, so the machine crate is not optimized. The
/// settings also separate the intermediate output of mutated crates: cargo names it by settings instead of folder, and
/// must not use it for the workspace. All other crates of the workspace depend on the machine crate. Names of binaries
/// do not depend on settings, so binaries have a separate folder.
const PROFILE: [&str; 3] = [
    "profile.dev.package.windlass-machine.opt-level=0",
    "profile.dev.package.windlass-machine.codegen-units=16",
    "profile.dev.package.xtask.codegen-units=16",
];

/// The mutants to run.
#[derive(Debug, PartialEq)]
enum Selection {
    All,
    Quick,
    Only(String),
}

/// The result of running a mutant.
#[derive(Debug, PartialEq)]
enum Fate {
    Caught,
    Survived,
    DoesNotApply(String),
    NoVerdict(String),
}

/// Applies each selected mutant and reports which tests failed.
pub fn run(arguments: &[String]) -> Result<()> {
    let root = process::root();
    let all = list::parse(&tree::read(&root, LIST)?).with_context(|| format!("`{LIST}` cannot be read"))?;
    let wanted = select(all, &selection(arguments)?)?;
    if wanted.is_empty() {
        println!("no mutants");
        return Ok(());
    }
    install::cargo_tool(&install::NEXTEST)?;
    let lab = Lab::open(&root)?;
    lab.check_without_mutant(&wanted)?;
    let mut escaped = 0;
    for mutant in &wanted {
        let fate = lab.try_mutant(mutant)?;
        escaped += usize::from(fate != Fate::Caught);
        report(mutant, &fate);
    }
    println!("{} of {} mutants caught", wanted.len() - escaped, wanted.len());
    if escaped > 0 {
        bail!("{escaped} mutants were not caught");
    }
    Ok(())
}

fn selection(arguments: &[String]) -> Result<Selection> {
    match arguments {
        [] => Ok(Selection::All),
        [flag] if flag == "--quick" => Ok(Selection::Quick),
        [flag, name] if flag == "--only" => Ok(Selection::Only(name.clone())),
        other => bail!("unexpected arguments `{}`\nhint: `--quick` or `--only NAME`", other.join(" ")),
    }
}

fn select(all: Vec<Mutant>, selection: &Selection) -> Result<Vec<Mutant>> {
    let wanted: Vec<Mutant> = all
        .into_iter()
        .filter(|mutant| match selection {
            Selection::All => true,
            Selection::Quick => mutant.is_quick,
            Selection::Only(name) => mutant.name == *name,
        })
        .collect();
    match selection {
        Selection::Only(name) if wanted.is_empty() => bail!("no mutant `{name}` in `{LIST}`"),
        _ => Ok(wanted),
    }
}

fn report(mutant: &Mutant, fate: &Fate) {
    let name = &mutant.name;
    match fate {
        Fate::Caught => println!("caught          {name} (invariant {})", mutant.invariant),
        Fate::Survived => println!("SURVIVED        {name}: `{}` still passed", mutant.tests),
        Fate::DoesNotApply(why) => println!("does not apply  {name}: {why}"),
        Fate::NoVerdict(output) => println!("no verdict      {name}:\n{output}"),
    }
}

/// Returns the text with the mutation applied, or the reason why it does not apply.
fn mutate(text: &str, mutant: &Mutant) -> Result<String, String> {
    match text.matches(&mutant.find).count() {
        1 => Ok(text.replacen(&mutant.find, &mutant.replace, 1)),
        0 => Err(format!("`{}` no longer has the text to find", mutant.file)),
        count => Err(format!("`{}` has the text to find {count} times", mutant.file)),
    }
}

/// The test binary with a mutant's tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Suite<'m> {
    package: &'m str,
    /// Whether the tests are unit tests, in modules `tests` of the sources.
    is_unit: bool,
}

impl<'m> Suite<'m> {
    fn of(mutant: &'m Mutant) -> Self {
        Self { package: &mutant.package, is_unit: mutant.tests.contains("::tests::") }
    }

    /// Selects the test binary. Integration tests use the features of the whole workspace, so that the ordinary tests'
    /// dependencies are reused.
    fn arguments(self) -> Vec<&'m str> {
        let integration = |name| [test::FEATURES, &["--test", name]].concat();
        match (self.package, self.is_unit) {
            ("windlass-machine", false) => integration("machine"),
            ("windlass", false) => integration("library"),
            ("windlass-cli", false) => integration("product"),
            ("xtask", _) => vec!["--package", "xtask"],
            (package, _) => vec!["--package", package, "--lib"],
        }
    }
}

/// The copy of the workspace.
struct Lab {
    copy: PathBuf,
    /// The folder of intermediate build output, shared with the workspace.
    build: PathBuf,
    /// The folder of finished binaries.
    programs: PathBuf,
}

impl Lab {
    fn open(root: &Path) -> Result<Self> {
        let build = root.join("target");
        let (copy, programs) = (build.join("mutants/workspace"), build.join("mutants/programs"));
        let lab = Self { copy, build, programs };
        tree::mirror(root, &lab.copy)?;
        Ok(lab)
    }

    /// Runs the tests without a mutant. A test that fails anyway would seem to detect every mutant.
    fn check_without_mutant(&self, mutants: &[Mutant]) -> Result<()> {
        let mut filters: BTreeMap<Suite<'_>, Vec<String>> = BTreeMap::new();
        for mutant in mutants {
            filters.entry(Suite::of(mutant)).or_default().push(format!("({})", mutant.tests));
        }
        for (suite, filters) in filters {
            let output = self.nextest(suite, &filters.join(" or "))?;
            if !output.status.success() {
                bail!("the tests of `{}` fail without any mutant\n{}", suite.package, shown(&output));
            }
        }
        Ok(())
    }

    fn try_mutant(&self, mutant: &Mutant) -> Result<Fate> {
        let path = self.copy.join(&mutant.file);
        let Ok(original) = fs::read_to_string(&path) else {
            return Ok(Fate::DoesNotApply(format!("no file `{}`", mutant.file)));
        };
        let mutated = match mutate(&original, mutant) {
            Ok(mutated) => mutated,
            Err(why) => return Ok(Fate::DoesNotApply(why)),
        };
        fs::write(&path, mutated)?;
        let output = self.nextest(Suite::of(mutant), &mutant.tests);
        fs::write(&path, original)?;
        let output = output?;
        Ok(match output.status.code() {
            Some(0) => Fate::Survived,
            Some(TESTS_FAILED) => Fate::Caught,
            _ => Fate::NoVerdict(shown(&output)),
        })
    }

    fn nextest(&self, suite: Suite<'_>, filter: &str) -> Result<Output> {
        let mut command = process::cargo_in(&self.copy);
        command.args(["nextest", "run", "--profile", "mutants", "--no-tests", "fail"]);
        command.args(["--filterset", filter]).args(suite.arguments());
        command.args(PROFILE.iter().flat_map(|setting| ["--config", setting]));
        run_quietly(command.env("CARGO_BUILD_BUILD_DIR", &self.build).env("CARGO_TARGET_DIR", &self.programs))
    }
}

fn run_quietly(command: &mut Command) -> Result<Output> {
    command.output().context("could not start cargo")
}

/// Returns the last lines of a command's standard error.
fn shown(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(name: &str, is_quick: bool) -> Mutant {
        Mutant { name: name.into(), find: "a".into(), replace: "b".into(), is_quick, ..Mutant::default() }
    }

    #[test]
    fn the_list_can_be_read_and_applies() {
        let root = process::root();
        let mutants = list::parse(&tree::read(&root, LIST).unwrap()).unwrap();
        assert!(!mutants.is_empty());
        for mutant in mutants {
            mutate(&tree::read(&root, &mutant.file).unwrap(), &mutant).unwrap();
        }
    }

    #[test]
    fn a_mutant_applies_to_exactly_one_place() {
        assert_eq!(mutate("cat", &mutant("m", true)), Ok("cbt".to_owned()));
        assert!(mutate("dog", &mutant("m", true)).unwrap_err().contains("no longer"));
        assert!(mutate("aha", &mutant("m", true)).unwrap_err().contains("2 times"));
    }

    #[test]
    fn a_suite_is_one_program() {
        let suite = |package: &str, tests: &str| -> String {
            let mutant = Mutant { package: package.into(), tests: tests.into(), ..Mutant::default() };
            Suite::of(&mutant).arguments().join(" ")
        };
        let unit = suite("windlass-machine", "test(/^gate::tests::asks$/)");
        assert_eq!(unit, "--package windlass-machine --lib");
        let integration = suite("windlass", "test(/^gate::api::/)");
        assert_eq!(integration, "--workspace --features windlass/testing --test library");
    }

    #[test]
    fn mutants_are_selected_by_name_or_speed() {
        let all = || vec![mutant("slow", false), mutant("fast", true)];
        let names = |selection: Selection| -> Vec<String> {
            select(all(), &selection).unwrap().into_iter().map(|mutant| mutant.name).collect()
        };
        assert_eq!(names(Selection::All), ["slow", "fast"]);
        assert_eq!(names(Selection::Quick), ["fast"]);
        assert_eq!(names(Selection::Only("slow".into())), ["slow"]);
        assert!(select(all(), &Selection::Only("none".into())).is_err());
    }
}
