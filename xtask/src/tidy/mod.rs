//! `cargo xtask tidy`: the rules of the house that a program can check.
//!
//! Sizes, names, module docs, which layer may know which, and what must not be left lying about. The
//! rules read text, not types: where one is wrong about a line, the line carries `// tidy: <marker>`
//! with a reason, as the rule's message says. A rule without a marker has no exceptions.

mod circles;
mod clock;
mod docs;
mod facts;
mod finding;
mod layers;
mod leftovers;
pub mod lexer;
mod manifest;
mod names;
mod services;
mod size;
pub mod source;

use std::path::Path;

use anyhow::{Context, Result, bail};

use self::finding::{Finding, Severity};
use self::source::SourceFile;
use crate::{process, tree};

/// Files of these kinds are read; all others are somebody's data.
const KINDS: &[&str] = &["rs", "toml", "md", "js", "mjs", "css", "html", "sh"];

/// Folders with files that were made elsewhere and are kept as they came.
const FOREIGN_FOLDERS: &[&str] = &["vendor", "fixtures"];

type Rule = fn(&SourceFile, &mut Vec<Finding>);

const RULES: &[Rule] = &[
    size::files,
    size::functions,
    services::fields,
    names::modules,
    names::functions,
    docs::modules,
    layers::mentions,
    layers::dialects,
    layers::floors,
    manifest::dependencies,
    facts::requests,
    facts::events,
    facts::catch_all_arms,
    clock::reads,
    clock::sleeps,
    leftovers::markers,
    leftovers::ignored_tests,
    leftovers::machine_paths,
    leftovers::whitespace,
];

/// Runs every rule over the workspace and prints what it finds.
pub fn run(arguments: &[String]) -> Result<()> {
    if !arguments.is_empty() {
        bail!("`tidy` takes no arguments");
    }
    let mut findings = check_tree(&process::root())?;
    let tree = ["tree", "--package", "windlass-engine", "--edges", "normal,build", "--prefix", "none"];
    let tree = process::output(process::cargo().args(tree)).context("`cargo tree` failed")?;
    findings.extend(manifest::engine(&tree));
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    if errors > 0 {
        bail!("{errors} findings");
    }
    println!("tidy ({} warnings)", findings.len());
    Ok(())
}

/// Runs every rule over all files under a folder.
fn check_tree(root: &Path) -> Result<Vec<Finding>> {
    let mut files = Vec::new();
    for path in tree::files(root)? {
        let kind = path.rsplit('.').next().unwrap_or_default();
        if KINDS.contains(&kind) {
            files.push(SourceFile::new(path.clone(), tree::read(root, &path)?));
        }
    }
    let mut findings: Vec<Finding> = files.iter().flat_map(check_file).collect();
    findings.extend(circles::circles(&files));
    Ok(findings)
}

/// Runs every rule over one file.
fn check_file(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !FOREIGN_FOLDERS.iter().any(|folder| file.has_folder(folder)) {
        for rule in RULES {
            rule(file, &mut findings);
        }
    }
    findings.sort_by_key(|finding| finding.line);
    findings
}

/// Checks that one rule finds exactly these lines of a sample at a path.
#[cfg(test)]
fn check(rule: Rule, path: &str, text: &str, lines: &[usize]) {
    let mut findings = Vec::new();
    rule(&SourceFile::new(path, text), &mut findings);
    let found: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
    assert_eq!(found, lines, "{path}\n{text}\n{findings:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checks_obey_themselves() {
        let root = process::root();
        let mut findings = check_tree(&root.join("xtask")).unwrap();
        findings.retain(|finding| finding.severity == Severity::Error);
        assert_eq!(findings, []);
    }

    #[test]
    fn foreign_files_are_left_alone() {
        let bad = "fn get_it() { todo!() }  \n";
        assert!(!check_file(&SourceFile::new("crates/windlass/src/a.rs", bad)).is_empty());
        assert_eq!(check_file(&SourceFile::new("crates/windlass/tests/fixtures/a.rs", bad)), []);
        assert_eq!(check_file(&SourceFile::new("crates/windlass-server/ui/vendor/a.js", bad)), []);
    }

    #[test]
    fn a_finding_names_place_rule_and_remedy() {
        let findings = check_file(&SourceFile::new("xtask/src/a.rs", "//! A.\nfn get_it() {}\n"));
        let shown: Vec<String> = findings.iter().map(Finding::to_string).collect();
        let expected = "xtask/src/a.rs:2: function name: call `get_it` what it returns: `it`";
        assert_eq!(shown, [expected]);
    }
}
