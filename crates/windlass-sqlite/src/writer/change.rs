//! Requests to the writer and its responses.
//!
//! The caller encodes a change, so that the writer's thread only writes.

use std::collections::HashSet;

use bytes::Bytes;
use windlass_engine::port::journal::{Batch, Claim, Due, Epoch, Posted, StoredSnapshot};
use windlass_engine::port::records::PreparedChange;
use windlass_machine::{Digest, InputId, ThreadId};

/// A batch with its events encoded on the caller's thread.
pub(crate) struct PreparedAppend {
    pub batch: Batch,
    /// The events as JSON, each with its checksum.
    pub bodies: Vec<(i64, String)>,
    /// The blobs that the events name.
    pub names: HashSet<Digest>,
    /// The changes of records in the batch.
    pub records: Vec<PreparedChange>,
}

/// A change other than an append.
pub(crate) enum Write {
    Claim(ThreadId),
    /// Claims those threads that still need a driver and have none.
    ClaimDue(Vec<ThreadId>),
    /// Releases a thread.
    Release(ThreadId, Epoch),
    /// Puts an input into the inbox.
    Post {
        /// The thread of the inbox.
        thread: ThreadId,
        /// The sender's id of the input.
        id: InputId,
        /// The input as JSON.
        input: String,
        /// The blobs that the input names.
        names: HashSet<Digest>,
        /// Whether the input may create the thread.
        is_message: bool,
    },
    /// Stores a snapshot if the thread still has this epoch.
    Snapshot(ThreadId, Epoch, StoredSnapshot),
    /// Stores a small blob.
    Blob(Digest, Bytes),
    /// Records that a large blob is about to be stored.
    Loosen(Digest),
    /// Deletes a thread.
    Delete(ThreadId),
    /// Deletes blobs that no thread names, those of deleted threads first. The writer
    /// repeats it until no such blob is left.
    Collect(Until),
    /// Writes a row to verify that the store is writable.
    Check,
}

/// When the writer acknowledges a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// After the collection's first group.
    FirstGroup,
    /// Once the blobs of every deleted thread are deleted.
    DeletedThreads,
}

/// The response to a change.
pub(crate) enum Written {
    /// Success without a value.
    Nothing,
    /// The result of a claim.
    Claim(Claim),
    /// The result of claims of threads that need a driver.
    Due(Vec<Due>),
    /// The result of posting an input.
    Posted(Posted),
    /// The result of a collection.
    Collected {
        /// Whether the collection has reached the point that [`Until`] requests. If not, the writer responds after a
        /// later group.
        is_done: bool,
    },
    /// The result of a check: SQLite's `synchronous` setting of the writing connection.
    Checked {
        /// 0 is off, 1 normal, 2 full, 3 extra.
        synchronous: i64,
    },
}
