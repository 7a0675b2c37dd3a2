//! Users: one record each, and the roles in memory that the policy asks for on every call.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, Record, RecordError};

use super::{Accounts, Role};

/// The kind of the records.
pub const USER: &str = "user";

/// The workspace that exists from the start.
pub const DEFAULT_WORKSPACE: &str = "default";

/// The principal of the person at this machine's terminal, who is an administrator.
pub const LOCAL: &str = "local";

/// Records read at a time.
const PAGE: usize = 500;

/// An account as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Its id.
    pub id: Principal,
    /// Its workspace.
    pub workspace: String,
    /// What it may do.
    pub role: Role,
    /// How people call it.
    #[serde(default)]
    pub name: String,
    /// Its address, in lower case; absent for the person at the terminal until they register.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Whether it may sign in.
    pub active: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Users by id, as they were last read. The store's count of changes says when that is old.
#[derive(Debug, Default)]
pub struct People(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    changes: Option<u64>,
    users: HashMap<Principal, Arc<User>>,
}

impl People {
    /// A user.
    pub fn find(&self, id: &Principal) -> Option<Arc<User>> {
        // A poisoned lock still holds whole users.
        self.0.read().unwrap_or_else(PoisonError::into_inner).users.get(id).cloned()
    }

    /// The roles that rules may name.
    pub fn roles(&self, id: &Principal) -> Vec<String> {
        let active = self.find(id).filter(|user| user.active);
        active.map(|user| user.role.word().to_owned()).into_iter().collect()
    }

    fn changes(&self) -> Option<u64> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).changes
    }

    fn replace(&self, changes: u64, users: HashMap<Principal, Arc<User>>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have read later than this and written first.
        if known.changes.is_none_or(|newer| newer <= changes) {
            *known = Known { changes: Some(changes), users };
        }
    }
}

impl Accounts {
    /// The users as they are now, read again where anything in the store's records has changed.
    pub async fn refresh(&self) -> Result<&People, StoreError> {
        let changes = self.records.changes().await?;
        if self.people.changes() != Some(changes) {
            let mut users = HashMap::new();
            let mut after: Option<String> = None;
            loop {
                let page = self.records.list(USER, None, after.as_deref(), PAGE).await?;
                let last = page.len() < PAGE;
                after = page.last().map(|record| record.key.clone());
                for record in page {
                    let user = read(record)?;
                    users.insert(user.id.clone(), Arc::new(user));
                }
                if last {
                    break;
                }
            }
            self.people.replace(changes, users);
        }
        Ok(&self.people)
    }

    /// Writes a new user.
    pub async fn add_user(&self, user: &User) -> Result<(), RecordError> {
        let value = serde_json::to_value(user).map_err(unreadable)?;
        self.records.put(USER, user.id.as_str(), &user.workspace, value, Expect::Absent).await?;
        self.refresh().await?;
        Ok(())
    }

    /// Makes sure that the person at the terminal has an account, which everything on the command line is done by.
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
            active: true,
            created_at: self.clock.now(),
        };
        match self.add_user(&user).await {
            // Another process was first.
            Ok(()) | Err(RecordError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
        let found = self.refresh().await?.find(&id);
        Ok(found.unwrap_or_else(|| Arc::new(user)))
    }
}

fn read(record: Record) -> Result<User, StoreError> {
    let Record { kind, key, value, .. } = record;
    serde_json::from_value(value)
        .map_err(|error| StoreError::Corrupt { why: format!("the {kind} `{key}` cannot be read: {error}") })
}

fn unreadable(error: serde_json::Error) -> RecordError {
    RecordError::Store(StoreError::Refused { why: error.to_string() })
}
