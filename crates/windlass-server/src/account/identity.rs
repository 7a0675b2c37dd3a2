//! The authenticated identity of a request: the account, its role, and the credential.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::machine::{ADMIN, Party, Principal, Timestamp};

/// Role of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May read its own resources and those shared with it. May not start runs.
    Viewer,
    /// May start runs and answer their interrupts.
    Member,
    /// May do everything in its workspace.
    Admin,
}

impl Role {
    /// Returns the role's name, as used in policy rules.
    pub fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Admin => ADMIN,
        }
    }
}

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Id of the account, which is the principal of its actions.
    pub user: Principal,
    pub workspace: String,
    /// Current role.
    pub role: Role,
    pub credential: Credential,
    /// Time of the last change by which another user may have taken over the account.
    pub settled_at: Timestamp,
    /// Network address of the request, for the audit log. `None` outside of requests.
    pub from: Option<IpAddr>,
}

/// The credential of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A signed-in session, by its id.
    Session(String),
    /// The session of a guest, by its id. A guest is a visitor whom a dialect admits without sign-in.
    Guest(String),
    /// An API key.
    Key {
        /// Id of the key.
        id: String,
        /// An empty list means all permissions of its user.
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
    /// Anyone who can reach the server, as a member.
    Open,
    /// Users whom an administrator invites.
    #[default]
    Invite,
    /// No one; administrators add accounts.
    Closed,
}

impl Identity {
    /// Returns the identity to record with an answer to an interrupt.
    pub fn party(&self) -> Party {
        Party {
            principal: self.user.clone(),
            workspace: self.workspace.clone(),
            roles: vec![self.role.word().to_owned()],
        }
    }

    pub fn has(&self, scope: Scope) -> bool {
        match &self.credential {
            Credential::Session(_) => true,
            // Guests must not create anything that outlives their visit, such as keys or account changes.
            Credential::Guest(_) => scope != Scope::Admin,
            Credential::Key { scopes, .. } => scopes.is_empty() || scopes.contains(&scope),
        }
    }
}

/// The reason why a request is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The request has no credential.
    #[error("the request has no credential")]
    Nothing,
    /// The credential never existed or was revoked.
    #[error("the credential is invalid")]
    Invalid,
    #[error("the credential has expired")]
    Expired,
    #[error("the account is deactivated")]
    Deactivated,
}

/// A scope of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read.
    Read,
    /// Start runs, send messages, upload files.
    Run,
    /// Answer interrupts and create grants.
    Approve,
    /// Manage members, keys and settings.
    Admin,
}
