//! `cargo xtask rows`: compares the acceptance table in `docs/rows.md` with the tests.
//!
//! A row works only if a test names it. The command compares both, prints counts, and updates rows on request; it does
//! not run tests.

mod mention;
mod table;

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};

use self::mention::Mention;
use self::table::{State, Table};
use crate::{process, tree};

const PATH: &str = "docs/rows.md";

/// Systems in the order of the counts, with the prefixes of their rows.
const SYSTEMS: &[(&str, &[&str])] =
    &[("SK", &["SK-"]), ("ZE", &["ZE-"]), ("WT", &["WT-"]), ("LM", &["LM-"]), ("OV/CF", &["OV-", "CF-"])];

/// The rows to update, according to the arguments.
enum Claim {
    Nothing,
    Tested,
    Named(Vec<String>),
}

/// The result of the comparison.
#[derive(Debug, Default, PartialEq)]
struct Report {
    errors: Vec<String>,
    warnings: Vec<String>,
}

/// Checks the table against the tests, after updating the rows named by the arguments.
pub fn run(arguments: &[String]) -> Result<()> {
    let root = process::root();
    let mentions = mention::in_tree(&root)?;
    let mut text = tree::read(&root, PATH)?;
    let claimed = match parse(arguments)? {
        Claim::Nothing => Vec::new(),
        Claim::Named(ids) => ids,
        Claim::Tested => mentions.iter().map(|mention| mention.id.clone()).collect(),
    };
    if !claimed.is_empty() {
        let (flipped, count) = table::claim(&text, &claimed)?;
        fs::write(root.join(PATH), &flipped).with_context(|| format!("could not write `{PATH}`"))?;
        println!("{count} rows now say `works`");
        text = flipped;
    }
    let table = Table::parse(&text);
    let report = compare(&table, &mentions);
    for warning in &report.warnings {
        println!("warning: {warning}");
    }
    for error in &report.errors {
        println!("{error}");
    }
    print!("{}", counts(&table));
    if !report.errors.is_empty() {
        bail!("{} rows or comments have errors", report.errors.len());
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Claim> {
    match arguments {
        [] => Ok(Claim::Nothing),
        [flag] if flag == "--claim-tested" => Ok(Claim::Tested),
        [flag, ids] if flag == "--claim" => {
            Ok(Claim::Named(ids.split(',').map(|id| id.trim().to_owned()).collect()))
        }
        other => bail!(
            "unexpected arguments `{}`\nhint: `--claim SK-G3,LM-L4` or `--claim-tested`",
            other.join(" ")
        ),
    }
}

fn compare(table: &Table, mentions: &[Mention]) -> Report {
    let mut report = Report { errors: table.errors.clone(), ..Report::default() };
    let tested: BTreeSet<&str> =
        mentions.iter().filter(|mention| mention.is_test).map(|m| m.id.as_str()).collect();
    for mention in mentions {
        let Mention { id, path, line, is_test } = mention;
        if !is_test {
            report
                .errors
                .push(format!("{path}:{line}: `{id}` is named outside a test; move the comment to one"));
        }
        match table.rows.iter().find(|row| row.id == *id) {
            None => report.errors.push(format!("{path}:{line}: unknown row `{id}`")),
            Some(row) if row.state == State::NotYet => {
                report
                    .warnings
                    .push(format!("{path}:{line}: names `{id}`, which is `not yet`; claim it if it works"));
            }
            Some(_) => {}
        }
    }
    for row in table.rows.iter().filter(|row| row.state == State::Works && !tested.contains(row.id.as_str()))
    {
        let id = &row.id;
        report
            .errors
            .push(format!("{PATH}:{}: `{id}` says `works`, but no test has `// rows: {id}`", row.line));
    }
    report
}

fn counts(table: &Table) -> String {
    let mut lines =
        format!("{:<6} {:>6} {:>8} {:>8} {:>6}\n", "system", "works", "decided", "not yet", "rows");
    let mut line = |name: &str, prefixes: &[&str]| {
        let of = |wanted: Option<State>| {
            let in_system = |id: &str| prefixes.iter().any(|prefix| id.starts_with(prefix));
            let rows = table.rows.iter().filter(|row| in_system(&row.id));
            rows.filter(|row| wanted.is_none_or(|state| row.state == state)).count()
        };
        let (works, decided) = (of(Some(State::Works)), of(Some(State::DecidedOtherwise)));
        let (not_yet, all) = (of(Some(State::NotYet)), of(None));
        lines.push_str(&format!("{name:<6} {works:>6} {decided:>8} {not_yet:>8} {all:>6}\n"));
    };
    for (name, prefixes) in SYSTEMS {
        line(name, prefixes);
    }
    line("all", &[""]);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mention(id: &str) -> Mention {
        Mention { id: id.to_owned(), path: "tests/a.rs".to_owned(), line: 7, is_test: true }
    }

    fn check(rows: &str, mentions: &[Mention], errors: &[&str], warnings: &[&str]) {
        let mut table = Table::parse(rows);
        table.errors.clear();
        let report = compare(&table, mentions);
        assert_eq!((report.errors, report.warnings), (owned(errors), owned(warnings)));
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn the_table_in_docs_is_whole() {
        let table = Table::parse(&tree::read(&process::root(), PATH).unwrap());
        assert_eq!(table.errors, Vec::<String>::new());
        assert_eq!(table.rows.len(), 574);
    }

    #[test]
    fn a_row_that_works_needs_a_test() {
        let rows = "| SK-G1 | It goes. | works |\n| SK-G2 | It stops. | not yet |";
        check(rows, &[mention("SK-G1")], &[], &[]);
        check(rows, &[], &["docs/rows.md:1: `SK-G1` says `works`, but no test has `// rows: SK-G1`"], &[]);
    }

    #[test]
    fn a_comment_outside_a_test_proves_nothing() {
        let rows = "| SK-G1 | It goes. | works |";
        let outside = Mention { is_test: false, ..mention("SK-G1") };
        let errors = [
            "tests/a.rs:7: `SK-G1` is named outside a test; move the comment to one",
            "docs/rows.md:1: `SK-G1` says `works`, but no test has `// rows: SK-G1`",
        ];
        check(rows, &[outside], &errors, &[]);
    }

    #[test]
    fn a_test_that_names_an_unknown_row_fails() {
        check("", &[mention("SK-G99")], &["tests/a.rs:7: unknown row `SK-G99`"], &[]);
    }

    #[test]
    fn a_test_that_is_ahead_of_the_table_warns() {
        let warning = "tests/a.rs:7: names `SK-G1`, which is `not yet`; claim it if it works";
        check("| SK-G1 | It goes. | not yet (issue 2) |", &[mention("SK-G1")], &[], &[warning]);
        check("| SK-G1 | It goes. | decided otherwise: no |", &[mention("SK-G1")], &[], &[]);
    }

    #[test]
    fn counts_are_per_system_and_state() {
        let table = Table::parse(
            "| SK-G1 | A. | works |\n| OV-1 | B. | not yet |\n| CF-1 | C. | decided otherwise: d |",
        );
        let shown = counts(&table);
        let last: Vec<&str> = shown.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["all", "1", "1", "1", "3"]);
        let overlaps = shown.lines().find(|line| line.starts_with("OV/CF")).unwrap();
        assert_eq!(overlaps.split_whitespace().collect::<Vec<_>>(), ["OV/CF", "0", "1", "1", "2"]);
    }
}
