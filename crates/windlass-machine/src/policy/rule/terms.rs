//! The terms of an approval: the approvers, the time of expiry, and the answer on expiry.
//!
//! Terms are merged from all matching ask rules, such that approvals that meet the merged terms meet the terms of
//! each rule. This module does not measure time or record votes.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::Principal;

/// The terms of an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Terms {
    /// Required approvals, each with the permitted approvers. Every quorum must be met, and one approval counts for
    /// every quorum that it matches.
    #[serde(skip_serializing_if = "is_usual")]
    pub quorums: BTreeSet<Quorum>,
    /// Milliseconds until the policy answers an open interrupt; `None`: the interrupt stays open. (OV-3)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// The policy's answer on expiry.
    #[serde(skip_serializing_if = "Expiry::is_deny")]
    pub on_expiry: Expiry,
    /// Milliseconds until the approvers are reminded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remind_in_ms: Option<u64>,
    /// Milliseconds until further approvers are notified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate_in_ms: Option<u64>,
    /// The further approvers to notify. A notification gives no right to vote.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub escalate_to: BTreeSet<Approver>,
}

/// A required number of different approvers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quorum {
    /// Number of different people.
    pub count: u32,
    /// Permitted approvers; empty: everyone who may answer.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub of: BTreeSet<Approver>,
}

/// A permitted approver: `user:NAME` or `role:NAME`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Approver {
    /// A single user.
    User(String),
    /// Every user with this role.
    Role(String),
}

/// The policy's answer to an interrupt that no person answered in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expiry {
    /// The call may not run.
    #[default]
    Deny,
    /// The call may run.
    Approve,
}

impl Expiry {
    fn is_deny(&self) -> bool {
        *self == Self::Deny
    }
}

/// Returns the default quorum: one approval by any permitted person.
fn usual() -> BTreeSet<Quorum> {
    BTreeSet::from([Quorum { count: 1, of: BTreeSet::new() }])
}

fn is_usual(quorums: &BTreeSet<Quorum>) -> bool {
    *quorums == usual()
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            quorums: usual(),
            expires_in_ms: None,
            on_expiry: Expiry::Deny,
            remind_in_ms: None,
            escalate_in_ms: None,
            escalate_to: BTreeSet::new(),
        }
    }
}

impl Terms {
    /// Merges the terms of two rules that both ask. The order of merging does not matter:
    ///
    /// - **approvers**: the quorums of both, all of which must be met; a quorum implied by another is dropped.
    /// - **expiry**: the earlier time. The policy denies unless both rules approve: if one rule denies or never
    ///   expires, its calls must not be approved on expiry.
    /// - **reminder, escalation**: the earlier times; the escalation notifies everyone whom either rule names.
    pub fn merge(self, other: Self) -> Self {
        let earlier = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        let on_expiry = match self.approves_in_time() && other.approves_in_time() {
            true => Expiry::Approve,
            false => Expiry::Deny,
        };
        let all: BTreeSet<Quorum> = self.quorums.into_iter().chain(other.quorums).collect();
        let implied = |quorum: &Quorum| all.iter().any(|other| other != quorum && other.implies(quorum));
        Self {
            quorums: all.iter().filter(|quorum| !implied(quorum)).cloned().collect(),
            expires_in_ms: earlier(self.expires_in_ms, other.expires_in_ms),
            on_expiry,
            remind_in_ms: earlier(self.remind_in_ms, other.remind_in_ms),
            escalate_in_ms: earlier(self.escalate_in_ms, other.escalate_in_ms),
            escalate_to: self.escalate_to.into_iter().chain(other.escalate_to).collect(),
        }
    }

    /// Whether the policy approves automatically on expiry.
    pub fn approves_in_time(&self) -> bool {
        self.expires_in_ms.is_some() && self.on_expiry == Expiry::Approve
    }

    /// Whether the terms name this person as an approver.
    pub fn names(&self, principal: &Principal, roles: &[String]) -> bool {
        self.quorums.iter().any(|quorum| !quorum.of.is_empty() && quorum.fits(principal, roles))
    }

    /// Whether an approval by this person counts for a quorum, provided that the person may answer.
    pub fn may_approve(&self, principal: &Principal, roles: &[String]) -> bool {
        self.quorums.iter().any(|quorum| quorum.fits(principal, roles))
    }

    /// Whether the terms name approvers, or require more than one approver.
    pub fn names_approvers(&self) -> bool {
        self.quorums.iter().any(|quorum| quorum.count > 1 || !quorum.of.is_empty())
    }

    /// Whether approvals suffice. Each approval is a principal with the roles at that time; a second approval by the
    /// same principal does not count.
    pub fn are_met_by(&self, approvals: &[(Principal, Vec<String>)]) -> bool {
        self.quorums.iter().all(|quorum| {
            let fitting = approvals.iter().filter(|(principal, roles)| quorum.fits(principal, roles));
            let different: BTreeSet<&Principal> = fitting.map(|(principal, _)| principal).collect();
            different.len() >= quorum.count as usize
        })
    }

    /// Returns the largest quorum: at least this many different people must approve.
    pub fn quorum(&self) -> u32 {
        self.quorums.iter().map(|quorum| quorum.count).max().unwrap_or_default()
    }
}

impl Quorum {
    fn fits(&self, principal: &Principal, roles: &[String]) -> bool {
        self.of.is_empty()
            || self.of.iter().any(|approver| match approver {
                Approver::User(name) => name == principal.as_str(),
                Approver::Role(name) => roles.contains(name),
            })
    }

    /// Whether approvals that meet this quorum also meet the other. This quorum must require at least as many
    /// approvals, from a subset of the other's approvers.
    fn implies(&self, other: &Self) -> bool {
        let narrower = other.of.is_empty() || !self.of.is_empty() && self.of.is_subset(&other.of);
        self.count >= other.count && narrower
    }
}

impl Approver {
    /// Returns the name of the user or the role.
    pub fn name(&self) -> &str {
        match self {
            Self::User(name) | Self::Role(name) => name,
        }
    }
}

impl TryFrom<String> for Approver {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.split_once(':') {
            Some(("user", name)) if !name.is_empty() => Ok(Self::User(name.to_owned())),
            Some(("role", name)) if !name.is_empty() => Ok(Self::Role(name.to_owned())),
            Some(_) | None => Err(format!("`{text}` names nobody; write `user:NAME` or `role:NAME`")),
        }
    }
}

impl From<Approver> for String {
    fn from(approver: Approver) -> Self {
        approver.to_string()
    }
}

impl fmt::Display for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user:{name}"),
            Self::Role(name) => write!(f, "role:{name}"),
        }
    }
}

impl fmt::Debug for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quorum(count: u32, of: &[&str]) -> Quorum {
        let of = of.iter().map(|text| Approver::try_from((*text).to_owned()).unwrap());
        Quorum { count, of: of.collect() }
    }

    fn of(quorums: &[Quorum]) -> Terms {
        Terms { quorums: quorums.iter().cloned().collect(), ..Terms::default() }
    }

    #[test]
    fn each_quorum_is_met_by_its_own_people() {
        let terms =
            of(&[quorum(2, &["user:ann", "user:bob", "user:eve"])]).merge(of(&[quorum(1, &["role:ops"])]));
        let approvals = |list: &[(&str, &[&str])]| {
            let owned = |roles: &[&str]| roles.iter().map(|role| (*role).to_owned()).collect();
            list.iter().map(|(name, roles)| (Principal::from(*name), owned(roles))).collect::<Vec<_>>()
        };
        let met = |list| terms.are_met_by(&approvals(list));
        assert!(!met(&[("ann", &[]), ("zoe", &["ops"])]), "two approved, but one of the first list only");
        assert!(!met(&[("ann", &[]), ("bob", &[])]));
        assert!(met(&[("ann", &[]), ("bob", &[]), ("zoe", &["ops"])]));
        assert!(met(&[("ann", &[]), ("bob", &["ops", "dev"])]), "one approval counts for all that it fits");
        assert!(!met(&[("ann", &["ops"]), ("ann", &["ops"])]), "each principal counts once");
        assert_eq!(terms.quorum(), 2);
        assert!(terms.may_approve(&"zoe".into(), &["ops".into()]) && terms.may_approve(&"eve".into(), &[]));
        assert!(!terms.may_approve(&"zoe".into(), &["dev".into()]));
    }

    #[test]
    fn what_is_implied_is_left_out() {
        let merged = |a: Quorum, b: Quorum| of(&[a]).merge(of(&[b])).quorums.into_iter().collect::<Vec<_>>();
        let (anyone, two, ann) = (quorum(1, &[]), quorum(2, &[]), quorum(1, &["user:ann"]));
        assert_eq!(merged(anyone.clone(), two.clone()), std::slice::from_ref(&two));
        assert_eq!(merged(anyone, ann.clone()), std::slice::from_ref(&ann));
        assert_eq!(merged(ann.clone(), quorum(1, &["user:ann", "role:ops"])), std::slice::from_ref(&ann));
        assert_eq!(merged(two.clone(), ann.clone()), [ann, two]);
    }

    #[test]
    fn time_approves_only_where_every_rule_lets_it() {
        let timed = |ms, on_expiry| Terms { expires_in_ms: ms, on_expiry, ..Terms::default() };
        let merged = |a: &Terms, b: &Terms| {
            let merged = a.clone().merge(b.clone());
            (merged.expires_in_ms, merged.on_expiry)
        };
        let (slow, fast) = (timed(Some(60), Expiry::Approve), timed(Some(30), Expiry::Approve));
        assert_eq!(merged(&slow, &fast), (Some(30), Expiry::Approve));
        assert_eq!(merged(&fast, &Terms::default()), (Some(30), Expiry::Deny));
        assert_eq!(merged(&fast, &timed(Some(90), Expiry::Deny)), (Some(30), Expiry::Deny));
        assert_eq!(merged(&fast, &timed(None, Expiry::Approve)), (Some(30), Expiry::Deny));
    }

    #[test]
    fn usual_terms_are_short() {
        assert_eq!(serde_json::to_string(&Terms::default()).unwrap(), "{}");
        assert_eq!(serde_json::from_str::<Terms>("{}").unwrap(), Terms::default());
        let terms = Terms { expires_in_ms: Some(5), ..of(&[quorum(2, &["role:ops"])]) };
        let json = serde_json::to_string(&terms).unwrap();
        assert_eq!(json, r#"{"quorums":[{"count":2,"of":["role:ops"]}],"expires_in_ms":5}"#);
        assert_eq!(serde_json::from_str::<Terms>(&json).unwrap(), terms);
        let error = serde_json::from_str::<Approver>(r#""ann""#).unwrap_err().to_string();
        assert_eq!(error, "`ann` names nobody; write `user:NAME` or `role:NAME`");
    }
}
