//! Lengthens a conversation by appending copies of its one exchange, for pages that open and scroll it.
//!
//! Writes through the store, so that the copies have checksums like any other event. The
//! copies have no rows in the list of runs.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use windlass::clock::SystemClock;
use windlass::machine::{Event, Seq, ThreadId};
use windlass::port::journal::{Batch, BatchId, Claim, Journal, ThreadQuery};
use windlass::sqlite::{SqliteStore, StoreOptions};

/// Maximum number of events in the exchange.
const EXCHANGE_EVENTS: usize = 1_000;
/// Number of copies in one append.
const COPIES_AT_ONCE: usize = 500;

/// Repeats the exchange of the only thread in a store's folder until the thread has `exchanges` of them; returns the
/// thread. No process may have the store open.
///
/// # Errors
/// If the store cannot be opened or written, or does not contain exactly one thread with one exchange.
pub async fn repeat_exchange(folder: &Path, exchanges: usize) -> Result<ThreadId> {
    let store = SqliteStore::open(folder, StoreOptions::default(), Arc::new(SystemClock::new())).await?;
    let rows = store.threads(&ThreadQuery::default()).await?;
    let [row] = rows.as_slice() else { bail!("the store has {} threads, not one", rows.len()) };
    let Claim::Taken { mut head, .. } = store.claim(&row.thread).await? else {
        bail!("another process drives the thread");
    };
    let recorded = store.read(&row.thread, Seq(0), EXCHANGE_EVENTS).await?;
    let exchange = Exchange::of(recorded.iter().map(|recorded| recorded.event.encode()).collect())?;
    let copies: Vec<usize> = (1..exchanges).collect();
    for copies in copies.chunks(COPIES_AT_ONCE) {
        let events: Result<Vec<Event>> = copies
            .iter()
            .flat_map(|copy| exchange.copy(*copy))
            .map(|body| Ok(Event::decode(&body)?))
            .collect();
        let id = BatchId(head.batch.0 + 1);
        let batch = Batch {
            thread: row.thread.clone(),
            epoch: head.epoch,
            is_new: false,
            expected: head.seq,
            id,
            events: events?.into(),
            blobs: Vec::new(),
            consumed: Vec::new(),
            thread_view: row.view.clone(),
            unqueued: Vec::new(),
            runs: Vec::new(),
            settle: Vec::new(),
            reserve: Vec::new(),
            records: Vec::new(),
        };
        (head.seq, head.batch) = (store.append(batch).await?, id);
    }
    store.release(&row.thread, head.epoch).await?;
    Ok(row.thread.clone())
}

/// The events of a run from its message to its end, encoded.
struct Exchange {
    events: Vec<String>,
    run: String,
    message: String,
}

impl Exchange {
    fn of(mut events: Vec<String>) -> Result<Self> {
        let values =
            events.iter().map(|event| serde_json::from_str(event)).collect::<Result<Vec<Value>, _>>()?;
        let id = |kind: &str, field: &str| {
            let event = values.iter().find(|event| event["type"] == kind);
            let id = event.and_then(|event| event[field].as_str()).map(str::to_owned);
            id.with_context(|| format!("no `{kind}` has `{field}`"))
        };
        let (run, message) = (id("run.started", "run")?, id("message.received", "id")?);
        // Do not repeat the thread's own events.
        let is_own = |event: &Value| event["type"].as_str().is_some_and(|kind| kind.starts_with("thread."));
        let mut own = values.iter().map(is_own);
        events.retain(|_| own.next() == Some(false));
        Ok(Self { events, run, message })
    }

    /// Returns the events with new ids of the run and its message.
    fn copy(&self, number: usize) -> impl Iterator<Item = String> {
        let (run, message) = (format!("{}-{number}", self.run), format!("{}-{number}", self.message));
        self.events.iter().map(move |event| event.replace(&self.run, &run).replace(&self.message, &message))
    }
}
