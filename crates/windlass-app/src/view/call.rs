//! A tool call in one line.

use serde_json::Value;

use crate::console::{first_line, shown};

/// Characters of a call's arguments in one line.
const LABEL_CHARS: usize = 60;

/// Names a call: the tool and what it is about.
pub fn label(tool: &str, arguments: &str) -> String {
    let about = about(arguments);
    let about = shown(&about);
    let label = if about.is_empty() {
        tool.to_owned()
    } else {
        format!("{tool} {}", first_line(&about, LABEL_CHARS))
    };
    shown(&label).into_owned()
}

fn about(arguments: &str) -> String {
    let Ok(Value::Object(members)) = serde_json::from_str::<Value>(arguments) else {
        return arguments.trim().to_owned();
    };
    let text = |key: &str| members.get(key).and_then(Value::as_str).map(str::to_owned);
    ["file_path", "pattern", "path", "command", "query", "url", "name"]
        .iter()
        .find_map(|key| text(key))
        .or_else(|| members.values().find_map(Value::as_str).map(str::to_owned))
        .unwrap_or_else(
            || if members.is_empty() { String::new() } else { Value::Object(members).to_string() },
        )
}

/// A duration as people say it.
pub fn seconds(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{:.1} s", (ms as f64 / 1000.0).max(0.1)),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_one_line() {
        assert_eq!(label("Write", r#"{"file_path":"a.md","content":"x"}"#), "Write a.md");
        assert_eq!(label("Glob", r#"{"pattern":"*"}"#), "Glob *");
        assert_eq!(label("Odd", r#"{"n":1}"#), r#"Odd {"n":1}"#);
        assert_eq!(label("None", "{}"), "None");
        assert_eq!(label("Bad", "not json \x1b[2J"), "Bad not json ␛[2J");
    }

    #[test]
    fn durations() {
        let said: Vec<_> = [0, 149, 1_250, 61_000, 3_661_000].map(seconds).into();
        assert_eq!(said, ["0.1 s", "0.1 s", "1.2 s", "1 min 1 s", "1 h 1 min"]);
    }
}
