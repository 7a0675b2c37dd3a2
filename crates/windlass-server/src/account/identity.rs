//! Who makes a request: an account, with what it may do and the credential that it came with.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::machine::{ADMIN, Party, Principal, Timestamp};

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

/// What a key may be limited to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Look.
    Read,
    /// Start runs, send messages, upload files.
    Run,
    /// Answer what runs ask, and write grants.
    Approve,
    /// Manage people, keys and settings.
    Admin,
}
