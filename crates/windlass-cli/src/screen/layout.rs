//! Lays out the bottom of the terminal: incomplete text, the input and the status line.
//!
//! Computes lines and performs no I/O.

use std::borrow::Cow;

use windlass_server::text::shown;

use unicode_segmentation::UnicodeSegmentation;

use super::wrap::{columns, cut, width, wrap};
use crate::paint::Paint;

/// The prompt before the input. Further lines are indented by the prompt's width.
pub const PROMPT: &str = "› ";

/// Maximum number of displayed lines of an incomplete block.
const LIVE_LINES: usize = 10;

/// Maximum number of bytes of an incomplete line that are laid out; no terminal displays more.
const PARTIAL_MAX_BYTES: usize = 16 * 1024;

/// Maximum number of displayed completion candidates.
const MENU_LINES: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// The content to lay out.
#[derive(Clone, Copy)]
pub struct Bottom<'a> {
    /// The incomplete block of a reply.
    pub live: &'a str,
    /// An incomplete line, such as a question before its answer.
    pub partial: &'a str,
    /// The run's current activity.
    pub activity: &'a str,
    pub text: &'a str,
    /// The cursor's byte index in `text`.
    pub cursor: usize,
    /// The completion candidates.
    pub menu: &'a [String],
    /// The status line: model, mode, context and cost.
    pub status: &'a str,
}

/// The laid-out lines, and the cursor's position in them.
#[derive(Debug, PartialEq, Eq)]
pub struct Drawing {
    pub lines: Vec<String>,
    /// Index of the cursor's line.
    pub row: usize,
    pub column: usize,
}

/// Lays out the bottom. Every line is narrower than the terminal, and all lines fit its height.
pub fn lay_out(bottom: Bottom<'_>, size: Size, paint: Paint) -> Drawing {
    let limit = size.columns.saturating_sub(1).max(8);
    let input = input(bottom.text, bottom.cursor, limit);
    let mut below: Vec<String> =
        bottom.menu.iter().take(MENU_LINES).map(|line| paint.dim(&cut(line, limit)).into_owned()).collect();
    if !bottom.status.is_empty() {
        below.push(paint.dim(&cut(bottom.status, limit)).into_owned());
    }
    let rows = size.rows.saturating_sub(1).max(2);
    // The input's lines around the cursor are always kept.
    let room = rows.saturating_sub(below.len()).max(1).min((rows / 2).max(1));
    let skipped = input.row.saturating_sub(room - 1).min(input.lines.len().saturating_sub(room));
    let shown: Vec<String> = input.lines.into_iter().skip(skipped).take(room).collect();
    let left = rows.saturating_sub(below.len() + shown.len()).min(LIVE_LINES);
    let mut lines = above(bottom, limit, paint);
    lines.drain(..lines.len().saturating_sub(left));
    let row = lines.len() + input.row - skipped;
    lines.extend(shown);
    below.truncate(rows.saturating_sub(lines.len()));
    lines.extend(below);
    Drawing { lines, row, column: input.column }
}

fn above(bottom: Bottom<'_>, limit: usize, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    if !bottom.live.is_empty() {
        // Only the last lines are visible, so only these are wrapped.
        let from = bottom.live.len().saturating_sub(limit * LIVE_LINES * 4);
        let from = (from..).find(|at| bottom.live.is_char_boundary(*at)).unwrap_or_default();
        lines.extend(wrap(bottom.live[from..].trim_end_matches('\n'), limit, ""));
    }
    if !bottom.partial.is_empty() {
        let from = bottom.partial.len().saturating_sub(PARTIAL_MAX_BYTES);
        let from = (from..).find(|at| bottom.partial.is_char_boundary(*at)).unwrap_or_default();
        lines.extend(wrap(&bottom.partial[from..], limit, "  "));
    }
    if !bottom.activity.is_empty() {
        lines.push(paint.dim(&cut(bottom.activity, limit)).into_owned());
    }
    lines
}

/// Breaks the input at the terminal's width instead of at words, so that the cursor's position depends on the text
/// alone.
fn input(text: &str, cursor: usize, limit: usize) -> Drawing {
    let begin = columns(PROMPT);
    let indent = " ".repeat(begin);
    let mut drawing = Drawing { lines: Vec::new(), row: 0, column: begin };
    let (mut line, mut column) = (PROMPT.to_owned(), begin);
    for (at, cluster) in text.grapheme_indices(true) {
        // Text from the history may contain control characters.
        let seen = match cluster {
            "\n" => Cow::Borrowed(cluster),
            "\t" => Cow::Borrowed("    "),
            _ => shown(cluster), // tidy: any other text
        };
        let wide = width(&seen);
        if cluster != "\n" && column + wide > limit {
            drawing.lines.push(std::mem::replace(&mut line, indent.clone()));
            column = begin;
        }
        if at == cursor {
            (drawing.row, drawing.column) = (drawing.lines.len(), column);
        }
        if cluster == "\n" {
            drawing.lines.push(std::mem::replace(&mut line, indent.clone()));
            column = begin;
        } else {
            line.push_str(&seen);
            column += wide;
        }
    }
    if cursor >= text.len() {
        if column >= limit {
            drawing.lines.push(std::mem::replace(&mut line, indent));
            column = begin;
        }
        (drawing.row, drawing.column) = (drawing.lines.len(), column);
    }
    drawing.lines.push(line);
    drawing
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: Bottom<'_> = Bottom {
        live: "",
        partial: "",
        activity: "",
        text: "",
        cursor: 0,
        menu: &[],
        status: "demo/script · agent",
    };

    fn check(bottom: Bottom<'_>, columns: usize, rows: usize) -> (String, (usize, usize)) {
        let drawing = lay_out(bottom, Size { columns, rows }, Paint::Plain);
        assert!(drawing.lines.len() < rows.max(3), "{drawing:?}");
        assert!(drawing.lines.iter().all(|line| super::columns(line) < columns.max(9)), "{drawing:?}");
        (drawing.lines.join("\n"), (drawing.row, drawing.column))
    }

    #[test]
    fn an_empty_input_has_a_prompt_and_the_status() {
        assert_eq!(check(EMPTY, 80, 24), ("› \ndemo/script · agent".into(), (0, 2)));
    }

    #[test]
    fn a_long_input_is_broken_at_the_edge() {
        let bottom = Bottom { text: "abcdefghij\nk", cursor: 10, ..EMPTY };
        assert_eq!(check(bottom, 10, 24), ("› abcdefg\n  hij\n  k\ndemo/scr…".into(), (1, 5)));
        let bottom = Bottom { text: "abcdefg", cursor: 7, ..EMPTY };
        assert_eq!(check(bottom, 10, 24).1, (1, 2), "the cursor has a place at the edge");
        let bottom = Bottom { text: "日本語日本", cursor: 9, ..EMPTY };
        assert_eq!(check(bottom, 10, 24), ("› 日本語\n  日本\ndemo/scr…".into(), (1, 2)));
    }

    #[test]
    fn text_that_is_not_complete_stands_above_and_is_wrapped_at_words() {
        let bottom = Bottom { live: "The sales grew in the north", partial: "  [a]pprove once: ", ..EMPTY };
        let (lines, _) = check(bottom, 16, 24);
        assert_eq!(lines, "The sales grew\nin the north\n  [a]pprove\n  once: \n› \ndemo/script · …");
    }

    #[test]
    fn a_small_terminal_keeps_the_input() {
        let live = "line\n".repeat(50);
        let bottom = Bottom { live: &live, text: "a\nb\nc\nd\ne\nf", cursor: 11, ..EMPTY };
        let (lines, cursor) = check(bottom, 20, 6);
        assert!(lines.contains("  f\n") && lines.starts_with("line\n"), "{lines}");
        assert_eq!(cursor, (3, 3));
    }

    #[test]
    fn wide_characters_fit_behind_the_indent() {
        check(Bottom { partial: "a 日🙂🙂🙂日🙂🙂", ..EMPTY }, 1, 6);
    }

    proptest::proptest! {
        #[test]
        fn it_always_fits(text in "[a-z日🙂\n ]{0,60}", at in 0_usize..60, columns in 1_usize..130, rows in 1_usize..40) {
            let places: Vec<usize> = text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]).collect();
            let cursor = places[at % places.len()];
            let bottom = Bottom { text: &text, cursor, live: &text, partial: &text.replace('\n', " "), ..EMPTY };
            let drawing = lay_out(bottom, Size { columns, rows }, Paint::Plain);
            proptest::prop_assert!(drawing.row < drawing.lines.len(), "{:?}", drawing);
            check(bottom, columns, rows);
        }
    }
}
