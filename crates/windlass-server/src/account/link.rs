//! One-time links: to sign in, to register with an invitation, or to set a new password.
//!
//! Viewing a link does not use it, because mail scanners and previews open links, too. The transaction of the action
//! that a link permits also uses up the link.

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, Record, RecordChange, RecordError};

use super::audit::Note;
use super::error::{AccountError, conflict};
use crate::account::sessions::session::FirstRefresh;

use super::record::{put, read};
use super::{Accounts, Identity, Role, secret};
use crate::account::people::user::{DEFAULT_WORKSPACE, LOCAL};
use crate::account::sessions::session::{Client, Tokens};

/// Record kind of links. The key is the digest of the token, the owner is the workspace.
pub(super) const LINK: &str = "link";
/// Owner of the link that the server prints at startup.
const START: &str = "(start)";

/// Default lifetime of an invitation, in seconds: a week.
pub const INVITE_S: u64 = 7 * 24 * 3_600;
/// Maximum lifetime of a link, in seconds.
pub const LINK_MAX_S: u64 = 30 * 24 * 3_600;
/// Lifetime of a link to sign in or to set a password, in seconds: a day.
pub const DAY_S: u64 = 24 * 3_600;
/// Lifetime of the startup link, in seconds: an hour. Each start replaces it.
const START_S: u64 = 3_600;
/// Maximum number of open links of a workspace: more than a workspace creates in a month.
const LINKS_MAX: usize = 500;

/// The purpose of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum LinkUse {
    /// Signs a user in.
    SignIn {
        /// Id of the user.
        user: Principal,
    },
    /// Registers an account.
    Invite {
        /// Role of the account.
        role: Role,
        /// The email address that the invitation is restricted to; `None` allows any address.
        email: Option<String>,
    },
    /// Sets a new password.
    Reset {
        /// Id of the user.
        user: Principal,
    },
}

/// The stored form of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Public id.
    pub id: String,
    pub used_for: LinkUse,
    pub workspace: String,
    /// The user who created the link; `None` if the link was created at this machine's terminal.
    pub made_by: Option<Principal>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// The creator of a link.
#[derive(Clone, Copy, Debug)]
pub enum Maker<'a> {
    /// The user at this machine's terminal.
    Terminal,
    /// An authenticated caller.
    Caller(&'a Identity),
}

impl Accounts {
    /// Creates a link. Returns the link and its token, which cannot be read later.
    pub async fn make_link(
        &self,
        maker: Maker<'_>,
        workspace: &str,
        used_for: LinkUse,
        seconds: u64,
    ) -> Result<(Link, String), AccountError> {
        if !(60..=LINK_MAX_S).contains(&seconds) {
            let why = format!(
                "a link must be valid for 60 to {LINK_MAX_S} seconds; the request asks for {seconds}"
            );
            return Err(AccountError::Invalid(why));
        }
        if self.links(workspace).await?.len() >= LINKS_MAX {
            let detail = format!("the workspace has {LINKS_MAX} open links; revoke some first");
            return Err(AccountError::Refused { code: "too_many", detail });
        }
        let (link, token) = self.draw_link(maker, workspace, used_for, seconds);
        let note = match maker {
            Maker::Terminal => Note::new(workspace, "link.add").actor(&Principal::from(LOCAL)),
            Maker::Caller(identity) => Note::by(identity, "link.add"),
        };
        let what = serde_json::to_value(&link.used_for).unwrap_or_default();
        let change = put(LINK, &secret::hash(&token), workspace, &link, Expect::Absent);
        self.commit(vec![change], note.on(&link.id).with("link", what)).await?;
        Ok((link, token))
    }

    fn draw_link(
        &self,
        maker: Maker<'_>,
        workspace: &str,
        used_for: LinkUse,
        seconds: u64,
    ) -> (Link, String) {
        let now = self.clock.now();
        let link = Link {
            id: format!("lnk_{}", secret::draw::<9>()),
            used_for,
            workspace: workspace.to_owned(),
            made_by: match maker {
                Maker::Terminal => None,
                Maker::Caller(identity) => Some(identity.user.clone()),
            },
            created_at: now,
            expires_at: Timestamp(now.0 + seconds * 1_000),
        };
        (link, secret::draw::<32>())
    }

    /// Creates the link that the server prints at startup, and replaces the previous startup link.
    pub async fn start_link(&self, used_for: LinkUse) -> Result<String, AccountError> {
        let (link, token) = self.draw_link(Maker::Terminal, DEFAULT_WORKSPACE, used_for, START_S);
        let old = self.every(LINK, Some(START)).await?;
        let mut changes: Vec<_> =
            old.iter().map(|record| RecordChange::delete(LINK, &record.key, Expect::Any)).collect();
        changes.push(put(LINK, &secret::hash(&token), START, &link, Expect::Absent));
        let note = Note::new(DEFAULT_WORKSPACE, "link.add").actor(&Principal::from(LOCAL)).on(&link.id);
        self.commit(changes, note).await?;
        Ok(token)
    }

    /// Returns a valid link without using it.
    pub async fn look_at_link(&self, token: &str) -> Result<Link, AccountError> {
        self.find_link(token).await.map(|(link, _)| link)
    }

    /// Returns a valid link and the change that uses it up.
    pub(super) async fn find_link(&self, token: &str) -> Result<(Link, RecordChange), AccountError> {
        let record = self.records.get(LINK, &secret::hash(token)).await?.ok_or(AccountError::Link)?;
        let used = RecordChange::delete(LINK, &record.key, Expect::Version(record.version));
        let is_start = record.owner == START;
        let link: Link = read(record)?;
        // The startup link is valid only for the first user, because it stays in the terminal's history.
        if link.expires_at <= self.clock.now() || (is_start && self.is_registered().await?) {
            return Err(AccountError::Link);
        }
        Ok((link, used))
    }

    /// Signs in with a link and uses it up.
    pub async fn sign_in_by_link(&self, token: &str, client: &Client) -> Result<Tokens, AccountError> {
        let (link, used) = self.find_link(token).await?;
        let LinkUse::SignIn { user } = &link.used_for else { return Err(AccountError::Link) };
        let (user, stands) = self.standing(user).await?.ok_or(AccountError::Link)?;
        let note = Note::new(&user.workspace, "login").on(user.id.as_str()).with("link", link.id.as_str());
        self.open_session(&user, client, FirstRefresh::Now, vec![used, stands], note).await.map_err(used_up)
    }

    /// Returns the valid links of a workspace, and removes its expired links.
    pub async fn links(&self, workspace: &str) -> Result<Vec<Link>, StoreError> {
        let now = self.clock.now();
        let (mut links, mut old) = (Vec::new(), Vec::new());
        for record in self.every(LINK, Some(workspace)).await? {
            let key = record.key.clone();
            let link: Link = read(record)?;
            if link.expires_at > now {
                links.push(link);
            } else {
                old.push(RecordChange::delete(LINK, &key, Expect::Any));
            }
        }
        match self.records.apply(old).await {
            Ok(_) | Err(RecordError::Conflict { .. }) => {}
            Err(RecordError::Store(error)) => return Err(error),
        }
        links.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.id.cmp(&b.id)));
        Ok(links)
    }

    /// Returns the changes that revoke all links that a user created.
    pub(super) async fn link_ends(
        &self,
        workspace: &str,
        maker: &Principal,
    ) -> Result<Vec<RecordChange>, StoreError> {
        let records = self.every(LINK, Some(workspace)).await?;
        let theirs = records.iter().filter(|record| record.value["made_by"] == maker.as_str());
        Ok(theirs.map(|record| RecordChange::delete(LINK, &record.key, Expect::Any)).collect())
    }

    /// Returns the changes that revoke all links for setting a user's password.
    pub(super) async fn reset_ends(
        &self,
        workspace: &str,
        user: &Principal,
    ) -> Result<Vec<RecordChange>, StoreError> {
        let reset = serde_json::to_value(LinkUse::Reset { user: user.clone() }).unwrap_or_default();
        let records = self.every(LINK, Some(workspace)).await?;
        let theirs = records.iter().filter(|record| record.value["used_for"] == reset);
        Ok(theirs.map(|record| RecordChange::delete(LINK, &record.key, Expect::Any)).collect())
    }

    /// Revokes the link that the server printed at startup.
    pub async fn end_start_link(&self) -> Result<(), RecordError> {
        let old = self.every(LINK, Some(START)).await?;
        let gone = old.iter().map(|record| RecordChange::delete(LINK, &record.key, Expect::Any));
        self.records.apply(gone.collect()).await.map(drop)
    }

    /// Revokes a link of the caller's workspace.
    pub async fn take_link_back(&self, identity: &Identity, id: &str) -> Result<(), AccountError> {
        let records = self.every(LINK, Some(&identity.workspace)).await?;
        let named = |record: &&Record| record.value["id"] == id;
        let record = records.iter().find(named);
        let record = record.ok_or_else(|| AccountError::Missing(format!("link `{id}`")))?;
        let gone = RecordChange::delete(LINK, &record.key, Expect::Any);
        self.commit(vec![gone], Note::by(identity, "link.remove").on(id)).await?;
        Ok(())
    }
}

/// Maps a conflict on a link's record: a concurrent request used the link first.
pub(super) fn used_up(error: RecordError) -> AccountError {
    if conflict(&error) == Some(LINK) { AccountError::Link } else { error.into() }
}
