//! Columns of the request list, fitted to the terminal. An id is never broken or truncated, so that it can be copied.

use super::TITLE_CHARS;
use super::find::Waiting;
use windlass_server::text::first_line;

/// Number of columns beside the request's title: for its kind, age and expiry, with the spaces between them.
const FIXED: usize = 9 + 2 + 8 + 2 + 10 + 2;

/// Minimum width of the request's title in columns. With fewer columns, each id is on a separate line.
const TITLE_MIN: usize = 16;

/// The width of the request's title, and the position of the ids.
pub struct Columns {
    title: usize,
    id_apart: bool,
}

impl Columns {
    /// Computes columns that fit the terminal. Without a terminal, uses a typical width.
    pub fn of(waiting: &[Waiting], width: Option<usize>) -> Self {
        let longest = waiting.iter().map(|waiting| waiting.open.interrupt.as_str().len()).max();
        Self::fitting(longest.unwrap_or_default(), width)
    }

    fn fitting(id: usize, width: Option<usize>) -> Self {
        let Some(width) = width else { return Self { title: TITLE_CHARS, id_apart: false } };
        match width.checked_sub(FIXED + id) {
            Some(title) if title >= TITLE_MIN => Self { title: title.min(TITLE_CHARS), id_apart: false },
            Some(_) | None => {
                // Without an id in the row, its two separating spaces are free.
                let title = width.saturating_sub(FIXED - 2).clamp(TITLE_MIN, TITLE_CHARS);
                Self { title, id_apart: true }
            }
        }
    }

    /// Returns the header line.
    pub fn head(&self) -> String {
        self.row(["ASKS", "WHAT", "AGE", "EXPIRES"], "ID")
    }

    /// Formats a row: kind, title, age, expiry and id.
    pub fn row(&self, [asks, what, age, expires]: [&str; 4], id: &str) -> String {
        let width = self.title;
        let what = first_line(what, width - 1);
        let row = format!("{asks:<9}{what:<width$}  {age:>8}  {expires:>10}");
        if self.id_apart { format!("{row}\n{:<9}{id}", "") } else { format!("{row}  {id}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_whole_on_every_terminal() {
        let id = "run_0123456789abcdef.12.3.0";
        for width in [40, 60, 80, 100, 200] {
            let columns = Columns::fitting(id.len(), Some(width));
            let title = "Write a-file-with-a-very-long-name-that-fits-on-no-terminal.md";
            let row = columns.row(["approve", title, "12 min", "in 30 min"], id);
            assert!(row.ends_with(id), "{row}");
            let widest = row.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(widest <= width.max(47), "{width}: {row}");
        }
    }
}
