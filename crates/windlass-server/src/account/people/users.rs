//! Users in the store: loaded into memory after a change, found by email address, and added.

use std::collections::HashMap;
use std::sync::Arc;

use windlass::machine::Principal;
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange, RecordError};

use crate::account::Accounts;
use crate::account::Role;
use crate::account::audit::Note;
use crate::account::people::user::{
    ALL, DEFAULT_WORKSPACE, EMAIL, Known, LOCAL, PEOPLE, People, USER, User, mark,
};
use crate::account::record::{put, read};

impl Accounts {
    /// Returns the newest change of each record kind.
    pub(in crate::account) async fn changes<const N: usize>(
        &self,
        kinds: [&str; N],
    ) -> Result<[u64; N], StoreError> {
        let changes = self.records.changes(&kinds).await?;
        changes.try_into().map_err(|changes: Vec<u64>| {
            let why =
                format!("the store returned {} change counters for {N} kinds; this is a bug", changes.len());
            StoreError::Unavailable { why }
        })
    }

    /// Returns the current users. Reloads them if any user has changed.
    pub async fn refresh(&self) -> Result<&People, StoreError> {
        let [changes] = self.changes([PEOPLE]).await?;
        self.refresh_to(changes).await
    }

    /// Returns the current users; `changes` is the newest change of their record kind.
    pub(in crate::account) async fn refresh_to(&self, changes: u64) -> Result<&People, StoreError> {
        if self.people.changes() != Some(changes) {
            let mut users = HashMap::new();
            for record in self.every(USER, None).await? {
                let user: User = read(record)?;
                users.insert(user.id.clone(), Arc::new(user));
            }
            self.people.replace(Known { changes: Some(changes), users });
        }
        Ok(&self.people)
    }

    /// Returns the version of the record that changes with every user.
    pub(in crate::account) async fn people_mark(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.records.get(PEOPLE, ALL).await?.map(|record| record.version))
    }

    /// Returns the changes that write a new user, the user's record first, and the audit note. If the user proves the
    /// address, another account whose owner only entered the address loses it.
    pub(in crate::account) async fn new_user(
        &self,
        user: &User,
        note: Note,
    ) -> Result<(Vec<RecordChange>, Note), StoreError> {
        let mut changes =
            vec![put(USER, user.id.as_str(), &user.workspace, user, Expect::Absent), mark(Expect::Any)];
        let note = self.take_address(user, &mut changes, note).await?;
        Ok((changes, note))
    }

    /// Writes a new user.
    pub async fn add_user(&self, user: &User) -> Result<(), RecordError> {
        let note = Note::new(&user.workspace, "member.add").on(user.id.as_str());
        let (changes, note) = self.new_user(user, note.with("role", user.role.word())).await?;
        self.commit(changes, note).await?;
        self.refresh().await?;
        Ok(())
    }

    /// Finds the user with an address, which must be in lower case.
    pub async fn by_email(&self, email: &str) -> Result<Option<Arc<User>>, StoreError> {
        let Some(record) = self.records.get(EMAIL, email).await? else { return Ok(None) };
        let id: Principal = read(record)?;
        Ok(self.refresh().await?.find(&id))
    }

    /// Returns the local account, in whose name all commands act. Creates the account if necessary.
    pub async fn local(&self) -> Result<Arc<User>, RecordError> {
        let id = Principal::from(LOCAL);
        if let Some(user) = self.refresh().await?.find(&id) {
            return Ok(user);
        }
        let user = User {
            id: id.clone(),
            workspace: DEFAULT_WORKSPACE.to_owned(),
            role: Role::Admin,
            name: "Local administrator".to_owned(),
            email: None,
            vouched: false,
            verified: false,
            typed: false,
            active: true,
            credit_micro_usd: None,
            created_at: self.clock.now(),
            settled_at: self.clock.now(),
        };
        match self.add_user(&user).await {
            // Another process has created the account concurrently.
            Ok(()) | Err(RecordError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
        let found = self.refresh().await?.find(&id);
        Ok(found.unwrap_or_else(|| Arc::new(user)))
    }
}
