//! Requests to the writer and its responses.
//!
//! The caller encodes a change, so that the writer only writes.

use std::collections::HashSet;

use bytes::Bytes;
use windlass_engine::port::journal::{Batch, Claim, Due, Epoch, Posted, StoredSnapshot};
use windlass_engine::port::records::PreparedChange;
use windlass_machine::{Digest, InputId, ThreadId};

/// A batch with its events encoded on the caller's thread.
pub(crate) struct PreparedAppend {
    /// The batch.
    pub batch: Batch,
    /// Its events as text, each with its checksum.
    pub bodies: Vec<(i64, String)>,
    /// The blobs that they name.
    pub names: HashSet<Digest>,
    /// Its changes of records.
    pub records: Vec<PreparedChange>,
}

/// A change other than an append.
pub(crate) enum Write {
    /// Claims a thread.
    Claim(ThreadId),
    /// Claims those of some threads that still need a driver and have none.
    ClaimDue(Vec<ThreadId>),
    /// Releases a thread.
    Release(ThreadId, Epoch),
    /// Puts an input into the inbox.
    Post {
        /// Whose inbox.
        thread: ThreadId,
        /// The sender's id of it.
        id: InputId,
        /// The input as JSON.
        input: String,
        /// The blobs that it names.
        names: HashSet<Digest>,
        /// Whether it may make the thread.
        is_message: bool,
    },
    /// Keeps a snapshot, if the thread still has the epoch.
    Snapshot(ThreadId, Epoch, StoredSnapshot),
    /// Keeps a small blob.
    Blob(Digest, Bytes),
    /// Records that a large blob is about to be stored.
    Loosen(Digest),
    /// Deletes a thread.
    Delete(ThreadId),
    /// Deletes blobs that nothing names, those of deleted threads first. The writer repeats it until none is left.
    Collect(Until),
    /// Writes a row, to verify that the store is writable.
    Check,
}

/// When a collection is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// After its first group.
    FirstGroup,
    /// Once the blobs of every deleted thread are gone.
    DeletedThreads,
}

/// The response to a change.
pub(crate) enum Written {
    /// Success without a value.
    Nothing,
    /// For a claim.
    Claim(Claim),
    /// For claims of threads that need a driver.
    Due(Vec<Due>),
    /// For a posted input.
    Posted(Posted),
    /// For a collection.
    Collected {
        /// Whether the collection has got as far as [`Until`] says. The writer answers after a later group if not.
        is_done: bool,
    },
    /// For a check: SQLite's `synchronous` of the connection that writes.
    Checked {
        /// 0 is off, 1 normal, 2 full, 3 extra.
        synchronous: i64,
    },
}
