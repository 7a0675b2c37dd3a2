//! Properties of the gate: invariants over arbitrary lists of rules.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_machine::*;

use crate::fixture::{Dice, dice};

/// A call with everything that the gate sees.
#[derive(Debug)]
struct Call {
    tool: ToolName,
    server: Option<&'static str>,
    annotations: Annotations,
    trust: Trust,
    arguments: Option<Value>,
    paths: Vec<PathArgument>,
    principal: Principal,
    roles: Vec<String>,
    surface: Surface,
    now: Timestamp,
}

impl Call {
    fn subject(&self) -> Subject<'_> {
        Subject {
            tool: &self.tool,
            server: self.server,
            schema: None,
            annotations: self.annotations,
            trust: self.trust,
            arguments: self.arguments.as_ref(),
            paths: &self.paths,
            principal: &self.principal,
            roles: &self.roles,
            agent: "clerk",
            surface: self.surface,
            workspace: "w",
            now: self.now,
        }
    }
}

fn one<T: Clone>(dice: &mut Dice, all: &[T]) -> T {
    all[dice.below(all.len() as u64) as usize].clone()
}

/// Returns few elements, so that rules often match calls.
fn some<T: Clone>(dice: &mut Dice, all: &[T]) -> Vec<T> {
    let count = if dice.one_in(2) { 0 } else { dice.below(3) };
    (0..count).map(|_| one(dice, all)).collect()
}

fn any_call(dice: &mut Dice) -> Call {
    Call {
        tool: one(dice, &["a", "ab", "b"]).into(),
        server: one(dice, &[None, Some("s"), Some("t")]),
        annotations: Annotations {
            read_only_hint: dice.one_in(2),
            destructive_hint: dice.one_in(3),
            idempotent_hint: dice.one_in(2),
            open_world_hint: dice.one_in(3),
        },
        trust: one(dice, &[Trust::Trusted, Trust::Untrusted]),
        arguments: (!dice.one_in(8)).then(|| json!({ "x": any_value(dice), "y": any_value(dice) })),
        paths: if dice.one_in(2) { any_paths(dice) } else { Vec::new() },
        principal: one(dice, &["ann", "bob"]).into(),
        roles: some(dice, &["dev".to_owned(), "ops".to_owned()]),
        surface: one(dice, &[Surface::Headless, Surface::Chat]),
        now: Timestamp(dice.below(4)),
    }
}

/// Returns paths whose links resolve to arbitrary files inside the folder.
fn any_paths(dice: &mut Dice) -> Vec<PathArgument> {
    let target = |dice: &mut Dice| PathTarget {
        folders: vec!["/desk".into()],
        lexical: one(dice, &["src/a", "b", ""]).into(),
        resolved: one(dice, &["src/a", "b", ""]).into(),
    };
    let path = |argument: &str, dice: &mut Dice| PathArgument {
        argument: argument.into(),
        target: dice.one_in(2).then(|| target(dice)),
    };
    vec![path("/x", dice), path("/y", dice)]
}

fn any_value(dice: &mut Dice) -> Value {
    one(dice, &[json!(null), json!(1), json!(2.0), json!("src/a"), json!("../a"), json!(true), json!([1])])
}

fn any_condition(dice: &mut Dice) -> Condition {
    let values = |dice: &mut Dice| (0..=dice.below(2)).map(|_| any_value(dice)).collect();
    let is = match dice.below(8) {
        0 => Predicate::Equals(any_value(dice)),
        1 => Predicate::OneOf(values(dice)),
        2 => Predicate::NotOneOf(values(dice)),
        3 => Predicate::Matches(Pattern::new(one(dice, &["a", "^src", "("]))),
        4 => Predicate::Between { min: Some(1.into()), max: dice.one_in(2).then(|| 1.into()) },
        5 => Predicate::Under(one(dice, &["src", ".", "/"]).into()),
        6 => Predicate::Present,
        _ => Predicate::Absent,
    };
    Condition { argument: one(dice, &["/x", "/y", "/x/0", "/none"]).into(), is }
}

fn any_terms(dice: &mut Dice) -> Terms {
    let people = ["ann", "bob", "eve"].map(|name| Approver::User(name.into()));
    let all = [&people[..], &[Approver::Role("ops".into())]].concat();
    let quorum = |dice: &mut Dice| {
        let of = some(dice, &all).into_iter().collect();
        Quorum { count: 1 + dice.below(2) as u32, of }
    };
    let time = |dice: &mut Dice| dice.one_in(2).then(|| 1 + dice.below(3));
    Terms {
        quorums: (0..=dice.below(2)).map(|_| quorum(dice)).collect(),
        expires_in_ms: time(dice),
        on_expiry: one(dice, &[Expiry::Deny, Expiry::Approve, Expiry::Approve]),
        remind_in_ms: time(dice),
        escalate_in_ms: time(dice),
        escalate_to: some(dice, &all).into_iter().collect(),
    }
}

fn any_rule(dice: &mut Dice, name: usize, verdict: Verdict) -> Rule {
    let mut rule = Rule { name: Some(format!("r{name}")), ..Rule::new(verdict) };
    let globs = |dice: &mut Dice, all: &[&str]| some(dice, all).into_iter().map(Glob::from).collect();
    rule.tools = globs(dice, &["*", "a*", "a", "?", "b"]);
    // Most rules have conditions on the tool alone; otherwise two rules would hardly ever match the same call.
    match dice.below(12) {
        0 => rule.servers = globs(dice, &["*", "s"]),
        1 => rule.users = globs(dice, &["ann", "b*"]),
        2 => rule.roles = some(dice, &["ops".to_owned(), "dev".to_owned()]),
        3 => rule.surfaces = some(dice, &[Surface::Chat, Surface::Headless]),
        4 => rule.from = Some(Timestamp(dice.below(4))),
        5 => rule.until = Some(Timestamp(dice.below(4))),
        _ => {}
    }
    rule.when = (0..dice.below(3)).map(|_| any_condition(dice)).collect();
    if verdict == Verdict::Ask {
        rule.terms = any_terms(dice);
    }
    rule
}

fn any_policy(dice: &mut Dice) -> Policy {
    let verdicts = [Verdict::Allow, Verdict::Allow, Verdict::Ask, Verdict::Deny];
    let rules = (0..dice.below(5)).map(|name| {
        let verdict = one(dice, &verdicts);
        any_rule(dice, name as usize, verdict)
    });
    let rules = rules.collect();
    let grant = |dice: &mut Dice, id: u64| Grant {
        id: id.to_string(),
        tool: one(dice, &["a", "b"]).into(),
        server: one(dice, &[None, Some("s".to_owned())]),
        schema: None,
        arguments: (0..dice.below(2)).map(|_| any_condition(dice)).collect(),
        remaining: dice.one_in(2).then(|| dice.below(2) as u32),
        expires_at: dice.one_in(2).then(|| Timestamp(dice.below(4))),
        by: "ann".into(),
    };
    let allowed = |server: Option<&str>| {
        let allowed =
            |tool: &str| AllowedTool { server: server.map(str::to_owned), ..AllowedTool::from(tool) };
        ["a", "ab"].map(allowed)
    };
    let allowed = [None, Some("s")].into_iter().flat_map(allowed);
    Policy {
        rules,
        auto_run: one(dice, &[AutoRun::Ask, AutoRun::Allowlist, AutoRun::Everything]),
        allowlist: allowed.filter(|_| dice.one_in(2)).collect(),
        grants: (0..dice.below(3)).map(|id| grant(dice, id)).collect(),
    }
}

fn shuffled<T>(dice: &mut Dice, mut list: Vec<T>) -> Vec<T> {
    for at in (1..list.len()).rev() {
        list.swap(at, dice.below(at as u64 + 1) as usize);
    }
    list
}

/// Returns how restrictive a verdict is.
fn care(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Ask => 1,
        Verdict::Deny => 2,
    }
}

fn any_approvals(dice: &mut Dice) -> Vec<(Principal, Vec<String>)> {
    let one_of =
        |dice: &mut Dice| (one(dice, &["ann", "bob", "eve", "zoe"]).into(), some(dice, &["ops".to_owned()]));
    (0..dice.below(4)).map(|_| one_of(dice)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn judging_depends_on_no_order(seed: u64) {
        let dice = &mut dice(&[seed]);
        let (policy, call) = (any_policy(dice), any_call(dice));
        let mut other = policy.clone();
        other.rules = shuffled(dice, other.rules);
        other.grants = shuffled(dice, other.grants);
        prop_assert_eq!(other.judge(&call.subject()), policy.judge(&call.subject()));
    }

    #[test]
    fn a_rule_that_denies_or_asks_never_loosens(seed: u64, denies: bool) {
        let dice = &mut dice(&[seed]);
        let (policy, call) = (any_policy(dice), any_call(dice));
        let mut stricter = policy.clone();
        let rule = any_rule(dice, 99, if denies { Verdict::Deny } else { Verdict::Ask });
        stricter.rules.push(rule.clone());
        let (before, after) = (policy.judge(&call.subject()), stricter.judge(&call.subject()));
        prop_assert!(care(after.verdict) >= care(before.verdict), "{before:?} {after:?}");
        let wanted = match rule.fits(&call.subject()) {
            Ok(true) | Err(_) => care(rule.verdict),
            Ok(false) => 0,
        };
        prop_assert!(care(after.verdict) >= wanted, "{after:?}");
    }

    #[test]
    fn a_rule_that_allows_never_overrules_another(seed: u64) {
        let dice = &mut dice(&[seed]);
        let (mut policy, call) = (any_policy(dice), any_call(dice));
        let careful = policy.rules.iter().filter_map(|rule| match rule.fits(&call.subject()) {
            Ok(true) | Err(_) => Some(care(rule.verdict)),
            Ok(false) => None,
        });
        let careful = careful.max().unwrap_or_default();
        policy.rules.push(any_rule(dice, 99, Verdict::Allow));
        prop_assert!(care(policy.judge(&call.subject()).verdict) >= careful);
    }

    #[test]
    fn another_condition_never_widens_a_rule(seed: u64) {
        let dice = &mut dice(&[seed]);
        let call = any_call(dice);
        let rule = any_rule(dice, 0, Verdict::Allow);
        let mut narrower = rule.clone();
        narrower.when.insert(dice.below(rule.when.len() as u64 + 1) as usize, any_condition(dice));
        match (rule.fits(&call.subject()), narrower.fits(&call.subject())) {
            (Ok(false), after) => prop_assert_eq!(after, Ok(false)),
            (Err(_), after) => prop_assert_ne!(after, Ok(true)),
            (Ok(true), _) => {}
        }
    }

    #[test]
    fn a_wider_mode_allows_more_and_nothing_destructive(seed: u64) {
        let dice = &mut dice(&[seed]);
        let (policy, call) = (any_policy(dice), any_call(dice));
        let in_mode = |auto_run| Policy { auto_run, ..policy.clone() }.judge(&call.subject());
        let modes = [AutoRun::Ask, AutoRun::Allowlist, AutoRun::Everything].map(in_mode);
        prop_assert!(modes.windows(2).all(|pair| care(pair[0].verdict) >= care(pair[1].verdict)));
        if call.annotations.destructive_hint {
            let ruled = |by: &str| by.starts_with('r') || by.starts_with("grant ");
            prop_assert!(modes.iter().all(|it| it.verdict != Verdict::Allow || ruled(&it.by)), "{modes:?}");
        }
    }

    #[test]
    fn merged_terms_are_as_strict_as_each_of_them(seed: u64) {
        let dice = &mut dice(&[seed]);
        let (a, b, c) = (any_terms(dice), any_terms(dice), any_terms(dice));
        let merged = a.clone().merge(b.clone());
        prop_assert_eq!(&b.clone().merge(a.clone()), &merged);
        prop_assert_eq!(&merged.clone().merge(merged.clone()), &merged);
        let left = merged.clone().merge(c.clone());
        prop_assert_eq!(a.clone().merge(b.clone().merge(c)), left);
        for _ in 0..8 {
            let approvals = any_approvals(dice);
            prop_assert_eq!(merged.are_met_by(&approvals), a.are_met_by(&approvals) && b.are_met_by(&approvals));
        }
        let approves = a.approves_in_time() && b.approves_in_time();
        prop_assert_eq!(merged.approves_in_time(), approves);
        for one in [a, b] {
            prop_assert!(merged.expires_in_ms.is_some_and(|ms| one.expires_in_ms.is_none_or(|own| ms <= own))
                || one.expires_in_ms.is_none());
            prop_assert!(merged.escalate_to.is_superset(&one.escalate_to));
        }
    }

    #[test]
    fn a_rule_that_is_said_never_to_decide_never_does(seed: u64) {
        let dice = &mut dice(&[seed]);
        let (policy, call) = (any_policy(dice), any_call(dice));
        let idle = find_faults(&policy.rules, Timestamp(0)).into_iter();
        let idle: BTreeSet<usize> =
            idle.filter(|it| it.message.contains("never decides")).map(|it| it.rule).collect();
        let without = |at: usize| {
            let mut rules = policy.rules.clone();
            rules.remove(at);
            Policy { rules, ..policy.clone() }
        };
        for at in idle {
            prop_assert_eq!(without(at).judge(&call.subject()).verdict, policy.judge(&call.subject()).verdict);
        }
    }

    #[test]
    fn a_policy_that_was_kept_judges_the_same(seed: u64) {
        let dice = &mut dice(&[seed]);
        let (policy, call) = (any_policy(dice), any_call(dice));
        let again: Policy = serde_json::from_str(&serde_json::to_string(&policy).unwrap()).unwrap();
        prop_assert_eq!(again.digest(), policy.digest());
        prop_assert_eq!(again.judge(&call.subject()), policy.judge(&call.subject()));
    }

    #[test]
    fn nothing_that_a_rule_can_say_stops_the_gate(
        texts in proptest::collection::vec(any::<String>(), 6),
        expression in r"[a-z(){}\[\]*+?|^$\\0-9,.]{0,20}",
    ) {
        let [tool, glob, pointer, folder, text, key] = &texts[..] else { unreachable!() };
        let arguments = json!({ key: text, "x": [{ key: 1 }] });
        let pointers = [pointer.clone(), format!("/{key}"), format!("/x/0/{key}")];
        let predicates = [
            Predicate::Matches(Pattern::new(expression)),
            Predicate::Under(folder.clone()),
            Predicate::Equals(json!(text)),
        ];
        let mut rules = vec![Rule { tools: vec![Glob::new(glob.as_str())], ..Rule::new(Verdict::Deny) }];
        for argument in pointers {
            for is in predicates.clone() {
                let when = vec![Condition { argument: argument.clone(), is }];
                rules.push(Rule { when, ..Rule::new(Verdict::Allow) });
            }
        }
        find_faults(&rules, Timestamp(0));
        let mut call = any_call(&mut dice(&[]));
        (call.tool, call.arguments) = (tool.as_str().into(), Some(arguments));
        let policy = Policy { rules, ..Policy::default() };
        let judgement = policy.judge(&call.subject());
        prop_assert!(judgement.verdict == Verdict::Deny || judgement.by != "rule #1");
    }
}

#[test]
fn the_random_rules_meet_the_random_calls() {
    let mut seen = std::collections::BTreeMap::new();
    for seed in 0..4_000 {
        let dice = &mut dice(&[seed]);
        let (policy, call) = (any_policy(dice), any_call(dice));
        let judgement = policy.judge(&call.subject());
        let by = judgement.by.split([' ', ':']).next().unwrap().trim_end_matches(char::is_numeric).to_owned();
        *seen.entry((care(judgement.verdict), by)).or_insert(0) += 1;
        for finding in find_faults(&policy.rules, Timestamp(0)) {
            if finding.message.contains("never decides") {
                *seen.entry((9, "idle".into())).or_insert(0) += 1;
            }
        }
    }
    let kinds = [
        (0, "allowlist"),
        (0, "annotations"),
        (0, "auto-run"),
        (0, "grant"),
        (0, "r"),
        (1, "annotations"),
        (1, "error"),
        (1, "r"),
        (2, "error"),
        (2, "r"),
        (9, "idle"),
    ];
    let wanted: Vec<_> = kinds.iter().map(|(care, by)| (*care, (*by).to_owned())).collect();
    assert_eq!(seen.keys().cloned().collect::<Vec<_>>(), wanted, "{seen:?}");
    assert!(seen.values().all(|count| *count > 20), "{seen:?}");
}
