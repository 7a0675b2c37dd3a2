//! Threads that their owners share with the workspace: one record each, until the share ends.
//!
//! The routes decide what readers may access (`http/caller.rs`). This module only stores the shares.

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, ThreadId, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange, RecordError};

use super::audit::Note;
use super::record::{put, read};
use super::{Accounts, Identity};

/// Record kind. The key is the thread, the owner is the thread's owner.
const SHARE: &str = "share";

/// The share of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub thread: ThreadId,
    /// The workspace whose users may read it.
    pub workspace: String,
    /// The user who shared it.
    pub by: Principal,
    pub at: Timestamp,
}

impl Accounts {
    /// Shares a thread with the workspace. An existing share stays unchanged.
    pub async fn share(
        &self,
        identity: &Identity,
        thread: &ThreadId,
        owner: &Principal,
    ) -> Result<Share, RecordError> {
        if let Some(shared) = self.shared(thread).await? {
            return Ok(shared);
        }
        let share = Share {
            thread: thread.clone(),
            workspace: identity.workspace.clone(),
            by: identity.user.clone(),
            at: self.clock.now(),
        };
        let change = put(SHARE, thread.as_str(), owner.as_str(), &share, Expect::Any);
        let note = Note::by(identity, "thread.shared").on(thread.as_str());
        self.commit(vec![change], note.with("owner", owner.as_str())).await?;
        Ok(share)
    }

    /// Ends the share of a thread, if there is one.
    pub async fn unshare(
        &self,
        identity: &Identity,
        thread: &ThreadId,
        owner: &Principal,
    ) -> Result<(), RecordError> {
        if self.shared(thread).await?.is_none() {
            return Ok(());
        }
        let note = Note::by(identity, "thread.unshared").on(thread.as_str());
        let gone = RecordChange::delete(SHARE, thread.as_str(), Expect::Any);
        self.commit(vec![gone], note.with("owner", owner.as_str())).await.map(drop)
    }

    /// Returns the share of a thread, or `None` if the thread is not shared.
    pub async fn shared(&self, thread: &ThreadId) -> Result<Option<Share>, StoreError> {
        self.records.get(SHARE, thread.as_str()).await?.map(read).transpose()
    }

    /// Returns up to `limit` shared threads of an owner, in the order of their ids.
    pub async fn shares(
        &self,
        owner: &Principal,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Share>, StoreError> {
        let records = self.records.list(SHARE, Some(owner.as_str()), after, limit).await?;
        records.into_iter().map(read).collect()
    }

    /// Removes the share of a deleted thread.
    pub async fn forget_share(&self, thread: &ThreadId) -> Result<(), RecordError> {
        self.records.delete(SHARE, thread.as_str(), Expect::Any).await
    }
}
