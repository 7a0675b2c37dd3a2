//! `GET /agui/threads/{thread}`: reconnects to a thread. AG-UI cannot resume a stream, so each stream begins with a
//! snapshot of all messages and does not replay earlier events.
//!
//! A `POST` with the id of a known run answers in the same way.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use windlass::machine::{RunId, ThreadId};
use windlass::port::journal::ThreadStatus;
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::input::Path;
use windlass_server::http::problem::Problem;
use windlass_server::http::stream::place::StreamPlace;

use super::Histories;
use super::feed::{Live, StreamRequest, told};
use super::history::History;
use super::speak::Speaker;
use super::thread::find;
use super::word::{Scene, Word};

/// Streams a snapshot of the thread's messages, then the events of its newest run until the run ends or waits.
pub async fn attach(
    State(app): State<Shared>,
    Extension(histories): Extension<Arc<Histories>>,
    caller: Caller,
    Path(outward): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.reads()?;
    let missing = || Problem::not_found(format!("thread `{outward}`"));
    let (thread, row) = find(&app, &caller, &outward).await?;
    row.ok_or_else(missing)?;
    let history = histories.read(&app.engine, &thread).await?;
    let run = history.run.clone().ok_or_else(missing)?;
    let newest = history.outward.iter().rev().find(|(_, named)| *named == run);
    let name = newest.map_or_else(|| run.to_string(), |(name, _)| name.clone());
    let scene = Scene { thread: outward, run: name };
    let place = StreamPlace::take(&app, &caller)?;
    let request = StreamRequest { app: &app, headers: &headers, place };
    tell(request, &thread, scene, run, &history, None).await
}

/// Streams a run, starting with a snapshot of the given history.
pub async fn tell(
    request: StreamRequest<'_>,
    thread: &ThreadId,
    scene: Scene,
    run: RunId,
    history: &History,
    special: Option<Word>,
) -> Result<Response, Problem> {
    let mut speaker = Speaker::new(scene, run.clone(), history);
    let joins = history.is_calling && history.active() == Some(&run);
    let mut words = speaker.begin(special, (!joins).then_some(history));
    if let Some(ending) = history.ended.get(&run) {
        words.extend(speaker.ended(ending));
        return Ok(told(words));
    }
    let engine = &request.app.engine;
    if engine.thread(thread).row().await?.view.status == ThreadStatus::Waiting {
        let open = engine.thread(thread).interrupts().await?;
        if !open.is_empty() {
            words.extend(speaker.waits(&open));
            return Ok(told(words));
        }
    }
    let live = Live::open(request, thread, history.seq, speaker);
    Ok(if joins { live.joining() } else { live }.respond(words))
}
