//! What the writer is asked to change, and what it answers.
//!
//! The caller prepares a change, so that the writer does nothing but write.

use std::collections::HashSet;

use bytes::Bytes;
use windlass_machine::{Digest, InputId, ThreadId};

use crate::port::journal::{Batch, Claim, Epoch, Posted, StoredSnapshot};
use crate::port::records::PreparedChange;

/// A batch with its events encoded, which the caller's thread did.
pub(super) struct PreparedAppend {
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
pub(super) enum Write {
    /// Takes a thread.
    Claim(ThreadId),
    /// Gives a thread back.
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
    /// Keeps a snapshot.
    Snapshot(ThreadId, StoredSnapshot),
    /// Keeps a small blob.
    Blob(Digest, Bytes),
    /// Says that a large blob is about to be stored.
    Loosen(Digest),
    /// Deletes a thread.
    Delete(ThreadId),
    /// Deletes some of the blobs that nothing names. The writer makes further ones by itself until none is left.
    Collect,
    /// Writes something, to see that it works.
    Check,
}

/// What a change answers.
pub(super) enum Written {
    /// Nothing but that it is done.
    Nothing,
    /// For a claim.
    Claim(Claim),
    /// For a posted input.
    Posted(Posted),
    /// For a collection.
    Collected {
        /// Whether nothing is left to delete.
        is_done: bool,
    },
    /// For a check: SQLite's `synchronous` of the connection that writes.
    Checked {
        /// 0 is off, 1 normal, 2 full, 3 extra.
        synchronous: i64,
    },
}
