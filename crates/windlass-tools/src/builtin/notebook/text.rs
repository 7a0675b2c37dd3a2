//! A notebook as text: the positions and formatting of its cells, and replacement of parts.
//!
//! This module does not interpret the arguments of an edit.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A replacement for a range of the text.
pub(super) struct Splice {
    range: Range<usize>,
    text: String,
}

/// The cells of a notebook, as slices of its text.
pub(super) struct Cells<'a> {
    text: &'a str,
    /// The text of the array of cells.
    raw: &'a str,
    pub cells: Vec<Cell<'a>>,
    /// Whether cells have ids. (nbformat 4.5)
    pub has_ids: bool,
}

/// A cell, as a slice of the text.
pub(super) struct Cell<'a> {
    pub raw: &'a str,
    pub kind: String,
    pub id: Option<Cow<'a, str>>,
    pub source: &'a str,
    pub outputs: Option<&'a str>,
    pub execution_count: Option<&'a str>,
}

#[derive(Deserialize)]
struct RawNotebook<'a> {
    nbformat: u64,
    #[serde(default)]
    nbformat_minor: u64,
    #[serde(borrow)]
    cells: &'a RawValue,
}

#[derive(Deserialize)]
struct RawCell<'a> {
    cell_type: String,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    source: &'a RawValue,
    #[serde(borrow, default)]
    outputs: Option<&'a RawValue>,
    // An `Option` would treat `null` as absent.
    #[serde(borrow, default)]
    execution_count: Present<'a>,
}

/// A member that may be present and `null`.
#[derive(Default)]
struct Present<'a>(Option<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Present<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'a RawValue>::deserialize(deserializer).map(|raw| Self(Some(raw)))
    }
}

impl<'a> Cells<'a> {
    /// Finds the cells. The error is a phrase to be appended to the file's name.
    pub(super) fn read(text: &'a str) -> Result<Self, String> {
        let bad = |error: serde_json::Error| format!("is not a notebook: {error}");
        let notebook: RawNotebook<'a> = serde_json::from_str(text).map_err(bad)?;
        if notebook.nbformat != 4 {
            let found = notebook.nbformat;
            return Err(format!(
                "has nbformat {found}; only 4 is supported: upgrade it with `jupyter nbconvert`"
            ));
        }
        let raws: Vec<&'a RawValue> = serde_json::from_str(notebook.cells.get()).map_err(bad)?;
        let cells: Result<Vec<Cell<'a>>, String> = raws
            .into_iter()
            .enumerate()
            .map(|(at, raw)| {
                let cell: RawCell<'a> = serde_json::from_str(raw.get())
                    .map_err(|error| format!("has an invalid cell {at}: {error}"))?;
                Ok(Cell {
                    raw: raw.get(),
                    kind: cell.cell_type,
                    id: cell.id,
                    source: cell.source.get(),
                    outputs: cell.outputs.map(RawValue::get),
                    execution_count: cell.execution_count.0.map(RawValue::get),
                })
            })
            .collect();
        let has_ids = notebook.nbformat_minor >= 5;
        Ok(Self { text, raw: notebook.cells.get(), cells: cells?, has_ids })
    }

    /// Returns the range of a slice within the text.
    fn range(&self, piece: &str) -> Range<usize> {
        let start = piece.as_ptr() as usize - self.text.as_ptr() as usize;
        start..start + piece.len()
    }

    /// Removes a cell with its comma and white space.
    pub(super) fn without(&self, at: usize) -> Splice {
        let of = |at: usize| self.range(self.cells[at].raw);
        let range = match (at, self.cells.len()) {
            (_, 1) => return Splice { range: self.range(self.raw), text: "[]".into() },
            (at, count) if at + 1 < count => of(at).start..of(at + 1).start,
            (at, _) => of(at - 1).end..of(at).end,
        };
        Splice { range, text: String::new() }
    }
}

/// The formatting of a notebook. Jupyter indents by one space per level.
pub(super) struct Style {
    /// The indentation of one level; `None` if the notebook is one line.
    indent: Option<String>,
    newline: &'static str,
}

impl Style {
    /// Detects the formatting of a text.
    pub(super) fn of(text: &str) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let first = text.trim_start().strip_prefix('{').unwrap_or_default();
        let blanks: String = first.chars().take_while(|c| c.is_ascii_whitespace()).collect();
        let indent = blanks.rsplit_once('\n').map(|(_, indent)| indent.to_owned());
        Self { indent: indent.map(|indent| if indent.is_empty() { " ".into() } else { indent }), newline }
    }

    /// Converts a source to the notebook's form: a list of lines, or one text if the old source was one text.
    pub(super) fn source(&self, source: &str, as_text: bool) -> Value {
        match as_text {
            true => source.into(),
            false => json!(source.split_inclusive('\n').collect::<Vec<_>>()),
        }
    }

    /// Replaces a slice by a value, indented like its line.
    pub(super) fn splice(&self, cells: &Cells<'_>, piece: &str, value: &Value) -> Splice {
        let range = cells.range(piece);
        let line = cells.text[..range.start].rsplit('\n').next().unwrap_or_default();
        let base: String = line.chars().take_while(|c| c.is_ascii_whitespace()).collect();
        Splice { text: self.write(value, &base), range }
    }

    /// Inserts a cell, with the same separators as the others.
    pub(super) fn insert(&self, cells: &Cells<'_>, at: usize, value: &Value) -> Splice {
        let array = cells.range(cells.raw);
        let (Some(first), Some(last)) = (cells.cells.first(), cells.cells.last()) else {
            let Some(indent) = &self.indent else {
                return Splice { range: array, text: format!("[{}]", self.write(value, "")) };
            };
            let (base, newline) = (indent.repeat(2), self.newline);
            let text = format!("[{newline}{base}{}{newline}{indent}]", self.write(value, &base));
            return Splice { range: array, text };
        };
        let (first, last) = (cells.range(first.raw), cells.range(last.raw));
        let apart = &cells.text[array.start + 1..first.start];
        let base = apart.rsplit('\n').next().filter(|_| apart.contains('\n')).unwrap_or_default();
        let written = self.write(value, base);
        match cells.cells.get(at) {
            Some(next) => {
                let start = cells.range(next.raw).start;
                Splice { range: start..start, text: format!("{written},{apart}") }
            }
            None => Splice { range: last.end..last.end, text: format!(",{apart}{written}") },
        }
    }

    /// Formats a value; lines after the first start with `base`.
    fn write(&self, value: &Value, base: &str) -> String {
        let Some(indent) = &self.indent else { return value.to_string() };
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        // Cannot fail: JSON is written to memory as UTF-8.
        let written = value.serialize(&mut serializer).ok().and_then(|()| String::from_utf8(bytes).ok());
        let written = written.unwrap_or_else(|| value.to_string());
        written.replace('\n', &format!("{}{base}", self.newline))
    }
}

/// Applies replacements that do not overlap.
pub(super) fn apply(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|splice| splice.range.start);
    let mut new = String::with_capacity(text.len());
    let mut at = 0;
    for Splice { range, text: piece } in splices {
        new.push_str(&text[at..range.start]);
        new.push_str(&piece);
        at = range.end;
    }
    new + &text[at..]
}
