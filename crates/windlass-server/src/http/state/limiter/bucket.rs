//! Token buckets by name. A bucket has a capacity of the tokens of one minute, and refills evenly. Memory is bounded.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use windlass::clock::SystemClock;
use windlass::port::clock::Clock;

/// Maximum number of names, about 100 bytes each. Above the maximum, the least recently used buckets are evicted; an
/// evicted name starts with a full bucket.
const NAMES: usize = 20_000;
const MINUTE_MS: u64 = 60_000;

/// The result of taking a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether a token was available.
    pub allowed: bool,
    /// Tokens per minute.
    pub per_minute: u32,
    /// Remaining tokens.
    pub left: u32,
    /// Seconds until a token is available. If one is available already, seconds until the bucket is full.
    pub reset_s: u64,
}

pub struct Buckets {
    per_minute: u32,
    clock: Box<dyn Clock>,
    by_name: Mutex<HashMap<String, Bucket>>,
}

/// The missing tokens of a bucket, in milliseconds of refill time.
#[derive(Clone, Copy)]
struct Bucket {
    missing_ms: u64,
    at_ms: u64,
}

impl Buckets {
    /// Creates buckets with a capacity of the tokens of one minute; 0 means no limit.
    pub fn new(per_minute: u32) -> Self {
        Self::with(per_minute, Box::new(SystemClock::new()))
    }

    fn with(per_minute: u32, clock: Box<dyn Clock>) -> Self {
        Self { per_minute, clock, by_name: Mutex::default() }
    }

    /// Takes one token. Returns `None` if there is no limit.
    pub fn take(&self, name: &str) -> Option<Verdict> {
        self.ask(name, 1)
    }

    /// Checks whether a token is available, without taking it.
    pub fn look(&self, name: &str) -> Option<Verdict> {
        self.ask(name, 0)
    }

    fn ask(&self, name: &str, tokens: u64) -> Option<Verdict> {
        let cost_ms = MINUTE_MS.checked_div(self.per_minute.into())?.max(1);
        let full_ms = cost_ms * u64::from(self.per_minute);
        let now = self.clock.monotonic_ms();
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let known = by_name.get(name).copied();
        let mut missing_ms = known
            .map_or(0, |Bucket { missing_ms, at_ms }| missing_ms.saturating_sub(now.saturating_sub(at_ms)));
        let allowed = missing_ms + cost_ms <= full_ms;
        if allowed {
            missing_ms += tokens * cost_ms;
        }
        if tokens > 0 {
            if known.is_none() && by_name.len() >= NAMES {
                forget(&mut by_name, now);
            }
            by_name.insert(name.to_owned(), Bucket { missing_ms, at_ms: now });
        }
        let left = u32::try_from((full_ms - missing_ms) / cost_ms).unwrap_or(u32::MAX);
        let wait_ms = if allowed { missing_ms } else { missing_ms + cost_ms - full_ms };
        Some(Verdict { allowed, per_minute: self.per_minute, left, reset_s: wait_ms.div_ceil(1_000) })
    }
}

/// Evicts full buckets. If that is not enough, also evicts the older half.
fn forget(by_name: &mut HashMap<String, Bucket>, now: u64) {
    by_name.retain(|_, bucket| bucket.missing_ms > now.saturating_sub(bucket.at_ms));
    if by_name.len() > NAMES / 2 {
        let mut times: Vec<u64> = by_name.values().map(|bucket| bucket.at_ms).collect();
        let middle = times.len() / 2;
        let (_, middle, _) = times.select_nth_unstable(middle);
        let (middle, mut room) = (*middle, NAMES / 2);
        by_name.retain(|_, bucket| {
            let stays = bucket.at_ms >= middle && room > 0;
            room -= usize::from(stays);
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Clone, Default)]
    struct Hand(Arc<AtomicU64>);

    impl Clock for Hand {
        fn now(&self) -> windlass::machine::Timestamp {
            windlass::machine::Timestamp(self.0.load(Ordering::Relaxed))
        }
        fn monotonic_ms(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
        fn sleep_ms(&self, _: u64) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::ready(()))
        }
        fn random(&self) -> u64 {
            0
        }
    }

    fn verdict(allowed: bool, left: u32, reset_s: u64) -> Option<Verdict> {
        Some(Verdict { allowed, per_minute: 6, left, reset_s })
    }

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let hand = Hand::default();
        let buckets = Buckets::with(6, Box::new(hand.clone()));
        for left in (0..6).rev() {
            assert_eq!(buckets.take("a"), verdict(true, left, u64::from(6 - left) * 10));
        }
        assert_eq!(buckets.take("a"), verdict(false, 0, 10));
        assert_eq!(buckets.look("a"), verdict(false, 0, 10));
        assert_eq!(buckets.take("b"), verdict(true, 5, 10), "each name has its own");
        hand.0.store(10_000, Ordering::Relaxed);
        assert_eq!(buckets.take("a"), verdict(true, 0, 60));
        assert_eq!(buckets.take("a"), verdict(false, 0, 10));
        assert_eq!(Buckets::new(0).take("a"), None);
    }

    #[test]
    fn names_are_bounded_and_the_newest_stay() {
        let hand = Hand::default();
        let buckets = Buckets::with(6, Box::new(hand.clone()));
        for number in 0..3 * NAMES as u64 {
            hand.0.store(number / 1_000, Ordering::Relaxed);
            buckets.take(&number.to_string());
            assert!(buckets.by_name.lock().unwrap().len() <= NAMES);
        }
        let last = (3 * NAMES - 1).to_string();
        assert_eq!(buckets.take(&last).map(|verdict| verdict.left), Some(4));
    }
}
