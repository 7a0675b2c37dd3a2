//! Threads by a part of their title, from an index of sequences of three characters.
//!
//! What it finds is compared with the titles themselves. A part that many titles have is not looked up here: a list by
//! time soon has a page of them.

use sqlx::SqlitePool;
use windlass_engine::port::journal::StoreError;

use crate::column::stored;
use crate::fault::store_error;

/// Threads that are looked up by their numbers at most.
const FEW: usize = 1_000;
/// Characters of the sequences in the index.
const SEQUENCE_CHARS: usize = 3;
/// Sequences that a shorter part is looked up by at most.
const SEQUENCES: usize = 200;

/// The threads whose title has a part.
pub(super) enum Found {
    /// The numbers of all.
    Few(Vec<i64>),
    /// More than are worth looking up.
    Many,
}

/// Finds the threads whose title has a part, both in lower case.
pub(super) async fn find(pool: &SqlitePool, part: &str) -> Result<Found, StoreError> {
    // No title has a control character, and the index ends at the first NUL.
    if part.contains('\0') {
        return Ok(Found::Few(Vec::new()));
    }
    let wanted = match part.chars().count() {
        0 => return Ok(Found::Many),
        SEQUENCE_CHARS.. => quoted(part),
        _ => match sequences(pool, part).await? {
            None => return Ok(Found::Many),
            Some(sequences) if sequences.is_empty() => return Ok(Found::Few(Vec::new())),
            Some(sequences) => {
                sequences.iter().map(|sequence| quoted(sequence)).collect::<Vec<_>>().join(" OR ")
            }
        },
    };
    const MATCH: &str = "SELECT rowid FROM titles WHERE titles MATCH ?1 LIMIT ?2";
    let numbers: Vec<i64> = sqlx::query_scalar(MATCH)
        .bind(wanted)
        .bind(stored(FEW + 1))
        .fetch_all(pool)
        .await
        .map_err(store_error)?;
    Ok(if numbers.len() > FEW { Found::Many } else { Found::Few(numbers) })
}

/// The sequences of the index that begin with a part; `None` if many titles have one.
async fn sequences(pool: &SqlitePool, part: &str) -> Result<Option<Vec<String>>, StoreError> {
    const SEQUENCES_FROM: &str =
        "SELECT term, doc FROM title_parts WHERE term >= ?1 AND term < ?1 || char(1114111) LIMIT ?2";
    let rows: Vec<(String, i64)> = sqlx::query_as(SEQUENCES_FROM)
        .bind(part)
        .bind(stored(SEQUENCES + 1))
        .fetch_all(pool)
        .await
        .map_err(store_error)?;
    let titles: i64 = rows.iter().map(|(_, titles)| titles).sum();
    if rows.len() > SEQUENCES || titles > stored(FEW) {
        return Ok(None);
    }
    Ok(Some(rows.into_iter().map(|(sequence, _)| sequence).collect()))
}

/// A string of the index's query language.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}
