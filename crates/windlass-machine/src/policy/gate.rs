//! The gate: may this call run? Order-free: any Deny wins, then any Ask, then Allow.
//!
//! | What there is | Verdict | Decided by |
//! |---|---|---|
//! | a deny rule fits | deny | the rule |
//! | else it is unclear whether a deny rule fits | deny | `error: …` |
//! | else an ask rule fits | ask, on the merged terms of all that fit or may fit | the rule |
//! | else it is unclear whether an ask rule fits | ask, on the merged terms of all that may fit | `error: …` |
//! | else an allow rule fits, destructive calls included (CF-1) | allow | the rule |
//! | else trusted annotations say: read-only, not open-world, not destructive (SK-A1) | allow | `annotations` |
//! | else auto-run `allowlist`, the tool is on the list and not marked destructive (ZE-H1) | allow | `allowlist` |
//! | else auto-run `everything`, the tool is not marked destructive (ZE-H1, CF-1) | allow | `auto-run` |
//! | else a grant fits, which a person gave for such calls, destructive ones included | allow | `grant <id>` |
//! | else | ask | `annotations` |
//!
//! An unclear rule never weakens a verdict: a deny or ask rule applies, an allow rule and a grant do not. Otherwise the
//! spelling of an argument would choose who decides. That a tool is destructive is believed of anyone, that it is
//! read-only only of those who are trusted. A grant comes last, so that a counted one is not used up for a call that needs
//! none.
//!
//! The gate knows neither people nor interrupts; an Ask is a verdict like the others.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::agent::Annotations;
use crate::event::Verdict;
use crate::id::{Digest, Principal, Timestamp, ToolName};

use super::rule::{Condition, Direction, Rule, Terms, Unclear, all_hold};
use super::subject::{Subject, Trust};

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
    /// The choice of the thread or the user.
    pub auto_run: AutoRun,
    /// Tools that run without asking where `allowlist` is chosen.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub allowlist: BTreeSet<AllowedTool>,
    /// What people have allowed beforehand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
}

/// A tool that runs without asking where `allowlist` is chosen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedTool {
    /// The tool.
    pub tool: ToolName,
    /// The server that it came from when it was put on the list; `None`: a built-in tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The digest of its schema then, of a server's tool also of its words and hints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Digest>,
}

/// A built-in tool, whatever its schema.
impl From<&str> for AllowedTool {
    fn from(tool: &str) -> Self {
        Self { tool: tool.into(), server: None, schema: None }
    }
}

/// A person's word that calls like one may run without asking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Its id.
    pub id: String,
    /// The tool.
    pub tool: ToolName,
    /// The server that had the tool when the word was given: a tool of the same name from elsewhere is another. `None`: a
    /// built-in tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The digest of the schema that the tool had then, of a server's tool also of its words and hints: a
    /// grant does not fit a tool that has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Digest>,
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

/// What the gate says of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Whether it may run.
    pub verdict: Verdict,
    /// What decided: a rule's name or `rule #3`, `annotations`, `allowlist`, `auto-run`, `grant <id>`, or `error: …`.
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
                Err(unclear) => {
                    if let Some(weight) = Weight::of_unclear(rule.verdict) {
                        ruling.add(weight, rule, index, Some(unclear));
                    }
                }
            }
        }
        let Some((weight, by)) = ruling.strongest else { return self.without_rules(subject, used) };
        let (verdict, terms) = match weight {
            Weight::Allow => (Verdict::Allow, Terms::default()),
            Weight::UnclearAsk | Weight::Ask => (Verdict::Ask, ruling.terms.unwrap_or_default()),
            Weight::UnclearDeny | Weight::Deny => (Verdict::Deny, Terms::default()),
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
                AutoRun::Allowlist if self.allowlist.iter().any(|allowed| allowed.fits(subject)) => {
                    return said(Verdict::Allow, "allowlist");
                }
                AutoRun::Everything => return said(Verdict::Allow, "auto-run"),
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

impl AllowedTool {
    fn fits(&self, subject: &Subject<'_>) -> bool {
        is_the_tool(subject, &self.tool, self.server.as_deref(), self.schema)
    }
}

/// Whether a call is for the given tool, by name, server and schema.
fn is_the_tool(subject: &Subject<'_>, tool: &ToolName, server: Option<&str>, schema: Option<Digest>) -> bool {
    let is_from_there = match server {
        Some(server) => subject.server == Some(server),
        // A built-in tool may reach a server. Its digest is never that of a server's tool, which covers more.
        None => subject.server.is_none() || schema.is_some(),
    };
    subject.tool == tool && is_from_there && schema.is_none_or(|schema| subject.schema == Some(schema))
}

impl Grant {
    /// Whether it is good for a call.
    fn fits(&self, subject: &Subject<'_>, used: &[&str]) -> bool {
        let uses = || used.iter().filter(|grant| **grant == self.id).count();
        is_the_tool(subject, &self.tool, self.server.as_deref(), self.schema)
            && self.remaining.is_none_or(|remaining| remaining as usize > uses())
            && self.expires_at.is_none_or(|expires_at| subject.now < expires_at)
            && all_hold(&self.arguments, subject, Direction::Permits) == Ok(true)
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
    /// An ask rule of which it is unclear whether it fits.
    UnclearAsk,
    Ask,
    /// A deny rule of which it is unclear whether it fits.
    UnclearDeny,
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

    /// The weight of a rule of which it is unclear whether it fits; `None` if it does not apply.
    fn of_unclear(verdict: Verdict) -> Option<Self> {
        match verdict {
            Verdict::Allow => None,
            Verdict::Ask => Some(Self::UnclearAsk),
            Verdict::Deny => Some(Self::UnclearDeny),
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
        if rule.verdict == Verdict::Ask {
            let own = rule.terms.clone();
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
pub(super) mod tests;
