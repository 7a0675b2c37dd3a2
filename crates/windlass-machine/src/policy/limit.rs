//! Limits that are the same for all runs: sizes of texts for models, of failure messages, and the depth of recorded
//! JSON.
//!
//! Configurable limits of a run are in `Limits`.

use std::borrow::Cow;

use serde_json::Value;

/// Maximum nesting of an external JSON value. An event contains such a value at most 6 levels deep, a snapshot at
/// most 12, and the decoder rejects more than 127 levels.
pub const JSON_MAX_DEPTH: usize = 64;

/// Object keys with this prefix have a special meaning to `serde_json`.
const RESERVED_KEYS: &str = "$serde_json::private::";

/// Checks that an external JSON value can be recorded and decoded. The error completes a sentence about the value.
///
/// Never descends below [`JSON_MAX_DEPTH`], so that values of any depth can be checked.
pub fn check_json(value: &Value) -> Result<(), String> {
    check_levels(value, JSON_MAX_DEPTH)
}

fn check_levels(value: &Value, left: usize) -> Result<(), String> {
    match value {
        Value::Array(_) | Value::Object(_) if left == 0 => {
            Err(format!("is nested more than {JSON_MAX_DEPTH} levels deep"))
        }
        Value::Array(items) => items.iter().try_for_each(|item| check_levels(item, left - 1)),
        Value::Object(members) => members.iter().try_for_each(|(name, member)| {
            if name.starts_with(RESERVED_KEYS) {
                return Err(format!("has the reserved key `{name}`"));
            }
            check_levels(member, left - 1)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Maximum number of characters of one result that the model sees. (LM-L6)
pub const RESULT_MAX_CHARS: usize = 100_000;

/// Maximum number of parts of one result that the model sees; equals the default maximum of calls per step.
pub const RESULT_MAX_PARTS: usize = 128;

/// Maximum number of recorded characters of a failure. The longest
/// explanations of providers fit, but no stack traces or error pages.
pub const FAILURE_MAX_CHARS: usize = 2_000;

/// Truncates a failure message to [`FAILURE_MAX_CHARS`] characters. Keeps the beginning and adds a note with the
/// number of removed characters. Shorter messages are returned unchanged.
pub fn shorten_failure(text: &str) -> Cow<'_, str> {
    let total = text.chars().count();
    if total <= FAILURE_MAX_CHARS {
        return Cow::Borrowed(text);
    }
    // Reserve space for the note with the largest numbers.
    let keep = FAILURE_MAX_CHARS - 80;
    let end = text.char_indices().nth(keep).map_or(text.len(), |(end, _)| end);
    Cow::Owned(format!("{} [… {} of {total} characters left out …]", &text[..end], total - keep))
}

/// Truncates the texts of a result to [`RESULT_MAX_CHARS`] characters in total. Keeps the beginning and the end of
/// their concatenation, with a note about the number of removed characters in between. A text that is cut entirely
/// becomes empty. Shorter results are returned unchanged.
pub fn shorten_result(texts: Vec<String>) -> Vec<String> {
    // A text has at most as many characters as bytes.
    if texts.iter().map(String::len).sum::<usize>() <= RESULT_MAX_CHARS {
        return texts;
    }
    let counts: Vec<usize> = texts.iter().map(|text| text.chars().count()).collect();
    let total: usize = counts.iter().sum();
    if total <= RESULT_MAX_CHARS {
        return texts;
    }
    let note = format!(
        "\n\n[… {} of {total} characters left out; ask for a part, for example with an offset or a pattern …]\n\n",
        total - RESULT_MAX_CHARS
    );
    let keep = RESULT_MAX_CHARS - note.chars().count();
    let head = keep * 3 / 4;
    let tail_start = total - (keep - head);
    let mut before = 0;
    let shortened = texts.into_iter().zip(counts).map(|(text, count)| {
        let first = before;
        before += count;
        let byte = |at: usize| {
            text.char_indices().nth(at.saturating_sub(first)).map_or(text.len(), |(byte, _)| byte)
        };
        let (head_end, tail_start) = (byte(head), byte(tail_start));
        // Only the text that contains the cut gets the note.
        let note = if (first..before).contains(&head) { note.as_str() } else { "" };
        match note.is_empty() && head_end == text.len() {
            true => text,
            false => format!("{}{note}{}", &text[..head_end], &text[tail_start..]),
        }
    });
    shortened.collect()
}
