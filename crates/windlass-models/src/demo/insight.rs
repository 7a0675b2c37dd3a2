//! Three computed facts about a file.
//!
//! This module does not depend on models or tools.

use std::collections::HashSet;

/// Removes the line numbers that `Read` adds.
pub(super) fn without_line_numbers(shown: &str) -> String {
    let mut text = String::new();
    for line in shown.lines() {
        let numbered = line.split_once('\t').filter(|(number, _)| {
            !number.trim().is_empty() && number.trim().bytes().all(|b| b.is_ascii_digit())
        });
        text.push_str(numbered.map_or(line, |(_, rest)| rest));
        text.push('\n');
    }
    text
}

/// Computes three facts about a file.
pub(super) fn about(name: &str, text: &str) -> [String; 3] {
    if name.ends_with(".csv") { about_table(name, text) } else { about_text(name, text) }
}

fn about_text(name: &str, text: &str) -> [String; 3] {
    let longest = text.lines().enumerate().max_by_key(|(at, line)| (line.chars().count(), usize::MAX - at));
    let (at, length) = longest.map_or((0, 0), |(at, line)| (at + 1, line.chars().count()));
    [
        format!("`{name}` has {}", counted(text.lines().count(), "line")),
        format!("its longest line is number {at}, with {}", counted(length, "character")),
        format!("it has {}", counted(text.split_whitespace().count(), "word")),
    ]
}

fn about_table(name: &str, text: &str) -> [String; 3] {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).map(cells);
    let header = lines.next().unwrap_or_default();
    let rows: Vec<Vec<String>> = lines.collect();
    let size = format!(
        "`{name}` has {} and {}: {}",
        counted(rows.len(), "row"),
        counted(header.len(), "column"),
        header.join(", ")
    );
    let numeric: Vec<(usize, Vec<f64>)> =
        (0..header.len()).filter_map(|column| Some((column, numbers(&rows, column)?))).collect();
    let mut facts = numeric.iter().map(|(column, values)| range(&header[*column], values));
    let second = facts.next().unwrap_or_else(|| distinct(&header, &rows, 0));
    let third = facts.next().unwrap_or_else(|| match numeric.first() {
        Some((column, values)) => peak(&header[*column], values, &rows),
        None => distinct(&header, &rows, 1),
    });
    [size, second, third]
}

fn range(column: &str, values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    format!("`{column}` goes from {} to {}, with a mean of {}", shown(least), shown(most), shown(mean))
}

fn peak(column: &str, values: &[f64], rows: &[Vec<String>]) -> String {
    let at = (0..values.len()).reduce(|best, at| if values[at] > values[best] { at } else { best });
    let label = at.and_then(|at| rows.get(at)?.first()).map_or("", String::as_str);
    format!("the largest `{column}` is in the row `{label}`")
}

fn distinct(header: &[String], rows: &[Vec<String>], column: usize) -> String {
    let values: HashSet<&str> = rows.iter().filter_map(|row| row.get(column)).map(String::as_str).collect();
    match header.get(column) {
        Some(name) => format!("`{name}` has {}", counted(values.len(), "different value")),
        None => format!("there is no column number {}", column + 1),
    }
}

/// Returns a column's values if every row has a number in this column.
fn numbers(rows: &[Vec<String>], column: usize) -> Option<Vec<f64>> {
    let values: Option<Vec<f64>> = rows
        .iter()
        .map(|row| row.get(column)?.trim().parse::<f64>().ok().filter(|value| value.is_finite()))
        .collect();
    values.filter(|values| !values.is_empty())
}

/// Splits a line of comma-separated values. Quotes protect commas; a doubled quote is a quote. (RFC 4180)
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        // The list starts with one cell and only grows.
        let last = cells.len() - 1;
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cells[last].push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            letter => cells[last].push(letter),
        }
    }
    cells
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Formats a number with at most two decimals.
fn shown(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_about_tables_and_texts() {
        assert_eq!(
            about("t.csv", "day,sold,left\n\"Mon, early\",10,1.5\nTue,20,2\nWed,30,2.5\n"),
            [
                "`t.csv` has 3 rows and 3 columns: day, sold, left",
                "`sold` goes from 10 to 30, with a mean of 20",
                "`left` goes from 1.5 to 2.5, with a mean of 2",
            ]
        );
        assert_eq!(
            about("t.csv", "a,b\nx,1 m\nx,2 m\n"),
            [
                "`t.csv` has 2 rows and 2 columns: a, b",
                "`a` has 1 different value",
                "`b` has 2 different values"
            ]
        );
        assert_eq!(
            about("n.txt", "one two\nthree\n"),
            ["`n.txt` has 2 lines", "its longest line is number 1, with 7 characters", "it has 3 words"]
        );
    }

    #[test]
    fn line_numbers_go_and_tabs_stay() {
        assert_eq!(without_line_numbers("     1\ta\tb\n     2\t3\tc\nx\ty"), "a\tb\n3\tc\nx\ty\n");
    }
}
