//! How often somebody may guess: attempts to sign in, counted per account and per address of the network.
//!
//! An attempt counts when it begins and is forgiven when it succeeds, so that guesses sent beside each other gain
//! nothing. Counts live in memory: a restart forgives, and costs more time than it gains.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::secret;

/// Accounts and addresses that are counted at most; beyond it the one seen longest ago is forgotten. A count costs
/// about 100 bytes, and filling the table takes longer than a count lasts.
const COUNTED: usize = 20_000;

/// What a kind of count allows.
struct Rule {
    /// Attempts before any wait.
    free: u32,
    /// The longest wait between two attempts, in seconds. Not longer, since others can make an account wait.
    wait_max_s: u64,
    /// After how many seconds without an attempt all is forgotten.
    forget_s: u64,
}

const ACCOUNT: Rule = Rule { free: 5, wait_max_s: 300, forget_s: 3_600 };
/// Many people may share one address.
const ADDRESS: Rule = Rule { free: 50, wait_max_s: 60, forget_s: 900 };

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Account(String),
    Address(IpAddr),
}

impl Key {
    fn rule(&self) -> &'static Rule {
        match self {
            Self::Account(_) => &ACCOUNT,
            Self::Address(_) => &ADDRESS,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    attempts: u32,
    last_ms: u64,
    closed_until_ms: u64,
}

/// Attempts of late.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<HashMap<Key, Count>>);

/// An attempt that has begun.
#[derive(Debug)]
pub struct Attempt(Vec<Begun>);

/// What an attempt did to a count.
#[derive(Debug)]
struct Begun {
    key: Key,
    /// Until when the count was closed before, and since.
    closed_ms: [u64; 2],
}

impl Attempts {
    /// Begins an attempt on an account, from an address, at a time of the clock that never jumps. Refused with the
    /// seconds until the next one is taken.
    pub fn begin(&self, account: Option<&str>, from: Option<IpAddr>, now_ms: u64) -> Result<Attempt, u64> {
        let keys: Vec<Key> = account
            .map(|name| Key::Account(secret::hash(name)))
            .into_iter()
            .chain(from.map(|address| Key::Address(network(address))))
            .collect();
        let mut counts = self.counts();
        let wait_ms =
            keys.iter().filter_map(|key| counts.get(key)?.closed_until_ms.checked_sub(now_ms)).max();
        if let Some(wait_ms) = wait_ms.filter(|wait| *wait > 0) {
            return Err(wait_ms.div_ceil(1_000));
        }
        let mut begun = Vec::with_capacity(keys.len());
        for key in keys {
            make_room(&mut counts, &key, now_ms);
            let rule = key.rule();
            let count = counts.entry(key.clone()).or_default();
            if now_ms.saturating_sub(count.last_ms) > rule.forget_s * 1_000 {
                count.attempts = 0;
            }
            let before_ms = count.closed_until_ms;
            count.attempts = count.attempts.saturating_add(1);
            count.last_ms = now_ms;
            if let Some(beyond) = count.attempts.checked_sub(rule.free).filter(|beyond| *beyond > 0) {
                let wait_s = 1_u64.checked_shl(beyond - 1).unwrap_or(u64::MAX).min(rule.wait_max_s);
                count.closed_until_ms = now_ms + wait_s * 1_000;
            }
            begun.push(Begun { closed_ms: [before_ms, count.closed_until_ms], key });
        }
        Ok(Attempt(begun))
    }

    /// Forgives an attempt that succeeded; the account's earlier ones with it.
    pub fn forgive(&self, attempt: Attempt) {
        let mut counts = self.counts();
        for begun in attempt.0 {
            match &begun.key {
                Key::Account(_) => drop(counts.remove(&begun.key)),
                Key::Address(_) => begun.undo(&mut counts),
            }
        }
    }

    /// Takes back an attempt that was never made. Those before it count as they did.
    pub fn take_back(&self, attempt: Attempt) {
        let mut counts = self.counts();
        attempt.0.iter().for_each(|begun| begun.undo(&mut counts));
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Key, Count>> {
        // No count is left halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Begun {
    fn undo(&self, counts: &mut HashMap<Key, Count>) {
        let Some(count) = counts.get_mut(&self.key) else { return };
        count.attempts = count.attempts.saturating_sub(1);
        let [before_ms, since_ms] = self.closed_ms;
        // An attempt beside this one may have closed it for longer.
        if count.closed_until_ms == since_ms {
            count.closed_until_ms = before_ms;
        }
    }
}

fn make_room(counts: &mut HashMap<Key, Count>, key: &Key, now_ms: u64) {
    if counts.len() < COUNTED || counts.contains_key(key) {
        return;
    }
    counts.retain(|key, count| now_ms.saturating_sub(count.last_ms) <= key.rule().forget_s * 1_000);
    if counts.len() >= COUNTED {
        let oldest = counts.iter().min_by_key(|(_, count)| count.last_ms).map(|(key, _)| key.clone());
        oldest.and_then(|key| counts.remove(&key));
    }
}

/// The network that one customer has: an IPv4 address, or the upper half of an IPv6 one.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::from(u64::MAX) << 64)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));

    #[test]
    fn waits_double_and_end() {
        let attempts = Attempts::default();
        let mut now_ms = 0;
        let mut waits = Vec::new();
        for _ in 0..18 {
            while let Err(wait_s) = attempts.begin(Some("a"), None, now_ms) {
                waits.push(wait_s);
                now_ms += wait_s * 1_000;
            }
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        // Somebody else is not concerned, and after an hour nobody is.
        assert!(attempts.begin(Some("b"), None, now_ms).is_ok());
        now_ms += 3_601_000;
        assert!((0..5).all(|_| attempts.begin(Some("a"), None, now_ms).is_ok()));
    }

    #[test]
    fn success_is_forgiven() {
        let attempts = Attempts::default();
        for _ in 0..200 {
            let attempt = attempts.begin(Some("a"), HOME, 0).unwrap();
            attempts.forgive(attempt);
        }
    }

    #[test]
    fn what_was_never_tried_forgives_nothing() {
        let attempts = Attempts::default();
        for _ in 0..5 {
            attempts.begin(Some("a"), HOME, 0).unwrap();
        }
        for _ in 0..3 {
            attempts.take_back(attempts.begin(Some("a"), HOME, 0).unwrap());
        }
        assert!(attempts.begin(Some("a"), HOME, 0).is_ok());
        assert_eq!(attempts.begin(Some("a"), HOME, 0).unwrap_err(), 1);
    }

    #[test]
    fn an_address_may_not_try_every_account() {
        let attempts = Attempts::default();
        let taken = (0..100).take_while(|n| attempts.begin(Some(&n.to_string()), HOME, 0).is_ok()).count();
        assert_eq!(taken, 51);
        let elsewhere = Some("2001:db8::1".parse().unwrap());
        assert!(attempts.begin(Some("x"), elsewhere, 0).is_ok());
    }

    #[test]
    fn the_table_has_an_end() {
        let attempts = Attempts::default();
        for n in 0..COUNTED as u64 + 10 {
            attempts.begin(Some(&n.to_string()), None, n).unwrap();
        }
        assert_eq!(attempts.counts().len(), COUNTED);
    }
}
