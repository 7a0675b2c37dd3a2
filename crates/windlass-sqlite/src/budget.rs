//! Budgets and reservations as rows, written in the append that draws from them.
//!
//! The port defines the rules. An append that draws from no budget runs no statement of this module.

use rusqlite::params;
use windlass_engine::port::budget::{
    Amounts, BUDGETS_MAX, Books, BudgetRow, CLEARED_AT_ONCE, DAY_KEPT_MS, Known, Reserve, Settle, Standing,
    book, budgets_of, is_of_a_day, keys_of,
};
use windlass_engine::port::journal::{AppendError, StoreError};
use windlass_machine::ThreadId;

use super::column::{encode, stored, time, whole};
use super::fault::{Fault, damaged};
use crate::database::Database;

const KNOWN: &str = "SELECT amounts FROM reservations WHERE number = ?1 AND key = ?2";
const KEEP: &str = "INSERT INTO reservations (number, key, amounts) VALUES (?1, ?2, ?3) \
    ON CONFLICT (number, key) DO UPDATE SET amounts = ?3";
const STANDING: &str = "SELECT used, reserved FROM budgets WHERE budget = ?1";
const STAND: &str = "INSERT INTO budgets (budget, used, reserved, updated_at, day) VALUES (?1, ?2, ?3, ?4, ?5) \
    ON CONFLICT (budget) DO UPDATE SET used = ?2, reserved = ?3, updated_at = ?4";
const CLEAR: &str = "DELETE FROM budgets WHERE budget IN ( \
    SELECT budget FROM budgets WHERE day < ?1 AND reserved = 0 ORDER BY day LIMIT ?2)";
const NEXT_OPEN: &str =
    "SELECT key, amounts FROM reservations WHERE number = ?1 AND amounts IS NOT NULL LIMIT 1";
const FORGET: &str = "DELETE FROM budgets WHERE budget >= ?1 AND budget < ?2 AND reserved = 0";
const FORGET_THREAD: &str = "DELETE FROM reservations WHERE number = ?1";

/// Settles and reserves the given amounts for a thread.
pub(super) fn book_all(
    db: &Database,
    number: i64,
    settles: &[Settle],
    reserves: &[Reserve],
    now_ms: u64,
) -> Result<(), AppendError> {
    if settles.is_empty() && reserves.is_empty() {
        return Ok(());
    }
    let books = books(db, number, settles, reserves).map_err(AppendError::Failed)?;
    let booking = book(&books, settles, reserves)?;
    for (key, amounts) in &booking.keys {
        keep(db, number, key, amounts.as_ref())?;
    }
    for (budget, standing) in &booking.standings {
        stand(db, budget, *standing, now_ms)?;
    }
    if booking.new_day {
        let before = whole(now_ms.saturating_sub(DAY_KEPT_MS));
        db.run(CLEAR, params![before, stored(CLEARED_AT_ONCE)])?;
    }
    Ok(())
}

/// Reads the budgets and reservations that settling and reserving need. Each row is a lookup in the open
/// transaction, without a round trip to a server.
fn books(db: &Database, number: i64, settles: &[Settle], reserves: &[Reserve]) -> Result<Books, StoreError> {
    let mut books = Books::default();
    for key in keys_of(settles, reserves)? {
        let known = match db.first(KNOWN, params![number, key], |row| row.get::<_, Option<String>>(0))? {
            None => continue,
            Some(None) => Known::Settled,
            Some(Some(amounts)) => Known::Open(decode(&amounts)?),
        };
        books.keys.insert(key.to_owned(), known);
    }
    for budget in budgets_of(settles, reserves, &books.keys)? {
        if let Some(standing) = standing(db, budget)? {
            books.standings.insert(budget.to_owned(), standing);
        }
    }
    Ok(books)
}

/// Deletes the budgets without open reservations whose name begins with `prefix`, which ends in a slash.
pub(super) fn forget(db: &Database, prefix: &str) -> Result<(), Fault> {
    // `0` is the character after `/`.
    let end = format!("{}0", prefix.trim_end_matches('/'));
    db.run(FORGET, params![prefix, end]).map(drop)
}

/// Releases a thread's reservations, and deletes their keys.
pub(super) fn forget_thread(db: &Database, number: i64, now_ms: u64) -> Result<(), StoreError> {
    loop {
        let next = db.first(NEXT_OPEN, params![number], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some((key, amounts)): Option<(String, String)> = next else { break };
        for (budget, amount) in decode(&amounts)? {
            let mut standing = standing(db, &budget)?.unwrap_or_default();
            standing.release(amount);
            stand(db, &budget, standing, now_ms)?;
        }
        keep(db, number, &key, None)?;
    }
    db.run(FORGET_THREAD, params![number])?;
    Ok(())
}

fn keep(db: &Database, number: i64, key: &str, amounts: Option<&Amounts>) -> Result<(), Fault> {
    db.run(KEEP, params![number, key, amounts.map(encode)]).map(drop)
}

fn standing(db: &Database, budget: &str) -> Result<Option<Standing>, Fault> {
    let number = |number: i64| number.max(0).cast_unsigned();
    db.first(STANDING, params![budget], |row| {
        Ok(Standing { used: row.get(0).map(number)?, reserved: row.get(1).map(number)? })
    })
}

fn stand(db: &Database, budget: &str, standing: Standing, now_ms: u64) -> Result<(), Fault> {
    let now = whole(now_ms);
    let day = is_of_a_day(budget).then_some(now);
    db.run(STAND, params![budget, whole(standing.used), whole(standing.reserved), now, day]).map(drop)
}

/// Returns the budgets whose name begins with `prefix`.
pub(super) fn list(db: &Database, prefix: &str) -> Result<Vec<BudgetRow>, StoreError> {
    const LIST: &str = "SELECT budget, used, reserved, updated_at FROM budgets \
        WHERE budget >= ?1 AND budget < ?1 || char(1114111) ORDER BY budget LIMIT ?2";
    let number = |number: i64| number.max(0).cast_unsigned();
    Ok(db.all(LIST, params![prefix, stored(BUDGETS_MAX)], |row| {
        Ok(BudgetRow {
            budget: row.get(0)?,
            used: row.get(1).map(number)?,
            reserved: row.get(2).map(number)?,
            updated_at: time(row.get(3)?),
        })
    })?)
}

/// Returns the amounts that a thread has reserved and not settled.
pub(super) fn open(db: &Database, thread: &ThreadId) -> Result<Vec<(String, Amounts)>, StoreError> {
    const OPEN: &str = "SELECT key, amounts FROM threads JOIN reservations USING (number) \
        WHERE thread = ?1 AND deleted = 0 AND amounts IS NOT NULL ORDER BY key";
    let rows = db.all(OPEN, params![thread.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.into_iter().map(|(key, amounts): (String, String)| Ok((key, decode(&amounts)?))).collect()
}

fn decode(amounts: &str) -> Result<Amounts, StoreError> {
    serde_json::from_str(amounts).map_err(|error| damaged(&format!("what was reserved: {error}")))
}
