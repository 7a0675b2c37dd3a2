//! Conditions of a rule on a call's arguments: where in them to look, and what must stand there.
//!
//! The answer is yes, no, or that it cannot be told; the last is never taken for a no. `null` counts as absent. A path of
//! a file tool is judged twice, as it is spelled and as the file that it leads to.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::path::{PathArgument, PathTarget, UnclearPath, lies_under};
use super::pattern::Pattern;

/// Bytes of a text that an expression is tried on at most.
pub const TEXT_MAX_BYTES: usize = 1024 * 1024;

/// What must hold of one argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// The argument, as a JSON pointer (RFC 6901): `/path`, `/options/force`.
    pub argument: String,
    /// What must stand there.
    pub is: Predicate,
}

/// What must stand at a place in the arguments. Numbers are compared by value: 1 and 1.0 are the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predicate {
    /// This value. Another kind of value is unclear: a tool may read `"true"` as `true`.
    Equals(Value),
    /// One of these.
    OneOf(Vec<Value>),
    /// None of these. Absent is unclear: the tool's own default may be one of them.
    NotOneOf(Vec<Value>),
    /// A text in which the expression matches somewhere.
    Matches(Pattern),
    /// A number between the two, bounds included.
    Between {
        /// The smallest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<Number>,
        /// The largest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<Number>,
    },
    /// A path that is this folder or lies below it. A path of a file tool: its spelling and the file that it leads to.
    Under(String),
    /// Anything but `null`.
    Present,
    /// Nothing, or `null`.
    Absent,
}

/// What a rule or grant does to a call that it fits: the direction in which doubt must not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It lets calls run: a condition on a path must hold of the spelling and of the file.
    Permits,
    /// It stops calls or asks about them: a condition on a path must hold of the spelling or of the file.
    Restricts,
}

/// Why it cannot be told whether a condition holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// The arguments as a whole.
    #[error("the arguments could not be read")]
    Unreadable,
    /// Something else stands there.
    #[error("`{argument}` is {found}, and not {wanted}")]
    Kind {
        /// The pointer.
        argument: String,
        /// What stands there.
        found: &'static str,
        /// What the condition is about.
        wanted: &'static str,
    },
    /// Nothing stands there.
    #[error("`{argument}` is absent")]
    Absent {
        /// The pointer.
        argument: String,
    },
    /// A path that cannot be compared.
    #[error("`{argument}`: {why}")]
    Path {
        /// The pointer.
        argument: String,
        /// Why.
        why: UnclearPath,
    },
    /// The expression cannot be used.
    #[error("`{argument}`: the expression cannot be used: {why}")]
    Pattern {
        /// The pointer.
        argument: String,
        /// Why.
        why: String,
    },
    /// The text is too long to look through.
    #[error("`{argument}` is longer than {TEXT_MAX_BYTES} bytes")]
    TooLong {
        /// The pointer.
        argument: String,
    },
}

impl Condition {
    /// Whether it holds of a call's arguments; `None` are arguments that could not be read.
    pub fn holds(&self, arguments: Option<&Value>) -> Result<bool, Unclear> {
        self.holds_with_paths(arguments, &[], Direction::Permits)
    }

    /// Like [`Condition::holds`], with the paths among the arguments as the tool's folder resolves them.
    pub(super) fn holds_with_paths(
        &self,
        arguments: Option<&Value>,
        paths: &[PathArgument],
        direction: Direction,
    ) -> Result<bool, Unclear> {
        let found = self.look_up(arguments.ok_or(Unclear::Unreadable)?)?;
        let found = match (&self.is, found) {
            (Predicate::Present, found) => return Ok(found.is_some()),
            (Predicate::Absent, found) => return Ok(found.is_none()),
            (Predicate::NotOneOf(_), None) => {
                return Err(Unclear::Absent { argument: self.argument.clone() });
            }
            (_, None) => return Ok(false),
            (_, Some(found)) => found,
        };
        let target = paths.iter().find(|path| path.argument == self.argument);
        match (found, target.and_then(|path| path.target.as_ref())) {
            (Value::String(text), Some(target)) => self.holds_of_path(text, target, direction),
            (found, _) => self.holds_of_value(found),
        }
    }

    /// Whether it holds of a path, of which the tool says what it names.
    fn holds_of_path(&self, text: &str, target: &PathTarget, direction: Direction) -> Result<bool, Unclear> {
        let of_text = |text: &str| self.holds_of_value(&Value::String(text.to_owned()));
        let PathTarget { folders, lexical, resolved } = target;
        let answers: Vec<Result<bool, Unclear>> = match (&self.is, direction) {
            (Predicate::Under(folder), _) => {
                let below = |path| target.lies_under(path, folder).map_err(|why| self.unclear_path(why));
                vec![below(lexical), below(resolved)]
            }
            (_, Direction::Restricts) => vec![of_text(text), of_text(lexical), of_text(resolved)],
            // The file is written as the spelling is: an absolute expression fits absolute paths.
            (_, Direction::Permits) if text.starts_with('/') => {
                let absolute = folders.iter().map(|folder| of_text(&format!("{folder}/{resolved}")));
                vec![of_text(text), holds_of_some(absolute)]
            }
            (_, Direction::Permits) => vec![of_text(text), of_text(resolved)],
        };
        match direction {
            Direction::Restricts => holds_of_some(answers),
            Direction::Permits if answers.iter().all(|answer| *answer == Ok(true)) => Ok(true),
            Direction::Permits if answers.iter().all(|answer| *answer == Ok(false)) => Ok(false),
            Direction::Permits => {
                let unclear = answers.into_iter().find_map(Result::err);
                Err(unclear.unwrap_or_else(|| self.unclear_path(UnclearPath::Differs)))
            }
        }
    }

    fn holds_of_value(&self, found: &Value) -> Result<bool, Unclear> {
        match &self.is {
            Predicate::Equals(value) => self.is_among(found, std::slice::from_ref(value)),
            Predicate::OneOf(values) => self.is_among(found, values),
            Predicate::NotOneOf(values) => self.is_among(found, values).map(|among| !among),
            Predicate::Matches(pattern) => self.matches(found, pattern),
            Predicate::Between { min, max } => {
                let Value::Number(number) = found else { return Err(self.unlike(found, "a number")) };
                let above = min.as_ref().is_none_or(|min| compare(number, min).is_ge());
                let below = max.as_ref().is_none_or(|max| compare(number, max).is_le());
                Ok(above && below)
            }
            Predicate::Under(folder) => {
                let Value::String(path) = found else { return Err(self.unlike(found, "a path")) };
                lies_under(path, folder).map_err(|why| self.unclear_path(why))
            }
            // What is here is present.
            Predicate::Present => Ok(true),
            Predicate::Absent => Ok(false),
        }
    }

    /// What the pointer leads to. A pointer that leads through a text or a number was written for other arguments.
    fn look_up<'v>(&self, arguments: &'v Value) -> Result<Option<&'v Value>, Unclear> {
        let mut at = arguments;
        for token in self.argument.split('/').skip(1) {
            let next = match at {
                Value::Object(map) if token.contains('~') => map.get(&unescape(token)),
                Value::Object(map) => map.get(token),
                Value::Array(list) => match token.parse::<usize>() {
                    Ok(index) => list.get(index),
                    Err(_) => return Err(self.unlike(at, "an object")),
                },
                Value::Null => None,
                Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                    return Err(self.unlike(at, "an object"));
                }
            };
            match next {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(at).filter(|value| !value.is_null()))
    }

    /// Whether a value is one of some. Where it is none of them, and of another kind than all, it cannot be told.
    fn is_among(&self, found: &Value, values: &[Value]) -> Result<bool, Unclear> {
        if values.iter().any(|value| same(found, value)) {
            return Ok(true);
        }
        match values.first() {
            Some(first) if values.iter().all(|value| kind(value) != kind(found)) => {
                Err(self.unlike(found, kind(first)))
            }
            Some(_) | None => Ok(false),
        }
    }

    fn matches(&self, found: &Value, pattern: &Pattern) -> Result<bool, Unclear> {
        let Value::String(text) = found else { return Err(self.unlike(found, "a text")) };
        if text.len() > TEXT_MAX_BYTES {
            return Err(Unclear::TooLong { argument: self.argument.clone() });
        }
        match pattern.compile() {
            Ok(compiled) => Ok(compiled.is_match(text)),
            Err(why) => Err(Unclear::Pattern { argument: self.argument.clone(), why: why.to_owned() }),
        }
    }

    fn unclear_path(&self, why: UnclearPath) -> Unclear {
        Unclear::Path { argument: self.argument.clone(), why }
    }

    fn unlike(&self, found: &Value, wanted: &'static str) -> Unclear {
        Unclear::Kind { argument: self.argument.clone(), found: kind(found), wanted }
    }
}

/// Whether one of several answers is a yes; one that is unclear is no no.
fn holds_of_some(answers: impl IntoIterator<Item = Result<bool, Unclear>>) -> Result<bool, Unclear> {
    let mut unclear = None;
    for answer in answers {
        match answer {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(why) => unclear = unclear.or(Some(why)),
        }
    }
    unclear.map_or(Ok(false), Err)
}

/// A reference token of RFC 6901 as the key that it means.
fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Whether two values are the same, numbers by value and objects whatever the order of their keys. Both were parsed
/// with a limit on their depth.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (a, b) => a == b,
    }
}

/// Compares two numbers by value: integers exactly, whatever else is among them as floating point.
pub(super) fn compare(a: &Number, b: &Number) -> std::cmp::Ordering {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a.cmp(&b),
        // A JSON number is finite, so that any two of them compare; -0.0 is 0.
        _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(std::cmp::Ordering::Equal),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(is: Predicate, cases: &[(Value, &str)]) {
        for (value, wanted) in cases {
            let condition = Condition { argument: "/a".into(), is: is.clone() };
            let said = match condition.holds(Some(&json!({ "a": value }))) {
                Ok(true) => "yes".to_owned(),
                Ok(false) => "no".to_owned(),
                Err(unclear) => unclear.to_string(),
            };
            assert_eq!(said, *wanted, "{is:?} {value}");
        }
        let holds =
            |arguments: Option<&Value>| Condition { argument: "/a".into(), is: is.clone() }.holds(arguments);
        assert_eq!(holds(None), Err(Unclear::Unreadable), "{is:?}");
        let absent = match is {
            Predicate::Absent => Ok(true),
            Predicate::NotOneOf(_) => Err(Unclear::Absent { argument: "/a".into() }),
            _ => Ok(false),
        };
        assert_eq!(holds(Some(&json!({}))), absent, "{is:?}");
        assert_eq!(holds(Some(&json!({ "a": null }))), absent, "null counts as absent: {is:?}");
        let text = Unclear::Kind { argument: "/a".into(), found: "a text", wanted: "an object" };
        assert_eq!(holds(Some(&json!("text"))), Err(text), "{is:?}");
    }

    #[test]
    fn equals() {
        let cases = [
            (json!("x"), "yes"),
            (json!("X"), "no"),
            (json!(1), "`/a` is a number, and not a text"),
            (json!(["x"]), "`/a` is a list, and not a text"),
        ];
        check(Predicate::Equals(json!("x")), &cases);
        let cases = [(json!(1.0), "yes"), (json!(1), "yes"), (json!(1.5), "no"), (json!(-1), "no")];
        check(Predicate::Equals(json!(1)), &cases);
        check(Predicate::Equals(json!(0)), &[(json!(-0.0), "yes")]);
        let cases = [(json!(true), "yes"), (json!("true"), "`/a` is a text, and not a boolean")];
        check(Predicate::Equals(json!(true)), &cases);
        let deep = json!({ "x": [1, { "y": 2 }], "z": 0 });
        let cases = [
            (json!({ "z": 0.0, "x": [1.0, { "y": 2 }] }), "yes"),
            (json!({ "x": [1, { "y": 2 }] }), "no"),
            (json!({ "x": [1], "z": 0 }), "no"),
        ];
        check(Predicate::Equals(deep), &cases);
    }

    #[test]
    fn one_of_and_not_one_of() {
        let values = vec![json!("eu"), json!("us"), json!(7)];
        let cases = [(json!("us"), "yes"), (json!("cn"), "no"), (json!(7.0), "yes"), (json!(8), "no")];
        check(Predicate::OneOf(values.clone()), &cases);
        check(Predicate::OneOf(values.clone()), &[(json!(true), "`/a` is a boolean, and not a text")]);
        let cases = [(json!("us"), "no"), (json!("cn"), "yes"), (json!(8), "yes")];
        check(Predicate::NotOneOf(values.clone()), &cases);
        check(Predicate::NotOneOf(values), &[(json!({}), "`/a` is an object, and not a text")]);
        check(Predicate::OneOf(vec![]), &[(json!("x"), "no")]);
    }

    #[test]
    fn expressions() {
        let cases = [
            (json!("rm -rf /"), "yes"),
            (json!("ls; rm -r x"), "yes"),
            (json!("ls"), "no"),
            (json!(4), "`/a` is a number, and not a text"),
            (json!("x".repeat(TEXT_MAX_BYTES + 1)), "`/a` is longer than 1048576 bytes"),
        ];
        check(Predicate::Matches(Pattern::new(r"\brm\b")), &cases);
        // What is absent is no: whether the expression can be used matters only where there is something to try.
        let faulty = [(json!("x"), "`/a`: the expression cannot be used: unclosed group")];
        check(Predicate::Matches(Pattern::new("(")), &faulty);
    }

    #[test]
    fn ranges() {
        let number = |number: Value| serde_json::from_value::<Number>(number).unwrap();
        let between = |min: Option<Value>, max: Option<Value>| Predicate::Between {
            min: min.map(number),
            max: max.map(number),
        };
        let cases = [
            (json!(1), "yes"),
            (json!(10), "yes"),
            (json!(10.0), "yes"),
            (json!(0), "no"),
            (json!(10.001), "no"),
            (json!("5"), "`/a` is a text, and not a number"),
        ];
        check(between(Some(json!(1)), Some(json!(10))), &cases);
        check(between(Some(json!(0.5)), None), &[(json!(u64::MAX), "yes"), (json!(0.4), "no")]);
        // Beyond 2^53 a floating point number cannot tell neighbours apart.
        let large = json!(9_007_199_254_740_993_u64);
        check(between(None, Some(json!(9_007_199_254_740_992_u64))), &[(large, "no")]);
        check(between(None, Some(json!(-1))), &[(json!(i64::MIN), "yes"), (json!(-0.5), "no")]);
    }

    #[test]
    fn paths() {
        let cases = [
            (json!("src/a.rs"), "yes"),
            (json!("source/a.rs"), "no"),
            (json!("src/../b"), "no"),
            (json!("../src/b"), "`/a`: the path leaves the folder that it is relative to"),
            (json!(1), "`/a` is a number, and not a path"),
        ];
        check(Predicate::Under("src".into()), &cases);
    }

    #[test]
    fn a_path_is_judged_by_its_spelling_and_by_the_file() {
        let target = |lexical: &str, resolved: &str| PathTarget {
            folders: vec!["/desk".into()],
            lexical: lexical.into(),
            resolved: resolved.into(),
        };
        let said = |is: &Predicate, text: &str, target: Option<PathTarget>, direction| {
            let condition = Condition { argument: "/a".into(), is: is.clone() };
            let paths = [PathArgument { argument: "/a".into(), target }];
            match condition.holds_with_paths(Some(&json!({ "a": text })), &paths, direction) {
                Ok(true) => "yes",
                Ok(false) => "no",
                Err(_) => "unclear",
            }
        };
        let under = Predicate::Under("docs".into());
        let absolute = Predicate::Under("/desk/docs".into());
        let matches = Predicate::Matches(Pattern::new("^docs/"));
        let full = Predicate::Matches(Pattern::new("^/desk/docs/"));
        let equals = Predicate::Equals(json!("docs/a"));
        // The predicate, the spelling, its lexical form, the file, and the answers if it permits and if it restricts.
        let cases = [
            (&under, "docs/a", "docs/a", "docs/a", "yes", "yes"),
            (&under, "docs/a", "docs/a", "src/a", "unclear", "yes"),
            (&under, "src/a", "src/a", "docs/a", "unclear", "yes"),
            (&under, "src/a", "src/a", "src/a", "no", "no"),
            (&under, "/desk/docs/a", "docs/a", "docs/a", "yes", "yes"),
            (&under, "/desk/src/a", "src/a", "src/a", "no", "no"),
            (&under, "~x/../docs/a", "docs/a", "docs/a", "yes", "yes"),
            (&under, "docs/l/../a", "docs/a", "b/a", "unclear", "yes"),
            (&absolute, "docs/a", "docs/a", "docs/a", "yes", "yes"),
            (&absolute, "docs/a", "docs/a", "src/a", "unclear", "yes"),
            (&absolute, "src/a", "src/a", "src/a", "no", "no"),
            (&matches, "docs/a", "docs/a", "docs/a", "yes", "yes"),
            (&matches, "./docs/a", "docs/a", "docs/a", "unclear", "yes"),
            (&matches, "x/a", "x/a", "docs/a", "unclear", "yes"),
            (&matches, "/desk/docs/a", "docs/a", "docs/a", "no", "yes"),
            (&full, "/desk/docs/a", "docs/a", "docs/a", "yes", "yes"),
            (&full, "/desk/docs/a", "docs/a", "src/a", "unclear", "yes"),
            (&equals, "x", "x", "docs/a", "unclear", "yes"),
        ];
        for (is, text, lexical, resolved, permits, restricts) in cases {
            let found = |direction| said(is, text, Some(target(lexical, resolved)), direction);
            let answers = (found(Direction::Permits), found(Direction::Restricts));
            assert_eq!(answers, (permits, restricts), "{is:?} {text} {resolved}");
        }
        // A path that the folder refuses is judged by its text.
        assert_eq!(said(&under, "docs/a", None, Direction::Permits), "yes");
        assert_eq!(said(&under, "/etc/x", None, Direction::Restricts), "unclear");
    }

    #[test]
    fn presence() {
        check(Predicate::Present, &[(json!(false), "yes"), (json!(""), "yes")]);
        check(Predicate::Absent, &[(json!(false), "no"), (json!([]), "no")]);
    }

    #[test]
    fn pointers() {
        let arguments = json!({ "a/b": { "~": [10, { "c": 20 }] }, "": 30 });
        let holds = |argument: &str, value: Value| {
            Condition { argument: argument.into(), is: Predicate::Equals(value) }.holds(Some(&arguments))
        };
        assert_eq!(holds("/a~1b/~0/0", json!(10)), Ok(true));
        assert_eq!(holds("/a~1b/~0/1/c", json!(20)), Ok(true));
        assert_eq!(holds("/a~1b/~0/2", json!(10)), Ok(false));
        assert_eq!(holds("/", json!(30)), Ok(true));
        assert_eq!(holds("", arguments.clone()), Ok(true));
        assert!(holds("/a~1b/~0/c", json!(20)).is_err(), "a list has no names");
        assert!(holds("/a~1b/~0/0/x", json!(20)).is_err(), "a number has no parts");
        assert_eq!(holds("/none/at/all", json!(20)), Ok(false));
    }
}
