//! Measures and wraps coloured text for a terminal of a given width.
//!
//! The only escape sequences in such a text are our own colours; untrusted text was escaped earlier.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

const RESET: &str = "\x1b[0m";

enum Piece<'t> {
    /// A colour sequence, which takes no columns.
    Color(&'t str),
    /// A grapheme cluster.
    Cluster(&'t str),
}

/// Returns the width of a text in columns.
pub fn columns(text: &str) -> usize {
    pieces(text).map(|piece| if let Piece::Cluster(cluster) = piece { width(cluster) } else { 0 }).sum()
}

/// Returns the width of a grapheme cluster in columns.
pub fn width(cluster: &str) -> usize {
    match cluster {
        "\t" => 4,
        _ => cluster.width(),
    }
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.starts_with("\x1b[") {
            let end = rest[2..].find(|c: char| ('@'..='~').contains(&c)).map_or(rest.len(), |at| at + 3);
            let (color, after) = rest.split_at(end);
            rest = after;
            return Some(Piece::Color(color));
        }
        let cluster = rest.graphemes(true).next()?;
        // A colour sequence may directly follow a character and does not belong to its cluster.
        let length = cluster.find('\x1b').filter(|at| *at > 0).unwrap_or(cluster.len());
        let (cluster, after) = rest.split_at(length);
        rest = after;
        Some(Piece::Cluster(cluster))
    })
}

/// Wraps each line of a text at words. Continuation lines begin with `indent`.
pub fn wrap<'t>(text: &'t str, columns: usize, indent: &'t str) -> Vec<String> {
    wrap_lines(text, columns, |_| indent)
}

/// Wraps notes. Continuation lines have the indentation of their first line.
pub fn wrap_notes(text: &str, columns: usize) -> String {
    let blanks = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let lines = wrap_lines(text, columns, |line| &line[..blanks(line).min(columns / 2)]);
    lines.join("\n")
}

fn wrap_lines<'t>(text: &'t str, columns: usize, indent: impl Fn(&'t str) -> &'t str) -> Vec<String> {
    let mut all = Vec::new();
    let mut color = String::new();
    for line in text.split('\n') {
        let mut wrapping = Wrapping::new(columns, indent(line), color);
        pieces(line).for_each(|piece| wrapping.take(&piece));
        color = wrapping.finish(&mut all);
    }
    all
}

/// A position at which the line can be broken.
struct Break {
    bytes: usize,
    column: usize,
    color: String,
}

/// A line that is being filled.
struct Wrapping<'i> {
    limit: usize,
    indent: &'i str,
    lines: Vec<String>,
    line: String,
    column: usize,
    /// The column at which the line's text begins, after the indentation.
    begin: usize,
    /// Whether the line has only spaces so far. These must not become a break.
    is_blank: bool,
    /// The colours in effect at the end of the line.
    color: String,
    last: Option<Break>,
}

impl<'i> Wrapping<'i> {
    fn new(limit: usize, indent: &'i str, color: String) -> Self {
        let (lines, line) = (Vec::new(), color.clone());
        Self {
            limit: limit.max(4),
            indent,
            lines,
            line,
            column: 0,
            begin: 0,
            is_blank: true,
            color,
            last: None,
        }
    }

    fn take(&mut self, piece: &Piece<'_>) {
        let cluster = match piece {
            Piece::Color(color) => {
                self.line.push_str(color);
                if *color == RESET {
                    self.color.clear()
                } else {
                    self.color.push_str(color)
                }
                return;
            }
            Piece::Cluster(cluster) => *cluster,
        };
        let wide = width(cluster);
        // The text after a break may be too wide for the next line as well, because of the indentation.
        while self.column + wide > self.limit && self.column > self.begin {
            if cluster == " " {
                self.next(None);
                return;
            }
            let last = self.last.take();
            self.next(last);
        }
        self.line.push_str(if cluster == "\t" { "    " } else { cluster });
        self.column += wide;
        self.is_blank &= cluster == " ";
        if cluster == " " && !self.is_blank {
            self.last =
                Some(Break { bytes: self.line.len(), column: self.column, color: self.color.clone() });
        }
    }

    /// Starts a new line at a break, or at the end of the line.
    fn next(&mut self, at: Option<Break>) {
        let end = Break { bytes: self.line.len(), column: self.column, color: self.color.clone() };
        let at = at.unwrap_or(end);
        let rest = self.line.split_off(at.bytes);
        let mut line = std::mem::take(&mut self.line);
        line.truncate(line.trim_end_matches(' ').len());
        if !at.color.is_empty() {
            line.push_str(RESET);
        }
        self.lines.push(line);
        self.begin = columns(self.indent);
        self.is_blank = rest.is_empty();
        self.line = format!("{}{}{rest}", self.indent, at.color);
        self.column = self.begin + self.column - at.column;
        self.last = None;
    }

    fn finish(mut self, all: &mut Vec<String>) -> String {
        if !self.color.is_empty() {
            self.line.push_str(RESET);
        }
        self.lines.push(self.line);
        all.append(&mut self.lines);
        self.color
    }
}

/// Truncates a text to one line of `limit` columns.
pub fn cut(text: &str, limit: usize) -> String {
    if columns(text) <= limit {
        return text.to_owned();
    }
    let (mut line, mut column, mut is_colored) = (String::new(), 0, false);
    for piece in pieces(text) {
        match piece {
            Piece::Color(color) => {
                line.push_str(color);
                is_colored = color != RESET;
            }
            Piece::Cluster(cluster) if column + width(cluster) < limit => {
                line.push_str(cluster);
                column += width(cluster);
            }
            Piece::Cluster(_) => break,
        }
    }
    line.push('…');
    if is_colored {
        line.push_str(RESET);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_words_and_long_words_where_they_must() {
        assert_eq!(wrap("one two three", 8, ""), ["one two", "three"]);
        assert_eq!(wrap("one two three", 7, "  "), ["one two", "  three"]);
        assert_eq!(wrap("abcdefghij k", 4, ""), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrap("a\n\nb", 8, ""), ["a", "", "b"]);
        assert_eq!(wrap_notes("one\n  indented text", 12), "one\n  indented\n  text");
        assert_eq!(wrap("  abcdefgh", 6, ""), ["  abcd", "efgh"], "blanks alone are no line");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!((columns("日本 ä🙂"), columns("\x1b[1mab\x1b[0m")), (8, 2));
        assert_eq!(wrap("日本語", 4, ""), ["日本", "語"]);
        assert_eq!(cut("日本語", 5), "日本…");
    }

    #[test]
    fn a_colour_ends_with_its_line_and_begins_again() {
        let wrapped = wrap("\x1b[1mone two\x1b[0m three", 4, "> ");
        assert_eq!(
            wrapped,
            ["\x1b[1mone\x1b[0m", "> \x1b[1mtw\x1b[0m", "> \x1b[1mo\x1b[0m", "> th", "> re", "> e"]
        );
        assert_eq!(cut("\x1b[2mabcdef\x1b[0m", 4), "\x1b[2mabc…\x1b[0m");
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_too_wide_and_no_letter_is_lost(text in "[a-z 日🙂]{0,80}", limit in 4_usize..40, indent in 0_usize..3) {
            let wrapped = wrap(&text, limit, &"  "[..indent]);
            proptest::prop_assert!(wrapped.iter().all(|line| columns(line) <= limit), "{:?}", wrapped);
            let letters = |text: &str| text.replace(' ', "");
            proptest::prop_assert_eq!(letters(&wrapped.concat()), letters(&text));
        }
    }
}
