//! Compares `docs/policy.md` with the code: the document must list every key of rules, conditions and cases, and no
//! other. Its rules must have no problems, and its cases must pass.

use std::collections::BTreeSet;
use std::path::Path;

use super::{CaseFile, PolicyText};
use crate::config::documented::{examples, sections};

const DOCUMENT: &str = include_str!("../../../../docs/policy.md");

/// Returns the keys that the parser's hint lists for the unknown key `0`.
fn expected(hint: Option<&String>) -> BTreeSet<String> {
    let keys = hint.and_then(|hint| hint.strip_prefix("valid keys: ")).unwrap();
    keys.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_reference_names_every_key_and_no_other() {
    let sections = sections(DOCUMENT);
    let said = |table: &str| sections[table].keys().cloned().collect::<BTreeSet<String>>();
    let of_rules = |text: &str| expected(PolicyText::parse(Path::new("p"), text).problems[0].hint.as_ref());
    assert_eq!(said("[[rule]]"), of_rules("[[rule]]\n0 = 1\n"));
    assert_eq!(said("[[rule.when]]"), of_rules("[[rule]]\n[[rule.when]]\n0 = 1\n"));
    let of_cases = |text: &str| expected(CaseFile::parse(text).unwrap_err().hint.as_ref());
    assert_eq!(said("[[case]]"), of_cases("[[case]]\n0 = 1\n"));
    let hints = &sections["[[case]]"]["annotations"];
    assert_eq!(hints, "table", "its keys are named beside it");
    for hint in of_cases("[[case]]\n[case.annotations]\n0 = 1\n") {
        assert!(DOCUMENT.contains(&format!("`{hint}`")), "{hint}");
    }
}

#[test]
fn its_rules_can_be_used_and_its_cases_pass() {
    let (cases, rules): (Vec<&str>, Vec<&str>) =
        examples(DOCUMENT).into_iter().partition(|example| example.contains("[[case]]"));
    let rules = PolicyText::parse(Path::new("windlass.policy.toml"), &rules.join("\n"));
    assert_eq!(rules.problems, []);
    let mut tried = 0;
    for text in cases {
        for (index, case) in CaseFile::parse(text).unwrap().cases.iter().enumerate() {
            assert_eq!(case.complaint(&case.judge(&rules.rules)), None, "{}", case.label(index));
            tried += 1;
        }
    }
    assert!(tried >= 7, "{tried} cases");
}
