//! Rules: each has conditions on calls, and a verdict on the calls that match.
//!
//! Rules are decidable by design: a rule is a list of conditions that all must hold, and runs no code. The gate
//! combines several rules; `findings` reports errors in a list of rules.

mod condition;
mod findings;
mod path;
mod pattern;
mod terms;

use serde::{Deserialize, Serialize};

use crate::event::{Surface, Verdict};
use crate::id::Timestamp;

use super::subject::Subject;

pub use condition::{Condition, Direction, Predicate, TEXT_MAX_BYTES, Unclear};
pub use findings::{
    CONDITIONS_MAX, Finding, GLOB_MAX_BYTES, LIST_MAX, PATTERN_MAX_BYTES, POINTER_MAX_DEPTH, RULES_MAX,
    Severity, find_faults,
};
pub use path::{PathArgument, PathTarget, UnclearPath};
pub use pattern::{Glob, Pattern};
pub use terms::{Approver, Expiry, Quorum, Terms};

/// A rule. A call must match all fields; an empty list matches everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Name of the rule, used as the reason of a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Names of tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Glob>,
    /// Servers that provide the tool. An engine tool has no server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Glob>,
    /// Users that the run works for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<Glob>,
    /// Roles; the user must have at least one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Names of agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Glob>,
    /// Audiences of the run's answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub surfaces: Vec<Surface>,
    /// Names of workspaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspaces: Vec<Glob>,
    /// First moment at which the rule applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// First moment at which the rule no longer applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Conditions on the call's arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<Condition>,
    /// Verdict on a matching call.
    pub verdict: Verdict,
    /// Terms of the approval, if the verdict is ask.
    #[serde(default, skip_serializing_if = "Terms::is_usual")]
    pub terms: Terms,
}

impl Terms {
    pub(crate) fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl Rule {
    /// Creates a rule that matches every call.
    pub fn new(verdict: Verdict) -> Self {
        Self {
            name: None,
            tools: Vec::new(),
            servers: Vec::new(),
            users: Vec::new(),
            roles: Vec::new(),
            agents: Vec::new(),
            surfaces: Vec::new(),
            workspaces: Vec::new(),
            from: None,
            until: None,
            when: Vec::new(),
            verdict,
            terms: Terms::default(),
        }
    }

    /// Whether a call matches. The call does not match if one condition is false, even if others are unclear. If no
    /// condition is false and one is unclear, the result is unclear.
    pub fn fits(&self, subject: &Subject<'_>) -> Result<bool, Unclear> {
        let direction = match self.verdict {
            Verdict::Allow => Direction::Permits,
            Verdict::Ask | Verdict::Deny => Direction::Restricts,
        };
        Ok(self.is_about(subject) && all_hold(&self.when, subject, direction)?)
    }

    fn is_about(&self, subject: &Subject<'_>) -> bool {
        let any =
            |globs: &[Glob], name: &str| globs.is_empty() || globs.iter().any(|glob| glob.matches(name));
        let is_from = |server: Option<&str>| {
            server.is_some_and(|server| self.servers.iter().any(|glob| glob.matches(server)))
        };
        any(&self.tools, subject.tool.as_str())
            && (self.servers.is_empty() || is_from(subject.server))
            && any(&self.users, subject.principal.as_str())
            && (self.roles.is_empty() || self.roles.iter().any(|role| subject.roles.contains(role)))
            && any(&self.agents, subject.agent)
            && (self.surfaces.is_empty() || self.surfaces.contains(&subject.surface))
            && any(&self.workspaces, subject.workspace)
            && self.from.is_none_or(|from| from <= subject.now)
            && self.until.is_none_or(|until| subject.now < until)
    }

    /// Returns the rule's name for verdicts; `index` is its position in the list.
    pub(super) fn label(&self, index: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("rule #{}", index + 1))
    }
}

/// Whether all conditions hold. A false condition takes precedence over an unclear condition.
pub(super) fn all_hold(
    conditions: &[Condition],
    subject: &Subject<'_>,
    direction: Direction,
) -> Result<bool, Unclear> {
    let mut unclear = None;
    for condition in conditions {
        match condition.holds_with_paths(subject.arguments, subject.paths, direction) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => unclear = unclear.or(Some(error)),
        }
    }
    unclear.map_or(Ok(true), Err)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::gate::tests::subject;
    use super::*;

    fn rule(change: impl FnOnce(&mut Rule)) -> Rule {
        let mut rule = Rule::new(Verdict::Deny);
        change(&mut rule);
        rule
    }

    #[test]
    fn each_thing_that_a_rule_names_has_to_fit() {
        let (ann, tool, roles) = ("ann".into(), "git_push".into(), ["dev".to_owned(), "ops".to_owned()]);
        let call = Subject {
            tool: &tool,
            server: Some("github"),
            principal: &ann,
            roles: &roles,
            agent: "clerk",
            surface: Surface::Chat,
            workspace: "home",
            now: Timestamp(100),
            ..subject()
        };
        let cases: Vec<(&str, Rule, bool)> = vec![
            ("anything", rule(|_| {}), true),
            ("a tool", rule(|r| r.tools = vec!["Read".into(), "git_*".into()]), true),
            ("another tool", rule(|r| r.tools = vec!["git_pull".into()]), false),
            ("a server", rule(|r| r.servers = vec!["git*".into()]), true),
            ("another server", rule(|r| r.servers = vec!["jira".into()]), false),
            ("a user", rule(|r| r.users = vec!["ann".into()]), true),
            ("another user", rule(|r| r.users = vec!["bob".into()]), false),
            ("a role", rule(|r| r.roles = vec!["admin".into(), "ops".into()]), true),
            ("another role", rule(|r| r.roles = vec!["admin".into()]), false),
            ("an agent", rule(|r| r.agents = vec!["cl?rk".into()]), true),
            ("another agent", rule(|r| r.agents = vec!["coder".into()]), false),
            ("a surface", rule(|r| r.surfaces = vec![Surface::Chat]), true),
            ("another surface", rule(|r| r.surfaces = vec![Surface::Headless]), false),
            ("a workspace", rule(|r| r.workspaces = vec!["*".into()]), true),
            ("another workspace", rule(|r| r.workspaces = vec!["lab".into()]), false),
            ("begun", rule(|r| r.from = Some(Timestamp(100))), true),
            ("not begun", rule(|r| r.from = Some(Timestamp(101))), false),
            ("not expired", rule(|r| r.until = Some(Timestamp(101))), true),
            ("expired", rule(|r| r.until = Some(Timestamp(100))), false),
        ];
        for (what, rule, wanted) in cases {
            assert_eq!(rule.fits(&call), Ok(wanted), "{what}");
        }
        let served = rule(|r| r.servers = vec!["*".into()]);
        assert_eq!(served.fits(&Subject { server: None, ..call }), Ok(false), "no server is none of any");
    }

    #[test]
    fn a_false_condition_outweighs_an_undecidable_one() {
        let on = |argument: &str, value: Value| Condition {
            argument: argument.into(),
            is: Predicate::Equals(value),
        };
        let arguments = json!({ "a": 1, "b": "x" });
        let call = Subject { arguments: Some(&arguments), ..subject() };
        let (yes, no, unclear) = (on("/a", json!(1)), on("/a", json!(2)), on("/b", json!(3)));
        let fits =
            |when: &[&Condition]| rule(|r| r.when = when.iter().copied().cloned().collect()).fits(&call);
        assert_eq!(fits(&[&yes]), Ok(true));
        assert_eq!(fits(&[&yes, &no]), Ok(false));
        assert_eq!(fits(&[&unclear, &no]), Ok(false));
        assert_eq!(fits(&[&no, &unclear]), Ok(false));
        assert!(fits(&[&unclear, &yes]).is_err());
        // Arguments are only needed if a condition refers to them.
        let unread = Subject { arguments: None, ..subject() };
        assert_eq!(rule(|_| {}).fits(&unread), Ok(true));
        assert_eq!(rule(|r| r.when = vec![yes.clone()]).fits(&unread), Err(Unclear::Unreadable));
        let elsewhere = rule(|r| (r.when, r.tools) = (vec![yes.clone()], vec!["other".into()]));
        assert_eq!(elsewhere.fits(&unread), Ok(false));
    }

    #[test]
    fn a_rule_is_kept_as_short_json() {
        let full = rule(|r| {
            r.name = Some("n".into());
            r.tools = vec!["git_*".into()];
            r.when = vec![
                Condition { argument: "/a".into(), is: Predicate::Matches(Pattern::new("^x$")) },
                Condition { argument: "/b".into(), is: Predicate::Absent },
                Condition {
                    argument: "/c".into(),
                    is: Predicate::Between { min: Some(1.into()), max: None },
                },
            ];
        });
        let json = serde_json::to_string(&full).unwrap();
        assert_eq!(
            json,
            r#"{"name":"n","tools":["git_*"],"when":[{"argument":"/a","is":{"matches":"^x$"}},{"argument":"/b","is":"absent"},{"argument":"/c","is":{"between":{"min":1}}}],"verdict":"deny"}"#
        );
        assert_eq!(serde_json::from_str::<Rule>(&json).unwrap(), full);
    }
}
