//! Renders a table. Columns are as wide as their cells, or narrower to fit the terminal.

use pulldown_cmark::Alignment;

use crate::paint::Paint;
use crate::screen::wrap::{columns, wrap};

/// Minimum width of a shrunk column, in columns of the terminal.
const COLUMN_MIN: usize = 6;

/// The separator between two columns.
const BAR: &str = " │ ";

/// The rows of a table; the first one is the header.
pub struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<String>>,
    row: Vec<String>,
}

impl Table {
    pub fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new(), row: Vec::new() }
    }

    pub fn cell(&mut self, text: String) {
        self.row.push(text);
    }

    pub fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    pub fn lines(&self, room: usize, paint: Paint) -> Vec<String> {
        let widths = self.widths(room);
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            let cells: Vec<Vec<String>> =
                row.iter().zip(&widths).map(|(cell, width)| wrap(cell.trim(), *width, "")).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or_default();
            for nth in 0..height {
                let texts = cells.iter().map(|cell| cell.get(nth).map_or("", String::as_str));
                let padded = texts.zip(&widths).enumerate().map(|(column, (text, width))| {
                    let text = if index == 0 { paint.bold(text) } else { text.into() };
                    self.padded(column, &text, *width)
                });
                lines.push(padded.collect::<Vec<_>>().join(BAR).trim_end().to_owned());
            }
            if index == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(paint.dim(&rules.join("─┼─")).into_owned());
            }
        }
        lines
    }

    fn padded(&self, column: usize, text: &str, width: usize) -> String {
        let missing = width.saturating_sub(columns(text));
        let before = match self.alignments.get(column) {
            Some(Alignment::Right) => missing,
            Some(Alignment::Center) => missing / 2,
            Some(Alignment::Left | Alignment::None) | None => 0,
        };
        format!("{}{text}{}", " ".repeat(before), " ".repeat(missing - before))
    }

    /// Computes column widths. Shrinks the widest columns until the table fits or all columns have the minimum width.
    fn widths(&self, room: usize) -> Vec<usize> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let cell = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |cell| columns(cell.trim()));
        let widest = |column| self.rows.iter().map(|row| cell(row, column)).max().unwrap_or_default().max(1);
        let mut widths: Vec<usize> = (0..count).map(widest).collect();
        let bars = columns(BAR) * count.saturating_sub(1);
        while widths.iter().sum::<usize>() + bars > room {
            match widths.iter_mut().max() {
                Some(width) if *width > COLUMN_MIN => *width -= 1,
                Some(_) | None => break,
            }
        }
        widths
    }
}
