//! Counts that may fall and must not rise: `xtask/ratchet.txt` records the highest count that each rule accepts.
//!
//! A count without a line in the file has the rule's own limit. `cargo xtask tidy --lower` writes the counts of the
//! working tree into the file, and never raises a count.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::finding::{Finding, Severity};
use crate::tree;

/// Path of the file with the accepted counts, relative to the root of the workspace.
pub const FILE: &str = "xtask/ratchet.txt";

/// Maximum number of places that a finding lists.
const PLACES_SHOWN: usize = 8;

/// A count of occurrences.
#[derive(Debug, PartialEq)]
pub struct Count {
    /// The subject and the area of the count, such as "lines with marker words in docs".
    pub subject: String,
    /// The highest accepted count without a line in the file.
    pub limit: usize,
    /// Every occurrence as `path:line`.
    pub places: Vec<String>,
    /// Advice on how to remove an occurrence.
    pub advice: &'static str,
}

/// Compares counts with the accepted ones in the file. A lower count is a warning, so that it gets recorded.
pub fn check(root: &Path, counts: &[Count]) -> Result<Vec<Finding>> {
    let accepted = read(root)?;
    Ok(counts.iter().filter_map(|count| compare(count, accepted.get(&count.subject).copied())).collect())
}

/// Records the counts of the working tree that are lower than the accepted ones.
pub fn lower(root: &Path, counts: &[Count]) -> Result<()> {
    let accepted = read(root)?;
    let lines = counts.iter().filter_map(|count| {
        let accepted = accepted.get(&count.subject)?;
        let lowered = count.places.len().min(*accepted);
        (lowered > count.limit).then(|| format!("{lowered} {}\n", count.subject))
    });
    let text: String = lines.collect();
    std::fs::write(root.join(FILE), text).with_context(|| format!("could not write `{FILE}`"))
}

fn read(root: &Path) -> Result<BTreeMap<String, usize>> {
    if !root.join(FILE).exists() {
        return Ok(BTreeMap::new());
    }
    let text = tree::read(root, FILE)?;
    text.lines().map(|line| parse(line).with_context(|| format!("`{FILE}` has the line `{line}`"))).collect()
}

fn parse(line: &str) -> Result<(String, usize)> {
    let (count, subject) = line.split_once(' ').context("expected a count and what is counted")?;
    Ok((subject.to_owned(), count.parse().context("the count is not a number")?))
}

fn compare(count: &Count, accepted: Option<usize>) -> Option<Finding> {
    let found = count.places.len();
    let limit = accepted.unwrap_or(count.limit);
    let (severity, advice) = if found > limit {
        let places = &count.places[..found.min(PLACES_SHOWN)];
        let advice = format!("{found} of at most {limit}; {}: {}", count.advice, places.join(", "));
        (Severity::Error, advice)
    } else if accepted.is_some_and(|accepted| found < accepted && accepted > count.limit) {
        (Severity::Warning, format!("{found} instead of {limit}; record it with `cargo xtask tidy --lower`"))
    } else {
        return None;
    };
    let rule = "ratchet";
    Some(Finding {
        path: FILE.to_owned(),
        line: 1,
        rule,
        advice: format!("{}: {advice}", count.subject),
        severity,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(occurrences: usize) -> Count {
        let places = (1..=occurrences).map(|line| format!("a.rs:{line}")).collect();
        Count { subject: "lines of a kind".to_owned(), limit: 2, places, advice: "reword them" }
    }

    #[test]
    fn a_count_above_the_accepted_one_fails() {
        let severity = |found, accepted| compare(&count(found), accepted).map(|finding| finding.severity);
        assert_eq!(severity(2, None), None);
        assert_eq!(severity(3, None), Some(Severity::Error));
        assert_eq!(severity(5, Some(5)), None);
        assert_eq!(severity(6, Some(5)), Some(Severity::Error));
        assert_eq!(severity(4, Some(5)), Some(Severity::Warning));
        let shown = compare(&count(3), None).unwrap().to_string();
        let expected = "lines of a kind: 3 of at most 2; reword them: a.rs:1, a.rs:2, a.rs:3";
        assert_eq!(shown, format!("{FILE}:1: ratchet: {expected}"));
    }

    #[test]
    fn lowering_never_raises() {
        let root = std::env::temp_dir().join(format!("windlass-xtask-ratchet-{}", std::process::id()));
        std::fs::create_dir_all(root.join("xtask")).unwrap();
        let record = |text: &str| std::fs::write(root.join(FILE), text).unwrap();
        let lowered = |found| {
            record("5 lines of a kind\n");
            lower(&root, &[count(found)]).unwrap();
            std::fs::read_to_string(root.join(FILE)).unwrap()
        };
        assert_eq!(lowered(4), "4 lines of a kind\n");
        assert_eq!(lowered(6), "5 lines of a kind\n");
        assert_eq!(lowered(2), "", "the rule's own limit needs no line");
        record("many lines\n");
        assert!(check(&root, &[]).unwrap_err().to_string().contains("many lines"));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
