//! The gate: may this call run? Order-free: any Deny wins, then any Ask, then Allow.
//!
//! | What there is | Verdict | Decided by |
//! |---|---|---|
//! | a deny rule fits | deny | the rule |
//! | else an ask rule fits | ask, on the merged terms of all that fit | the rule |
//! | else it cannot be told whether some rule fits | ask | `error: …` |
//! | else an allow rule fits, destructive calls included (CF-1) | allow | the rule |
//! | else trusted annotations say: read-only, not open-world, not destructive (SK-A1) | allow | `annotations` |
//! | else mode `allowlist`, the tool is on the list and not marked destructive (ZE-H1) | allow | `allowlist` |
//! | else mode `everything`, the tool is not marked destructive (ZE-H1, CF-1) | allow | `mode` |
//! | else a grant fits, which a person gave for such calls, destructive ones included | allow | `grant <id>` |
//! | else | ask | `annotations` |
//!
//! A call that cannot be told to fit an ask rule is asked on that rule's terms as well. That a tool is destructive is
//! believed of anyone, that it is read-only only of those who are trusted. A grant comes last, so that a counted one is
//! not used up for a call that needs none; and where it cannot be told whether it fits, it does not.
//!
//! The gate knows neither people nor interrupts; an Ask is a verdict like the others.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::Annotations;
use crate::event::{Surface, Verdict};
use crate::id::{Digest, Principal, Timestamp, ToolName};

use super::rule::{Condition, Rule, Terms, Unclear, all_hold};

/// Which calls run without asking. (ZE-H1)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutoRun {
    /// Those whose trusted annotations say that they change nothing; the others ask. (SK-A1)
    #[default]
    Ask,
    /// Those of the tools on the user's list as well.
    Allowlist,
    /// All that are not marked destructive. (CF-1)
    Everything,
}

/// A read that talks to the outside world can carry data out, and one that says it destroys something is none.
fn changes_nothing(hints: Annotations) -> bool {
    hints.read_only_hint && !hints.open_world_hint && !hints.destructive_hint
}

/// All that calls are judged by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Rules of administrators, in any order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// The user's mode.
    pub auto_run: AutoRun,
    /// Tools that run without asking in mode `allowlist`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub allowlist: BTreeSet<ToolName>,
    /// What people have allowed beforehand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
}

/// A person's word that calls like one may run without asking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Its id.
    pub id: String,
    /// The tool.
    pub tool: ToolName,
    /// What has to hold of the arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Condition>,
    /// How many calls it is still good for; `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u32>,
    /// The moment from which it no longer counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Whose word it is.
    pub by: Principal,
}

/// All that a judgement sees of a call.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The tool.
    pub tool: &'a ToolName,
    /// The server that the tool comes from; `None` for a tool of the engine.
    pub server: Option<&'a str>,
    /// Hints about what the call does.
    pub annotations: Annotations,
    /// Whether they come from somebody who is believed.
    pub trust: Trust,
    /// The arguments; `None` where they could not be read, which matters only to what looks at them.
    pub arguments: Option<&'a Value>,
    /// Whom the run works for.
    pub principal: &'a Principal,
    /// That principal's roles.
    pub roles: &'a [String],
    /// The agent's name.
    pub agent: &'a str,
    /// Who reads the run's answer.
    pub surface: Surface,
    /// The workspace.
    pub workspace: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// Whether a tool's annotations are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The tool is built in, or an administrator trusts its server.
    Trusted,
    /// They may say anything.
    Untrusted,
}

/// What the gate says of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Whether it may run.
    pub verdict: Verdict,
    /// What decided: a rule's name or `rule #3`, `annotations`, `allowlist`, `mode`, `grant <id>`, or `error: …`.
    /// Where several rules say the same, the first by name.
    pub by: String,
    /// The grant that it uses up one of.
    pub grant: Option<String>,
    /// How it is asked, where the verdict is to ask.
    pub terms: Terms,
    /// Whether it asks only because nothing lets the call through: a grant would.
    pub is_grantable: bool,
}

impl Policy {
    /// A digest of all of it; another one says that calls have to be judged again.
    pub fn digest(&self) -> Digest {
        Digest::default().chain(self)
    }

    /// Whether a grant still stands. One that is used up stands for the call that used it.
    pub fn holds(&self, grant: &str, now: Timestamp) -> bool {
        let stands = |grant: &Grant| grant.expires_at.is_none_or(|expires_at| now < expires_at);
        self.grants.iter().any(|known| known.id == grant && stands(known))
    }

    /// Judges a call.
    pub fn judge(&self, subject: &Subject<'_>) -> Judgement {
        self.judge_after(subject, &[])
    }

    /// Judges a call beside others that are let through with it: the grants that those use, once for each use.
    pub fn judge_after(&self, subject: &Subject<'_>, used: &[&str]) -> Judgement {
        let mut ruling = Ruling::default();
        for (index, rule) in self.rules.iter().enumerate() {
            match rule.fits(subject) {
                Ok(false) => {}
                Ok(true) => ruling.add(Weight::of(rule.verdict), rule, index, None),
                Err(unclear) => ruling.add(Weight::Unclear, rule, index, Some(unclear)),
            }
        }
        let Some((weight, by)) = ruling.strongest else { return self.without_rules(subject, used) };
        let (verdict, terms) = match weight {
            Weight::Allow => (Verdict::Allow, Terms::default()),
            Weight::Unclear | Weight::Ask => (Verdict::Ask, ruling.terms.unwrap_or_default()),
            Weight::Deny => (Verdict::Deny, Terms::default()),
        };
        Judgement { verdict, by, grant: None, terms, is_grantable: false }
    }

    fn without_rules(&self, subject: &Subject<'_>, used: &[&str]) -> Judgement {
        let said = |verdict, by: &str| Judgement {
            verdict,
            by: by.to_owned(),
            grant: None,
            terms: Terms::default(),
            is_grantable: false,
        };
        if subject.trust == Trust::Trusted && changes_nothing(subject.annotations) {
            return said(Verdict::Allow, "annotations");
        }
        if !subject.annotations.destructive_hint {
            match self.auto_run {
                AutoRun::Allowlist if self.allowlist.contains(subject.tool) => {
                    return said(Verdict::Allow, "allowlist");
                }
                AutoRun::Everything => return said(Verdict::Allow, "mode"),
                AutoRun::Ask | AutoRun::Allowlist => {}
            }
        }
        let fitting = self.grants.iter().filter(|grant| grant.fits(subject, used));
        match fitting.min_by_key(|grant| grant.precedence()) {
            Some(grant) => Judgement {
                grant: Some(grant.id.clone()),
                ..said(Verdict::Allow, &format!("grant {}", grant.id))
            },
            None => Judgement { is_grantable: true, ..said(Verdict::Ask, "annotations") },
        }
    }
}

impl Grant {
    /// Whether it is good for a call.
    fn fits(&self, subject: &Subject<'_>, used: &[&str]) -> bool {
        let uses = || used.iter().filter(|grant| **grant == self.id).count();
        self.tool == *subject.tool
            && self.remaining.is_none_or(|remaining| remaining as usize > uses())
            && self.expires_at.is_none_or(|expires_at| subject.now < expires_at)
            && all_hold(&self.arguments, subject) == Ok(true)
    }

    /// Which of several is used: one that is not counted, else the one that is lost first.
    fn precedence(&self) -> (bool, Timestamp, &str) {
        (self.remaining.is_some(), self.expires_at.unwrap_or(Timestamp(u64::MAX)), &self.id)
    }
}

/// How strong a rule's word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    Allow,
    /// It cannot be told whether the rule fits.
    Unclear,
    Ask,
    Deny,
}

impl Weight {
    fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Allow,
            Verdict::Ask => Self::Ask,
            Verdict::Deny => Self::Deny,
        }
    }
}

/// What the rules looked at so far say together.
#[derive(Default)]
struct Ruling {
    /// The strongest word, and whose it is.
    strongest: Option<(Weight, String)>,
    /// The terms of those that ask, or may.
    terms: Option<Terms>,
}

impl Ruling {
    fn add(&mut self, weight: Weight, rule: &Rule, index: usize, unclear: Option<Unclear>) {
        if matches!(weight, Weight::Ask | Weight::Unclear) {
            // Of a rule that does not ask, the terms are the usual ones.
            let own = if rule.verdict == Verdict::Ask { rule.terms.clone() } else { Terms::default() };
            self.terms = Some(match self.terms.take() {
                Some(terms) => terms.merge(own),
                None => own,
            });
        }
        if self.strongest.as_ref().is_some_and(|(strongest, _)| *strongest > weight) {
            return;
        }
        let by = match unclear {
            Some(unclear) => format!("error: {}: {unclear}", rule.label(index)),
            None => rule.label(index),
        };
        self.strongest = match self.strongest.take() {
            Some((strongest, name)) if strongest == weight && name <= by => Some((strongest, name)),
            Some(_) | None => Some((weight, by)),
        };
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::LazyLock;

    use serde_json::json;

    use super::super::rule::{Expiry, Predicate, Quorum};
    use super::*;

    /// A call of a tool of which nothing is known.
    pub fn subject() -> Subject<'static> {
        static TOOL: LazyLock<ToolName> = LazyLock::new(|| "Write".into());
        static NOBODY: LazyLock<Principal> = LazyLock::new(|| "local".into());
        static EMPTY: LazyLock<Value> = LazyLock::new(|| json!({}));
        Subject {
            tool: &TOOL,
            server: None,
            annotations: Annotations::default(),
            trust: Trust::Trusted,
            arguments: Some(&EMPTY),
            principal: &NOBODY,
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
        let fault = faulty(Verdict::Allow, "odd");
        let unsaid = "error: odd: `/path` is absent";
        let cases: Vec<(Vec<&Rule>, String)> = vec![
            (vec![&allow], "Allow by yes".into()),
            (vec![&ask], "Ask by perhaps".into()),
            (vec![&deny], "Deny by no".into()),
            (vec![&fault], format!("Ask by {unsaid}")),
            (vec![&allow, &ask], "Ask by perhaps".into()),
            (vec![&ask, &deny], "Deny by no".into()),
            (vec![&allow, &deny], "Deny by no".into()),
            (vec![&fault, &allow], format!("Ask by {unsaid}")),
            (vec![&fault, &ask], "Ask by perhaps".into()),
            (vec![&fault, &deny], "Deny by no".into()),
        ];
        for (rules, wanted) in cases {
            let mut rules: Vec<Rule> = rules.into_iter().cloned().collect();
            for _ in 0..2 {
                let policy = Policy { rules: rules.clone(), ..Policy::default() };
                assert_eq!(judged(&policy, &subject()), wanted);
                rules.reverse();
            }
        }
        let rules = vec![Rule::new(Verdict::Allow), named(Verdict::Deny, "b"), named(Verdict::Deny, "a")];
        assert_eq!(judged(&Policy { rules, ..Policy::default() }, &subject()), "Deny by a");
        let rules = vec![allow, Rule::new(Verdict::Ask)];
        assert_eq!(judged(&Policy { rules, ..Policy::default() }, &subject()), "Ask by rule #2");
    }

    #[test]
    fn whatever_cannot_be_told_asks() {
        for verdict in [Verdict::Allow, Verdict::Ask, Verdict::Deny] {
            let read = Annotations { read_only_hint: true, ..Annotations::default() };
            let policy = Policy {
                rules: vec![faulty(verdict, "x")],
                auto_run: AutoRun::Everything,
                ..Policy::default()
            };
            let wanted = "Ask by error: x: `/path` is absent";
            assert_eq!(judged(&policy, &Subject { annotations: read, ..subject() }), wanted);
            let wanted = "Ask by error: x: the arguments could not be read";
            assert_eq!(judged(&policy, &Subject { arguments: None, ..subject() }), wanted);
        }
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
            (every, fetch, trusted, "Allow by mode"),
            (every, write, untrusted, "Allow by mode"),
            (every, destroy, trusted, "Ask by annotations"),
            (every, destroy, untrusted, "Ask by annotations"),
        ];
        for (auto_run, annotations, trust, wanted) in cases {
            let policy =
                Policy { auto_run, allowlist: BTreeSet::from(["Write".into()]), ..Policy::default() };
            let call = Subject { annotations, trust, ..subject() };
            assert_eq!(judged(&policy, &call), wanted, "{auto_run:?} {annotations:?} {trust:?}");
            // An administrator's rule allows what the hints would have asked about. (CF-1)
            let ruled = Policy { rules: vec![named(Verdict::Allow, "--yes")], ..policy.clone() };
            assert_eq!(judged(&ruled, &call), "Allow by --yes");
            // A rule that asks is stronger than every mode.
            let ruled = Policy { rules: vec![named(Verdict::Ask, "careful")], ..policy };
            assert_eq!(judged(&ruled, &call), "Ask by careful");
        }
        let other = "Read".into();
        let policy =
            Policy { auto_run: list, allowlist: BTreeSet::from(["Write".into()]), ..Policy::default() };
        assert_eq!(judged(&policy, &Subject { tool: &other, ..subject() }), "Ask by annotations");
    }

    #[test]
    fn a_grant_lets_through_what_would_be_asked_about() {
        let grant = |id: &str| Grant {
            id: id.into(),
            tool: "Write".into(),
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
            (Grant { remaining: Some(1), ..grant("g") }, Some(&inside), "Allow by grant g"),
            (Grant { remaining: Some(0), ..grant("g") }, Some(&inside), "Ask by annotations"),
            (Grant { expires_at: Some(Timestamp(1_001)), ..grant("g") }, None, "Allow by grant g"),
            (Grant { expires_at: Some(Timestamp(1_000)), ..grant("g") }, None, "Ask by annotations"),
        ];
        for (grant, arguments, wanted) in cases {
            let annotations = Annotations { destructive_hint: true, ..Annotations::default() };
            let call = Subject { arguments, annotations, ..subject() };
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
        let used = |grants: &[Grant], call| {
            Policy { grants: grants.to_vec(), ..Policy::default() }.judge(&call).grant
        };
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
        // What cannot be told of another rule is no reason for time to approve.
        let odd = faulty(Verdict::Deny, "d");
        assert_eq!(judge(vec![second.clone(), odd]).terms, terms(1, 30, Expiry::Deny));
        assert_eq!(judge(vec![second, named(Verdict::Deny, "e")]).terms, Terms::default());
        assert_eq!(judge(vec![first, named(Verdict::Allow, "f")]).terms, terms(2, 60, Expiry::Approve));
    }

    #[test]
    fn a_digest_is_of_everything() {
        let usual = Policy::default();
        let grant = Grant {
            id: "g".into(),
            tool: "Write".into(),
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
}
