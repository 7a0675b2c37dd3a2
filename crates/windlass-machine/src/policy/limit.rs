//! Sizes of what a model is shown.
//!
//! Limits of a run stand in `Limits`; these are the same for all.

/// Characters of one result's text that the model is shown at most. (LM-L6)
pub const RESULT_MAX_CHARS: usize = 100_000;

/// Shortens a text to [`RESULT_MAX_CHARS`] characters, keeping its beginning and its end and saying in between how
/// much is left out. Shorter texts come back as they are.
pub fn shorten_result(text: String) -> String {
    // A text of so few bytes cannot have more characters.
    if text.len() <= RESULT_MAX_CHARS {
        return text;
    }
    let total = text.chars().count();
    if total <= RESULT_MAX_CHARS {
        return text;
    }
    let note = format!(
        "\n\n[… {} of {total} characters left out; ask for a part, for example with an offset or a pattern …]\n\n",
        total - RESULT_MAX_CHARS
    );
    let keep = RESULT_MAX_CHARS - note.chars().count();
    let (head, tail) = (keep * 3 / 4, keep - keep * 3 / 4);
    let head_end = text.char_indices().nth(head).map_or(text.len(), |(at, _)| at);
    let tail_start = text.char_indices().nth(total - tail).map_or(text.len(), |(at, _)| at);
    format!("{}{note}{}", &text[..head_end], &text[tail_start..])
}
