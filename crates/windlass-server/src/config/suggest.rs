//! Explains errors in configuration files: the line, and the key that was probably intended.

use std::path::Path;

use crate::trouble::Trouble;

/// Minimum similarity of a suggested key, from 0 to 1.
const ALIKE: f64 = 0.6;

/// Converts a parser error.
pub fn explain(path: &Path, text: &str, error: &toml::de::Error) -> Trouble {
    let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
    let (what, hint) = words(error.message());
    let trouble = Trouble::usage(format!("{}:{line}: {what}", path.display()));
    hint.into_iter().fold(trouble, Trouble::hint)
}

/// Returns the message and the hint for a parser error.
pub fn words(message: &str) -> (String, Option<String>) {
    let Some((key, known)) = unknown_key(message) else {
        let mut parts = message.trim().splitn(2, "; ");
        let what = parts.next().unwrap_or_default().replace('\n', ", ");
        return (what, parts.next().map(str::to_owned));
    };
    let hint = match nearest(key, &known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("valid keys: {}", known.join(", ")),
    };
    (format!("unknown key `{key}`"), Some(hint))
}

/// Parses serde's message: "unknown field `x`, expected one of `a`, `b`".
fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.trim().strip_prefix("unknown field `")?;
    let (key, rest) = rest.split_once('`')?;
    Some((key, rest.split('`').skip(1).step_by(2).collect()))
}

/// Returns the most similar word, or `None` if no word is similar enough.
pub fn nearest<'w>(word: &str, known: &[&'w str]) -> Option<&'w str> {
    let likeness = |near: &str| strsim::jaro_winkler(&word.to_lowercase(), near);
    let best = known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) > ALIKE).then_some(best)
}
