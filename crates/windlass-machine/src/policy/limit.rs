//! Sizes of what a model is shown and of what is recorded about a failure, and the depth of recorded JSON.
//!
//! Limits of a run stand in `Limits`; these are the same for all.

use std::borrow::Cow;

use serde_json::Value;

/// Nested arrays and objects that a JSON value from outside may have. An event holds such a value at most 6 levels below
/// its own, a snapshot at most 12, and the decoder rejects a text of more than 127 levels.
pub const JSON_MAX_DEPTH: usize = 64;

/// Object keys with this prefix stand for something else when `serde_json` reads them back.
const RESERVED_KEYS: &str = "$serde_json::private::";

/// Checks that a JSON value from outside can be recorded and read back. The error completes a sentence about the value.
///
/// Never descends below [`JSON_MAX_DEPTH`], so that a value of any depth can be checked.
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

/// Characters of one result's text that the model is shown at most. (LM-L6)
pub const RESULT_MAX_CHARS: usize = 100_000;

/// Parts of one result that the model is shown at most: as many as a step may have calls, unless its agent says
/// otherwise.
pub const RESULT_MAX_PARTS: usize = 128;

/// Characters that are recorded of what a failure says: more than the longest explanations of providers, and far less
/// than a trace or a page that a broken one sends instead.
pub const FAILURE_MAX_CHARS: usize = 2_000;

/// Shortens what a failure says to [`FAILURE_MAX_CHARS`] characters, keeping the beginning and telling how much is left
/// out. What is shorter comes back as it is.
pub fn shorten_failure(text: &str) -> Cow<'_, str> {
    let total = text.chars().count();
    if total <= FAILURE_MAX_CHARS {
        return Cow::Borrowed(text);
    }
    // Room for the note with the largest figures.
    let keep = FAILURE_MAX_CHARS - 80;
    let end = text.char_indices().nth(keep).map_or(text.len(), |(end, _)| end);
    Cow::Owned(format!("{} [… {} of {total} characters left out …]", &text[..end], total - keep))
}

/// Shortens the texts of a result to [`RESULT_MAX_CHARS`] characters in all, keeping the beginning and the end of what
/// they say together and telling in between how much is left out. A text that is left out whole comes back empty, and
/// shorter results come back as they are.
pub fn shorten_result(texts: Vec<String>) -> Vec<String> {
    // Texts of so few bytes cannot have more characters.
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
        // The cut falls into one text alone, which tells of it.
        let note = if (first..before).contains(&head) { note.as_str() } else { "" };
        match note.is_empty() && head_end == text.len() {
            true => text,
            false => format!("{}{note}{}", &text[..head_end], &text[tail_start..]),
        }
    });
    shortened.collect()
}
