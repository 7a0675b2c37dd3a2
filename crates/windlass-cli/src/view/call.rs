//! Formats a tool call in one line.

use serde_json::Value;
use windlass::machine::Timestamp;
use windlass_server::text::{first_line, shown, shown_line};

/// Maximum length of a call's arguments in its label, in characters.
const LABEL_CHARS: usize = 60;

/// Formats a call's label: the tool, and its most telling argument.
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

/// Adds the tool server's name before a call's label. The engine's tools have no server.
pub fn of_server(server: Option<&str>, label: String) -> String {
    match server {
        Some(server) => format!("{}: {label}", shown_line(server)),
        None => label,
    }
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

/// Formats a duration, such as `1.5 s` or `2 min 3 s`.
pub fn seconds(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{:.1} s", (ms as f64 / 1000.0).max(0.1)),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// Formats an approximate duration in one unit.
pub fn span(ms: u64) -> String {
    let rounded = |unit: u64| (ms + unit / 2) / unit;
    match (rounded(60_000), rounded(3_600_000)) {
        _ if ms < 119_500 => format!("{} s", ms / 1000),
        (minutes @ ..120, _) => format!("{minutes} min"),
        (_, hours @ ..48) => format!("{hours} h"),
        _ => format!("{} d", rounded(86_400_000)),
    }
}

/// Formats a time in UTC. A time after the year 9999 is formatted as the end of that year.
pub fn moment(at: Timestamp) -> String {
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    moment.strftime("%Y-%m-%d %H:%M UTC").to_string()
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

    #[test]
    fn spans_and_moments() {
        let said: Vec<_> = [0, 119_000, 121_000, 7_100_000, 7_200_000, 200_000_000].map(span).into();
        assert_eq!(said, ["0 s", "119 s", "2 min", "118 min", "2 h", "2 d"]);
        let said: Vec<_> = [0, 951_827_640_000, 1_795_219_200_000].map(|ms| moment(Timestamp(ms))).into();
        assert_eq!(said, ["1970-01-01 00:00 UTC", "2000-02-29 12:34 UTC", "2026-11-21 00:00 UTC"]);
    }
}
