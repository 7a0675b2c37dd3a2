//! Users: one record each, and the roles in memory that the policy asks for on every call.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use windlass::machine::{ADMIN, Party, Principal, Timestamp};
use windlass::port::records::{Expect, RecordChange};

use crate::account::error::AccountError;
use crate::account::identity::Role;
use crate::account::record::put;

/// The kind of the records.
pub const USER: &str = "user";
/// The kind of addresses, by which accounts are found; each is in the whole server once.
pub(in crate::account) const EMAIL: &str = "email";
/// The kind of the one record that changes with every user.
pub const PEOPLE: &str = "people";
pub(in crate::account) const ALL: &str = "all";

/// The workspace that exists from the start.
pub const DEFAULT_WORKSPACE: &str = "default";

/// The principal of the person at this machine's terminal, who is an administrator.
pub const LOCAL: &str = "local";

/// The person at the terminal: whoever may use the store may do everything.
pub fn local() -> Party {
    Party {
        principal: Principal::from(LOCAL),
        workspace: DEFAULT_WORKSPACE.into(),
        roles: vec![ADMIN.to_owned()],
    }
}

/// Longest address, in bytes. (RFC 5321, section 4.5.3.1.3)
const EMAIL_MAX_BYTES: usize = 254;
/// Longest name, in characters.
const NAME_MAX_CHARS: usize = 100;

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
    /// Whether an administrator has said that the address is this person's. One that somebody only typed is nobody's
    /// proof.
    #[serde(default)]
    pub vouched: bool,
    /// Whether a provider that people sign in by has verified the address.
    #[serde(default)]
    pub verified: bool,
    /// Whether the owner typed the address after registering, without proof. An account that proves the address takes
    /// it over.
    #[serde(default)]
    pub typed: bool,
    /// Whether it may sign in.
    pub active: bool,
    /// What its runs may cost altogether, in millionths of a US dollar; absent: as much as budgets allow. (ZE-O1)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_micro_usd: Option<u64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When the account was created, or last promoted, reactivated, or given a password or an address by another user.
    #[serde(default)]
    pub settled_at: Timestamp,
}

/// Users by id, as they were last read. The newest change of a user says when that is old.
#[derive(Debug, Default)]
pub struct People(RwLock<Known>);

#[derive(Debug, Default)]
pub(in crate::account) struct Known {
    /// The newest change of a user that this holds for.
    pub(in crate::account) changes: Option<u64>,
    pub(in crate::account) users: HashMap<Principal, Arc<User>>,
}

impl People {
    /// A user.
    pub fn find(&self, id: &Principal) -> Option<Arc<User>> {
        // A poisoned lock still holds whole users.
        self.0.read().unwrap_or_else(PoisonError::into_inner).users.get(id).cloned()
    }

    /// What its runs may cost altogether, where that is bounded.
    pub fn credit(&self, workspace: &str, id: &Principal) -> Option<u64> {
        self.find(id).filter(|user| user.workspace == workspace)?.credit_micro_usd
    }

    /// The roles that rules may name.
    pub fn roles(&self, id: &Principal) -> Vec<String> {
        let active = self.find(id).filter(|user| user.active);
        active.map(|user| user.role.word().to_owned()).into_iter().collect()
    }

    /// Everybody in a workspace.
    pub fn of(&self, workspace: &str) -> Vec<Arc<User>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.users.values().filter(|user| user.workspace == workspace).cloned().collect()
    }

    pub(in crate::account) fn changes(&self) -> Option<u64> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).changes
    }

    pub(in crate::account) fn replace(&self, news: Known) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Another task may have read later than this and written first.
        if known.changes <= news.changes {
            *known = news;
        }
    }
}

/// Tells every process that a user has changed. Goes with each change of one.
pub(in crate::account) fn mark(expected: Expect) -> RecordChange {
    put(PEOPLE, ALL, "", &true, expected)
}

/// An address as it is kept.
pub fn fold_email(email: &str) -> Result<String, AccountError> {
    let email = email.trim().to_lowercase();
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"<>()[]\\,;:\"".contains(c);
    let parts = email.split_once('@').filter(|(local, domain)| {
        !local.is_empty() && !domain.is_empty() && !domain.contains('@') && email.chars().all(plain)
    });
    if parts.is_some() && email.len() <= EMAIL_MAX_BYTES {
        return Ok(email);
    }
    let shown = crate::text::first_line(&email, 80);
    Err(AccountError::Invalid(format!("`{shown}` is no e-mail address")))
}

/// A name as it is kept.
pub fn check_name(name: &str) -> Result<String, AccountError> {
    let name = name.trim();
    if name.chars().count() > NAME_MAX_CHARS || name.chars().any(char::is_control) {
        let why = format!("a name has at most {NAME_MAX_CHARS} characters, all on one line");
        return Err(AccountError::Invalid(why));
    }
    Ok(name.to_owned())
}
