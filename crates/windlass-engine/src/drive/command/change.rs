//! Records the content of files before a call changes them. The call changes a file only after the driver has recorded
//! the old content.
//!
//! This module does not record changes that shell commands make, and it restores no file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use windlass_machine::{BlobRef, CallKey, Digest, FileChange, FileImage, Input, estimate_tokens};

use super::context::Place;
use crate::drive::contents::{Contents, NewBlobs};
use crate::drive::thread::mail::{Letter, Mail};
use crate::tool::{ChangeRecorder, Changing, FileFound, WorkingFolder};

/// Maximum total size in bytes of the old file contents that a thread keeps: enough for several thousand source
/// files. Parallel calls read the same sum, so each call may exceed the limit by one file.
pub(crate) const THREAD_KEPT_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Timeout for recording a change. It is longer than the retries of an append on a full disk. The timeout is reached,
/// for example, if the call blocks the runtime that has to record the change.
const RECORDED_WITHIN: Duration = Duration::from_secs(30);

/// Creates the change recorders for the calls of a thread.
pub(in crate::drive) struct Changes {
    mailbox: mpsc::Sender<Mail>,
    /// Total size in bytes of the old contents that the thread already keeps.
    kept_bytes: u64,
}

impl Changes {
    pub(in crate::drive) fn new(mailbox: mpsc::Sender<Mail>, kept_bytes: u64) -> Self {
        Self { mailbox, kept_bytes }
    }

    /// Returns the folder for a call, with recording of changes.
    pub(in crate::drive) fn watch(
        &self,
        place: &Place,
        call: CallKey,
        folder: &WorkingFolder,
    ) -> Arc<WorkingFolder> {
        Arc::new(folder.recorded_by(Arc::new(CallChanges {
            mailbox: self.mailbox.clone(),
            contents: place.services.contents.clone(),
            call,
            kept_bytes: AtomicU64::new(self.kept_bytes),
            runtime: Handle::current(),
        })))
    }
}

/// Recorder for the changes of one call.
struct CallChanges {
    mailbox: mpsc::Sender<Mail>,
    contents: Arc<Contents>,
    call: CallKey,
    kept_bytes: AtomicU64,
    runtime: Handle,
}

impl ChangeRecorder for CallChanges {
    fn changing(&self, change: Changing) -> Result<(), String> {
        let after = match change.after {
            Some((digest, size_bytes)) => FileImage::Known { digest, size_bytes },
            None => FileImage::Missing,
        };
        let (before, bytes) = self.image(change.before);
        let change = FileChange { path: change.path, before, after };
        let (recorded, heard) = sync_channel(1);
        let (contents, mailbox, call) = (self.contents.clone(), self.mailbox.clone(), self.call);
        self.runtime.spawn(async move {
            // If the caller no longer waits, it does not make the change.
            let _ = recorded.send(record(&contents, &mailbox, call, change, bytes).await);
        });
        match heard.recv_timeout(RECORDED_WITHIN) {
            Ok(recorded) => recorded,
            Err(RecvTimeoutError::Disconnected) => Err("the engine is ending".to_owned()),
            Err(RecvTimeoutError::Timeout) => {
                let seconds = RECORDED_WITHIN.as_secs();
                Err(format!("what it was could not be recorded within {seconds} s"))
            }
        }
    }
}

impl CallChanges {
    /// Returns the image to record of a file, and the blob of its content.
    fn image(&self, found: FileFound) -> (FileImage, Option<(BlobRef, Bytes)>) {
        let (bytes, mode) = match found {
            FileFound::Missing => return (FileImage::Missing, None),
            FileFound::TooLarge { size_bytes } => return (FileImage::TooLarge { size_bytes }, None),
            FileFound::File { bytes, mode } => (bytes, mode),
        };
        let (digest, size_bytes) = (Digest::of(&bytes), bytes.len() as u64);
        let kept = self.kept_bytes.load(Ordering::Relaxed).saturating_add(size_bytes);
        if kept > THREAD_KEPT_MAX_BYTES {
            return (FileImage::Known { digest, size_bytes }, None);
        }
        self.kept_bytes.store(kept, Ordering::Relaxed);
        let tokens = estimate_tokens(size_bytes);
        let blob = BlobRef { digest, media_type: OCTETS.into(), size_bytes, tokens };
        (FileImage::Kept { blob: blob.clone(), mode }, Some((blob, bytes)))
    }
}

const OCTETS: &str = "application/octet-stream";

/// Lets the driver record a change. Returns when it is durable.
async fn record(
    contents: &Contents,
    mailbox: &mpsc::Sender<Mail>,
    call: CallKey,
    change: FileChange,
    kept: Option<(BlobRef, Bytes)>,
) -> Result<(), String> {
    let mut blobs = NewBlobs::default();
    if let Some((blob, bytes)) = kept {
        let stored = blobs.keep(contents, OCTETS, blob.tokens, bytes).await;
        stored.map_err(|error| format!("what it was could not be stored: {error}"))?;
    }
    let (reply, outcome) = oneshot::channel();
    let input = Input::FileChanging { call, change: Box::new(change) };
    let letter = Letter { blobs: blobs.0, reply: Some(reply), ..Letter::plain(input) };
    let left = || "the thread is not driven here any more".to_owned();
    mailbox.send(Mail::Input(Box::new(letter))).await.map_err(|_| left())?;
    match outcome.await {
        Ok(Ok(Ok(_))) => Ok(()),
        Ok(Ok(Err(reject))) => Err(reject.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(left()),
    }
}
