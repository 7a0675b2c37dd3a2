//! Titles of new conversations, made by a model in the background.
//!
//! They are a nicety: where many conversations begin at once, or the server ends, some keep their first words.

use std::time::Duration;

use futures::StreamExt;
use windlass::machine::{Fact, ModelName, Seq, ThreadId};
use windlass::models::DEMO_MODEL;
use windlass::{Started, Update};

use crate::config::TitleModel;
use crate::http::Shared;

/// How long a title waits for the first answer, which says more than the question alone. (SK-P7: 16 × 0.5 s)
const ANSWER_WAIT: Duration = Duration::from_secs(8);

/// Titles that are under way or wait for it.
const WAITING_MAX: usize = 256;

/// The place of a conversation whose title is under way.
struct Place {
    app: Shared,
    thread: ThreadId,
}

impl Place {
    /// Takes it; `None` where the conversation has one, or there are too many.
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

/// Has a title made in the background for a thread that a run has begun.
pub fn begin(app: &Shared, started: &Started, model: Option<ModelName>) {
    let model = match &app.config.settings.server.title_model {
        TitleModel::Runs => model,
        TitleModel::Named(model) => Some(model.clone()),
        TitleModel::None => None,
    };
    // The demo model answers whatever it is asked in its own words.
    let Some(model) = model.filter(|model| model.as_str() != DEMO_MODEL) else { return };
    // A later message, and a copy of another thread, find a title there. A message that is sent again looks like the first.
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
    // Whether or not there is an answer by then.
    let _ = tokio::time::timeout(ANSWER_WAIT, answered(app, started)).await;
    if let Err(error) = app.engine.thread(&started.thread).make_title(model).await {
        tracing::debug!(thread = %started.thread, %error, "no title was made");
    }
}

/// Until the run has said something, or ended.
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
