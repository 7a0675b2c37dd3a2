//! Workspaces: isolated tenants in one store.

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::records::Expect;

use crate::account::Accounts;
use crate::account::Role;
use crate::account::audit::Note;
use crate::account::error::{AccountError, conflict};
use crate::account::link::{INVITE_S, LinkUse, Maker};
use crate::account::people::user::{DEFAULT_WORKSPACE, LOCAL};
use crate::account::record::put;

/// Record kind of workspaces. The key is the name. The default workspace has no record.
const WORKSPACE: &str = "workspace";
/// Maximum length of a name, in bytes.
const NAME_MAX_BYTES: usize = 64;

#[derive(Serialize, Deserialize)]
struct Workspace {
    name: String,
    created_at: Timestamp,
}

impl Accounts {
    /// Adds a workspace. Returns the token of a link with which its first administrator registers.
    pub async fn add_workspace(&self, name: &str) -> Result<String, AccountError> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if name.is_empty() || name.len() > NAME_MAX_BYTES || !name.bytes().all(plain) {
            let why = format!(
                "`{name}` is not a valid workspace name; use 1 to {NAME_MAX_BYTES} of a-z, 0-9, `-` and `_`"
            );
            return Err(AccountError::Invalid(why));
        }
        let exists = || {
            let detail = format!("workspace `{name}` already exists");
            AccountError::Refused { code: "exists", detail }
        };
        if name == DEFAULT_WORKSPACE {
            return Err(exists());
        }
        let workspace = Workspace { name: name.to_owned(), created_at: self.clock.now() };
        let change = put(WORKSPACE, name, name, &workspace, Expect::Absent);
        let note = Note::new(name, "workspace.add").actor(&Principal::from(LOCAL)).on(name);
        match self.commit(vec![change], note).await {
            Err(error) if conflict(&error) == Some(WORKSPACE) => return Err(exists()),
            made => made?,
        };
        let first = LinkUse::Invite { role: Role::Admin, email: None };
        Ok(self.make_link(Maker::Terminal, name, first, INVITE_S).await?.1)
    }
}
