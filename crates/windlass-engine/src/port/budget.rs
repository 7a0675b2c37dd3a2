//! Budgets: how much of something was used, and how much is set aside for what is under way.
//!
//! These are the rules that every store follows inside an append. The store reads the keys that [`keys_of`] names, then the
//! budgets that [`budgets_of`] names; a remote store needs one query for each. [`book`] decides from these [`Books`] alone,
//! and the store writes the [`Booking`]. What is counted, and how much of it is allowed, is the caller's to say.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use windlass_machine::{RunId, ThreadId, Timestamp};

use super::fault::{AppendError, StoreError};

/// Amounts saturate here: the largest number that every database holds.
pub const AMOUNT_MAX: u64 = i64::MAX as u64;
/// Longest name of a budget and longest key of a reservation, in bytes.
pub const NAME_MAX_BYTES: usize = 512;
/// How long a budget of one day is kept after it was made: a month's report, and some days to write it.
pub const DAY_KEPT_MS: u64 = 40 * 24 * 60 * 60 * 1000;
/// Old budgets that one append deletes at most, so that nobody waits for a clearance.
pub const CLEARED_AT_ONCE: usize = 16;
/// Budgets in a list at most.
pub const BUDGETS_MAX: usize = 1_000;

/// Amounts, each with the name of its budget.
pub type Amounts = Vec<(String, u64)>;

/// Sets amounts aside, all or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    /// The attempt or effect that needs them. The same key of a thread reserves once.
    pub key: String,
    /// What it needs.
    pub draws: Vec<Draw>,
}

/// What is needed of one budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draw {
    /// The budget, as `user/alice/usd/2026-11-21`. One whose last part is a day is kept for 40 days.
    pub budget: String,
    /// What may be used and reserved of it altogether. 0 allows nothing.
    pub cap: u64,
    /// How much is needed.
    pub amount: u64,
}

/// Ends a reservation and books what was used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settle {
    /// The reservation. One that was never written books all the same: what was used was used.
    pub key: String,
    /// What was used, which may be more than was reserved.
    pub used: Amounts,
}

/// A budget in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRow {
    /// Its name.
    pub budget: String,
    /// What was used.
    pub used: u64,
    /// What is set aside.
    pub reserved: u64,
    /// When either last changed.
    pub updated_at: Timestamp,
}

/// Where a budget stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// What was used.
    pub used: u64,
    /// What is set aside.
    pub reserved: u64,
}

impl Standing {
    /// What is not free.
    pub fn taken(self) -> u64 {
        sum(self.used, self.reserved)
    }

    /// Takes back what was set aside.
    pub fn release(&mut self, amount: u64) {
        self.reserved = self.reserved.saturating_sub(amount);
    }
}

/// What a key of a thread has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// These amounts are set aside.
    Open(Amounts),
    /// It was settled, and stays so.
    Settled,
}

/// What a store has read for an append of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// The keys of the thread that [`keys_of`] names. One that was never written is missing.
    pub keys: BTreeMap<String, Known>,
    /// The budgets that [`budgets_of`] names. One that was never drawn from is missing.
    pub standings: BTreeMap<String, Standing>,
}

/// The keys that an append settles or reserves.
pub fn keys_of<'a>(settles: &'a [Settle], reserves: &'a [Reserve]) -> Result<BTreeSet<&'a str>, StoreError> {
    let keys = settles.iter().map(|settle| &settle.key).chain(reserves.iter().map(|reserve| &reserve.key));
    checked(keys.map(String::as_str))
}

/// The budgets that an append may change, once the store has read its keys.
pub fn budgets_of<'a>(
    settles: &'a [Settle],
    reserves: &'a [Reserve],
    keys: &'a BTreeMap<String, Known>,
) -> Result<BTreeSet<&'a str>, StoreError> {
    let open = keys.values().flat_map(|known| match known {
        Known::Open(amounts) => amounts.as_slice(),
        Known::Settled => &[],
    });
    let used = settles.iter().flat_map(|settle| &settle.used);
    let drawn = reserves.iter().flat_map(|reserve| &reserve.draws).map(|draw| draw.budget.as_str());
    checked(open.chain(used).map(|(budget, _)| budget.as_str()).chain(drawn))
}

fn checked<'a>(names: impl Iterator<Item = &'a str>) -> Result<BTreeSet<&'a str>, StoreError> {
    names.map(|name| check_name(name).map(|()| name)).collect()
}

/// What an append changes: to be written with it, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Booking {
    /// The keys that change: their amounts, or `None` where they are settled.
    pub keys: BTreeMap<String, Option<Amounts>>,
    /// The budgets that change.
    pub standings: BTreeMap<String, Standing>,
    /// Whether a budget of a day is new: the moment to delete old ones.
    pub new_day: bool,
}

/// Decides what an append changes: it settles first, and then reserves.
///
/// Refused with [`AppendError::Limit`] where a budget has no room.
pub fn book(books: &Books, settles: &[Settle], reserves: &[Reserve]) -> Result<Booking, AppendError> {
    let mut draft = Draft { books, booking: Booking::default() };
    settles.iter().for_each(|settle| draft.settle(settle));
    reserves.iter().try_for_each(|reserve| draft.reserve(reserve))?;
    Ok(draft.booking)
}

/// A booking while it is decided.
struct Draft<'b> {
    books: &'b Books,
    booking: Booking,
}

impl Draft<'_> {
    fn settle(&mut self, settle: &Settle) {
        let open = match self.known(&settle.key) {
            Some(Known::Settled) => return,
            Some(Known::Open(open)) => open,
            None => Amounts::new(),
        };
        for (budget, amount) in &open {
            self.standing(budget).release(*amount);
        }
        for (budget, amount) in &settle.used {
            let standing = self.standing(budget);
            standing.used = sum(standing.used, *amount);
        }
        self.booking.keys.insert(settle.key.clone(), None);
    }

    fn reserve(&mut self, reserve: &Reserve) -> Result<(), AppendError> {
        let wanted = |draw: &Draw| (draw.budget.clone(), draw.amount.min(AMOUNT_MAX));
        let amounts: Amounts = reserve.draws.iter().map(wanted).collect();
        match self.known(&reserve.key) {
            Some(Known::Settled) => return Ok(()),
            Some(Known::Open(open)) if open == amounts => return Ok(()),
            Some(Known::Open(_)) => {
                let why = format!("`{}` has other amounts reserved; settle it first", reserve.key);
                return Err(AppendError::Failed(StoreError::Refused { why }));
            }
            None => {}
        }
        for draw in &reserve.draws {
            let standing = self.standing(&draw.budget);
            let taken = standing.taken();
            if taken.saturating_add(draw.amount) > draw.cap {
                let (budget, cap, wanted) = (draw.budget.clone(), draw.cap, draw.amount);
                return Err(AppendError::Limit { budget, cap, taken, wanted });
            }
            standing.reserved = sum(standing.reserved, draw.amount);
        }
        self.booking.keys.insert(reserve.key.clone(), Some(amounts));
        Ok(())
    }

    /// What a key has after what was decided so far.
    fn known(&self, key: &str) -> Option<Known> {
        match self.booking.keys.get(key) {
            Some(Some(open)) => Some(Known::Open(open.clone())),
            Some(None) => Some(Known::Settled),
            None => self.books.keys.get(key).cloned(),
        }
    }

    /// Where a budget stands after what was decided so far.
    fn standing(&mut self, budget: &str) -> &mut Standing {
        match self.booking.standings.entry(budget.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let found = self.books.standings.get(budget);
                self.booking.new_day |= found.is_none() && is_of_a_day(budget);
                place.insert(found.copied().unwrap_or_default())
            }
        }
    }
}

/// A part of a budget's name. A name that a person chose may have a slash in it.
pub fn part(text: &str) -> String {
    text.replace('%', "%25").replace('/', "%2F")
}

/// How the names of a run's own budgets begin: nobody draws on them once it has ended, and they go with its end.
pub fn of_run(workspace: &str, run: &RunId) -> String {
    format!("{}/run/{}/", part(workspace), part(run.as_str()))
}

/// How the names of a thread's own budgets begin: they go with the thread.
pub fn of_thread(workspace: &str, thread: &ThreadId) -> String {
    format!("{}/thread/{}/", part(workspace), part(thread.as_str()))
}

/// Whether a budget is for one day: its last part is a date.
pub fn is_of_a_day(budget: &str) -> bool {
    const DATE: &[u8] = b"dddd-dd-dd";
    let last = budget.rsplit('/').next().unwrap_or_default();
    let fits = |(found, wanted): (u8, &u8)| match wanted {
        b'd' => found.is_ascii_digit(),
        other => found == *other,
    };
    last.len() == DATE.len() && last.bytes().zip(DATE).all(fits)
}

fn sum(one: u64, other: u64) -> u64 {
    one.saturating_add(other).min(AMOUNT_MAX)
}

fn check_name(name: &str) -> Result<(), StoreError> {
    if (1..=NAME_MAX_BYTES).contains(&name.len()) {
        return Ok(());
    }
    let why = format!(
        "the name of a budget or reservation has {} bytes; it must have 1 to {NAME_MAX_BYTES}",
        name.len()
    );
    Err(StoreError::Refused { why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_a_day_is_told_by_its_last_part() {
        for day in ["user/alice/usd/2026-11-21", "2026-11-21"] {
            assert!(is_of_a_day(day), "{day}");
        }
        for other in
            ["", "user/alice/usd", "2026-11-21/usd", "usd/2026-11", "usd/2026-11-2x", "usd/12026-11-21"]
        {
            assert!(!is_of_a_day(other), "{other}");
        }
    }
}
