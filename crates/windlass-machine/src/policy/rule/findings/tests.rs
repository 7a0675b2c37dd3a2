//! Tests of the findings in lists of rules, with their messages.
//!
//! Parsing of policy files is tested in the server.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::event::Surface;

const NOW: Timestamp = Timestamp(1_000);

fn rule(verdict: Verdict, change: impl FnOnce(&mut Rule)) -> Rule {
    let mut rule = Rule::new(verdict);
    change(&mut rule);
    rule
}

fn check(rules: &[Rule], wanted: &[&str]) {
    let said: Vec<String> = find_faults(rules, NOW)
        .into_iter()
        .map(|Finding { severity, rule, condition, key, message }| {
            let condition = condition.map_or_else(String::new, |index| format!(".{index}"));
            format!("{severity:?} {rule}{condition} {key}: {message}")
        })
        .collect();
    assert_eq!(said, wanted);
}

#[test]
fn names_and_lists() {
    check(&[rule(Verdict::Deny, |r| r.tools = vec!["git_*".into()])], &[]);
    let odd = rule(Verdict::Deny, |r| {
        r.name = Some(String::new());
        r.tools = vec!["".into(), "x".repeat(201).as_str().into()];
        r.roles = vec!["r".into(); 101];
    });
    let wanted = [
        "Fault 0 name: a name has 1 to 200 bytes",
        "Fault 0 tools: an empty text fits nothing",
        "Fault 0 tools: an entry has more than 200 bytes",
        "Fault 0 roles: the list has 101 entries; at most 100 are taken",
    ];
    check(&[odd], &wanted);
}

#[test]
fn too_many_rules() {
    let rules: Vec<Rule> = (0..1_001)
        .map(|n| rule(Verdict::Deny, |r| r.tools = vec![format!("t{n}").as_str().into()]))
        .collect();
    check(&rules[..1_000], &[]);
    check(&rules, &["Fault 1000 verdict: there are 1001 rules; at most 1000 are taken"]);
}

#[test]
fn times() {
    let at = |from: u64, until: u64| {
        rule(Verdict::Deny, |r| (r.from, r.until) = (Some(Timestamp(from)), Some(Timestamp(until))))
    };
    check(&[at(1, 1_001)], &[]);
    check(&[at(1, 1_000)], &["Warning 0 until: the rule has expired and no longer counts"]);
    check(&[at(5, 5)], &["Fault 0 until: the rule ends before it begins"]);
}

#[test]
fn conditions() {
    let on = |verdict, argument: &str, is| {
        let first = Condition { argument: "/ok".into(), is: Predicate::Present };
        [rule(verdict, |r| r.when = vec![first, Condition { argument: argument.into(), is }])]
    };
    let deny = |argument: &str, is| on(Verdict::Deny, argument, is);
    check(&deny("", Predicate::Present), &[]);
    let fault = |key: &str, message: &str| format!("Fault 0.1 {key}: {message}");
    let cases: Vec<([Rule; 1], String)> = vec![
        (deny("a.b", Predicate::Present), fault("argument", "a JSON pointer begins with `/`: write `/a/b`")),
        (
            deny(&"/a".repeat(33), Predicate::Present),
            fault("argument", "a JSON pointer has at most 32 parts and 1000 bytes"),
        ),
        (
            deny("/~", Predicate::Present),
            fault("argument", "in a JSON pointer `~` is written `~0`, and `/` in a key `~1`"),
        ),
        (
            deny("/a", Predicate::Equals(json!(null))),
            fault("equals", "`null` counts as absent: write `absent = true`"),
        ),
        (deny("/a", Predicate::OneOf(vec![])), fault("one_of", "the list is empty")),
        (
            deny("/a", Predicate::NotOneOf(vec![json!(1); 101])),
            fault("not_one_of", "the list has 101 entries; at most 100 are taken"),
        ),
        (
            deny("/a", Predicate::Matches(Pattern::new("["))),
            fault("matches", "the expression cannot be used: unclosed character class"),
        ),
        (
            deny("/a", Predicate::Matches(Pattern::new("x".repeat(1_001)))),
            fault("matches", "an expression has at most 1000 bytes"),
        ),
        (
            deny("/a", Predicate::Between { min: None, max: None }),
            fault("min", "neither `min` nor `max` is given"),
        ),
        (
            deny("/a", Predicate::Between { min: Some(2.into()), max: Some(1.into()) }),
            fault("min", "no number lies between 2 and 1"),
        ),
        (
            deny("/a", Predicate::Under("../x".into())),
            fault("under", "the path leaves the folder that it is relative to"),
        ),
    ];
    for (rules, wanted) in cases {
        check(&rules, &[&wanted]);
    }
    let loose =
        "Warning 0.1 matches: the expression may match anywhere in the text: write `^…$` for the whole";
    check(&on(Verdict::Allow, "/a", Predicate::Matches(Pattern::new("ls"))), &[loose]);
    check(&on(Verdict::Allow, "/a", Predicate::Matches(Pattern::new("^ls$"))), &[]);
    check(&on(Verdict::Deny, "/a", Predicate::Matches(Pattern::new("rm"))), &[]);
    let many = rule(Verdict::Deny, |r| {
        r.when = vec![Condition { argument: "/a".into(), is: Predicate::Present }; 33];
    });
    check(&[many], &["Fault 0 when: there are 33 conditions; at most 32 are taken"]);
}

#[test]
fn terms() {
    let ask = |change: fn(&mut Terms)| [rule(Verdict::Ask, |r| change(&mut r.terms))];
    let user = |name: &str| Approver::User(name.into());
    let quorum = |count, of: &[Approver]| {
        let quorums = BTreeSet::from([Quorum { count, of: of.iter().cloned().collect() }]);
        [rule(Verdict::Ask, |r| r.terms.quorums = quorums)]
    };
    check(&quorum(2, &[user("a"), user("b")]), &[]);
    check(&quorum(2, &[user("a"), Approver::Role("ops".into())]), &[]);
    check(&quorum(5, &[]), &[]);
    check(&quorum(0, &[]), &["Fault 0 quorum: at least one has to approve"]);
    check(&quorum(2, &[user("a")]), &["Fault 0 quorum: 2 have to approve, and only 1 may"]);
    type Case = (fn(&mut Terms), &'static [&'static str]);
    let cases: [Case; 6] = [
        (|t| t.on_expiry = Expiry::Approve, &["Warning 0 on_timeout: without `timeout` it never happens"]),
        (|t| t.expires_in_ms = Some(0), &["Fault 0 timeout: nobody can answer in no time"]),
        (|t| t.escalate_in_ms = Some(5), &["Fault 0 escalate_after: `escalate_to` is missing"]),
        (
            |t| t.escalate_to = BTreeSet::from([Approver::Role("r".into())]),
            &["Fault 0 escalate_to: `escalate_after` is missing"],
        ),
        (
            |t| (t.expires_in_ms, t.remind_in_ms) = (Some(5), Some(5)),
            &["Warning 0 remind_after: it never happens: `timeout` comes first"],
        ),
        (|t| (t.expires_in_ms, t.on_expiry) = (Some(5), Expiry::Approve), &[]),
    ];
    for (change, wanted) in cases {
        check(&ask(change), wanted);
    }
    let denied = rule(Verdict::Deny, |r| r.terms.expires_in_ms = Some(5));
    check(&[denied], &["Fault 0 verdict: only a rule that asks has a quorum, approvers or times"]);
}

#[test]
fn rules_that_never_decide() {
    let on = |argument: &str| Condition { argument: argument.into(), is: Predicate::Present };
    let never = |weak: usize, strong: usize| {
        format!(
            "Warning {weak} verdict: the rule never decides: `rule #{}` is stronger wherever it fits",
            strong + 1
        )
    };
    let git = |verdict, glob: &str| rule(verdict, |r| r.tools = vec![glob.into()]);
    check(&[git(Verdict::Allow, "git_push"), git(Verdict::Deny, "git_*")], &[&never(0, 1)]);
    check(&[git(Verdict::Deny, "*"), Rule::new(Verdict::Ask)], &[&never(1, 0)]);
    check(&[git(Verdict::Ask, "git_*"), git(Verdict::Allow, "git_*")], &[&never(1, 0)]);
    check(&[git(Verdict::Allow, "*"), git(Verdict::Deny, "git_*")], &[]);
    check(&[git(Verdict::Allow, "git_*"), git(Verdict::Deny, "git_push")], &[]);
    // Each field that only the stronger rule restricts lets the other rule decide some calls.
    let narrower: [fn(&mut Rule); 9] = [
        |r| r.servers = vec!["*".into()],
        |r| r.users = vec!["ann".into()],
        |r| r.roles = vec!["ops".into()],
        |r| r.agents = vec!["a*".into()],
        |r| r.surfaces = vec![Surface::Chat],
        |r| r.workspaces = vec!["w".into()],
        |r| r.from = Some(Timestamp(5)),
        |r| r.until = Some(Timestamp(5_000)),
        |r| r.when = vec![Condition { argument: "/a".into(), is: Predicate::Present }],
    ];
    for narrow in narrower {
        check(&[rule(Verdict::Deny, narrow), Rule::new(Verdict::Allow)], &[]);
        check(&[Rule::new(Verdict::Deny), rule(Verdict::Allow, narrow)], &[&never(1, 0)]);
        check(&[rule(Verdict::Deny, narrow), rule(Verdict::Allow, narrow)], &[&never(1, 0)]);
    }
    let (fewer, more) = (vec![on("/a")], vec![on("/b"), on("/a")]);
    let rules = [rule(Verdict::Deny, |r| r.when = fewer), rule(Verdict::Allow, |r| r.when = more)];
    check(&rules, &[&never(1, 0)]);
    // An unclear deny rule denies, for any terms of the other rule.
    let deny = rule(Verdict::Deny, |r| r.when = vec![on("/a")]);
    let two = BTreeSet::from([Quorum { count: 2, of: BTreeSet::new() }]);
    let ask = rule(Verdict::Ask, |r| (r.when, r.terms.quorums) = (vec![on("/a")], two));
    check(&[deny, ask], &[&never(1, 0)]);
}

#[test]
fn rules_that_are_there_twice() {
    let named = |name: &str, verdict| rule(verdict, |r| r.name = Some(name.into()));
    let same = "Warning 1 verdict: the rule says the same as `a`";
    check(&[named("a", Verdict::Deny), named("b", Verdict::Deny)], &[same]);
    check(&[named("a", Verdict::Deny), named("a", Verdict::Deny)], &[same]);
    let elsewhere = rule(Verdict::Deny, |r| (r.name, r.tools) = (Some("a".into()), vec!["x".into()]));
    let twice = "Warning 1 name: another rule has this name: a judgement cannot tell them apart";
    check(&[named("a", Verdict::Deny), elsewhere], &[twice]);
}
