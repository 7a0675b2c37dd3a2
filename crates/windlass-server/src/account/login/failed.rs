//! Failed sign-ins in the audit log. A failure needs no credential, so the log must not grow with each: beyond a rate
//! failures are counted, and the next entry says how many there were.

use std::sync::{Mutex, PoisonError};

/// The kind of account whose sign-in failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::account) enum Whose {
    /// An account's.
    Account,
    /// No known account.
    Stranger,
}

impl Whose {
    /// Entries at once, and milliseconds for each further one.
    fn rate(self) -> (u64, u64) {
        match self {
            Self::Account => (100, 6_000),
            Self::Stranger => (20, 60_000),
        }
    }
}

/// Failures of late.
#[derive(Debug, Default)]
pub(in crate::account) struct Failures {
    accounts: Mutex<Bucket>,
    strangers: Mutex<Bucket>,
}

#[derive(Debug, Default)]
struct Bucket {
    /// The time that the entries so far have used up; it runs ahead of the clock by a burst at most.
    spent_ms: u64,
    /// Failures since the last entry that have none.
    untold: u64,
}

impl Failures {
    /// Whether a failure is written down now; with how many there were before it that were not.
    pub(in crate::account) fn admit(&self, whose: Whose, now_ms: u64) -> Option<u64> {
        let bucket = match whose {
            Whose::Account => &self.accounts,
            Whose::Stranger => &self.strangers,
        };
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let (burst, each_ms) = whose.rate();
        let spent_ms = bucket.spent_ms.max(now_ms) + each_ms;
        if spent_ms > now_ms + burst * each_ms {
            bucket.untold += 1;
            return None;
        }
        bucket.spent_ms = spent_ms;
        Some(std::mem::take(&mut bucket.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_written_up_to_a_rate_and_counted_beyond() {
        let failures = Failures::default();
        let told = (0..100).filter(|_| failures.admit(Whose::Stranger, 0) == Some(0)).count();
        assert_eq!(told, 20);
        assert_eq!(failures.admit(Whose::Stranger, 59_999), None);
        assert_eq!(failures.admit(Whose::Stranger, 60_000), Some(81));
        assert_eq!(failures.admit(Whose::Stranger, 60_000), None);
        assert_eq!(failures.admit(Whose::Account, 0), Some(0));
    }
}
