//! Budgets: used amounts, and amounts that are reserved for work in flight.
//!
//! Every store follows these rules inside an append. The store reads the keys that [`keys_of`] names, then the
//! budgets that [`budgets_of`] names; a remote store needs one query for each. [`book`] decides from these [`Books`]
//! alone, and the store writes the [`Booking`]. The caller defines the units and the caps.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use windlass_machine::{RunId, ThreadId, Timestamp};

use super::fault::{AppendError, StoreError};

/// Maximum amount; sums saturate at it. Every database can store this number.
pub const AMOUNT_MAX: u64 = i64::MAX as u64;
/// Maximum length of a budget's name and of a reservation's key, in bytes.
pub const NAME_MAX_BYTES: usize = 512;
/// Milliseconds for which the budget of one day is kept after its
/// creation: enough for a monthly report plus several days.
pub const DAY_KEPT_MS: u64 = 40 * 24 * 60 * 60 * 1000;
/// Maximum number of old budgets that one append deletes, so that no append waits for a long cleanup.
pub const CLEARED_AT_ONCE: usize = 16;
/// Maximum number of budgets in a list.
pub const BUDGETS_MAX: usize = 1_000;

/// Amounts, each with the name of its budget.
pub type Amounts = Vec<(String, u64)>;

/// Reserves amounts: all of them or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    /// The attempt or effect that needs the amounts. A key of a thread reserves only once.
    pub key: String,
    /// The amounts to reserve, one entry per budget.
    pub draws: Vec<Draw>,
}

/// An amount to reserve from one budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draw {
    /// Name of the budget, such as `user/alice/usd/2026-11-21`. A budget whose last part is a date is kept for 40
    /// days.
    pub budget: String,
    /// Limit on the sum of the budget's used and reserved amounts. 0 allows no reservation.
    pub cap: u64,
    /// Amount to reserve, in the budget's unit.
    pub amount: u64,
}

/// Ends a reservation and books the used amounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settle {
    /// Key of the reservation. A key without a reservation is booked as well, because the amounts were used anyway.
    pub key: String,
    /// The used amounts, which may exceed the reserved amounts.
    pub used: Amounts,
}

/// A budget in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRow {
    /// Name of the budget.
    pub budget: String,
    /// Amount used so far.
    pub used: u64,
    /// Amount reserved for work in flight.
    pub reserved: u64,
    /// Time of the last change of either amount.
    pub updated_at: Timestamp,
}

/// The amounts of one budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Amount used so far.
    pub used: u64,
    /// Amount reserved for work in flight.
    pub reserved: u64,
}

impl Standing {
    /// Returns the amount that is not available: used plus reserved.
    pub fn taken(self) -> u64 {
        sum(self.used, self.reserved)
    }

    /// Releases a reserved amount.
    pub fn release(&mut self, amount: u64) {
        self.reserved = self.reserved.saturating_sub(amount);
    }
}

/// The state of a thread's reservation key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// The key has reserved these amounts.
    Open(Amounts),
    /// The key was settled; this is final.
    Settled,
}

/// The keys and budgets that a store has read for one append.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// State of the keys that [`keys_of`] names. A key that was never written is missing.
    pub keys: BTreeMap<String, Known>,
    /// Amounts of the budgets that [`budgets_of`] names. A budget without entries is missing.
    pub standings: BTreeMap<String, Standing>,
}

/// Returns the keys that an append settles or reserves.
pub fn keys_of<'a>(settles: &'a [Settle], reserves: &'a [Reserve]) -> Result<BTreeSet<&'a str>, StoreError> {
    let keys = settles.iter().map(|settle| &settle.key).chain(reserves.iter().map(|reserve| &reserve.key));
    checked(keys.map(String::as_str))
}

/// Returns the budgets that an append may change. The store reads the keys first.
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

/// The changes that an append makes. The changes are written with the append or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Booking {
    /// The changed keys: reserved amounts, or `None` if the key was settled.
    pub keys: BTreeMap<String, Option<Amounts>>,
    /// The changed budgets, with their new amounts.
    pub standings: BTreeMap<String, Standing>,
    /// Whether the append creates a budget of a day. The store then deletes old budgets.
    pub new_day: bool,
}

/// Decides the changes that an append makes. It settles first and then reserves.
///
/// Returns [`AppendError::Limit`] if the remaining amount of a budget is too small.
pub fn book(books: &Books, settles: &[Settle], reserves: &[Reserve]) -> Result<Booking, AppendError> {
    let mut draft = Draft { books, booking: Booking::default() };
    settles.iter().for_each(|settle| draft.settle(settle));
    reserves.iter().try_for_each(|reserve| draft.reserve(reserve))?;
    Ok(draft.booking)
}

/// A booking under construction.
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

    /// Returns the state of a key, including the changes of this booking.
    fn known(&self, key: &str) -> Option<Known> {
        match self.booking.keys.get(key) {
            Some(Some(open)) => Some(Known::Open(open.clone())),
            Some(None) => Some(Known::Settled),
            None => self.books.keys.get(key).cloned(),
        }
    }

    /// Returns the amounts of a budget, including the changes of this booking.
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

/// Encodes a part of a budget's name. A user-chosen name may contain a slash.
pub fn part(text: &str) -> String {
    text.replace('%', "%25").replace('/', "%2F")
}

/// Returns the name prefix of a run's own budgets. They are
/// deleted when the run ends, because no other run uses them.
pub fn of_run(workspace: &str, run: &RunId) -> String {
    format!("{}/run/{}/", part(workspace), part(run.as_str()))
}

/// Returns the name prefix of a thread's own budgets. They are deleted with the thread.
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
    fn a_daily_budget_is_recognized_by_its_last_part() {
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
