//! Unverified addresses: typed by the owner of an account, but not verified by a provider or an administrator.

use windlass::machine::Principal;
use windlass::port::records::{Expect, RecordChange};

use super::attempts::{Attempt, Target};
use super::audit::Note;
use super::error::AccountError;
use super::record::{put, read};
use super::session::Client;
use super::user::{EMAIL, LOCAL, USER, User, mark};
use super::{Accounts, Identity};

impl User {
    /// Whether an administrator or a provider has said that the address is this person's.
    pub fn owns_address(&self) -> bool {
        self.vouched || self.verified
    }
}

impl Accounts {
    /// Lets an owner try another address. The answer tells whether an account has it, so tries are counted.
    pub(super) async fn begin_move(
        &self,
        identity: &Identity,
        current: Option<String>,
        client: &Client,
    ) -> Result<Attempt, AccountError> {
        self.check_current(identity, current, client).await?;
        self.begin_attempt(Some(Target::Move(identity.user.clone())), client)
    }

    /// Forgives a try unless it found an account with the address.
    pub(super) fn end_move<T>(&self, attempt: Option<Attempt>, moved: &Result<T, AccountError>) {
        if let Some(attempt) = attempt.filter(|_| !matches!(moved, Err(AccountError::Taken { .. }))) {
            self.memory.attempts.forgive(attempt);
        }
    }

    /// Takes an address away from an account whose owner only typed it, so that the owner of the address can have it.
    /// Changes nothing if no account has the address, or if the account owns it.
    pub async fn free_address(&self, email: &str) -> Result<(), AccountError> {
        let Some(claim) = self.records.get(EMAIL, email).await? else { return Ok(()) };
        let claimed = claim.version;
        let id: Principal = read(claim)?;
        let Some(record) = self.records.get(USER, id.as_str()).await? else { return Ok(()) };
        let version = record.version;
        let user: User = read(record)?;
        if user.owns_address() || user.id.as_str() == LOCAL {
            return Ok(());
        }
        let without = User { email: None, ..user };
        let changes = vec![
            put(USER, without.id.as_str(), &without.workspace, &without, Expect::Version(version)),
            RecordChange::delete(EMAIL, email, Expect::Version(claimed)),
            mark(Expect::Any),
        ];
        let note = Note::new(&without.workspace, "member.address_lost").on(without.id.as_str());
        self.commit(changes, note.with("email_before", email)).await?;
        self.refresh().await?;
        Ok(())
    }
}
