//! Budgets and reservations as rows, written in the append that draws from them.
//!
//! The port defines the rules. An append that draws from no budget runs no statement of this module.

use std::sync::Arc;

use futures::TryStreamExt;
use sqlx::SqlitePool;
use windlass_engine::port::budget::{
    Amounts, BUDGETS_MAX, Books, BudgetRow, CLEARED_AT_ONCE, DAY_KEPT_MS, Known, Reserve, Settle, Standing,
    book, budgets_of, is_of_a_day, keys_of,
};
use windlass_engine::port::journal::{AppendError, StoreError};
use windlass_machine::ThreadId;

use super::column::{encode, time};
use super::fault::{Fault, damaged, store_error};
use crate::writer::raw::{Raw, Row, Statement, Value};

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

/// The prepared statements of budgets.
pub(super) struct Budgets {
    known: Statement,
    keep: Statement,
    standing: Statement,
    stand: Statement,
    clear: Statement,
    next_open: Statement,
    forget: Statement,
    forget_thread: Statement,
}

impl Budgets {
    /// Prepares every statement.
    pub fn prepare(raw: &Arc<Raw>) -> Result<Self, Fault> {
        Ok(Self {
            known: raw.prepare(KNOWN)?,
            keep: raw.prepare(KEEP)?,
            standing: raw.prepare(STANDING)?,
            stand: raw.prepare(STAND)?,
            clear: raw.prepare(CLEAR)?,
            next_open: raw.prepare(NEXT_OPEN)?,
            forget: raw.prepare(FORGET)?,
            forget_thread: raw.prepare(FORGET_THREAD)?,
        })
    }

    /// Settles and reserves for a thread.
    pub fn book(
        &mut self,
        number: i64,
        settles: &[Settle],
        reserves: &[Reserve],
        now_ms: u64,
    ) -> Result<(), AppendError> {
        if settles.is_empty() && reserves.is_empty() {
            return Ok(());
        }
        let books = self.books(number, settles, reserves).map_err(AppendError::Failed)?;
        let booking = book(&books, settles, reserves)?;
        for (key, amounts) in &booking.keys {
            self.keep(number, key, amounts.as_ref())?;
        }
        for (budget, standing) in &booking.standings {
            self.stand(budget, *standing, now_ms)?;
        }
        if booking.new_day {
            let before = Value::number(now_ms.saturating_sub(DAY_KEPT_MS));
            self.clear.run(&[before, Value::number(CLEARED_AT_ONCE as u64)])?;
        }
        Ok(())
    }

    /// Reads what settling and reserving for a thread needs. Each row is a lookup in the open transaction, without a way
    /// to a server and back.
    fn books(&mut self, number: i64, settles: &[Settle], reserves: &[Reserve]) -> Result<Books, StoreError> {
        let mut books = Books::default();
        for key in keys_of(settles, reserves)? {
            let row = [Value::Integer(number), Value::Text(key)];
            let known = match self.known.first(&row, |row| row.text(0))? {
                None => continue,
                Some(None) => Known::Settled,
                Some(Some(amounts)) => Known::Open(decode(&amounts)?),
            };
            books.keys.insert(key.to_owned(), known);
        }
        for budget in budgets_of(settles, reserves, &books.keys)? {
            if let Some(standing) = self.standing(budget)? {
                books.standings.insert(budget.to_owned(), standing);
            }
        }
        Ok(books)
    }

    /// Deletes the budgets whose name begins with a text that ends in a slash, of which nothing is set aside.
    pub fn forget(&mut self, prefix: &str) -> Result<(), Fault> {
        // `0` comes right after `/`.
        let end = format!("{}0", prefix.trim_end_matches('/'));
        self.forget.run(&[Value::Text(prefix), Value::Text(&end)]).map(drop)
    }

    /// Frees what a thread has reserved, and forgets its keys.
    pub fn forget_thread(&mut self, number: i64, now_ms: u64) -> Result<(), StoreError> {
        let read = |row: &Row<'_>| (row.text(0), row.text(1));
        while let Some((key, amounts)) = self.next_open.first(&[Value::Integer(number)], read)? {
            for (budget, amount) in decode(amounts.as_deref().unwrap_or_default())? {
                let mut standing = self.standing(&budget)?.unwrap_or_default();
                standing.release(amount);
                self.stand(&budget, standing, now_ms)?;
            }
            self.keep(number, key.as_deref().unwrap_or_default(), None)?;
        }
        self.forget_thread.run(&[Value::Integer(number)])?;
        Ok(())
    }

    fn keep(&mut self, number: i64, key: &str, amounts: Option<&Amounts>) -> Result<(), Fault> {
        let amounts = amounts.map(encode);
        let row = [Value::Integer(number), Value::Text(key), Value::text_or_null(amounts.as_deref())];
        self.keep.run(&row).map(drop)
    }

    fn standing(&mut self, budget: &str) -> Result<Option<Standing>, Fault> {
        let number = |number: i64| number.max(0).cast_unsigned();
        self.standing.first(&[Value::Text(budget)], |row| Standing {
            used: number(row.integer(0)),
            reserved: number(row.integer(1)),
        })
    }

    fn stand(&mut self, budget: &str, standing: Standing, now_ms: u64) -> Result<(), Fault> {
        let now = Value::number(now_ms);
        let day = if is_of_a_day(budget) { now } else { Value::Null };
        let (used, reserved) = (Value::number(standing.used), Value::number(standing.reserved));
        self.stand.run(&[Value::Text(budget), used, reserved, now, day]).map(drop)
    }
}

/// Budgets whose name begins with a text.
pub(super) async fn list(pool: &SqlitePool, prefix: &str) -> Result<Vec<BudgetRow>, StoreError> {
    const LIST: &str =
        "SELECT budget, used, reserved, updated_at FROM budgets WHERE budget >= ?1 ORDER BY budget";
    let mut rows = sqlx::query_as::<_, (String, i64, i64, i64)>(LIST).bind(prefix).fetch(pool);
    let number = |number: i64| number.max(0).cast_unsigned();
    let mut found = Vec::new();
    while let Some((budget, used, reserved, at)) = rows.try_next().await.map_err(store_error)? {
        if found.len() == BUDGETS_MAX || !budget.starts_with(prefix) {
            break;
        }
        let (used, reserved, updated_at) = (number(used), number(reserved), time(at));
        found.push(BudgetRow { budget, used, reserved, updated_at });
    }
    Ok(found)
}

/// What a thread has reserved and not settled.
pub(super) async fn open(pool: &SqlitePool, thread: &ThreadId) -> Result<Vec<(String, Amounts)>, StoreError> {
    const OPEN: &str = "SELECT key, amounts FROM threads JOIN reservations USING (number) \
        WHERE thread = ?1 AND deleted = 0 AND amounts IS NOT NULL ORDER BY key";
    let rows: Vec<(String, String)> =
        sqlx::query_as(OPEN).bind(thread.as_str()).fetch_all(pool).await.map_err(store_error)?;
    rows.into_iter().map(|(key, amounts)| Ok((key, decode(&amounts)?))).collect()
}

fn decode(amounts: &str) -> Result<Amounts, StoreError> {
    serde_json::from_str(amounts).map_err(|error| damaged(&format!("what was reserved: {error}")))
}
