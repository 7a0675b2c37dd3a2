//! Parses the lines of a golden transcript.

use windlass_machine::{CallKey, Run};

/// Splits a line into words, `"quoted texts"` and `{objects}`.
pub fn words(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word = String::new();
    let (mut quoted, mut depth) = (false, 0);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if quoted && depth == 0 => word.push(match chars.next() {
                Some('n') => '\n',
                Some(other) => other,
                None => '\\',
            }),
            '"' if depth == 0 => {
                quoted = !quoted;
                // An empty quoted text counts as a word.
                if !quoted && word.is_empty() {
                    found.push(String::new());
                }
            }
            '{' if !quoted => {
                depth += 1;
                word.push(c);
            }
            '}' if !quoted => {
                depth -= 1;
                word.push(c);
            }
            ' ' if !quoted && depth == 0 => {
                if !word.is_empty() {
                    found.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        found.push(word);
    }
    found
}

/// Returns the value of `name=value` among the words.
pub fn option<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

pub fn number(words: &[String], name: &str) -> Option<u64> {
    option(words, name).map(|value| value.parse().unwrap_or_else(|_| panic!("`{name}={value}` is no number")))
}

pub fn has(words: &[String], word: &str) -> bool {
    words.iter().any(|other| other == word)
}

pub fn json<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_value(serde_json::Value::String(text.into())).unwrap_or_else(|e| panic!("`{text}`: {e}"))
}

pub fn key(text: &str, run: Option<&Run>) -> CallKey {
    let step = run.map_or(0, |run| run.attempt.step);
    match text.split_once('/') {
        Some((step, index)) => CallKey { step: step.parse().unwrap(), index: index.parse().unwrap() },
        None => CallKey { step, index: text.parse().unwrap_or_else(|_| panic!("`{text}` is no call")) },
    }
}
