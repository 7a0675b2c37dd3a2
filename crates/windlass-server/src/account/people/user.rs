//! Users: one record each, and an in-memory copy of their roles, which the policy reads for every call.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use windlass::machine::{ADMIN, Party, Principal, Timestamp};
use windlass::port::records::{Expect, RecordChange};

use crate::account::error::AccountError;
use crate::account::identity::Role;
use crate::account::record::put;

/// Record kind of users.
pub const USER: &str = "user";
/// Record kind of email addresses, for looking up accounts. An address is unique in the whole server.
pub(in crate::account) const EMAIL: &str = "email";
/// Kind of the single record that changes with every user.
pub const PEOPLE: &str = "people";
pub(in crate::account) const ALL: &str = "all";

/// The workspace that always exists.
pub const DEFAULT_WORKSPACE: &str = "default";

/// The principal of the user at this machine's terminal, who is an administrator.
pub const LOCAL: &str = "local";

/// Returns the identity of the user at the terminal. A process that can open the store has all permissions.
pub fn local() -> Party {
    Party {
        principal: Principal::from(LOCAL),
        workspace: DEFAULT_WORKSPACE.into(),
        roles: vec![ADMIN.to_owned()],
    }
}

/// Maximum length of an email address, in bytes. (RFC 5321, section 4.5.3.1.3)
const EMAIL_MAX_BYTES: usize = 254;
/// Maximum length of a name, in characters.
const NAME_MAX_CHARS: usize = 100;

/// A user's account, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub id: Principal,
    pub workspace: String,
    pub role: Role,
    /// Display name.
    #[serde(default)]
    pub name: String,
    /// Email address in lower case; absent for the local account until it registers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Whether an administrator has confirmed that the address belongs to this person. Entering an address proves
    /// nothing.
    #[serde(default)]
    pub vouched: bool,
    /// Whether an OpenID Connect provider has verified the address.
    #[serde(default)]
    pub verified: bool,
    /// Whether the owner entered the address after registering, without proof. An account that proves the address
    /// takes it over.
    #[serde(default)]
    pub typed: bool,
    /// Whether the account may sign in.
    pub active: bool,
    /// Total credit for the account's runs, in millionths of a US dollar; `None` if only the budgets limit them.
    /// (ZE-O1)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_micro_usd: Option<u64>,
    pub created_at: Timestamp,
    /// When the account was created, or was last promoted, reactivated, or given a password or an address by another
    /// user.
    #[serde(default)]
    pub settled_at: Timestamp,
}

/// An in-memory copy of the users by id. The newest change of the `people` record shows whether the copy is outdated.
#[derive(Debug, Default)]
pub struct People(RwLock<Known>);

#[derive(Debug, Default)]
pub(in crate::account) struct Known {
    /// The newest change that this copy includes.
    pub(in crate::account) changes: Option<u64>,
    pub(in crate::account) users: HashMap<Principal, Arc<User>>,
}

impl People {
    pub fn find(&self, id: &Principal) -> Option<Arc<User>> {
        // Invariant: a poisoned lock still guards complete users.
        self.0.read().unwrap_or_else(PoisonError::into_inner).users.get(id).cloned()
    }

    /// Returns the user's total credit, or `None` if the credit is unlimited.
    pub fn credit(&self, workspace: &str, id: &Principal) -> Option<u64> {
        self.find(id).filter(|user| user.workspace == workspace)?.credit_micro_usd
    }

    /// Returns the roles of a user, as used in policy rules. Empty for an inactive user.
    pub fn roles(&self, id: &Principal) -> Vec<String> {
        let active = self.find(id).filter(|user| user.active);
        active.map(|user| user.role.word().to_owned()).into_iter().collect()
    }

    /// Returns all users of a workspace.
    pub fn of(&self, workspace: &str) -> Vec<Arc<User>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.users.values().filter(|user| user.workspace == workspace).cloned().collect()
    }

    pub(in crate::account) fn changes(&self) -> Option<u64> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).changes
    }

    pub(in crate::account) fn replace(&self, news: Known) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // A concurrent task may have read newer users and stored them first.
        if known.changes <= news.changes {
            *known = news;
        }
    }
}

/// Returns the change that notifies all processes that a user has changed. Every change of a user must include it.
pub(in crate::account) fn mark(expected: Expect) -> RecordChange {
    put(PEOPLE, ALL, "", &true, expected)
}

/// Normalizes and validates an email address.
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
    Err(AccountError::Invalid(format!("`{shown}` is not an email address")))
}

/// Trims and validates a display name.
pub fn check_name(name: &str) -> Result<String, AccountError> {
    let name = name.trim();
    if name.chars().count() > NAME_MAX_CHARS || name.chars().any(char::is_control) {
        let why = format!("a name must have at most {NAME_MAX_CHARS} characters, all on one line");
        return Err(AccountError::Invalid(why));
    }
    Ok(name.to_owned())
}
