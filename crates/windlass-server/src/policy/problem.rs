//! A problem of a policy file: its position in the text, and its printed form.

use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use windlass::machine::Severity;

use crate::config::suggest;
use crate::text::shown_line;

/// An error or warning about a policy file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Whether the file is still usable.
    pub severity: Word,
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    pub message: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Text of the line.
    pub text: String,
}

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    /// The file is not used.
    Error,
    /// The file may not have the intended meaning.
    Warning,
}

/// A part of a printed problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Highlight {
    Error,
    Warning,
    Hint,
    /// The bar next to the line of the file.
    Margin,
    /// The mark below the column.
    Mark,
}

/// A style function that highlights nothing.
#[cfg(test)]
pub fn plain(_: Highlight, text: &str) -> String {
    text.to_owned()
}

impl From<Severity> for Word {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Fault => Self::Error,
            Severity::Warning => Self::Warning,
        }
    }
}

impl Problem {
    /// Creates a problem at a byte offset of a text.
    pub fn at(text: &str, byte: usize, severity: Word, message: impl Into<String>) -> Self {
        let before = &text.as_bytes()[..byte.min(text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
        let whole = text.lines().nth(line).unwrap_or_default();
        Self { severity, line: line + 1, column, message: message.into(), hint: None, text: whole.to_owned() }
    }

    /// Creates the problem for a TOML parser error.
    pub fn of_toml(text: &str, error: &toml::de::Error) -> Self {
        let (what, hint) = suggest::words(error.message());
        let byte = error.span().map_or(0, |span| span.start);
        Self { hint, ..Self::at(text, byte, Word::Error, what) }
    }

    /// Formats the problem on one line, for an error that aborts a command.
    pub fn brief(&self, path: &str) -> String {
        format!("{path}:{}:{}: {}", self.line, self.column, self.message)
    }

    /// Formats the problem with its line of the file. `style` highlights parts of the text for a terminal.
    pub fn print(&self, path: &str, style: impl Fn(Highlight, &str) -> String) -> String {
        let word = match self.severity {
            Word::Error => style(Highlight::Error, "error:"),
            Word::Warning => style(Highlight::Warning, "warning:"),
        };
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let bar = style(Highlight::Margin, "│");
        let mark = style(Highlight::Mark, "^");
        // Keep tabs in front of the mark, so that their width stays the same.
        let shift: String =
            self.text.chars().take(self.column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let mut said = format!(
            "{word} {}\n {number} {bar} {}\n {margin} {bar} {shift}{mark}\n",
            shown_line(&self.brief(path)),
            shown_line(&self.text)
        );
        if let Some(hint) = &self.hint {
            said.push_str(&format!("{} {}\n", style(Highlight::Hint, "hint:"), shown_line(hint)));
        }
        said
    }
}

/// Positions of keys in a TOML text.
pub struct Places<'t> {
    root: Option<Spanned<DeTable<'t>>>,
}

impl<'t> Places<'t> {
    /// Parses a text.
    pub fn new(text: &'t str) -> Self {
        Self { root: DeTable::parse(text).ok() }
    }

    /// Returns the byte offset of a key in the `index`-th table of a list, or in a table of a list within that table.
    /// If the key is absent, returns the offset of the table.
    pub fn find(&self, list: &str, index: usize, inner: Option<(&str, usize)>, key: &str) -> usize {
        let Some(root) = &self.root else { return 0 };
        let mut place = 0;
        let mut table = root.get_ref();
        for (list, index) in [(list, index)].into_iter().chain(inner) {
            let Some(entry) = table.get(list).and_then(|list| list.get_ref().as_array()?.get(index)) else {
                return place;
            };
            place = entry.span().start;
            let DeValue::Table(inner) = entry.get_ref() else { return place };
            table = inner;
        }
        table.get_key_value(key).map_or(place, |(key, _)| key.span().start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_lines_and_characters() {
        let text = "a = 1\n\t\u{e4} = [\n]\n";
        let at = |byte| {
            let problem = Problem::at(text, byte, Word::Error, "x");
            (problem.line, problem.column, problem.text)
        };
        assert_eq!(at(0), (1, 1, "a = 1".into()));
        assert_eq!(at(9), (2, 3, "\t\u{e4} = [".into()));
        assert_eq!(at(14), (3, 1, "]".into()));
        assert_eq!(at(999), (4, 1, String::new()));
        let said = Problem::at(text, 9, Word::Error, "x").print("f", plain);
        assert_eq!(said, "error: f:2:3: x\n 2 │ \t\u{e4} = [\n   │ \t ^\n");
        // A byte offset within a character.
        assert_eq!(at(8), (2, 3, "\t\u{e4} = [".into()));
    }

    #[test]
    fn keys_are_found() {
        let text =
            "[[rule]]\nverdict = 'deny'\n[[rule]]\nname = 'x'\nwhen = [{ argument = '/a', min = 1 }]\n";
        let places = Places::new(text);
        let line =
            |byte: usize| text[..byte].lines().count().max(1) + usize::from(text[..byte].ends_with('\n'));
        assert_eq!(&text[places.find("rule", 1, None, "name")..][..4], "name");
        assert_eq!(&text[places.find("rule", 1, Some(("when", 0)), "min")..][..3], "min");
        assert_eq!(&text[places.find("rule", 1, Some(("when", 0)), "max")..][..1], "{");
        assert!(line(places.find("rule", 1, None, "tools")) >= 2);
        assert_eq!(places.find("rule", 7, None, "tools"), 0);
        assert_eq!(Places::new("= broken").find("rule", 0, None, "tools"), 0);
    }
}
