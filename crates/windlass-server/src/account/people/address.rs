//! Unverified email addresses: entered by an account's owner, but not verified by a provider or an administrator.

use windlass::machine::Principal;
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange};

use crate::account::Accounts;
use crate::account::Identity;
use crate::account::audit::Note;
use crate::account::error::AccountError;
use crate::account::login::attempts::{Attempt, Target};
use crate::account::people::user::{EMAIL, LOCAL, USER, User};
use crate::account::record::{put, read};
use crate::account::sessions::session::Client;

impl User {
    /// Returns whether an administrator or a provider has confirmed that the address belongs to this person.
    pub(in crate::account) fn owns_address(&self) -> bool {
        self.vouched || self.verified
    }

    /// Returns whether the account loses its address to an account that proves it. An account never loses the address
    /// that it registered with, because that is its login name.
    pub(in crate::account) fn yields_address(&self) -> bool {
        self.typed && !self.owns_address() && self.id.as_str() != LOCAL
    }
}

/// The conditions under which an account gets an address.
struct Claim {
    /// Precondition on the address's record.
    expected: Expect,
    /// The account that loses the address, if any.
    loss: Option<Loss>,
}

/// An account that loses its address.
struct Loss {
    change: RecordChange,
    note: Note,
}

impl Accounts {
    /// Begins an owner's attempt to change the address. The result reveals whether the address is taken, so the server
    /// limits the attempts.
    pub(in crate::account) async fn begin_move(
        &self,
        identity: &Identity,
        current: Option<String>,
        client: &Client,
    ) -> Result<Attempt, AccountError> {
        self.check_current(identity, current, client).await?;
        self.begin_attempt(Some(Target::Move(identity.user.clone())), client)
    }

    /// Undoes the counted attempt unless the address was taken.
    pub(in crate::account) fn end_move<T>(&self, attempt: Option<Attempt>, moved: &Result<T, AccountError>) {
        if let Some(attempt) = attempt.filter(|_| !matches!(moved, Err(AccountError::Taken { .. }))) {
            self.memory.attempts.take_back(attempt);
        }
    }

    /// Adds the changes that assign an account's address. If the account proves the address, another account whose
    /// owner only entered the address loses it, with an audit note.
    pub(in crate::account) async fn take_address(
        &self,
        user: &User,
        changes: &mut Vec<RecordChange>,
        note: Note,
    ) -> Result<Note, StoreError> {
        let Some(email) = &user.email else { return Ok(note) };
        let Claim { expected, loss } = self.claim(email, user.owns_address()).await?;
        changes.push(put(EMAIL, email, &user.workspace, &user.id, expected));
        let Some(Loss { change, note: lost }) = loss else { return Ok(note) };
        changes.push(change);
        Ok(note.beside(lost))
    }

    async fn claim(&self, email: &str, is_proven: bool) -> Result<Claim, StoreError> {
        let free = Claim { expected: Expect::Absent, loss: None };
        if !is_proven {
            return Ok(free);
        }
        let Some(claim) = self.records.get(EMAIL, email).await? else { return Ok(free) };
        let expected = Expect::Version(claim.version);
        let id: Principal = read(claim)?;
        let Some(record) = self.records.get(USER, id.as_str()).await? else { return Ok(free) };
        let version = record.version;
        let user: User = read(record)?;
        if !user.yields_address() {
            return Ok(free);
        }
        let without = User { email: None, typed: false, ..user };
        let change = put(USER, without.id.as_str(), &without.workspace, &without, Expect::Version(version));
        let note = Note::new(&without.workspace, "member.address_lost").on(without.id.as_str());
        Ok(Claim { expected, loss: Some(Loss { change, note: note.with("email_before", email) }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::link::{DAY_S, LinkUse, Maker};
    use crate::account::login::Registrant;
    use crate::account::login::trial::{PASSWORD, Trial};
    use crate::account::people::member::{MemberChange, NewMember};
    use crate::account::sessions::session::FirstRefresh;
    use crate::account::{Registration, Role};

    fn to(email: &str) -> MemberChange {
        MemberChange { email: Some(email.into()), ..MemberChange::default() }
    }

    fn proven(id: &str, email: &str, like: &User) -> User {
        User { id: id.into(), email: Some(email.into()), vouched: false, verified: true, ..like.clone() }
    }

    #[tokio::test]
    async fn a_typed_address_goes_to_the_account_that_proves_it() {
        let trial = Trial::new();
        let (accounts, client) = (&trial.accounts, Client::default());
        let (user, tokens) = trial.member().await;
        let own = trial.who(&tokens).await.unwrap();
        let owner = proven("usr_2", "victim@example.com", &user);
        accounts.change_self(&own, to("victim@example.com"), Some(PASSWORD.into()), &client).await.unwrap();
        accounts.add_user(&owner).await.unwrap();
        assert_eq!(accounts.by_email("victim@example.com").await.unwrap().unwrap().id, owner.id);
        let left = accounts.member("default", &user.id).await.unwrap().user;
        assert_eq!((left.email, left.typed, left.active), (None, false, true));
        let log = accounts.audit_before("default", None, 2).await.unwrap();
        let actions: Vec<_> = log.iter().map(|entry| entry.action.as_str()).collect();
        assert_eq!(actions, ["member.address_lost", "member.add"]);
        // The same holds if an administrator adds or invites an account with the address.
        let admin = trial.who(&trial.join("admin@example.com", Role::Admin, "default").await).await.unwrap();
        accounts.change_self(&own, to("b@example.com"), Some(PASSWORD.into()), &client).await.unwrap();
        let draft = NewMember {
            email: "b@example.com".into(),
            password: PASSWORD.into(),
            role: Role::Member,
            name: String::new(),
        };
        let added = accounts.add_member(&admin, draft).await.unwrap().user;
        assert_ne!(added.id, user.id);
        accounts.change_self(&own, to("c@example.com"), Some(PASSWORD.into()), &client).await.unwrap();
        let email = Some("c@example.com".to_owned());
        let invite = LinkUse::Invite { role: Role::Member, email };
        let made = accounts.make_link(Maker::Caller(&admin), "default", invite, DAY_S).await.unwrap().1;
        let draft = Registrant {
            email: "c@example.com".into(),
            password: PASSWORD.into(),
            name: String::new(),
            invite: Some(made),
        };
        let joined = accounts.register(draft, Registration::Invite, &client).await.unwrap().user;
        assert_eq!(accounts.by_email("c@example.com").await.unwrap().unwrap().id, joined.id);
        // The same holds if an administrator assigns the address to a member.
        accounts.change_self(&own, to("d@example.com"), Some(PASSWORD.into()), &client).await.unwrap();
        accounts.change_member(&admin, &joined.id, &to("d@example.com"), None).await.unwrap();
        assert_eq!(accounts.by_email("d@example.com").await.unwrap().unwrap().id, joined.id);
        assert!(accounts.by_email("c@example.com").await.unwrap().is_none());
        // If two owners only enter the address, the first one keeps it.
        accounts.change_self(&own, to("e@example.com"), Some(PASSWORD.into()), &client).await.unwrap();
        let second =
            trial.who(&trial.join("second@example.com", Role::Member, "default").await).await.unwrap();
        let taken = accounts.change_self(&second, to("e@example.com"), Some(PASSWORD.into()), &client).await;
        assert!(matches!(taken, Err(AccountError::Taken { .. })), "{taken:?}");
    }

    #[tokio::test]
    async fn the_address_that_an_account_registered_with_stays_its_own() {
        let trial = Trial::new();
        let (accounts, client) = (&trial.accounts, Client::default());
        // Accounts registered with the startup link, by an open registration, and at the terminal.
        let first = trial.join("first@example.com", Role::Admin, "default").await.user;
        assert!(first.vouched);
        assert!(!trial.join("any@example.com", Role::Member, "default").await.user.vouched);
        let draft = Registrant {
            email: "open@example.com".into(),
            password: PASSWORD.into(),
            name: String::new(),
            invite: None,
        };
        let open = accounts.register(draft, Registration::Open, &client).await.unwrap().user;
        accounts.local().await.unwrap();
        for (id, user) in [("usr_2", &first), ("usr_3", &open)] {
            let email = user.email.clone().unwrap();
            let added = accounts.add_user(&proven(id, &email, user)).await;
            assert!(added.is_err(), "{email}");
            accounts.login(&email, PASSWORD.into(), &client, FirstRefresh::Now).await.unwrap();
        }
    }

    #[tokio::test]
    async fn tries_of_addresses_are_counted_beside_changes_that_succeed() {
        let trial = Trial::new();
        let (accounts, client) = (&trial.accounts, Client::default());
        trial.join("taken@example.com", Role::Admin, "default").await;
        let (_, tokens) = trial.member().await;
        let own = trial.who(&tokens).await.unwrap();
        let change =
            async |email: &str| accounts.change_self(&own, to(email), Some(PASSWORD.into()), &client).await;
        for number in 0..6 {
            assert!(matches!(change("taken@example.com").await, Err(AccountError::Taken { .. })), "{number}");
            if number < 5 {
                change(&format!("b{number}@example.com")).await.unwrap();
            }
        }
        let refused = change("taken@example.com").await;
        assert!(matches!(refused, Err(AccountError::TooMany { .. })), "{refused:?}");
    }
}
