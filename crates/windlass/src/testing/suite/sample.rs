//! Small batches and events for the suites.
//!
//! Their facts mean nothing; only their places do.

use serde_json::json;
use windlass_machine::{Event, Fact, Seq, ThreadId, Timestamp};

use crate::port::journal::{Batch, BatchId, Claim, Epoch, Head, Journal, ThreadStatus, ThreadView};

/// An event that says `text`.
pub fn note(text: &str) -> Event {
    let fact = Fact::Note { name: "suite".to_owned(), data: json!({ "text": text }) };
    Event { at: Timestamp(1_000), run: None, fact }
}

/// A thread's columns with a status.
pub fn view(status: ThreadStatus) -> ThreadView {
    ThreadView {
        workspace: "default".to_owned(),
        status,
        updated_at: Timestamp(1_000),
        ..ThreadView::default()
    }
}

/// A batch of notes that follows a head; its id is the position that it leads to.
pub fn batch(thread: &ThreadId, head: Head, notes: &[&str]) -> Batch {
    Batch {
        thread: thread.clone(),
        epoch: head.epoch,
        is_new: false,
        expected: head.seq,
        id: BatchId(head.seq.0 + notes.len() as u64),
        events: notes.iter().map(|text| note(text)).collect(),
        blobs: Vec::new(),
        consumed: Vec::new(),
        thread_view: view(ThreadStatus::Idle),
        runs: Vec::new(),
    }
}

/// Claims a thread that must be free.
pub async fn claimed(journal: &dyn Journal, thread: &ThreadId) -> Head {
    match journal.claim(thread).await.expect("a claim") {
        Claim::Taken { head, .. } => head,
        Claim::Held { node } => panic!("thread `{thread}` is held by `{node}`"),
    }
}

/// The texts of the notes after a position.
pub(super) async fn texts(journal: &dyn Journal, thread: &ThreadId, after: u64, limit: usize) -> Vec<String> {
    let events = journal.read(thread, Seq(after), limit).await.expect("a read");
    let text = |event: &Event| match &event.fact {
        Fact::Note { data, .. } => data["text"].as_str().unwrap_or_default().to_owned(),
        other => panic!("not a note: {other:?}"),
    };
    events.iter().map(|recorded| text(&recorded.event)).collect()
}

/// A head in an epoch.
pub(super) fn head(seq: u64, epoch: u64) -> Head {
    Head { seq: Seq(seq), epoch: Epoch(epoch), batch: BatchId(seq) }
}
