//! Budgets and reservations in memory.
//!
//! This module only stores amounts; the rules are in the budget port.

use std::collections::BTreeMap;

use windlass_machine::{ThreadId, Timestamp};

use crate::port::budget::{
    Amounts, BUDGETS_MAX, Booking, Books, BudgetRow, CLEARED_AT_ONCE, DAY_KEPT_MS, Known, Reserve, Settle,
    Standing, book, budgets_of, is_of_a_day, keys_of,
};
use crate::port::journal::{AppendError, StoreError};

#[derive(Default)]
pub(super) struct Budgets {
    budgets: BTreeMap<String, Budget>,
    /// Reservations by thread and key; `None` after the key was settled.
    reservations: BTreeMap<ThreadId, BTreeMap<String, Option<Amounts>>>,
}

#[derive(Default)]
struct Budget {
    standing: Standing,
    made_at: Timestamp,
    updated_at: Timestamp,
}

impl Budgets {
    /// Decides the changes that settling and reserving for a thread make.
    pub fn plan(
        &self,
        thread: &ThreadId,
        settles: &[Settle],
        reserves: &[Reserve],
    ) -> Result<Booking, AppendError> {
        let books = self.books(thread, settles, reserves).map_err(AppendError::Failed)?;
        book(&books, settles, reserves)
    }

    fn books(
        &self,
        thread: &ThreadId,
        settles: &[Settle],
        reserves: &[Reserve],
    ) -> Result<Books, StoreError> {
        let kept = self.reservations.get(thread);
        let known = |key: &str| {
            let known = match kept?.get(key)? {
                Some(amounts) => Known::Open(amounts.clone()),
                None => Known::Settled,
            };
            Some((key.to_owned(), known))
        };
        let keys = keys_of(settles, reserves)?.into_iter().filter_map(known).collect();
        let standing = |name: &str| Some((name.to_owned(), self.budgets.get(name)?.standing));
        let budgets = budgets_of(settles, reserves, &keys)?.into_iter();
        Ok(Books { standings: budgets.filter_map(standing).collect(), keys })
    }

    /// Writes a decided booking.
    pub fn write(&mut self, thread: &ThreadId, booking: Booking, now: Timestamp) {
        if !booking.keys.is_empty() {
            self.reservations.entry(thread.clone()).or_default().extend(booking.keys);
        }
        for (name, standing) in booking.standings {
            let budget = self.budgets.entry(name);
            let budget = budget.or_insert_with(|| Budget { made_at: now, ..Budget::default() });
            (budget.standing, budget.updated_at) = (standing, now);
        }
        if booking.new_day {
            self.clear(now);
        }
    }

    fn clear(&mut self, now: Timestamp) {
        let is_old = |(name, budget): &(&String, &Budget)| {
            is_of_a_day(name) && budget.standing.reserved == 0 && now.since(budget.made_at) > DAY_KEPT_MS
        };
        let mut old: Vec<_> = self.budgets.iter().filter(is_old).collect();
        old.sort_by_key(|(_, budget)| budget.made_at);
        let old: Vec<_> = old.into_iter().take(CLEARED_AT_ONCE).map(|(name, _)| name.clone()).collect();
        for name in old {
            self.budgets.remove(&name);
        }
    }

    /// Deletes the budgets with this name prefix and without reservations.
    pub fn forget(&mut self, prefix: &str) {
        self.budgets.retain(|name, budget| !name.starts_with(prefix) || budget.standing.reserved > 0);
    }

    /// Releases a thread's reservations and drops its keys.
    pub fn forget_thread(&mut self, thread: &ThreadId, now: Timestamp) {
        let kept = self.reservations.remove(thread).unwrap_or_default();
        for (name, amount) in kept.into_values().flatten().flatten() {
            if let Some(budget) = self.budgets.get_mut(&name) {
                budget.standing.release(amount);
                budget.updated_at = now;
            }
        }
    }

    /// Lists the budgets with this name prefix.
    pub fn list(&self, prefix: &str) -> Vec<BudgetRow> {
        let row = |(name, budget): (&String, &Budget)| BudgetRow {
            budget: name.clone(),
            used: budget.standing.used,
            reserved: budget.standing.reserved,
            updated_at: budget.updated_at,
        };
        let from = self.budgets.range(prefix.to_owned()..);
        from.take_while(|(name, _)| name.starts_with(prefix)).take(BUDGETS_MAX).map(row).collect()
    }

    /// Returns the unsettled reservations of a thread.
    pub fn open(&self, thread: &ThreadId) -> Vec<(String, Amounts)> {
        let kept = self.reservations.get(thread).into_iter().flatten();
        kept.filter_map(|(key, amounts)| Some((key.clone(), amounts.clone()?))).collect()
    }
}
