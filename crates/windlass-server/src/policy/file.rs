//! The shape of a policy file, and its conversion to rules. Unknown keys are errors.

use serde::Deserialize;
use serde_json::{Number, Value};
use windlass::machine::{
    Approver, Condition, Expiry, Glob, Pattern, Predicate, Quorum, Rule, Surface, Terms, Timestamp, Verdict,
    find_faults,
};

use super::problem::{Places, Problem, Word};
use super::time::{Length, Moment};

/// A policy file: a list of `[[rule]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    #[serde(default)]
    rule: Vec<RuleFile>,
}

/// `[[rule]]`. An absent key matches everything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    name: Option<String>,
    tools: Option<Vec<String>>,
    servers: Option<Vec<String>>,
    users: Option<Vec<String>>,
    roles: Option<Vec<String>>,
    agents: Option<Vec<String>>,
    surfaces: Option<Vec<Surface>>,
    workspaces: Option<Vec<String>>,
    from: Option<Moment>,
    until: Option<Moment>,
    #[serde(default)]
    when: Vec<ConditionFile>,
    verdict: Verdict,
    quorum: Option<u32>,
    approvers: Option<Vec<Approver>>,
    timeout: Option<Length>,
    on_timeout: Option<Expiry>,
    remind_after: Option<Length>,
    escalate_after: Option<Length>,
    escalate_to: Option<Vec<Approver>>,
}

/// `[[rule.when]]`: an argument and one predicate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConditionFile {
    argument: String,
    equals: Option<Value>,
    one_of: Option<Vec<Value>>,
    not_one_of: Option<Vec<Value>>,
    matches: Option<String>,
    min: Option<Number>,
    max: Option<Number>,
    under: Option<String>,
    present: Option<bool>,
    absent: Option<bool>,
}

/// Names that verdicts use for reasons other than rules.
const REASONS: &[&str] = &["annotations", "allowlist", "auto-run"];

/// Parses a policy text. Do not use the rules if the problems contain an error.
pub fn read(text: &str, now: Timestamp) -> (Vec<Rule>, Vec<Problem>) {
    let file: PolicyFile = match toml::from_str(text) {
        Ok(file) => file,
        Err(error) => return (Vec::new(), vec![Problem::of_toml(text, &error)]),
    };
    let mut reader = Reader { text, places: Places::new(text), problems: Vec::new() };
    let mut rules = Vec::new();
    for (index, rule) in file.rule.into_iter().enumerate() {
        rules.push(reader.rule(index, rule));
    }
    for finding in find_faults(&rules, now) {
        let condition = finding.condition.map(|index| ("when", index));
        let byte = reader.places.find("rule", finding.rule, condition, finding.key);
        reader.problems.push(Problem::at(text, byte, finding.severity.into(), finding.message));
    }
    let mut problems = reader.problems;
    problems.sort_by_key(|problem| (problem.line, problem.column));
    (rules, problems)
}

struct Reader<'t> {
    text: &'t str,
    places: Places<'t>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, index: usize, condition: Option<usize>, key: &str, severity: Word, message: &str) {
        let byte = self.places.find("rule", index, condition.map(|index| ("when", index)), key);
        self.problems.push(Problem::at(self.text, byte, severity, message));
    }

    fn rule(&mut self, index: usize, file: RuleFile) -> Rule {
        if let Some(name) = &file.name
            && (REASONS.contains(&name.as_str())
                || ["grant ", "error:", "rule #"].iter().any(|reason| name.starts_with(reason)))
        {
            let message = "this name is reserved for built-in reasons; choose another one";
            self.problem(index, None, "name", Word::Error, message);
        }
        if file.timeout.is_none() && file.on_timeout == Some(Expiry::Deny) {
            self.problem(
                index,
                None,
                "on_timeout",
                Word::Warning,
                "`on_timeout` has no effect without `timeout`",
            );
        }
        let when = file.when.into_iter().enumerate().map(|(at, it)| self.condition(index, at, it));
        let when = when.collect();
        let mut globs =
            |key: &str, list| self.list(index, key, list).into_iter().map(Glob::new).collect::<Vec<_>>();
        let (tools, servers) = (globs("tools", file.tools), globs("servers", file.servers));
        let (users, agents) = (globs("users", file.users), globs("agents", file.agents));
        let workspaces = globs("workspaces", file.workspaces);
        let of = self.list(index, "approvers", file.approvers).into_iter().collect();
        Rule {
            name: file.name,
            tools,
            servers,
            users,
            roles: self.list(index, "roles", file.roles),
            agents,
            surfaces: self.list(index, "surfaces", file.surfaces),
            workspaces,
            from: file.from.map(|moment| moment.0),
            until: file.until.map(|moment| moment.0),
            when,
            verdict: file.verdict,
            terms: Terms {
                quorums: [Quorum { count: file.quorum.unwrap_or(1), of }].into(),
                expires_in_ms: file.timeout.map(|length| length.0),
                on_expiry: file.on_timeout.unwrap_or_default(),
                remind_in_ms: file.remind_after.map(|length| length.0),
                escalate_in_ms: file.escalate_after.map(|length| length.0),
                escalate_to: self.list(index, "escalate_to", file.escalate_to).into_iter().collect(),
            },
        }
    }

    /// An absent list matches everything. An empty list is rejected, because it is probably a mistake.
    fn list<T>(&mut self, index: usize, key: &str, list: Option<Vec<T>>) -> Vec<T> {
        if list.as_ref().is_some_and(Vec::is_empty) {
            let message = format!("the list is empty; remove `{key}` if it does not matter");
            self.problem(index, None, key, Word::Error, &message);
        }
        list.unwrap_or_default()
    }

    fn condition(&mut self, index: usize, at: usize, file: ConditionFile) -> Condition {
        let presence = |present: bool| if present { Predicate::Present } else { Predicate::Absent };
        let range = (file.min.is_some() || file.max.is_some())
            .then_some(Predicate::Between { min: file.min, max: file.max });
        let values = [&file.one_of, &file.not_one_of].into_iter().flatten().flatten().chain(&file.equals);
        if values.into_iter().any(holds_a_date) {
            let message = "JSON has no date type: write a string";
            self.problem(index, Some(at), "argument", Word::Error, message);
        }
        let said = [
            file.equals.map(Predicate::Equals),
            file.one_of.map(Predicate::OneOf),
            file.not_one_of.map(Predicate::NotOneOf),
            file.matches.map(|expression| Predicate::Matches(Pattern::new(expression))),
            range,
            file.under.map(Predicate::Under),
            file.present.map(presence),
            file.absent.map(|absent| presence(!absent)),
        ];
        let mut said = said.into_iter().flatten();
        let (first, second) = (said.next(), said.next());
        if first.is_none() || second.is_some() {
            let message = "write exactly one of `equals`, `one_of`, `not_one_of`, `matches`, `min` with \
                `max`, `under`, `present`, `absent`; for more, add another condition";
            self.problem(index, Some(at), "argument", Word::Error, message);
        }
        // A condition without a predicate is an error, so the engine never evaluates this placeholder. It keeps the
        // indices of the other conditions.
        Condition { argument: file.argument, is: first.unwrap_or(Predicate::Present) }
    }
}

/// TOML dates are deserialized as an object with a special key that JSON does not have.
fn holds_a_date(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.iter().any(|(key, value)| key.starts_with("$__toml") || holds_a_date(value))
        }
        Value::Array(list) => list.iter().any(holds_a_date),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn check(text: &str) -> String {
        let (_, problems) = read(text, NOW);
        problems.iter().map(|problem| problem.print("policy.toml", super::super::problem::plain)).collect()
    }

    #[test]
    fn every_key_has_its_meaning() {
        let text = r#"
            [[rule]]
            name = "two eyes for production"
            tools = ["deploy", "k8s_*"]
            servers = ["cluster"]
            users = ["ann"]
            roles = ["dev"]
            agents = ["clerk"]
            surfaces = ["chat", "headless"]
            workspaces = ["w"]
            from = 2026-01-01
            until = 2030-01-01T01:00:00+01:00
            verdict = "ask"
            quorum = 2
            approvers = ["user:bob", "role:lead", "role:ops"]
            timeout = "1h"
            on_timeout = "approve"
            remind_after = "10m"
            escalate_after = "30m"
            escalate_to = ["role:boss"]
            when = [
                { argument = "/a", equals = { b = [1, "x"] } },
                { argument = "/a", one_of = [1, 2.5] },
                { argument = "/a", not_one_of = ["x"] },
                { argument = "/a", matches = "^x$" },
                { argument = "/a", min = 1, max = 2.5 },
                { argument = "/a", under = "src" },
                { argument = "/a", present = true },
                { argument = "/a", absent = true },
                { argument = "/a", absent = false },
            ]
        "#;
        let (rules, problems) = read(text, NOW);
        assert_eq!(problems, []);
        let json = json!([{
            "name": "two eyes for production",
            "tools": ["deploy", "k8s_*"],
            "servers": ["cluster"],
            "users": ["ann"],
            "roles": ["dev"],
            "agents": ["clerk"],
            "surfaces": ["chat", "headless"],
            "workspaces": ["w"],
            "from": 1_767_225_600_000_u64,
            "until": 1_893_456_000_000_u64,
            "when": [
                { "argument": "/a", "is": { "equals": { "b": [1, "x"] } } },
                { "argument": "/a", "is": { "one_of": [1, 2.5] } },
                { "argument": "/a", "is": { "not_one_of": ["x"] } },
                { "argument": "/a", "is": { "matches": "^x$" } },
                { "argument": "/a", "is": { "between": { "min": 1, "max": 2.5 } } },
                { "argument": "/a", "is": { "under": "src" } },
                { "argument": "/a", "is": "present" },
                { "argument": "/a", "is": "absent" },
                { "argument": "/a", "is": "present" },
            ],
            "verdict": "ask",
            "terms": {
                "quorums": [{ "count": 2, "of": ["user:bob", "role:lead", "role:ops"] }],
                "expires_in_ms": 3_600_000,
                "on_expiry": "approve",
                "remind_in_ms": 600_000,
                "escalate_in_ms": 1_800_000,
                "escalate_to": ["role:boss"],
            },
        }]);
        assert_eq!(serde_json::to_value(&rules).unwrap(), json);
        let (rules, problems) = read("[[rule]]\nverdict = 'deny'\n", NOW);
        assert_eq!((rules, problems), (vec![Rule::new(Verdict::Deny)], vec![]));
        assert_eq!(read("", NOW), (vec![], vec![]));
    }

    #[test]
    fn problems_show_their_place() {
        let texts = [
            "[[rule]]\nverdict = 'deny'\ntool = ['x']\n",
            "[[rules]]\nverdict = 'deny'\n",
            "[[rule]]\nverdict = 'never'\n",
            "[[rule]]\nname = 'x'\n",
            "[[rule]]\nverdict = 'ask'\ntimeout = '5 parsecs'\n",
            "[[rule]]\nverdict = 'ask'\nuntil = '2026-01-01'\n",
            "[[rule]]\nverdict = 'ask'\nuntil = 2026-01-01T00:00:00\n",
            "[[rule]]\nverdict = 'ask'\napprovers = ['ann']\n",
            "[[rule]]\nverdict = 'ask'\nsurfaces = ['phone']\n",
            "[[rule]\nverdict = 'ask'\n",
            "[[rule]]\nverdict = 'ask'\n[[rule.when]]\nargument = '/a'\nmin = nan\n",
            "[[rule]]\nverdict = 'ask'\n[[rule.when]]\nargument = '/a'\nequal = 1\n",
        ];
        let said: Vec<String> = texts.into_iter().map(check).collect();
        insta::assert_snapshot!(said.join("---\n"), @r#"
        error: policy.toml:3:1: unknown key `tool`
         3 │ tool = ['x']
           │ ^
        hint: did you mean `tools`?
        ---
        error: policy.toml:1:3: unknown key `rules`
         1 │ [[rules]]
           │   ^
        hint: did you mean `rule`?
        ---
        error: policy.toml:2:11: unknown variant `never`, expected one of `allow`, `ask`, `deny`
         2 │ verdict = 'never'
           │           ^
        ---
        error: policy.toml:1:1: missing field `verdict`
         1 │ [[rule]]
           │ ^
        ---
        error: policy.toml:3:11: `5 parsecs` is not a duration
         3 │ timeout = '5 parsecs'
           │           ^
        hint: write a duration such as `90s`, `30m`, `1h30m` or `2d`
        ---
        error: policy.toml:3:9: this is not a date
         3 │ until = '2026-01-01'
           │         ^
        hint: write it without quotes: `2026-12-31` or `2026-12-31T18:00:00+01:00`
        ---
        error: policy.toml:3:9: `2026-01-01T00:00:00`: the time zone is missing, such as `Z` or `+01:00`
         3 │ until = 2026-01-01T00:00:00
           │         ^
        hint: write it without quotes: `2026-12-31` or `2026-12-31T18:00:00+01:00`
        ---
        error: policy.toml:3:13: `ann` names nobody
         3 │ approvers = ['ann']
           │             ^
        hint: write `user:NAME` or `role:NAME`
        ---
        error: policy.toml:3:13: unknown variant `phone`, expected `headless` or `chat`
         3 │ surfaces = ['phone']
           │             ^
        ---
        error: policy.toml:1:8: unclosed array table, expected `]`
         1 │ [[rule]
           │        ^
        ---
        error: policy.toml:5:7: not a JSON number
         5 │ min = nan
           │       ^
        ---
        error: policy.toml:5:1: unknown key `equal`
         5 │ equal = 1
           │ ^
        hint: did you mean `equals`?
        "#);
    }

    #[test]
    fn problems_of_one_rule_are_shown_together() {
        let texts = [
            "[[rule]]\nname = 'auto-run'\ntools = []\nverdict = 'ask'\non_timeout = 'deny'\nquorum = 0\n",
            "[[rule]]\nverdict = 'allow'\n[[rule.when]]\nargument = 'path'\nequals = 2026-01-01\nmin = 1\n\
             [[rule.when]]\nargument = '/a'\nmatches = 'x'\n[[rule]]\nverdict = 'deny'\n",
        ];
        let said: Vec<String> = texts.into_iter().map(check).collect();
        insta::assert_snapshot!(said.join("---\n"), @r#"
        error: policy.toml:2:1: this name is reserved for built-in reasons; choose another one
         2 │ name = 'auto-run'
           │ ^
        error: policy.toml:3:1: the list is empty; remove `tools` if it does not matter
         3 │ tools = []
           │ ^
        warning: policy.toml:5:1: `on_timeout` has no effect without `timeout`
         5 │ on_timeout = 'deny'
           │ ^
        error: policy.toml:6:1: at least one has to approve
         6 │ quorum = 0
           │ ^
        ---
        warning: policy.toml:2:1: the rule never decides: `rule #2` is stronger wherever it fits
         2 │ verdict = 'allow'
           │ ^
        error: policy.toml:4:1: JSON has no date type: write a string
         4 │ argument = 'path'
           │ ^
        error: policy.toml:4:1: write exactly one of `equals`, `one_of`, `not_one_of`, `matches`, `min` with `max`, `under`, `present`, `absent`; for more, add another condition
         4 │ argument = 'path'
           │ ^
        error: policy.toml:4:1: a JSON pointer begins with `/`: write `/path`
         4 │ argument = 'path'
           │ ^
        warning: policy.toml:9:1: the expression may match anywhere in the text: write `^…$` for the whole
         9 │ matches = 'x'
           │ ^
        "#);
    }
}
