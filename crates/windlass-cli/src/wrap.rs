//! Wraps lines between words at the terminal's width. Commands and names in backticks are not broken, so that they can
//! be copied. If such a piece is wider than the terminal, the terminal breaks it.

use std::borrow::Cow;

/// Minimum width in columns. On a narrower terminal, `hanging` does not wrap; the terminal breaks the lines.
const WIDTH_MIN: usize = 30;

/// Wraps a text that follows a prefix of `indent` columns, at a total width of `width` columns. Lines after the first
/// are indented by the same amount. If `width` is `None`, for a pipe or an unknown width, the text is unchanged.
pub fn hanging(text: &str, indent: usize, width: Option<usize>) -> Cow<'_, str> {
    let Some(width) = width.filter(|width| *width >= WIDTH_MIN) else { return Cow::Borrowed(text) };
    if text.lines().all(|line| indent + line.chars().count() <= width) {
        return Cow::Borrowed(text);
    }
    // If the prefix leaves less than the minimum width, indent the following lines by only two columns.
    let indent_after = if indent + WIDTH_MIN <= width { indent } else { 2 };
    let mut broken = String::with_capacity(text.len() + 16);
    for (nth, line) in text.split('\n').enumerate() {
        if nth > 0 {
            broken.push('\n');
        }
        let mut column = if nth == 0 { indent } else { 0 };
        for (nth, piece) in pieces(line).into_iter().enumerate() {
            let columns = piece.chars().count();
            if nth > 0 && column + 1 + columns > width {
                broken.push('\n');
                broken.extend(std::iter::repeat_n(' ', indent_after));
                column = indent_after;
            } else if nth > 0 {
                broken.push(' ');
                column += 1;
            }
            broken.push_str(piece);
            column += columns;
        }
    }
    Cow::Owned(broken)
}

/// Splits a line into unbreakable pieces: words, and text in backticks.
fn pieces(line: &str) -> Vec<&str> {
    // Treat unpaired backticks as ordinary characters.
    let is_paired = line.matches('`').count().is_multiple_of(2);
    let (mut pieces, mut begin, mut is_inside) = (Vec::new(), 0, false);
    for (at, c) in line.char_indices() {
        match c {
            '`' if is_paired => is_inside = !is_inside,
            ' ' if !is_inside => {
                pieces.push(&line[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&line[begin..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_not_in_commands() {
        let text = "set ANTHROPIC_API_KEY, or run `windlass trust /some/folder` on a terminal";
        assert_eq!(
            hanging(text, 6, Some(40)),
            "set ANTHROPIC_API_KEY, or run\n      `windlass trust /some/folder` on a\n      terminal"
        );
        assert_eq!(hanging(text, 6, None), text);
        assert_eq!(hanging(text, 6, Some(200)), text);
        let command = "`b c d e f g h i j k l m n o p q r s`";
        assert_eq!(hanging(&format!("a {command}"), 0, Some(30)), format!("a\n{command}"));
        assert_eq!(
            hanging("it`s a line with one tick in it, long", 0, Some(30)),
            "it`s a line with one tick in\nit, long"
        );
        assert_eq!(
            hanging("one\n  two three four five six seven", 0, Some(30)),
            "one\n  two three four five six\nseven"
        );
        assert_eq!(hanging("short", 25, Some(29)), "short");
    }
}
