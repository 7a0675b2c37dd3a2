//! The acceptance table: parses it, checks its completeness, and updates states.
//!
//! The required rows are defined by series; each series counts from 1 without a gap.

use std::collections::HashSet;

use anyhow::{Result, bail};

/// All series of rows and their lengths: 574 rows in total.
const SERIES: &[(&str, usize)] = &[
    ("SK-G", 22),
    ("SK-ST", 5),
    ("SK-C", 20),
    ("SK-L", 15),
    ("SK-A", 13),
    ("SK-E", 27),
    ("SK-R", 13),
    ("SK-M", 57),
    ("SK-P", 16),
    ("SK-T", 6),
    ("SK-U", 15),
    ("SK-X", 14),
    ("ZE-E", 15),
    ("ZE-S", 9),
    ("ZE-H", 15),
    ("ZE-C", 15),
    ("ZE-P", 9),
    ("ZE-X", 11),
    ("ZE-O", 6),
    ("WT-L", 14),
    ("WT-S", 12),
    ("WT-H", 13),
    ("WT-E", 11),
    ("WT-X", 9),
    ("LM-G", 16),
    ("LM-R", 17),
    ("LM-X", 18),
    ("LM-L", 10),
    ("LM-H", 8),
    ("LM-T", 19),
    ("LM-S", 7),
    ("LM-M", 3),
    ("LM-K", 4),
    ("LM-A", 13),
    ("LM-W", 15),
    ("LM-P", 5),
    ("LM-I", 10),
    ("LM-O", 7),
    ("LM-N", 12),
    ("LM-B", 9),
    ("LM-Z", 6),
    ("OV-", 22),
    ("CF-", 11),
];

/// Maximum length of a description in characters. A longer one should be two rows or a separate page.
const DESCRIPTION_CHARS_MAX: usize = 110;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    Works,
    DecidedOtherwise,
    NotYet,
}

#[derive(Debug, PartialEq)]
pub struct Row {
    /// The id, such as `SK-G3`.
    pub id: String,
    pub state: State,
    /// The line in the file, counted from 1.
    pub line: usize,
}

/// The rows of the file, and its errors.
#[derive(Debug, Default)]
pub struct Table {
    pub rows: Vec<Row>,
    pub errors: Vec<String>,
}

impl Table {
    /// Parses all rows of all tables in the file.
    pub fn parse(text: &str) -> Self {
        let mut table = Self::default();
        for (index, line) in text.lines().enumerate() {
            let Some(cells) = cells_of(line) else { continue };
            match row_of(&cells, index + 1) {
                Ok(row) => table.rows.push(row),
                Err(problem) => table.errors.push(format!("docs/rows.md:{}: {problem}", index + 1)),
            }
        }
        table.check_ids();
        table
    }

    fn check_ids(&mut self) {
        let expected: Vec<String> = SERIES
            .iter()
            .flat_map(|(series, count)| (1..=*count).map(move |n| format!("{series}{n}")))
            .collect();
        let mut seen = HashSet::new();
        for row in &self.rows {
            if !expected.contains(&row.id) {
                self.errors.push(format!("docs/rows.md:{}: unknown row `{}`", row.line, row.id));
            }
            if !seen.insert(row.id.as_str()) {
                self.errors.push(format!("docs/rows.md:{}: `{}` is listed twice", row.line, row.id));
            }
        }
        for id in expected.iter().filter(|id| !seen.contains(id.as_str())) {
            self.errors.push(format!("docs/rows.md: `{id}` is missing"));
        }
    }
}

/// Sets the state of these rows to `works`. Returns the new text and the number of changed rows.
pub fn claim(text: &str, ids: &[String]) -> Result<(String, usize)> {
    let mut found = HashSet::new();
    let mut changed = 0;
    let mut lines = Vec::new();
    for line in text.lines() {
        let claimed = cells_of(line).filter(|cells| ids.iter().any(|id| id == cells[0]));
        let Some(cells) = claimed else {
            lines.push(line.to_owned());
            continue;
        };
        let new = format!("| {} | {} | works |", cells[0], cells.get(1).copied().unwrap_or_default());
        changed += usize::from(new != line);
        found.insert(cells[0]);
        lines.push(new);
    }
    if let Some(unknown) = ids.iter().find(|id| !found.contains(id.as_str())) {
        bail!("unknown row `{unknown}`");
    }
    Ok((lines.join("\n") + "\n", changed))
}

/// Returns the cells of a table line whose first cell has the form of an id.
fn cells_of(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = inner.split('|').map(str::trim).collect();
    looks_like_id(cells[0]).then_some(cells)
}

/// Whether a cell has two capital letters, a hyphen, optional letters, and a final number.
fn looks_like_id(cell: &str) -> bool {
    let Some((system, rest)) = cell.split_once('-') else { return false };
    let number = rest.trim_start_matches(|char: char| char.is_ascii_alphabetic());
    let is_number = !number.is_empty() && number.chars().all(|char| char.is_ascii_digit());
    system.len() == 2 && system.chars().all(|char| char.is_ascii_uppercase()) && is_number
}

fn row_of(cells: &[&str], line: usize) -> Result<Row> {
    let [id, description, state] = cells else {
        bail!("`{}` has {} cells; write id, description and state", cells[0], cells.len());
    };
    let length = description.chars().count();
    if length == 0 || length > DESCRIPTION_CHARS_MAX {
        bail!("`{id}` is described in {length} characters; use 1 to {DESCRIPTION_CHARS_MAX}");
    }
    Ok(Row { id: (*id).to_owned(), state: state_of(id, state)?, line })
}

fn state_of(id: &str, state: &str) -> Result<State> {
    let is_owned = state.starts_with("not yet (") && state.ends_with(')');
    match state {
        "works" => Ok(State::Works),
        "not yet" => Ok(State::NotYet),
        _ if is_owned => Ok(State::NotYet),
        _ if state.strip_prefix("decided otherwise: ").is_some_and(|why| !why.is_empty()) => {
            Ok(State::DecidedOtherwise)
        }
        _ => bail!("`{id}` is `{state}`; write `works`, `decided otherwise: <why>` or `not yet (issue n)`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_other_lines_are_not() {
        let text = "# Rows\n| ID | What | State |\n|---|---|---|\n| SK-G1 | It goes. | works |\n| CF-11 | So. | not yet (issue 4) |\n";
        let rows = Table::parse(text).rows;
        let row = |id: &str, state, line| Row { id: id.to_owned(), state, line };
        assert_eq!(rows, [row("SK-G1", State::Works, 4), row("CF-11", State::NotYet, 5)]);
    }

    fn check_error(text: &str, expected: &str) {
        let errors = Table::parse(text).errors;
        assert!(errors.iter().any(|error| error.contains(expected)), "{expected} is not among {errors:?}");
    }

    #[test]
    fn missing_double_and_unknown_rows_are_errors() {
        check_error("", "`LM-W10` is missing");
        check_error("| OV-1 | A. | works |\n| OV-1 | A. | works |", "docs/rows.md:2: `OV-1` is listed twice");
        check_error("| SK-G23 | A. | works |", "docs/rows.md:1: unknown row `SK-G23`");
    }

    #[test]
    fn states_and_descriptions_have_a_form() {
        check_error("| OV-1 | A. | mostly |", "`OV-1` is `mostly`");
        check_error("| OV-1 | A. | works (tests/a.rs) |", "`OV-1` is `works (tests/a.rs)`");
        check_error("| OV-1 | A. | decided otherwise |", "`OV-1` is `decided otherwise`");
        check_error("| OV-1 |  | works |", "`OV-1` is described in 0 characters");
        check_error("| OV-1 | works |", "`OV-1` has 2 cells");
    }

    #[test]
    fn the_series_have_574_rows() {
        assert_eq!(SERIES.iter().map(|(_, count)| count).sum::<usize>(), 574);
    }

    #[test]
    fn claiming_flips_the_state_and_nothing_else() {
        let text =
            "# Rows\n| OV-1 | A. | not yet |\n| OV-2 | B. | not yet (issue 3) |\n| OV-3 | C. | works |\n";
        let (flipped, changed) = claim(text, &["OV-2".to_owned(), "OV-3".to_owned()]).unwrap();
        assert_eq!(
            flipped,
            "# Rows\n| OV-1 | A. | not yet |\n| OV-2 | B. | works |\n| OV-3 | C. | works |\n"
        );
        assert_eq!(changed, 1);
        assert!(claim(text, &["OV-9".to_owned()]).is_err());
    }
}
