//! Finds threads by a part of their title, with an index of three-character sequences.
//!
//! Candidates are compared with the titles themselves. If many titles contain the part, the caller scans the threads by
//! time instead: such a scan fills a page after few rows.

use rusqlite::params;
use windlass_engine::port::journal::StoreError;

use crate::column::stored;
use crate::database::Database;

/// Maximum number of matches that are returned as thread numbers (the column `number`). With more, the caller scans by
/// time.
const FEW: usize = 1_000;
/// Length of the sequences in the index, in characters.
const SEQUENCE_CHARS: usize = 3;
/// Maximum number of sequences looked up for a part that is shorter than a sequence.
const SEQUENCES: usize = 200;

/// The threads whose title contains a part.
pub(super) enum Found {
    /// The numbers of all matching threads.
    Few(Vec<i64>),
    /// More matches than a lookup by number is efficient for.
    Many,
}

/// Finds the threads whose title contains a part, both in lower case.
pub(super) fn find(db: &Database, part: &str) -> Result<Found, StoreError> {
    // Titles contain no control characters, and the index stops at the first NUL.
    if part.contains('\0') {
        return Ok(Found::Few(Vec::new()));
    }
    let wanted = match part.chars().count() {
        0 => return Ok(Found::Many),
        SEQUENCE_CHARS.. => quoted(part),
        _ => match sequences(db, part)? {
            None => return Ok(Found::Many),
            Some(sequences) if sequences.is_empty() => return Ok(Found::Few(Vec::new())),
            Some(sequences) => {
                sequences.iter().map(|sequence| quoted(sequence)).collect::<Vec<_>>().join(" OR ")
            }
        },
    };
    const MATCH: &str = "SELECT rowid FROM titles WHERE titles MATCH ?1 LIMIT ?2";
    let numbers: Vec<i64> = db.all(MATCH, params![wanted, stored(FEW + 1)], |row| row.get(0))?;
    Ok(if numbers.len() > FEW { Found::Many } else { Found::Few(numbers) })
}

/// Returns the sequences of the index that begin with a part. Returns `None` if many titles contain such a sequence.
fn sequences(db: &Database, part: &str) -> Result<Option<Vec<String>>, StoreError> {
    const SEQUENCES_FROM: &str =
        "SELECT term, doc FROM title_parts WHERE term >= ?1 AND term < ?1 || char(1114111) LIMIT ?2";
    let values = params![part, stored(SEQUENCES + 1)];
    let rows: Vec<(String, i64)> = db.all(SEQUENCES_FROM, values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let titles: i64 = rows.iter().map(|(_, titles)| titles).sum();
    if rows.len() > SEQUENCES || titles > stored(FEW) {
        return Ok(None);
    }
    Ok(Some(rows.into_iter().map(|(sequence, _)| sequence).collect()))
}

/// Quotes a string for the index's query language.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}
