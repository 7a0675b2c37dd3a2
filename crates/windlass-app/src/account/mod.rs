//! People and programs that may use the server: who they are, what they may do, and by which credential they come.
//!
//! Accounts are records in the engine's store. Nothing here knows HTTP.

mod address;
mod attempts;
pub mod audit;
pub mod error;
mod failed;
mod first;
pub mod guest;
pub mod hands;
pub mod key;
pub mod link;
pub mod login;
pub mod member;
mod network;
#[cfg(feature = "openid")]
pub mod oidc;
mod password;
mod record;
pub mod secret;
pub mod session;
pub mod share;
pub mod token;
#[cfg(test)]
mod trial;
pub mod user;
mod workspace;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::machine::{ADMIN, Party, Principal, Timestamp};
use windlass::port::clock::Clock;
use windlass::port::records::Records;

use self::attempts::Attempts;
use self::audit::log::AuditLog;
use self::failed::Failures;
use self::key::Scope;
use self::password::Hashing;
use self::token::SignerCache;
use self::user::People;
use crate::vault::Vault;

/// What an account may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look at its own and at what is shared; start nothing.
    Viewer,
    /// Start runs and answer for its own.
    Member,
    /// Everything in its workspace.
    Admin,
}

impl Role {
    /// The role's word, which policy rules name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Admin => ADMIN,
        }
    }
}

/// Who makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The account's id, which is the principal of what it does.
    pub user: Principal,
    /// Its workspace.
    pub workspace: String,
    /// Its role now.
    pub role: Role,
    /// What it came with.
    pub credential: Credential,
    /// Since when the account is in the same hands.
    pub settled_at: Timestamp,
    /// The address that the request came from, for the audit log; absent outside of requests.
    pub from: Option<IpAddr>,
}

/// What a request came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A login, by the id of its session.
    Session(String),
    /// The session of a guest, by its id: a visitor of a dialect who has not signed in.
    Guest(String),
    /// An API key, by its id, with what it may do; none named means all that its user may.
    Key {
        /// Its id.
        id: String,
        /// What it is limited to.
        scopes: Vec<Scope>,
    },
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) | Self::Guest(id) | Self::Key { id, .. } => f.write_str(id),
        }
    }
}

/// Who may register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Registration {
    /// Everybody who reaches the server, as a member.
    Open,
    /// Whoever an administrator invites.
    #[default]
    Invite,
    /// Nobody: administrators add accounts.
    Closed,
}

impl Identity {
    /// Whoever answers what runs ask.
    pub fn party(&self) -> Party {
        Party {
            principal: self.user.clone(),
            workspace: self.workspace.clone(),
            roles: vec![self.role.word().to_owned()],
        }
    }

    /// Whether the credential covers a scope.
    pub fn has(&self, scope: Scope) -> bool {
        match &self.credential {
            Credential::Session(_) => true,
            // Nothing that outlives the visit: no keys, no changes of the account.
            Credential::Guest(_) => scope != Scope::Admin,
            Credential::Key { scopes, .. } => scopes.is_empty() || scopes.contains(&scope),
        }
    }
}

/// Why nobody is known to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// Nothing was sent.
    #[error("the request carries no credential")]
    Nothing,
    /// It is none that was given out, or it was taken back.
    #[error("the credential is not valid")]
    Invalid,
    /// Its time is over.
    #[error("the credential has expired")]
    Expired,
    /// The account was deactivated.
    #[error("the account is deactivated")]
    Deactivated,
}

/// The accounts of a store.
#[derive(Clone)]
pub struct Accounts {
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    people: Arc<People>,
    log: Arc<AuditLog>,
    memory: Arc<Memory>,
}

/// What a process keeps beside the records.
struct Memory {
    signer: SignerCache,
    vault: Vault,
    sessions: session::Cache,
    hashing: Hashing,
    attempts: Attempts,
    failures: Failures,
    #[cfg(feature = "openid")]
    providers: oidc::Known,
}

impl Accounts {
    /// Accounts in these records. `people` is what the engine's policy looks roles up in; `vault` seals the signing key.
    pub fn new(records: Arc<dyn Records>, clock: Arc<dyn Clock>, people: Arc<People>, vault: Vault) -> Self {
        let memory = Memory {
            signer: SignerCache::default(),
            vault,
            sessions: session::Cache::default(),
            hashing: Hashing::default(),
            attempts: Attempts::default(),
            failures: Failures::default(),
            #[cfg(feature = "openid")]
            providers: oidc::Known::default(),
        };
        let log = Arc::new(AuditLog::new(records.clone(), clock.clone()));
        Self { records, clock, people, log, memory: Arc::new(memory) }
    }
}
