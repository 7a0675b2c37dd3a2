//! Guests: visitors whom a dialect admits without a sign-in. (WT-E7)
//!
//! Each guest has an account with the member role, which cannot sign in, and one session in the guest's browser. Guests
//! occupy numbered slots; if all slots are taken, the server rejects further guests.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange, RecordError};

use crate::account::audit::Note;
use crate::account::error::{AccountError, conflict};
use crate::account::sessions::session::{FirstRefresh, GUEST_S};

use crate::account::Accounts;
use crate::account::Credential;
use crate::account::Identity;
use crate::account::Role;
use crate::account::people::user::{DEFAULT_WORKSPACE, User};
use crate::account::record::{put, read};
use crate::account::secret;
use crate::account::sessions::session::{Client, SESSION, SESSION_MAX_S, Session, Tokens, later};

/// Minimum time between renewals of a guest's session, in seconds: a day, so that few requests write.
const RENEW_S: u64 = 24 * 3_600;
/// Maximum number of concurrent guests. Each guest leaves an account, so guests create at most this number of accounts
/// per week.
const GUESTS_MAX: usize = 200;
/// Record kind of guests' slots. The key is the number, the owner is the guest.
const PLACE: &str = "guest";
/// Maximum number of attempts to take a free slot while other guests arrive concurrently.
const TRIES: usize = 20;

/// The slot of a guest.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    /// When another guest may take the slot.
    expires_at: Timestamp,
}

impl Accounts {
    /// Admits a visitor as a guest.
    pub async fn admit_guest(&self, client: &Client) -> Result<Tokens, AccountError> {
        // Count the request against the client's attempts even if it succeeds, because every guest takes a slot.
        self.begin_attempt(None, client)?;
        let now = self.clock.now();
        let user = Arc::new(User {
            id: Principal::from(format!("usr_{}", secret::draw::<9>()).as_str()),
            workspace: DEFAULT_WORKSPACE.to_owned(),
            role: Role::Member,
            name: "Guest".to_owned(),
            email: None,
            vouched: false,
            verified: false,
            typed: false,
            active: true,
            credit_micro_usd: None,
            created_at: now,
            settled_at: now,
        });
        for _ in 0..TRIES {
            let note = Note::new(&user.workspace, "guest.admitted").on(user.id.as_str());
            let (mut changes, note) = self.new_user(&user, note).await?;
            changes.push(self.free_place(&user, now).await?);
            match self.open_session(&user, client, FirstRefresh::Guest, changes, note).await {
                // Another guest has taken the slot.
                Err(error) if conflict(&error) == Some(PLACE) => {}
                admitted => return Ok(admitted?),
            }
        }
        Err(AccountError::Busy)
    }

    /// Returns the change that takes the first slot that is free or expired.
    async fn free_place(&self, user: &User, now: Timestamp) -> Result<RecordChange, AccountError> {
        let place = Place { expires_at: later(now, GUEST_S) };
        let taken = self.every(PLACE, None).await?;
        let mut taken = taken.into_iter().peekable();
        for number in 0..GUESTS_MAX {
            let key = format!("{number:03}");
            let expected = match taken.next_if(|record| record.key == key) {
                None => Expect::Absent,
                Some(record) => {
                    let version = record.version;
                    if read::<Place>(record)?.expires_at > now {
                        continue;
                    }
                    Expect::Version(version)
                }
            };
            return Ok(put(PLACE, &key, user.id.as_str(), &place, expected));
        }
        let detail = format!("the limit of {GUESTS_MAX} guests is reached");
        Err(AccountError::Refused { code: "too_many_guests", detail })
    }

    /// Returns the changes that free the slots of a user; none if the user is not a guest.
    pub(in crate::account) async fn places_of(
        &self,
        user: &Principal,
    ) -> Result<Vec<RecordChange>, StoreError> {
        let places = self.records.list(PLACE, Some(user.as_str()), None, 1).await?;
        Ok(places.into_iter().map(|place| RecordChange::delete(PLACE, &place.key, Expect::Any)).collect())
    }

    /// Renews a guest's session, at most once a day, and returns the next access token. Returns `None` if the last
    /// renewal was less than a day ago, or the session has reached its maximum lifetime.
    pub async fn renew_guest(&self, identity: &Identity) -> Result<Option<String>, StoreError> {
        let Credential::Guest(id) = &identity.credential else { return Ok(None) };
        let now = self.clock.now();
        let Some(record) = self.records.get(SESSION, id).await? else { return Ok(None) };
        let version = record.version;
        let mut session: Session = read(record)?;
        let expires_at = later(now, GUEST_S).min(later(session.created_at, SESSION_MAX_S));
        if expires_at.since(session.expires_at) < RENEW_S * 1_000 {
            return Ok(None);
        }
        let Some(place) = self.records.list(PLACE, Some(identity.user.as_str()), None, 1).await?.pop() else {
            return Ok(None);
        };
        (session.seen_at, session.expires_at) = (now, expires_at);
        let owner = identity.user.as_str();
        let changes = vec![
            put(SESSION, id, owner, &session, Expect::Version(version)),
            put(PLACE, &place.key, owner, &Place { expires_at }, Expect::Version(place.version)),
        ];
        match self.records.apply(changes).await {
            Ok(_) => self.access(&session, expires_at.since(now) / 1_000).await.map(Some),
            // Another request has renewed the session.
            Err(RecordError::Conflict { .. }) => Ok(None),
            Err(RecordError::Store(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::account::Scope;
    use crate::account::login::trial::Trial;

    const HERE: Client = Client { from: None, agent: None };
    const DAY_MS: u64 = 24 * 3_600 * 1_000;

    // rows: WT-E7
    #[tokio::test]
    async fn a_guest_is_a_member_who_manages_nothing() {
        let trial = Trial::new();
        let guest = trial.accounts.admit_guest(&HERE).await.unwrap();
        let who = trial.who(&guest).await.unwrap();
        assert_eq!((who.role, who.workspace.as_str()), (Role::Member, DEFAULT_WORKSPACE));
        assert_eq!(who.credential, Credential::Guest(guest.session.clone()));
        let scopes = [Scope::Read, Scope::Run, Scope::Approve, Scope::Admin].map(|scope| who.has(scope));
        assert_eq!(scopes, [true, true, true, false]);
        assert!(guest.refresh.is_none());
        // Guests do not prevent the first registration.
        assert!(!trial.accounts.is_registered().await.unwrap());
    }

    #[tokio::test]
    async fn there_are_so_many_guests_and_no_more_until_one_is_gone() {
        let trial = Trial::new();
        for _ in 0..GUESTS_MAX {
            trial.accounts.admit_guest(&HERE).await.unwrap();
        }
        let refused = trial.accounts.admit_guest(&HERE).await.map(drop).unwrap_err();
        assert!(matches!(refused, AccountError::Refused { code: "too_many_guests", .. }), "{refused}");
        trial.clock.advance_ms(GUEST_S * 1_000);
        trial.accounts.admit_guest(&HERE).await.unwrap();
    }

    #[tokio::test]
    async fn guests_who_come_at_once_each_have_a_place() {
        let trial = Trial::new();
        let beside = trial.beside();
        let both = tokio::join!(trial.accounts.admit_guest(&HERE), beside.admit_guest(&HERE));
        let (one, other) = (both.0.unwrap(), both.1.unwrap());
        assert_ne!(one.user.id, other.user.id);
        assert_eq!(trial.accounts.every(PLACE, None).await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_guest_who_comes_each_day_stays_for_ninety_days() {
        let trial = Trial::new();
        let mut tokens = trial.accounts.admit_guest(&HERE).await.unwrap();
        let renew = async |tokens: &Tokens| {
            trial.accounts.renew_guest(&trial.who(tokens).await.unwrap()).await.unwrap()
        };
        assert_eq!(renew(&tokens).await, None);
        for day in 1..=83 {
            trial.clock.advance_ms(DAY_MS);
            tokens.access = renew(&tokens).await.unwrap_or_else(|| panic!("day {day}"));
            assert_eq!(renew(&tokens).await, None);
        }
        trial.clock.advance_ms(7 * DAY_MS - 1);
        assert_eq!(renew(&tokens).await, None);
        trial.clock.advance_ms(1);
        assert_eq!(trial.who(&tokens).await.unwrap_err(), "the credential has expired");
    }
}
