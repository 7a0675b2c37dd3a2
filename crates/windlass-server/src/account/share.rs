//! Conversations that their owners let everybody in the workspace read: one record each, until it is taken back.
//!
//! What a reader may ask for is the routes' to say (`http/caller.rs`); here it is only kept who shared what.

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, ThreadId, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange, RecordError};

use super::audit::Note;
use super::record::{put, read};
use super::{Accounts, Identity};

/// The kind of the records, whose key is the thread and whose owner is the thread's.
const SHARE: &str = "share";

/// That a conversation may be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Which.
    pub thread: ThreadId,
    /// By everybody of this workspace.
    pub workspace: String,
    /// Whoever said so.
    pub by: Principal,
    /// When.
    pub at: Timestamp,
}

impl Accounts {
    /// Lets the workspace read a thread of `owner`. One that is shared already stays so.
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

    /// Takes that back, where it was said.
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

    /// Who shared a thread and when; `None` where nobody has.
    pub async fn shared(&self, thread: &ThreadId) -> Result<Option<Share>, StoreError> {
        self.records.get(SHARE, thread.as_str()).await?.map(read).transpose()
    }

    /// Up to `limit` threads of an owner that are shared, in the order of their ids.
    pub async fn shares(
        &self,
        owner: &Principal,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Share>, StoreError> {
        let records = self.records.list(SHARE, Some(owner.as_str()), after, limit).await?;
        records.into_iter().map(read).collect()
    }

    /// Forgets that a thread was shared: it is gone.
    pub async fn forget_share(&self, thread: &ThreadId) -> Result<(), RecordError> {
        self.records.delete(SHARE, thread.as_str(), Expect::Any).await
    }
}
