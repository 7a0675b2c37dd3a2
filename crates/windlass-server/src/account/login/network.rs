//! The networks from which an account's owner has signed in. Failed sign-in attempts from other networks do not lock
//! the owner out of these known networks.

use std::net::{IpAddr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange};

use crate::account::Accounts;
use crate::account::login::attempts::Target;
use crate::account::record::{put, read};
use crate::account::secret;
use crate::account::sessions::session::Client;

/// Record kind of known networks. The key is the user.
const KNOWN: &str = "known_networks";
/// Maximum number of known networks of an account.
const KNOWN_MAX: usize = 10;
/// Time for which a network is known after a sign-in, in milliseconds: 90 days.
const KNOWN_MS: u64 = 90 * 24 * 3_600 * 1_000;
/// Minimum interval between updates of a known network, in milliseconds: a day.
const NOTED_MS: u64 = 24 * 3_600 * 1_000;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct KnownNetworks {
    /// Known networks with the time of the last sign-in, newest last.
    networks: Vec<(IpAddr, Timestamp)>,
}

impl Accounts {
    /// Returns the target that a sign-in attempt counts against, and the change that records the network after a
    /// success.
    pub(in crate::account) async fn target(
        &self,
        user: &Principal,
        client: &Client,
    ) -> Result<(Target, Option<RecordChange>), StoreError> {
        let now = self.clock.now();
        let found = self.records.get(KNOWN, user.as_str()).await?;
        let Some(network) = client.from.map(network) else {
            return Ok((Target::Account { user: user.clone(), known: None }, None));
        };
        let mut known = found.map(read::<KnownNetworks>).transpose()?.unwrap_or_default();
        known.networks.retain(|(_, at)| now.since(*at) <= KNOWN_MS);
        let noted = known.networks.iter().find(|(known, _)| *known == network).map(|(_, at)| *at);
        let target = Target::Account { user: user.clone(), known: noted.map(|_| network) };
        if noted.is_some_and(|at| now.since(at) <= NOTED_MS) {
            return Ok((target, None));
        }
        known.networks.retain(|(known, _)| *known != network);
        known.networks.push((network, now));
        let surplus = known.networks.len().saturating_sub(KNOWN_MAX);
        known.networks.drain(..surplus);
        Ok((target, Some(put(KNOWN, user.as_str(), user.as_str(), &known, Expect::Any))))
    }

    /// Returns the target for a name without an account. Reads a record as `target` does, so that the response time
    /// does not reveal whether an account exists.
    pub(in crate::account) async fn stranger(&self, name: &str) -> Result<Target, StoreError> {
        let name = secret::hash(name);
        self.records.get(KNOWN, &name).await?;
        Ok(Target::Name(name))
    }
}

/// Returns the network of one customer: an IPv4 address, or the upper half of an IPv6 address.
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
    use crate::account::error::AccountError;

    use super::*;
    use crate::account::login::trial::{PASSWORD, Trial};
    use crate::account::sessions::session::FirstRefresh;

    #[tokio::test]
    async fn strangers_do_not_keep_an_owner_out_of_their_own_network() {
        let trial = Trial::new();
        let (user, _) = trial.member().await;
        let accounts = &trial.accounts;
        let from = |address: &str| Client { from: Some(address.parse().unwrap()), agent: None };
        let login = async |password: &str, client: &Client| {
            accounts.login("a@example.com", password.into(), client, FirstRefresh::Now).await.map(|_| ())
        };
        let (home, away) = (from("10.0.0.1"), from("203.0.113.9"));
        login(PASSWORD, &home).await.unwrap();
        while !matches!(login("wrong horse", &away).await, Err(AccountError::TooMany { .. })) {}
        assert!(matches!(login(PASSWORD, &away).await, Err(AccountError::TooMany { .. })));
        login(PASSWORD, &home).await.unwrap();
        // Guesses from the same network share one count.
        while !matches!(login("wrong horse", &home).await, Err(AccountError::TooMany { .. })) {}
        assert!(accounts.target(&user.id, &home).await.unwrap().1.is_none());
        // A password that is too long for any account does not count as an attempt.
        let long = "x".repeat(1_025);
        assert!(matches!(login(&long, &away).await, Err(AccountError::Invalid(_))));
    }
}
