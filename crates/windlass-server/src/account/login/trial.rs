//! Test fixture: accounts on an in-memory store, with a clock that tests control.

use std::sync::Arc;

use windlass::clock::ManualClock;
use windlass::machine::Timestamp;
use windlass::memory::MemoryStore;

use crate::account::Accounts;
use crate::account::Identity;
use crate::account::Registration;
use crate::account::Role;
use crate::account::link::{INVITE_S, LinkUse, Maker};
use crate::account::login::Registrant;
use crate::account::people::user::{DEFAULT_WORKSPACE, People, User};
use crate::account::sessions::session::{Client, Tokens};
use crate::vault::Vault;

/// Accounts and their clock.
pub struct Trial {
    pub accounts: Accounts,
    pub clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
    folder: tempfile::TempDir,
}

/// The password of all test accounts.
pub const PASSWORD: &str = "correct horse";

impl Trial {
    pub fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000), 1));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::open(folder.path()).unwrap();
        let accounts = Accounts::new(store.clone(), clock.clone(), Arc::new(People::default()), vault);
        Self { accounts, clock, store, folder }
    }

    /// Returns the same accounts, as another process sees them.
    pub fn beside(&self) -> Accounts {
        self.with_vault(self.folder.path())
    }

    /// Returns accounts with the same records and another vault, as in a restored store.
    pub fn with_another_vault(&self) -> Accounts {
        self.with_vault(tempfile::tempdir().unwrap().path())
    }

    fn with_vault(&self, folder: &std::path::Path) -> Accounts {
        let vault = Vault::open(folder).unwrap();
        Accounts::new(self.store.clone(), self.clock.clone(), Arc::new(People::default()), vault)
    }

    /// Registers an account with an invitation.
    pub async fn join(&self, email: &str, role: Role, workspace: &str) -> Tokens {
        let used_for = LinkUse::Invite { role, email: None };
        let made = self.accounts.make_link(Maker::Terminal, workspace, used_for, INVITE_S).await;
        let draft = Registrant {
            email: email.into(),
            password: PASSWORD.into(),
            name: String::new(),
            invite: Some(made.unwrap().1),
        };
        self.accounts.register(draft, Registration::Invite, &Client::default()).await.unwrap()
    }

    /// Returns the identity that an access token authenticates.
    pub async fn who(&self, tokens: &Tokens) -> Result<Identity, String> {
        self.accounts.by_token(&tokens.access).await.unwrap().map_err(|unknown| unknown.to_string())
    }

    /// Registers a new member of the default workspace.
    pub async fn member(&self) -> (Arc<User>, Tokens) {
        let tokens = self.join("a@example.com", Role::Member, DEFAULT_WORKSPACE).await;
        (tokens.user.clone(), tokens)
    }
}
