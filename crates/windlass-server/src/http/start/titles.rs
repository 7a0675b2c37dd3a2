//! Generates titles of new threads with a model, in the background.
//!
//! Titles are best effort. If many threads start at the same time, or the server stops, some threads keep the beginning
//! of their first message as title.

use std::time::Duration;

use futures::StreamExt;
use windlass::machine::{Fact, ModelName, Seq, ThreadId};
use windlass::models::DEMO_MODEL;
use windlass::{Started, Update};

use crate::config::TitleModel;
use crate::http::Shared;

/// Maximum wait for the first answer, which describes the thread better than the question alone. (SK-P7: 16 × 0.5 s)
const ANSWER_WAIT: Duration = Duration::from_secs(8);

/// Maximum number of titles that are being generated or are queued.
const WAITING_MAX: usize = 256;

/// Reservation of a thread whose title is being generated; released on drop.
struct Place {
    app: Shared,
    thread: ThreadId,
}

impl Place {
    /// Returns `None` if a title of the thread is already in progress, or if too many titles are in progress.
    fn take(app: &Shared, thread: &ThreadId) -> Option<Self> {
        let mut waiting = app.limits.titles.waiting();
        let is_taken = waiting.len() < WAITING_MAX && waiting.insert(thread.clone());
        is_taken.then(|| Self { app: app.clone(), thread: thread.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.app.limits.titles.waiting().remove(&self.thread);
    }
}

/// Generates a title in the background for a thread that a run has just created.
pub fn begin(app: &Shared, started: &Started, model: Option<ModelName>) {
    let model = match &app.config.settings.server.title_model {
        TitleModel::Runs => model,
        TitleModel::Named(model) => Some(model.clone()),
        TitleModel::None => None,
    };
    // The demo model answers every prompt from its script, so this model cannot write a title.
    let Some(model) = model.filter(|model| model.as_str() != DEMO_MODEL) else { return };
    // Only the first message of a new thread has this position; a fork, or a thread with earlier messages, already has
    // a title. A retried first message passes this check.
    if started.seq != Seq(1) {
        return;
    }
    let Some(place) = Place::take(app, &started.thread) else { return };
    let (app, started) = (app.clone(), started.clone());
    tokio::spawn(async move {
        let stopping = app.streams.stopping.clone();
        tokio::select! {
            biased;
            () = stopping.cancelled() => {}
            () = make(&app, &started, &model) => {}
        }
        drop(place);
    });
}

async fn make(app: &Shared, started: &Started, model: &ModelName) {
    let Ok(_turn) = app.limits.titles.at_once.acquire().await else { return };
    // Continues after the timeout, with or without an answer.
    let _ = tokio::time::timeout(ANSWER_WAIT, answered(app, started)).await;
    if let Err(error) = app.engine.thread(&started.thread).make_title(model).await {
        tracing::debug!(thread = %started.thread, %error, "no title was generated");
    }
}

/// Waits until the run has produced text or has finished.
async fn answered(app: &Shared, started: &Started) {
    let mut updates = app.engine.thread(&started.thread).watch(started.seq);
    while let Some(Ok(update)) = updates.next().await {
        let Update::Event(recorded) = update else { continue };
        match &recorded.event.fact {
            Fact::StepReplied { message, .. } if !message.plain_text().trim().is_empty() => return,
            Fact::RunFinished { .. } => return,
            _ => {} // tidy: the other kinds say nothing
        }
    }
}
