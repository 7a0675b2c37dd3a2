//! `cargo xtask tidy`: checks the conventions of the project that a program can check.
//!
//! The checks cover sizes, names, module docs, layers and leftovers. The rules read text, not types. If a rule is wrong
//! about a line, the line has a comment `// tidy: <marker>` with a reason, as the rule's message explains. A rule
//! without a marker has no exceptions.

mod circles;
mod docs;
mod facts;
mod finding;
mod layers;
mod leftovers;
pub mod lexer;
mod manifest;
mod names;
mod ratchet;
mod services;
mod size;
mod sleep;
pub mod source;
mod types;
mod words;

use std::path::Path;

use anyhow::{Context, Result, bail};

use self::finding::{Finding, Severity};
use self::source::SourceFile;
use crate::{process, tree};

/// Extensions of files that are checked; all other files are data.
const KINDS: &[&str] = &["rs", "toml", "md", "js", "mjs", "css", "html", "sh"];

/// Folders of unmodified files from other projects.
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
    sleep::sleeps,
    leftovers::markers,
    leftovers::ignored_tests,
    leftovers::machine_paths,
    leftovers::whitespace,
];

/// Runs every rule over the workspace and prints the findings. With `--lower`, records the counts of the [`ratchet`].
pub fn run(arguments: &[String]) -> Result<()> {
    let root = process::root();
    let files = read_tree(&root)?;
    let mut counts = words::markers(&files);
    counts.extend(types::repeated(&files));
    match arguments {
        [] => {}
        [flag] if flag == "--lower" => return ratchet::lower(&root, &counts),
        _ => bail!("the only option of `tidy` is `--lower`"),
    }
    let mut findings = check_files(&files);
    findings.extend(ratchet::check(&root, &counts)?);
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

/// Reads the files below a folder that the rules apply to: text files that are not from other projects.
fn read_tree(root: &Path) -> Result<Vec<SourceFile>> {
    let paths = tree::files(root)?.into_iter();
    let known = paths.filter(|path| KINDS.contains(&path.rsplit('.').next().unwrap_or_default()));
    let mut files = known
        .map(|path| Ok(SourceFile::new(path.clone(), tree::read(root, &path)?)))
        .collect::<Result<Vec<_>>>()?;
    files.retain(|file| !FOREIGN_FOLDERS.iter().any(|folder| file.has_folder(folder)));
    Ok(files)
}

/// Runs every rule over all files.
fn check_files(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = files.iter().flat_map(check_file).collect();
    findings.extend(circles::circles(files));
    findings
}

/// Runs all rules over one file.
fn check_file(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in RULES {
        rule(file, &mut findings);
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
        let mut findings = check_files(&read_tree(&root.join("xtask")).unwrap());
        findings.retain(|finding| finding.severity == Severity::Error);
        assert_eq!(findings, []);
    }

    #[test]
    fn foreign_files_are_left_alone() {
        let root = std::env::temp_dir().join(format!("windlass-xtask-tidy-{}", std::process::id()));
        for path in ["src/a.rs", "tests/fixtures/a.rs", "ui/vendor/a.js"] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "fn get_it() { todo!() }  \n").unwrap();
        }
        let files = read_tree(&root).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert!(!check_files(&files).is_empty());
        assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["src/a.rs"]);
    }

    #[test]
    fn a_finding_names_place_rule_and_remedy() {
        let findings = check_file(&SourceFile::new("xtask/src/a.rs", "//! A.\nfn get_it() {}\n"));
        let shown: Vec<String> = findings.iter().map(Finding::to_string).collect();
        let expected = "xtask/src/a.rs:2: function name: rename `get_it` after its result: `it`";
        assert_eq!(shown, [expected]);
    }
}
