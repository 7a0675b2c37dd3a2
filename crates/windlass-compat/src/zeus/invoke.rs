//! Takes a message for the agent. The message starts a run, or is queued behind the
//! session's active run. (ZE-E1, ZE-E4)
//!
//! Authentication, permissions and the message are checked before the stream begins.

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value};
use windlass::Task;
use windlass::machine::{AtLimit, Block, RunId, RunOptions, Surface, WhenBusy};
use windlass::port::journal::ThreadStatus;
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::input::{Body, Query};
use windlass_server::http::problem::Problem;
use windlass_server::http::start::begin::begin_with;
use windlass_server::http::start::send::Said;
use windlass_server::http::stream::place::StreamPlace;

use super::super::history::{title, told};
use super::super::session::{self, Session};
use super::super::stream::{feed, respond};
use super::body::Invoke;
use super::calls::Calls;
use super::guard;
use super::speak::Zeus;
use super::tools;
use super::word::{Names, Scene};

/// Maximum number of messages of the earlier conversation that are passed to the agent. (ZE-E7)
const HISTORY_TOLD: usize = 30;

/// Options of a stream's encoding.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Written {
    /// The set of event names.
    #[serde(default)]
    pub events: Names,
}

/// Takes a message and streams the run.
pub async fn invoke(
    State(app): State<Shared>,
    caller: Caller,
    Query(written): Query<Written>,
    headers: HeaderMap,
    Body(body): Body<Map<String, Value>>,
) -> Result<Response, Problem> {
    caller.runs()?;
    let place = StreamPlace::take(&app, &caller)?;
    let Invoke { message, llm, session, history, guards, servers, mode } = Invoke::read(body)?;
    let agent = llm.agent(&app, &caller)?;
    let name = session.unwrap_or_else(fresh_name);
    let session = session::find(&app, &caller, &name).await?;
    guard::check(&app, &caller, &session, &guards).await?;
    let mut task = Task::new(agent, "");
    task.message = Said::Text(message.clone()).read()?;
    let before = if session.row.is_none() { told(&history, HISTORY_TOLD) } else { None };
    let has_history = before.is_some();
    task.message.blocks.extend(before.map(Block::text));
    task.thread = Some(session.thread.clone());
    // Calls of a session run one after another (ZE-H10), and this dialect cannot represent a limit's interrupt.
    task.options = RunOptions {
        surface: Surface::Chat,
        mode,
        serialized: true,
        at_limit: Some(AtLimit::Fail),
        ..RunOptions::default()
    };
    task.when_busy = WhenBusy::Queue;
    let started = begin_with(&app, &caller, task, tools::reached(&app, &caller, servers)).await?;
    if has_history {
        title(&app, &caller, &started.thread, &message).await?;
    }
    let scene = Scene { session: session.name.clone(), names: written.events };
    let first = asked(&app, &session, &scene).await?;
    let speaker = Zeus::new(scene, started.run.clone());
    let feed = feed(&app, &headers, &started.thread, started.seq);
    Ok(named(respond(&app, place, feed, speaker, first), &session.name, &started.run))
}

/// Generates a session name: `session_` and twelve hexadecimal digits. (ZE-E11)
fn fresh_name() -> String {
    format!("session_{:012x}", windlass_server::clock::clock().random() & 0xffff_ffff_ffff)
}

/// Encodes the open interrupts of the session's run, which the stream of each new message repeats.
async fn asked(app: &Shared, session: &Session, scene: &Scene) -> Result<Vec<String>, Problem> {
    let waits = session.row.as_ref().is_some_and(|row| row.view.status == ThreadStatus::Waiting);
    if !waits {
        return Ok(Vec::new());
    }
    let machine = app.engine.thread(&session.thread).folded().await?;
    let run = machine.state().run.as_ref();
    Ok(run.map(|run| Calls::resumed(run).open(scene, run, &[])).unwrap_or_default())
}

/// Adds headers with the session and the run, which a client needs to reconnect. The session's name may be new.
pub fn named(mut response: Response, session: &str, run: &RunId) -> Response {
    for (name, value) in [("x-session-id", session), ("x-run-id", run.as_str())] {
        // Both values are validated or generated in this dialect: letters, digits and a few signs.
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
