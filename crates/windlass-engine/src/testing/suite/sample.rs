//! Small batches and events for the suites.
//!
//! The content has no meaning; the suites only check positions.

use serde_json::json;
use windlass_machine::{Event, Fact, Seq, ThreadId, Timestamp};

use crate::port::budget::{Draw, Reserve, Settle};
use crate::port::journal::{Batch, BatchId, Claim, Epoch, Head, Journal, ThreadStatus, ThreadView};

/// Creates a note event with this text.
pub fn note(text: &str) -> Event {
    let fact = Fact::Note { name: "suite".to_owned(), data: json!({ "text": text }) };
    Event { at: Timestamp(1_000), wall: None, run: None, fact }
}

/// Creates a thread's columns with this status.
pub fn view(status: ThreadStatus) -> ThreadView {
    ThreadView {
        workspace: "default".to_owned(),
        status,
        updated_at: Timestamp(1_000),
        ..ThreadView::default()
    }
}

/// Creates a batch of notes after a head. Its id is the position of its last event.
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
        unqueued: Vec::new(),
        runs: Vec::new(),
        settle: Vec::new(),
        reserve: Vec::new(),
        records: Vec::new(),
    }
}

/// Creates a reservation; each draw is a budget, its cap and the amount.
pub fn draws(key: &str, draws: &[(&str, u64, u64)]) -> Reserve {
    let draw = |(budget, cap, amount): &(&str, u64, u64)| Draw {
        budget: (*budget).to_owned(),
        cap: *cap,
        amount: *amount,
    };
    Reserve { key: key.to_owned(), draws: draws.iter().map(draw).collect() }
}

/// Creates a settlement.
pub(super) fn settle(key: &str, used: &[(&str, u64)]) -> Settle {
    let used = used.iter().map(|(budget, amount)| ((*budget).to_owned(), *amount)).collect();
    Settle { key: key.to_owned(), used }
}

/// Claims a thread that must be free.
pub async fn claimed(journal: &dyn Journal, thread: &ThreadId) -> Head {
    match journal.claim(thread).await.expect("a claim") {
        Claim::Taken { head, .. } => head,
        Claim::Held { node } => panic!("thread `{thread}` is held by `{node}`"),
    }
}

/// Returns the texts of the notes after a position.
pub(super) async fn texts(journal: &dyn Journal, thread: &ThreadId, after: u64, limit: usize) -> Vec<String> {
    let events = journal.read(thread, Seq(after), limit).await.expect("a read");
    let text = |event: &Event| match &event.fact {
        Fact::Note { data, .. } => data["text"].as_str().unwrap_or_default().to_owned(),
        other => panic!("not a note: {other:?}"),
    };
    events.iter().map(|recorded| text(&recorded.event)).collect()
}

pub(super) fn head(seq: u64, epoch: u64) -> Head {
    Head { seq: Seq(seq), epoch: Epoch(epoch), batch: BatchId(seq) }
}
