//! Limits audit entries for failed sign-ins. Anyone can cause failures, so above a rate limit, failures are only
//! counted. The next entry contains the number of omitted failures.

use std::sync::{Mutex, PoisonError};

/// Whether the failed sign-in named an existing account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::account) enum Whose {
    /// An existing account.
    Account,
    /// No existing account.
    Stranger,
}

impl Whose {
    /// Returns the maximum burst of entries, and the milliseconds per further entry.
    fn rate(self) -> (u64, u64) {
        match self {
            Self::Account => (100, 6_000),
            Self::Stranger => (20, 60_000),
        }
    }
}

/// Rate limits of recent failures.
#[derive(Debug, Default)]
pub(in crate::account) struct Failures {
    accounts: Mutex<Bucket>,
    strangers: Mutex<Bucket>,
}

#[derive(Debug, Default)]
struct Bucket {
    /// The time up to which written entries have used the rate, in milliseconds. It is ahead of the clock by at most
    /// one burst.
    spent_ms: u64,
    /// Number of failures since the last entry that were not written.
    untold: u64,
}

impl Failures {
    /// Returns `None` if the rate limit is reached. Otherwise returns the number of failures omitted since the last
    /// entry.
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
