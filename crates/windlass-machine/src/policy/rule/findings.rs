//! Errors in a list of rules: faults, which make the list unusable, and warnings about likely mistakes.
//!
//! The checks consider only the form of the rules, so they miss many mistakes. They do not access files.

use serde_json::Value;

use crate::event::Verdict;
use crate::id::Timestamp;

use super::condition::{Condition, Predicate, compare};
use super::path::check_folder;
use super::pattern::{Glob, Pattern};
use super::terms::{Approver, Quorum, Terms};
use super::{Expiry, Rule};

/// Maximum number of rules in a list.
pub const RULES_MAX: usize = 1_000;

/// Maximum number of conditions in a rule.
pub const CONDITIONS_MAX: usize = 32;

/// Maximum number of entries in a list of a rule.
pub const LIST_MAX: usize = 100;

/// Maximum size of a name or a glob in bytes.
pub const GLOB_MAX_BYTES: usize = 200;

/// Maximum size of a regular expression, a folder or a value in bytes.
pub const PATTERN_MAX_BYTES: usize = 1_000;

/// Maximum number of tokens in a JSON pointer.
pub const POINTER_MAX_DEPTH: usize = 32;

/// A fault or a warning about a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether the list is unusable.
    pub severity: Severity,
    /// Index of the rule in the list.
    pub rule: usize,
    /// Index of the condition in the rule, if the finding concerns one.
    pub condition: Option<usize>,
    /// Key of the rule, as policy files name it.
    pub key: &'static str,
    /// Description for the author of the rule.
    pub message: String,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The rules must not be used.
    Fault,
    /// The rules may not express what the author intended.
    Warning,
}

/// Checks a list of rules.
pub fn find_faults(rules: &[Rule], now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, rule) in rules.iter().enumerate().take(RULES_MAX) {
        let mut look = Look { rule, index, condition: None, findings: &mut findings };
        look.names();
        look.times(now);
        look.conditions();
        look.terms();
        look.others(rules);
    }
    if rules.len() > RULES_MAX {
        let message = format!("there are {} rules; at most {RULES_MAX} are taken", rules.len());
        let severity = Severity::Fault;
        findings.push(Finding { severity, rule: RULES_MAX, condition: None, key: "verdict", message });
    }
    findings
}

/// The rule being checked.
struct Look<'l> {
    rule: &'l Rule,
    index: usize,
    condition: Option<usize>,
    findings: &'l mut Vec<Finding>,
}

impl Look<'_> {
    fn fault(&mut self, key: &'static str, message: impl Into<String>) {
        self.find(Severity::Fault, key, message.into());
    }

    fn warn(&mut self, key: &'static str, message: impl Into<String>) {
        self.find(Severity::Warning, key, message.into());
    }

    fn find(&mut self, severity: Severity, key: &'static str, message: String) {
        self.findings.push(Finding { severity, rule: self.index, condition: self.condition, key, message });
    }

    fn names(&mut self) {
        let rule = self.rule;
        if let Some(name) = &rule.name
            && (name.is_empty() || name.len() > GLOB_MAX_BYTES)
        {
            self.fault("name", format!("a name has 1 to {GLOB_MAX_BYTES} bytes"));
        }
        let lists = [
            ("tools", &rule.tools),
            ("servers", &rule.servers),
            ("users", &rule.users),
            ("agents", &rule.agents),
            ("workspaces", &rule.workspaces),
        ];
        for (key, globs) in lists {
            self.list(key, globs.iter().map(Glob::as_str));
        }
        self.list("roles", rule.roles.iter().map(String::as_str));
    }

    fn list<'t>(&mut self, key: &'static str, texts: impl ExactSizeIterator<Item = &'t str>) {
        if texts.len() > LIST_MAX {
            self.fault(key, format!("the list has {} entries; at most {LIST_MAX} are taken", texts.len()));
        }
        for text in texts {
            if text.is_empty() {
                self.fault(key, "an empty text fits nothing");
            } else if text.len() > GLOB_MAX_BYTES {
                self.fault(key, format!("an entry has more than {GLOB_MAX_BYTES} bytes"));
            }
        }
    }

    fn times(&mut self, now: Timestamp) {
        let Some(until) = self.rule.until else { return };
        if self.rule.from.is_some_and(|from| from >= until) {
            self.fault("until", "the rule ends before it begins");
        } else if until <= now {
            self.warn("until", "the rule has expired and no longer counts");
        }
    }

    fn conditions(&mut self) {
        let conditions = &self.rule.when;
        if conditions.len() > CONDITIONS_MAX {
            let count = conditions.len();
            self.fault("when", format!("there are {count} conditions; at most {CONDITIONS_MAX} are taken"));
        }
        for (index, condition) in conditions.iter().enumerate().take(CONDITIONS_MAX) {
            self.condition = Some(index);
            self.pointer(&condition.argument);
            self.predicate(condition);
        }
        self.condition = None;
    }

    fn pointer(&mut self, pointer: &str) {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            let meant = pointer.replace('.', "/");
            self.fault("argument", format!("a JSON pointer begins with `/`: write `/{meant}`"));
        }
        if pointer.split('/').skip(1).count() > POINTER_MAX_DEPTH || pointer.len() > PATTERN_MAX_BYTES {
            let most = format!("at most {POINTER_MAX_DEPTH} parts and {PATTERN_MAX_BYTES} bytes");
            self.fault("argument", format!("a JSON pointer has {most}"));
        }
        if pointer.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1'])) {
            self.fault("argument", "in a JSON pointer `~` is written `~0`, and `/` in a key `~1`");
        }
    }

    fn predicate(&mut self, condition: &Condition) {
        match &condition.is {
            Predicate::Equals(value) => self.values("equals", std::slice::from_ref(value)),
            Predicate::OneOf(values) => self.values("one_of", values),
            Predicate::NotOneOf(values) => self.values("not_one_of", values),
            Predicate::Matches(pattern) => self.pattern(pattern),
            Predicate::Between { min: None, max: None } => {
                self.fault("min", "neither `min` nor `max` is given")
            }
            Predicate::Between { min, max } => {
                if let (Some(min), Some(max)) = (min, max)
                    && compare(min, max).is_gt()
                {
                    self.fault("min", format!("no number lies between {min} and {max}"));
                }
            }
            Predicate::Under(folder) => {
                if folder.len() > PATTERN_MAX_BYTES {
                    self.fault("under", format!("a folder has at most {PATTERN_MAX_BYTES} bytes"));
                }
                if let Err(why) = check_folder(folder) {
                    self.fault("under", why.to_string());
                }
            }
            Predicate::Present | Predicate::Absent => {}
        }
    }

    fn values(&mut self, key: &'static str, values: &[Value]) {
        if values.is_empty() {
            self.fault(key, "the list is empty");
        }
        if values.len() > LIST_MAX {
            self.fault(key, format!("the list has {} entries; at most {LIST_MAX} are taken", values.len()));
        }
        if values.iter().any(Value::is_null) {
            self.fault(key, "`null` counts as absent: write `absent = true`");
        }
        if values.iter().take(LIST_MAX).any(|value| value.to_string().len() > PATTERN_MAX_BYTES) {
            self.fault(key, format!("a value has at most {PATTERN_MAX_BYTES} bytes"));
        }
    }

    fn pattern(&mut self, pattern: &Pattern) {
        let text = pattern.as_str();
        if text.len() > PATTERN_MAX_BYTES {
            return self.fault("matches", format!("an expression has at most {PATTERN_MAX_BYTES} bytes"));
        }
        if let Err(why) = pattern.compile() {
            return self.fault("matches", format!("the expression cannot be used: {why}"));
        }
        let whole = text.starts_with('^') && text.ends_with('$');
        if self.rule.verdict == Verdict::Allow && !whole {
            self.warn("matches", "the expression may match anywhere in the text: write `^…$` for the whole");
        }
    }

    fn terms(&mut self) {
        let (rule, terms) = (self.rule, &self.rule.terms);
        if rule.verdict != Verdict::Ask {
            if *terms != Terms::default() {
                self.fault("verdict", "only a rule that asks has a quorum, approvers or times");
            }
            return;
        }
        for quorum in &terms.quorums {
            self.quorum(quorum);
        }
        self.list(
            "escalate_to",
            terms.escalate_to.iter().map(Approver::name).collect::<Vec<_>>().into_iter(),
        );
        match (terms.escalate_in_ms, terms.escalate_to.is_empty()) {
            (None, false) => self.fault("escalate_to", "`escalate_after` is missing"),
            (Some(_), true) => self.fault("escalate_after", "`escalate_to` is missing"),
            (None, true) | (Some(_), false) => {}
        }
        match terms.expires_in_ms {
            None if terms.on_expiry == Expiry::Approve => {
                self.warn("on_timeout", "without `timeout` it never happens");
            }
            None => {}
            Some(0) => self.fault("timeout", "nobody can answer in no time"),
            Some(expires) => {
                let times = [("remind_after", terms.remind_in_ms), ("escalate_after", terms.escalate_in_ms)];
                for (key, _) in times.iter().filter(|(_, time)| time.is_some_and(|time| time >= expires)) {
                    self.warn(key, "it never happens: `timeout` comes first");
                }
            }
        }
    }

    fn quorum(&mut self, quorum: &Quorum) {
        self.list("approvers", quorum.of.iter().map(Approver::name).collect::<Vec<_>>().into_iter());
        if quorum.count == 0 {
            self.fault("quorum", "at least one has to approve");
        }
        let users = quorum.of.iter().all(|approver| matches!(approver, Approver::User(_)));
        let named = quorum.of.len();
        if users && named > 0 && (quorum.count as usize) > named {
            self.fault("quorum", format!("{} have to approve, and only {named} may", quorum.count));
        }
    }

    /// Compares the rule with the other rules of the list.
    fn others(&mut self, rules: &[Rule]) {
        let (rule, index) = (self.rule, self.index);
        let others = || rules.iter().take(RULES_MAX).enumerate().filter(move |(other, _)| *other != index);
        let unnamed = |rule: &Rule| Rule { name: None, ..rule.clone() };
        let says_the_same = |other: &Rule| {
            rule.verdict == other.verdict && rule.tools == other.tools && unnamed(rule) == unnamed(other)
        };
        for (other, earlier) in others().take_while(|(other, _)| *other < index) {
            if says_the_same(earlier) {
                return self.warn("verdict", format!("the rule says the same as `{}`", earlier.label(other)));
            }
            if rule.name.is_some() && rule.name == earlier.name {
                self.warn("name", "another rule has this name: a judgement cannot tell them apart");
                break;
            }
        }
        if let Some((other, stronger)) = others().find(|(_, other)| outdoes(other, rule)) {
            let label = stronger.label(other);
            self.warn("verdict", format!("the rule never decides: `{label}` is stronger wherever it fits"));
        }
    }
}

/// Whether `strong` certainly overrides `weak` for every call that `weak` matches.
fn outdoes(strong: &Rule, weak: &Rule) -> bool {
    let stronger = match (strong.verdict, weak.verdict) {
        (Verdict::Deny, Verdict::Ask | Verdict::Allow) | (Verdict::Ask, Verdict::Allow) => true,
        (Verdict::Allow | Verdict::Ask | Verdict::Deny, _) => false,
    };
    // The stronger rule also wins if both are unclear: an unclear deny denies, an unclear ask asks.
    stronger
        && covers(&strong.tools, &weak.tools)
        && (strong.servers.is_empty() || !weak.servers.is_empty() && covers(&strong.servers, &weak.servers))
        && covers(&strong.users, &weak.users)
        && includes(&strong.roles, &weak.roles)
        && covers(&strong.agents, &weak.agents)
        && includes(&strong.surfaces, &weak.surfaces)
        && covers(&strong.workspaces, &weak.workspaces)
        && strong.from.is_none_or(|from| weak.from.is_some_and(|other| from <= other))
        && strong.until.is_none_or(|until| weak.until.is_some_and(|other| until >= other))
        && strong.when.iter().all(|condition| weak.when.contains(condition))
}

/// Whether `wide` matches everything that `narrow` matches. An empty list matches everything.
fn covers(wide: &[Glob], narrow: &[Glob]) -> bool {
    let all = [Glob::new("*")];
    let narrow = if narrow.is_empty() { &all } else { narrow };
    wide.is_empty() || narrow.iter().all(|narrow| wide.iter().any(|wide| wide.covers(narrow)))
}

/// Whether `wide` contains all entries of `narrow`. An empty list contains everything.
fn includes<T: PartialEq>(wide: &[T], narrow: &[T]) -> bool {
    wide.is_empty() || !narrow.is_empty() && narrow.iter().all(|word| wide.contains(word))
}

#[cfg(test)]
mod tests;
