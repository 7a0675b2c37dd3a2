//! Conditions of a rule on a call's arguments: a location, and a predicate on the value there.
//!
//! A condition is true, false or unclear, and unclear is never treated as false. `null` is treated as absent. A path
//! of a file tool is judged twice: by its spelling, and by the file that it resolves to.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::path::{PathArgument, PathTarget, UnclearPath, lies_under};
use super::pattern::Pattern;

/// Maximum size in bytes of a text that a regular expression is applied to.
pub const TEXT_MAX_BYTES: usize = 1024 * 1024;

/// A predicate on one argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// Location of the argument, as a JSON pointer (RFC 6901): `/path`, `/options/force`.
    pub argument: String,
    /// Predicate on the value at that location.
    pub is: Predicate,
}

/// A predicate on a value of the arguments. Numbers are compared by value: 1 equals 1.0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predicate {
    /// Equals this value. A value of another kind is unclear, because a tool may read `"true"` as `true`.
    Equals(Value),
    /// Equals one of these values.
    OneOf(Vec<Value>),
    /// Equals none of these values. An absent value is unclear, because the tool's default may be one of them.
    NotOneOf(Vec<Value>),
    /// A text that the expression matches somewhere.
    Matches(Pattern),
    /// A number in this range, bounds included.
    Between {
        /// The smallest allowed number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<Number>,
        /// The largest allowed number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<Number>,
    },
    /// A path that is this folder or below it. For a path of a file tool,
    /// both its spelling and the file that it resolves to are checked.
    Under(String),
    /// Any value except `null`.
    Present,
    /// No value, or `null`.
    Absent,
}

/// Whether a matching rule allows or restricts calls. An unclear condition never lets a call run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Allows calls: a condition on a path must hold for the spelling and for the file.
    Permits,
    /// Denies calls or asks about them: a condition on a path must hold for the spelling or for the file.
    Restricts,
}

/// The reason why it is unclear whether a condition holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// The arguments cannot be parsed.
    #[error("the arguments could not be read")]
    Unreadable,
    /// The value has another kind than the condition expects.
    #[error("`{argument}` is {found}, and not {wanted}")]
    Kind {
        /// JSON pointer of the argument.
        argument: String,
        /// Kind of the value.
        found: &'static str,
        /// Expected kind.
        wanted: &'static str,
    },
    /// The arguments have no value at the location.
    #[error("`{argument}` is absent")]
    Absent {
        /// JSON pointer of the argument.
        argument: String,
    },
    /// The path cannot be compared.
    #[error("`{argument}`: {why}")]
    Path {
        /// JSON pointer of the argument.
        argument: String,
        /// The reason why the comparison fails.
        why: UnclearPath,
    },
    /// The regular expression is unusable.
    #[error("`{argument}`: the expression cannot be used: {why}")]
    Pattern {
        /// JSON pointer of the argument.
        argument: String,
        /// The compilation error.
        why: String,
    },
    /// The text is too long for a regular expression.
    #[error("`{argument}` is longer than {TEXT_MAX_BYTES} bytes")]
    TooLong {
        /// JSON pointer of the argument.
        argument: String,
    },
}

impl Condition {
    /// Whether the condition holds for a call's arguments; `None` means that they cannot be parsed.
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

    /// Whether the condition holds for a path that the tool's working folder has resolved.
    fn holds_of_path(&self, text: &str, target: &PathTarget, direction: Direction) -> Result<bool, Unclear> {
        let of_text = |text: &str| self.holds_of_value(&Value::String(text.to_owned()));
        let PathTarget { lexical, resolved, .. } = target;
        let of_absolute = |path: &str| target.absolute(path).map(|path| of_text(&path)).collect::<Vec<_>>();
        let of_list = |paths: &[Value]| {
            let is_listed = [lexical, resolved].map(|path| Ok(target.is_among(path, paths)));
            [of_text(text)].into_iter().chain(is_listed).collect::<Vec<_>>()
        };
        let answers: Vec<Result<bool, Unclear>> = match (&self.is, direction) {
            (Predicate::Under(folder), _) => {
                let below = |path| target.lies_under(path, folder).map_err(|why| self.unclear_path(why));
                vec![below(lexical), below(resolved)]
            }
            // Each spelling of a listed path, and each link to it, is excluded.
            (Predicate::NotOneOf(paths), _) => {
                let of_spelling = of_text(text).map(|other| other && !target.is_among(lexical, paths));
                vec![of_spelling, Ok(!target.is_among(resolved, paths))]
            }
            (Predicate::Equals(path), Direction::Restricts) => of_list(std::slice::from_ref(path)),
            (Predicate::OneOf(paths), Direction::Restricts) => of_list(paths),
            // An expression may be written for relative or for absolute paths.
            (_, Direction::Restricts) => {
                let relative = vec![of_text(text), of_text(lexical), of_text(resolved)];
                [relative, of_absolute(lexical), of_absolute(resolved)].concat()
            }
            // The file is written in the form of the spelling, so that an absolute expression is compared with
            // absolute paths.
            (_, Direction::Permits) if text.starts_with('/') => {
                vec![of_text(text), holds_of_some(of_absolute(resolved))]
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
            // The pointer has found a value.
            Predicate::Present => Ok(true),
            Predicate::Absent => Ok(false),
        }
    }

    /// Returns the value at the pointer. A pointer that passes through a text or a number was written for other
    /// arguments.
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

    /// Whether a value equals one of `values`. Unclear if the value
    /// equals none of them and all of them have another kind.
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

/// Returns true if one answer is true. Returns the error if no answer is true and one is unclear.
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

/// Decodes a reference token of RFC 6901 to the key.
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

/// Whether two values are equal: numbers by value, objects regardless of key order. Both were parsed with a depth
/// limit.
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

/// Compares two numbers by value: integers exactly, all others as floating point.
pub(super) fn compare(a: &Number, b: &Number) -> std::cmp::Ordering {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a.cmp(&b),
        // JSON numbers are finite, so any two of them compare; -0.0 equals 0.
        _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(std::cmp::Ordering::Equal),
    }
}

#[cfg(test)]
mod tests;
