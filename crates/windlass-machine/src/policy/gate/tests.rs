//! Tests of the gate's table, row by row.
//!
//! Invariants over all lists of rules are tested by the properties in `tests/`.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::super::rule::{Expiry, Predicate, Quorum};
use super::*;
use crate::event::Surface;

/// A call of a tool without known properties.
pub fn subject() -> Subject<'static> {
    static TOOL: LazyLock<ToolName> = LazyLock::new(|| "Write".into());
    static LOCAL: LazyLock<Principal> = LazyLock::new(|| "local".into());
    static EMPTY: LazyLock<Value> = LazyLock::new(|| json!({}));
    Subject {
        tool: &TOOL,
        server: None,
        schema: None,
        annotations: Annotations::default(),
        trust: Trust::Trusted,
        arguments: Some(&EMPTY),
        paths: &[],
        principal: &LOCAL,
        roles: &[],
        agent: "default",
        surface: Surface::Headless,
        workspace: "local",
        now: Timestamp(1_000),
    }
}

fn named(verdict: Verdict, name: &str) -> Rule {
    Rule { name: Some(name.into()), ..Rule::new(verdict) }
}

fn faulty(verdict: Verdict, name: &str) -> Rule {
    let condition = Condition { argument: "/path".into(), is: Predicate::NotOneOf(vec![json!("a")]) };
    Rule { when: vec![condition], ..named(verdict, name) }
}

fn judged(policy: &Policy, subject: &Subject<'_>) -> String {
    let judgement = policy.judge(subject);
    format!("{:?} by {}", judgement.verdict, judgement.by)
}

#[test]
fn rules_are_weighed_and_not_counted() {
    let (allow, ask, deny) =
        (named(Verdict::Allow, "yes"), named(Verdict::Ask, "perhaps"), named(Verdict::Deny, "no"));
    let odd = [Verdict::Allow, Verdict::Ask, Verdict::Deny].map(|verdict| faulty(verdict, "odd"));
    let [odd_allow, odd_ask, odd_deny] = &odd;
    let (asks, denies) = ("Ask by error: odd: `/path` is absent", "Deny by error: odd: `/path` is absent");
    let cases: Vec<(Vec<&Rule>, &str)> = vec![
        (vec![&allow], "Allow by yes"),
        (vec![&ask], "Ask by perhaps"),
        (vec![&deny], "Deny by no"),
        (vec![&allow, &ask], "Ask by perhaps"),
        (vec![&ask, &deny], "Deny by no"),
        (vec![&allow, &deny], "Deny by no"),
        // An unclear allow rule does not apply.
        (vec![odd_allow], "Ask by annotations"),
        (vec![odd_allow, &allow], "Allow by yes"),
        (vec![odd_allow, &ask], "Ask by perhaps"),
        (vec![odd_allow, &deny], "Deny by no"),
        // An unclear ask rule asks.
        (vec![odd_ask], asks),
        (vec![odd_ask, &allow], asks),
        (vec![odd_ask, &ask], "Ask by perhaps"),
        (vec![odd_ask, &deny], "Deny by no"),
        // An unclear deny rule denies.
        (vec![odd_deny], denies),
        (vec![odd_deny, &allow], denies),
        (vec![odd_deny, &ask], denies),
        (vec![odd_deny, odd_ask], denies),
        (vec![odd_deny, &deny], "Deny by no"),
    ];
    for (rules, wanted) in cases {
        let mut rules: Vec<Rule> = rules.into_iter().cloned().collect();
        for _ in 0..2 {
            let policy = Policy { rules: rules.clone(), ..Policy::default() };
            assert_eq!(judged(&policy, &subject()), wanted, "{rules:?}");
            rules.reverse();
        }
    }
    let rules = vec![Rule::new(Verdict::Allow), named(Verdict::Deny, "b"), named(Verdict::Deny, "a")];
    assert_eq!(judged(&Policy { rules, ..Policy::default() }, &subject()), "Deny by a");
    let rules = vec![allow, Rule::new(Verdict::Ask)];
    assert_eq!(judged(&Policy { rules, ..Policy::default() }, &subject()), "Ask by rule #2");
}

#[test]
fn an_unclear_rule_never_weakens_a_verdict() {
    let read = Annotations { read_only_hint: true, ..Annotations::default() };
    for (verdict, word) in [(Verdict::Ask, "Ask"), (Verdict::Deny, "Deny")] {
        let policy =
            Policy { rules: vec![faulty(verdict, "x")], auto_run: AutoRun::Everything, ..Policy::default() };
        let wanted = format!("{word} by error: x: `/path` is absent");
        assert_eq!(judged(&policy, &Subject { annotations: read, ..subject() }), wanted);
        let wanted = format!("{word} by error: x: the arguments could not be read");
        assert_eq!(judged(&policy, &Subject { arguments: None, ..subject() }), wanted);
    }
    // Without a matching allow rule, the other sources decide.
    let policy = Policy { rules: vec![faulty(Verdict::Allow, "x")], ..Policy::default() };
    assert_eq!(judged(&policy, &Subject { annotations: read, ..subject() }), "Allow by annotations");
    assert_eq!(judged(&policy, &subject()), "Ask by annotations");
    assert!(policy.judge(&subject()).is_grantable);
}

// rows: SK-A1, SK-A2, CF-1, ZE-H5
#[test]
fn without_rules_the_mode_and_the_hints_decide() {
    let hints = |read_only_hint, destructive_hint, open_world_hint| Annotations {
        read_only_hint,
        destructive_hint,
        open_world_hint,
        ..Annotations::default()
    };
    let (read, fetch) = (hints(true, false, false), hints(true, false, true));
    let (write, destroy) = (hints(false, false, false), hints(false, true, false));
    let (trusted, untrusted) = (Trust::Trusted, Trust::Untrusted);
    let (ask, list, every) = (AutoRun::Ask, AutoRun::Allowlist, AutoRun::Everything);
    let cases = [
        (ask, read, trusted, "Allow by annotations"),
        (ask, read, untrusted, "Ask by annotations"),
        (ask, fetch, trusted, "Ask by annotations"),
        (ask, write, trusted, "Ask by annotations"),
        (ask, destroy, trusted, "Ask by annotations"),
        (ask, hints(true, true, false), trusted, "Ask by annotations"),
        (list, read, trusted, "Allow by annotations"),
        (list, read, untrusted, "Allow by allowlist"),
        (list, fetch, trusted, "Allow by allowlist"),
        (list, write, trusted, "Allow by allowlist"),
        (list, write, untrusted, "Allow by allowlist"),
        (list, destroy, trusted, "Ask by annotations"),
        (list, destroy, untrusted, "Ask by annotations"),
        (every, read, trusted, "Allow by annotations"),
        (every, fetch, trusted, "Allow by auto-run"),
        (every, write, untrusted, "Allow by auto-run"),
        (every, destroy, trusted, "Ask by annotations"),
        (every, destroy, untrusted, "Ask by annotations"),
    ];
    for (auto_run, annotations, trust, wanted) in cases {
        let policy = Policy { auto_run, allowlist: BTreeSet::from(["Write".into()]), ..Policy::default() };
        let call = Subject { annotations, trust, ..subject() };
        assert_eq!(judged(&policy, &call), wanted, "{auto_run:?} {annotations:?} {trust:?}");
        // An administrator's rule allows calls that the hints would ask about. (CF-1)
        let ruled = Policy { rules: vec![named(Verdict::Allow, "--yes")], ..policy.clone() };
        assert_eq!(judged(&ruled, &call), "Allow by --yes");
        // A rule that asks takes precedence over every auto-run choice.
        let ruled = Policy { rules: vec![named(Verdict::Ask, "careful")], ..policy };
        assert_eq!(judged(&ruled, &call), "Ask by careful");
    }
    let other = "Read".into();
    let policy = Policy { auto_run: list, allowlist: BTreeSet::from(["Write".into()]), ..Policy::default() };
    assert_eq!(judged(&policy, &Subject { tool: &other, ..subject() }), "Ask by annotations");
}

#[test]
fn a_grant_lets_through_what_would_be_asked_about() {
    let grant = |id: &str| Grant {
        id: id.into(),
        tool: "Write".into(),
        server: None,
        schema: None,
        arguments: Vec::new(),
        remaining: None,
        expires_at: None,
        by: "ann".into(),
    };
    let condition = Condition { argument: "/path".into(), is: Predicate::Under("src".into()) };
    let (inside, outside, odd) =
        (json!({ "path": "src/a" }), json!({ "path": "b" }), json!({ "path": "../src/a" }));
    let bound = Grant { arguments: vec![condition], ..grant("g") };
    let cases: Vec<(Grant, Option<&Value>, &str)> = vec![
        (grant("g"), Some(&outside), "Allow by grant g"),
        (bound.clone(), Some(&inside), "Allow by grant g"),
        (bound.clone(), Some(&outside), "Ask by annotations"),
        (bound.clone(), Some(&odd), "Ask by annotations"),
        (bound, None, "Ask by annotations"),
        (Grant { tool: "Other".into(), ..grant("g") }, Some(&inside), "Ask by annotations"),
        (Grant { server: Some("docs".into()), ..grant("g") }, Some(&inside), "Ask by annotations"),
        (Grant { schema: Some(Digest::of(b"now")), ..grant("g") }, Some(&inside), "Allow by grant g"),
        (Grant { schema: Some(Digest::of(b"then")), ..grant("g") }, Some(&inside), "Ask by annotations"),
        (Grant { remaining: Some(1), ..grant("g") }, Some(&inside), "Allow by grant g"),
        (Grant { remaining: Some(0), ..grant("g") }, Some(&inside), "Ask by annotations"),
        (Grant { expires_at: Some(Timestamp(1_001)), ..grant("g") }, None, "Allow by grant g"),
        (Grant { expires_at: Some(Timestamp(1_000)), ..grant("g") }, None, "Ask by annotations"),
    ];
    for (grant, arguments, wanted) in cases {
        let annotations = Annotations { destructive_hint: true, ..Annotations::default() };
        let call = Subject { arguments, annotations, schema: Some(Digest::of(b"now")), ..subject() };
        let policy = Policy { grants: vec![grant.clone()], ..Policy::default() };
        assert_eq!(judged(&policy, &call), wanted, "{grant:?}");
        assert_eq!(policy.judge(&call).grant.is_some(), wanted.starts_with("Allow"));
        let ruled = Policy { rules: vec![named(Verdict::Ask, "careful")], ..policy };
        assert_eq!(judged(&ruled, &call), "Ask by careful", "a rule that asks is stronger");
    }
    let counted = |id, expires_at: Option<u64>| Grant {
        remaining: Some(2),
        expires_at: expires_at.map(Timestamp),
        ..grant(id)
    };
    let mut grants = vec![counted("late", None), counted("soon", Some(2_000)), grant("free")];
    let used =
        |grants: &[Grant], call| Policy { grants: grants.to_vec(), ..Policy::default() }.judge(&call).grant;
    assert_eq!(used(&grants, subject()).as_deref(), Some("free"));
    grants.pop();
    assert_eq!(used(&grants, subject()).as_deref(), Some("soon"));
    let read = Annotations { read_only_hint: true, ..Annotations::default() };
    assert_eq!(used(&grants, Subject { annotations: read, ..subject() }), None, "nothing is used up");
}

#[test]
fn all_that_ask_have_their_terms_met() {
    let terms = |count, ms, on_expiry| Terms {
        quorums: BTreeSet::from([Quorum { count, of: BTreeSet::new() }]),
        expires_in_ms: Some(ms),
        on_expiry,
        ..Terms::default()
    };
    let first = Rule { terms: terms(2, 60, Expiry::Approve), ..named(Verdict::Ask, "a") };
    let second = Rule { terms: terms(1, 30, Expiry::Approve), ..named(Verdict::Ask, "b") };
    let unclear = Rule { terms: terms(3, 90, Expiry::Approve), ..faulty(Verdict::Ask, "c") };
    let judge = |rules: Vec<Rule>| Policy { rules, ..Policy::default() }.judge(&subject());
    assert_eq!(judge(vec![first.clone(), second.clone()]).terms, terms(2, 30, Expiry::Approve));
    assert_eq!(judge(vec![first.clone(), unclear]).terms, terms(3, 60, Expiry::Approve));
    let odd = faulty(Verdict::Allow, "d");
    assert_eq!(judge(vec![second.clone(), odd]).terms, terms(1, 30, Expiry::Approve));
    let odd = faulty(Verdict::Deny, "d");
    assert_eq!(judge(vec![second.clone(), odd]).terms, Terms::default());
    assert_eq!(judge(vec![second, named(Verdict::Deny, "e")]).terms, Terms::default());
    assert_eq!(judge(vec![first, named(Verdict::Allow, "f")]).terms, terms(2, 60, Expiry::Approve));
}

#[test]
fn a_digest_is_of_everything() {
    let usual = Policy::default();
    let grant = Grant {
        id: "g".into(),
        tool: "Write".into(),
        server: None,
        schema: None,
        arguments: Vec::new(),
        remaining: Some(2),
        expires_at: None,
        by: "ann".into(),
    };
    let others = [
        Policy { rules: vec![Rule::new(Verdict::Allow)], ..usual.clone() },
        Policy { rules: vec![Rule::new(Verdict::Deny)], ..usual.clone() },
        Policy { auto_run: AutoRun::Allowlist, ..usual.clone() },
        Policy { allowlist: BTreeSet::from(["Write".into()]), ..usual.clone() },
        Policy { grants: vec![grant.clone()], ..usual.clone() },
        Policy { grants: vec![Grant { remaining: Some(1), ..grant }], ..usual.clone() },
    ];
    let digests: BTreeSet<Digest> = others.iter().chain([&usual]).map(Policy::digest).collect();
    assert_eq!(digests.len(), 7);
    for policy in others {
        let json = serde_json::to_string(&policy).unwrap();
        let again: Policy = serde_json::from_str(&json).unwrap();
        assert_eq!((again.digest(), &again), (policy.digest(), &policy));
    }
}

#[test]
fn a_grant_for_a_servers_tool_is_none_for_another_servers() {
    let grant = Grant {
        id: "g".into(),
        tool: "Write".into(),
        server: Some("docs".into()),
        schema: None,
        arguments: Vec::new(),
        remaining: None,
        expires_at: None,
        by: "ann".into(),
    };
    let policy = Policy { grants: vec![grant], ..Policy::default() };
    let annotations = Annotations { destructive_hint: true, ..Annotations::default() };
    let from = |server| judged(&policy, &Subject { server, annotations, ..subject() });
    assert_eq!(from(Some("docs")), "Allow by grant g");
    assert_eq!(from(Some("evil")), "Ask by annotations");
    assert_eq!(from(None), "Ask by annotations");
}

#[test]
fn a_word_without_a_server_is_for_a_built_in_tool() {
    let (then, now) = (Some(Digest::of(b"then")), Some(Digest::of(b"now")));
    // The schema that the grant is bound to, the call's server and schema, and whether the grant matches.
    let cases = [
        (None, None, now, true),
        (None, Some("evil"), now, false),
        (now, None, now, true),
        (then, None, now, false),
        // An engine tool that reaches a server.
        (now, Some("docs"), now, true),
        (then, Some("docs"), now, false),
        (now, Some("docs"), None, false),
    ];
    for (bound, server, schema, fits) in cases {
        let grant = Grant {
            id: "g".into(),
            tool: "Write".into(),
            server: None,
            schema: bound,
            arguments: Vec::new(),
            remaining: None,
            expires_at: None,
            by: "ann".into(),
        };
        let allowed = AllowedTool { tool: "Write".into(), server: None, schema: bound };
        let call = Subject { server, schema, ..subject() };
        let granted = Policy { grants: vec![grant], ..Policy::default() };
        let listed =
            Policy { auto_run: AutoRun::Allowlist, allowlist: [allowed].into(), ..Policy::default() };
        let wanted = |by| if fits { format!("Allow by {by}") } else { "Ask by annotations".into() };
        assert_eq!(judged(&granted, &call), wanted("grant g"), "{bound:?} {server:?} {schema:?}");
        assert_eq!(judged(&listed, &call), wanted("allowlist"), "{bound:?} {server:?} {schema:?}");
    }
    let shop = AllowedTool { server: Some("shop".into()), ..AllowedTool::from("Write") };
    let listed = Policy { auto_run: AutoRun::Allowlist, allowlist: [shop].into(), ..Policy::default() };
    let from = |server| judged(&listed, &Subject { server, ..subject() });
    assert_eq!(from(Some("shop")), "Allow by allowlist");
    assert_eq!(from(Some("evil")), "Ask by annotations");
    assert_eq!(from(None), "Ask by annotations");
}
