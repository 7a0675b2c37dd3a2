//! The gate: may this call run? The order of rules does not matter: any Deny wins, then any Ask, then Allow.
//!
//! | Condition | Verdict | Decided by |
//! |---|---|---|
//! | a deny rule matches | deny | the rule |
//! | else it is unclear whether a deny rule matches | deny | `error: …` |
//! | else an ask rule matches | ask, on the merged terms of all that match or may match | the rule |
//! | else it is unclear whether an ask rule matches | ask, on the merged terms of all that may match | `error: …` |
//! | else an allow rule matches, destructive calls included (CF-1) | allow | the rule |
//! | else trusted annotations say: read-only, not open-world, not destructive (SK-A1) | allow | `annotations` |
//! | else auto-run `allowlist`, the tool is on the list and not marked destructive (ZE-H1) | allow | `allowlist` |
//! | else auto-run `everything`, the tool is not marked destructive (ZE-H1, CF-1) | allow | `auto-run` |
//! | else a grant matches; grants also cover destructive calls | allow | `grant <id>` |
//! | else | ask | `annotations` |
//!
//! An unclear rule never weakens a verdict: an unclear deny or ask rule applies, an unclear
//! allow rule or grant does not. Otherwise the form of an argument could bypass a rule. A
//! destructive hint applies from every tool, a read-only hint only from trusted tools. Grants
//! come last, so that a call that needs no grant does not use up a counted grant.
//!
//! The gate handles neither people nor interrupts; Ask is a verdict like Allow and Deny.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::agent::Annotations;
use crate::event::Verdict;
use crate::id::{Digest, Principal, Timestamp, ToolName};

use super::rule::{Condition, Direction, Rule, Terms, Unclear, all_hold};
use super::subject::{Subject, Trust};

/// The calls that run without asking. (ZE-H1)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutoRun {
    /// Calls whose trusted annotations declare that they change nothing; all other calls ask. (SK-A1)
    #[default]
    Ask,
    /// In addition, calls of tools on the user's allow list.
    Allowlist,
    /// All calls that are not marked destructive. (CF-1)
    Everything,
}

/// Whether the hints declare that a call changes nothing. A read from the outside world can leak data, and a
/// destructive call is no read.
fn changes_nothing(hints: Annotations) -> bool {
    hints.read_only_hint && !hints.open_world_hint && !hints.destructive_hint
}

/// The rules, grants and settings that calls are judged by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// The administrators' rules, in any order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Auto-run choice of the thread or the user.
    pub auto_run: AutoRun,
    /// Allow list, which applies if `allowlist` is chosen.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub allowlist: BTreeSet<AllowedTool>,
    /// Grants that people have given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
}

/// A tool on an allow list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedTool {
    /// Name of the tool.
    pub tool: ToolName,
    /// Server of the tool when it was added; `None`: an engine tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Digest of the tool's schema when it was added. For a server's
    /// tool the digest also covers description and hints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Digest>,
}

/// Creates an entry for an engine tool with any schema.
impl From<&str> for AllowedTool {
    fn from(tool: &str) -> Self {
        Self { tool: tool.into(), server: None, schema: None }
    }
}

/// A person's permission for similar calls to run without asking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Id of the grant.
    pub id: String,
    /// The tool whose calls the grant allows.
    pub tool: ToolName,
    /// Server of the tool when the grant was given: a tool of the same name from elsewhere is another tool. `None`:
    /// an engine tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Digest of the tool's schema when the grant was given. For a server's tool the digest also covers description
    /// and hints. A grant does not match a tool that has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Digest>,
    /// Conditions on the arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Condition>,
    /// Number of remaining uses; `None` is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u32>,
    /// Expiry time; `None`: the grant does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The person who gave the grant.
    pub by: Principal,
}

/// The gate's verdict on a call, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Allow, ask or deny.
    pub verdict: Verdict,
    /// The source of the verdict: a rule's name or `rule #3`, `annotations`, `allowlist`, `auto-run`, `grant <id>`,
    /// or `error: …`. If several rules give the same verdict, the first by name.
    pub by: String,
    /// The grant that the call uses once.
    pub grant: Option<String>,
    /// Terms of the approval, if the verdict is ask.
    pub terms: Terms,
    /// Whether the verdict is ask only because no source allows the call, so that a grant would allow it.
    pub is_grantable: bool,
}

impl Policy {
    /// Returns a digest of the whole policy. If it changes, waiting calls must be judged again.
    pub fn digest(&self) -> Digest {
        Digest::default().chain(self)
    }

    /// Whether a grant is still valid. A used-up grant is valid for the call that used it.
    pub fn holds(&self, grant: &str, now: Timestamp) -> bool {
        let stands = |grant: &Grant| grant.expires_at.is_none_or(|expires_at| now < expires_at);
        self.grants.iter().any(|known| known.id == grant && stands(known))
    }

    /// Judges a single call.
    pub fn judge(&self, subject: &Subject<'_>) -> Judgement {
        self.judge_after(subject, &[])
    }

    /// Judges a call that is decided together with other calls. `used`
    /// are the grants that the other calls use, once per use.
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
        // An engine tool may reach a server. Its digest never equals
        // the digest of a server's tool, which covers more.
        None => subject.server.is_none() || schema.is_some(),
    };
    subject.tool == tool && is_from_there && schema.is_none_or(|schema| subject.schema == Some(schema))
}

impl Grant {
    /// Whether the grant allows a call.
    fn fits(&self, subject: &Subject<'_>, used: &[&str]) -> bool {
        let uses = || used.iter().filter(|grant| **grant == self.id).count();
        is_the_tool(subject, &self.tool, self.server.as_deref(), self.schema)
            && self.remaining.is_none_or(|remaining| remaining as usize > uses())
            && self.expires_at.is_none_or(|expires_at| subject.now < expires_at)
            && all_hold(&self.arguments, subject, Direction::Permits) == Ok(true)
    }

    /// Returns the sort key for the use of matching grants: uncounted grants first, then by expiry.
    fn precedence(&self) -> (bool, Timestamp, &str) {
        (self.remaining.is_some(), self.expires_at.unwrap_or(Timestamp(u64::MAX)), &self.id)
    }
}

/// Precedence of a rule's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    Allow,
    /// An ask rule of which it is unclear whether it fits.
    UnclearAsk,
    Ask,
    /// A deny rule that may match.
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

    /// Returns the precedence of a rule that may match; `None` if it does not apply.
    fn of_unclear(verdict: Verdict) -> Option<Self> {
        match verdict {
            Verdict::Allow => None,
            Verdict::Ask => Some(Self::UnclearAsk),
            Verdict::Deny => Some(Self::UnclearDeny),
        }
    }
}

/// The combined verdict of the evaluated rules.
#[derive(Default)]
struct Ruling {
    /// The verdict with the highest precedence, and its source.
    strongest: Option<(Weight, String)>,
    /// Merged terms of the ask rules that match or may match.
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
