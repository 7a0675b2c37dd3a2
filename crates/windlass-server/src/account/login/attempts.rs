//! Limits on password guessing: counts sign-in attempts per account and per network.
//!
//! An attempt counts when it begins and is forgiven when it succeeds, so concurrent guesses gain nothing. Counts of
//! existing accounts are never evicted, so guesses at other names cannot reset them. Counts are kept in memory. A
//! restart resets them, but a restart takes more time than the attacker would gain.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass::machine::Principal;

/// Maximum number of counts of unknown names and of networks, about 100 bytes each. Above the maximum, the oldest count
/// is evicted.
const COUNTED: usize = 20_000;

/// The limits of a kind of count.
struct Rule {
    /// Number of attempts that are allowed without a wait.
    free: u32,
    /// Maximum wait between two attempts, in seconds. The wait is short, because other people can cause an account's
    /// wait.
    wait_max_s: u64,
    /// Number of seconds without an attempt after which the count is reset.
    forget_s: u64,
}

const ACCOUNT: Rule = Rule { free: 5, wait_max_s: 300, forget_s: 3_600 };
/// Many people may share one address.
const NETWORK: Rule = Rule { free: 50, wait_max_s: 60, forget_s: 900 };
/// A site with many IPv6 networks.
const SITE: Rule = Rule { free: 200, wait_max_s: 60, forget_s: 900 };
/// A customer with the largest IPv6 block that providers assign.
const BLOCK: Rule = Rule { free: 800, wait_max_s: 60, forget_s: 900 };

/// Counted IPv6 prefix lengths with their limits. An IPv4 address is one network.
static PREFIXES: [(u8, Rule); 3] = [(64, NETWORK), (56, SITE), (48, BLOCK)];

/// The password or address that an attempt tries to guess or claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The password of an account, guessed at sign-in.
    Account {
        user: Principal,
        /// The client's network, if the account's owner has signed in from it. This network has a separate count, so
        /// that guesses from other networks do not lock the owner out.
        known: Option<IpAddr>,
    },
    /// A digest of a name without an account.
    Name(String),
    /// The password of the signed-in account.
    Own(Principal),
    /// Email addresses that an account tries to change to.
    Move(Principal),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Target(Target),
    Network(IpAddr, u8),
}

impl Key {
    fn rule(&self) -> &'static Rule {
        match self {
            Self::Target(_) => &ACCOUNT,
            Self::Network(_, prefix) => {
                let found = PREFIXES.iter().find(|(known, _)| known == prefix);
                found.map_or(&NETWORK, |(_, rule)| rule)
            }
        }
    }

    /// Returns whether clients can create an unlimited number of keys of this kind.
    fn is_unbounded(&self) -> bool {
        match self {
            Self::Target(Target::Name(_)) | Self::Network(..) => true,
            Self::Target(Target::Account { .. } | Target::Own(_) | Target::Move(_)) => false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    attempts: u32,
    last_ms: u64,
    closed_until_ms: u64,
}

/// Recent attempts.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Counts of existing accounts, a few for each account.
    accounts: HashMap<Key, Count>,
    /// Counts of names without an account, and of networks.
    others: HashMap<Key, Count>,
}

impl Counts {
    fn of(&mut self, key: &Key) -> &mut HashMap<Key, Count> {
        if key.is_unbounded() { &mut self.others } else { &mut self.accounts }
    }
}

/// An attempt in progress.
#[derive(Debug)]
pub struct Attempt(Vec<Begun>);

/// The change that an attempt made to a count, needed to undo it.
#[derive(Debug)]
struct Begun {
    key: Key,
    /// The times at which the wait ends: before this attempt, and after it.
    closed_ms: [u64; 2],
}

impl Attempts {
    /// Begins an attempt at `now_ms` of the monotonic clock. Returns the seconds to wait if the limit is reached.
    pub fn begin(&self, target: Option<Target>, from: Option<IpAddr>, now_ms: u64) -> Result<Attempt, u64> {
        let networks = from.into_iter().flat_map(networks);
        let keys: Vec<Key> = target.map(Key::Target).into_iter().chain(networks).collect();
        let mut counts = self.counts();
        let wait = |key: &Key| counts.of(key).get(key)?.closed_until_ms.checked_sub(now_ms);
        let wait_ms = keys.iter().filter_map(wait).max();
        if let Some(wait_ms) = wait_ms.filter(|wait| *wait > 0) {
            return Err(wait_ms.div_ceil(1_000));
        }
        let mut begun = Vec::with_capacity(keys.len());
        for key in keys {
            let table = counts.of(&key);
            make_room(table, &key, now_ms);
            let rule = key.rule();
            let count = table.entry(key.clone()).or_default();
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

    /// Forgives a successful attempt, and all earlier attempts at the same account.
    pub fn forgive(&self, attempt: Attempt) {
        let mut counts = self.counts();
        for begun in attempt.0 {
            match &begun.key {
                Key::Target(_) => drop(counts.of(&begun.key).remove(&begun.key)),
                Key::Network(..) => begun.undo(&mut counts),
            }
        }
    }

    /// Undoes an attempt that was not carried out. Earlier attempts still count.
    pub fn take_back(&self, attempt: Attempt) {
        let mut counts = self.counts();
        attempt.0.iter().for_each(|begun| begun.undo(&mut counts));
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Invariant: each count is updated completely before the lock is released or poisoned.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Begun {
    fn undo(&self, counts: &mut Counts) {
        let Some(count) = counts.of(&self.key).get_mut(&self.key) else { return };
        count.attempts = count.attempts.saturating_sub(1);
        let [before_ms, since_ms] = self.closed_ms;
        // A concurrent attempt may have extended the wait.
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
    if counts.len() >= COUNTED && key.is_unbounded() {
        let oldest = counts.iter().min_by_key(|(_, count)| count.last_ms).map(|(key, _)| key.clone());
        oldest.and_then(|key| counts.remove(&key));
    }
}

/// Returns the counted networks that contain an address.
fn networks(address: IpAddr) -> Vec<Key> {
    let prefixes = PREFIXES.iter().map(|(prefix, _)| *prefix);
    match address.to_canonical() {
        address @ IpAddr::V4(_) => vec![Key::Network(address, PREFIXES[0].0)],
        IpAddr::V6(address) => {
            let cut = |prefix: u8| Ipv6Addr::from_bits(address.to_bits() & (!0 << (128 - u32::from(prefix))));
            prefixes.map(|prefix| Key::Network(cut(prefix).into(), prefix)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));

    fn account(name: &str) -> Option<Target> {
        Some(Target::Account { user: name.into(), known: None })
    }

    fn name(number: u64) -> Option<Target> {
        Some(Target::Name(number.to_string()))
    }

    #[test]
    fn waits_double_and_end() {
        let attempts = Attempts::default();
        let mut now_ms = 0;
        let mut waits = Vec::new();
        for _ in 0..18 {
            while let Err(wait_s) = attempts.begin(account("a"), None, now_ms) {
                waits.push(wait_s);
                now_ms += wait_s * 1_000;
            }
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        // Other accounts are not affected, and after an hour the count is reset.
        assert!(attempts.begin(account("b"), None, now_ms).is_ok());
        now_ms += 3_601_000;
        assert!((0..5).all(|_| attempts.begin(account("a"), None, now_ms).is_ok()));
    }

    #[test]
    fn success_is_forgiven() {
        let attempts = Attempts::default();
        for _ in 0..200 {
            let attempt = attempts.begin(account("a"), HOME, 0).unwrap();
            attempts.forgive(attempt);
        }
    }

    #[test]
    fn what_was_never_tried_forgives_nothing() {
        let attempts = Attempts::default();
        for _ in 0..5 {
            attempts.begin(account("a"), HOME, 0).unwrap();
        }
        for _ in 0..3 {
            attempts.take_back(attempts.begin(account("a"), HOME, 0).unwrap());
        }
        assert!(attempts.begin(account("a"), HOME, 0).is_ok());
        assert_eq!(attempts.begin(account("a"), HOME, 0).unwrap_err(), 1);
    }

    #[test]
    fn an_address_may_not_try_every_account() {
        let attempts = Attempts::default();
        let taken = (0..100).take_while(|n| attempts.begin(name(*n), HOME, 0).is_ok()).count();
        assert_eq!(taken, 51);
        let elsewhere = Some("2001:db8::1".parse().unwrap());
        assert!(attempts.begin(account("x"), elsewhere, 0).is_ok());
    }

    #[test]
    fn many_networks_of_one_site_are_one() {
        let attempts = Attempts::default();
        let from = |site: u16, host: u16| {
            Some(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, (site << 8) | host, 0, 0, 0, 1)))
        };
        let begin =
            |n: u16, site: u16, host: u16| attempts.begin(name(n.into()), from(site, host), 0).is_ok();
        assert_eq!((0..256).filter(|n| begin(*n, 0, *n)).count(), 201);
        assert_eq!((0..2_000).filter(|n| begin(*n, 1 + n / 190, n % 190)).count(), 801 - 201);
        let elsewhere = Some("2001:db8:2::1".parse().unwrap());
        assert!(attempts.begin(account("x"), elsewhere, 0).is_ok());
    }

    #[test]
    fn guesses_at_other_names_make_no_account_forget() {
        let attempts = Attempts::default();
        while attempts.begin(account("a"), None, 0).is_ok() {}
        for n in 0..COUNTED as u64 + 10 {
            attempts.begin(name(n), None, 1).unwrap();
        }
        assert!(attempts.begin(account("a"), None, 1).is_err());
        assert_eq!(attempts.counts().others.len(), COUNTED);
    }

    #[test]
    fn where_its_owner_was_before_an_account_has_a_count_of_its_own() {
        let attempts = Attempts::default();
        while attempts.begin(account("a"), None, 0).is_ok() {}
        let known = || Some(Target::Account { user: "a".into(), known: HOME });
        assert!((0..6).all(|_| attempts.begin(known(), HOME, 0).is_ok()));
        assert!(attempts.begin(known(), HOME, 0).is_err());
        assert!(attempts.begin(Some(Target::Own("a".into())), None, 0).is_ok());
    }
}
