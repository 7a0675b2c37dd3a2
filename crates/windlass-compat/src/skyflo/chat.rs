//! Chat: takes a message, a decision about a call, or a request to stop.
//!
//! A message and a decision open a stream. The run continues if the stream ends.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::machine::{
    AtLimit, Input, Machine, Principal, Reject, Run, RunId, RunOptions, Seq, Surface, ThreadId, WhenBusy,
};
use windlass::port::journal::RunRow;
use windlass::{Backlog, EngineError, Task};
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::input::{Body, Path};
use windlass_server::http::problem::Problem;
use windlass_server::http::routes::interrupts::submit;
use windlass_server::http::start::begin::begin;
use windlass_server::http::stream::feed::{Feed, Reader};
use windlass_server::http::stream::place::StreamPlace;

use super::super::decision::Decided;
use super::super::revision::Target;
use super::feed::{HEARTBEAT, respond};
use super::find::{Found, found, open};
use super::speak::{Offer, Speaker};
use super::word::Scene;

/// Name of the note that records why a call was approved. (SK-X9)
const REASON: &str = "skyflo.approval";

/// The body of a message. The body repeats the conversation; only its last message is new.
#[derive(Debug, Deserialize)]
pub struct Chat {
    #[serde(default)]
    messages: Vec<Line>,
    #[serde(default)]
    conversation_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Line {
    #[serde(default)]
    role: String,
    #[serde(default)]
    content: Value,
}

impl Line {
    /// Returns the text, joined if the client sends it in parts.
    fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
        }
    }
}

impl Chat {
    /// Returns the user's newest message, the only one that the server reads. (SK-G18, SK-R1)
    fn newest(&self) -> Result<String, Problem> {
        if self.messages.is_empty() {
            return Err(Problem::bad_request("messages are required"));
        }
        let users = self.messages.iter().rev().filter(|line| line.role == "user");
        let newest = users.map(Line::text).find(|text| !text.trim().is_empty());
        newest.ok_or_else(|| Problem::bad_request("no user message has any content"))
    }
}

/// Takes a message. (SK-R1)
pub async fn chat(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Body(chat): Body<Chat>,
) -> Result<Response, Problem> {
    caller.runs()?;
    let since = windlass_server::clock::clock().now();
    let text = chat.newest()?;
    let place = StreamPlace::take(&app, &caller)?;
    let opened = match chat.conversation_id.as_deref().filter(|id| !id.is_empty()) {
        Some(id) => Some(open(&app, &caller, id).await?),
        None => None,
    };
    let mut task = Task::new(app.config.agent.clone(), text);
    task.thread = opened.as_ref().map(|(thread, _)| thread.clone());
    // At a limit, the run ends with an error that names the limit; the conversation can continue. (SK-G19)
    task.options = RunOptions { surface: Surface::Chat, at_limit: Some(AtLimit::Fail), ..Default::default() };
    // The original keeps one list of messages: a message during a run is read after the current calls.
    task.when_busy = WhenBusy::Steer;
    let started = begin(&app, &caller, task).await?;
    let draft = opened.and_then(|(_, draft)| draft);
    let is_titled = draft.as_ref().is_some_and(|draft| !draft.title.is_empty());
    if let Some(draft) = draft {
        draft.settle(&app, &started.thread, &caller).await?;
    }
    let run = match &started.behind {
        Some(run) => outward(run, started.seq),
        None => started.run.to_string(),
    };
    let beside = match started.behind {
        Some(run) => Some((run, app.engine.thread(&started.thread).folded().await?)),
        None => None,
    };
    let scene = Scene { conversation: started.thread.to_string(), run };
    let mut speaker = Speaker::new(scene, started.run, since, offer(&app));
    if is_titled {
        speaker = speaker.titled();
    }
    let active = beside.as_ref().and_then(|(run, machine)| active(machine, run));
    if let Some(run) = active {
        speaker = speaker.beside(run);
    }
    let first = speaker.begin(active);
    let feed = feed(&app, &headers, &started.thread, started.seq);
    Ok(respond(&app, place, started.thread, feed, speaker, first))
}

/// Returns a thread's feed from an event on.
fn feed(app: &Shared, headers: &HeaderMap, thread: &ThreadId, from: Seq) -> Feed {
    let after = Seq(from.0.saturating_sub(1));
    Feed::open(app, Reader::of(headers), thread, after.into(), Backlog::Fragments).beating(HEARTBEAT)
}

fn active<'a>(machine: &'a Machine, run: &RunId) -> Option<&'a Run> {
    machine.state().run.as_ref().filter(|active| active.id == *run)
}

/// Returns the id of a run on a stream that did not start it. Each stream has a
/// different id, from which the run is found.
fn outward(run: &RunId, seq: Seq) -> String {
    format!("{run}-{seq}")
}

fn offer(app: &Shared) -> Offer {
    Offer { tools: app.engine.tools().list().len(), max_steps: app.config.agent.limits.max_steps }
}

/// A decision about a waiting call. (SK-A9)
#[derive(Debug, Deserialize)]
pub struct Decision {
    approve: bool,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    conversation_id: Option<String>,
}

/// Applies a decision and streams the run. (SK-R2)
pub async fn decide(
    State(app): State<Shared>,
    caller: Caller,
    Path(call): Path<String>,
    headers: HeaderMap,
    Body(decision): Body<Decision>,
) -> Result<Response, Problem> {
    caller.approves()?;
    let place = StreamPlace::take(&app, &caller)?;
    let since = windlass_server::clock::clock().now();
    let Some(conversation) = decision.conversation_id.as_deref().filter(|id| !id.is_empty()) else {
        return Err(Problem::bad_request("conversation_id is required"));
    };
    let missing = || Problem::not_found(format!("call `{call}` in the conversation"));
    let Found::Thread(row) = found(&app, &caller, conversation).await? else { return Err(missing()) };
    let machine = app.engine.thread(&row.thread).folded().await?;
    let active = machine.state().run.as_ref();
    let target = Target::find(active, &call)?;
    // An open interrupt of a call belongs to the active run.
    let active = active.ok_or_else(missing)?;
    let decided = Decided { is_yes: decision.approve, reason: decision.reason.clone(), parameters: None };
    let given = target.given(decided.answer(&target.asked.kind));
    let (accepted, _) = submit(&app, &caller, &machine, vec![given], Vec::new(), None).await?;
    let seq = accepted.seq;
    if let Some(reason) = decision.reason.as_deref().filter(|_| decision.approve) {
        let data = json!({"call_id": call, "reason": reason, "by": caller.user().as_str()});
        if let Err(error) =
            app.engine.thread(&row.thread).send(Input::Note { name: REASON.into(), data }).await
        {
            tracing::warn!(%error, call, "the reason of an approval could not be stored");
        }
    }
    let scene = Scene { conversation: conversation.to_owned(), run: outward(&active.id, seq) };
    let speaker = Speaker::new(scene, active.id.clone(), since, offer(&app)).beside(active);
    let first = speaker.begin(None);
    let feed = feed(&app, &headers, &row.thread, seq);
    Ok(respond(&app, place, row.thread, feed, speaker, first))
}

#[derive(Debug, Deserialize)]
pub struct Stop {
    conversation_id: String,
    run_id: String,
}

/// Cancels a run. A run that has ended is unchanged. (SK-ST1, SK-X8)
pub async fn stop(
    State(app): State<Shared>,
    caller: Caller,
    Body(stop): Body<Stop>,
) -> Result<Json<Value>, Problem> {
    caller.runs()?;
    let missing = || Problem::not_found(format!("run `{}` in the conversation", stop.run_id));
    let Found::Thread(thread) = found(&app, &caller, &stop.conversation_id).await? else {
        return Err(missing());
    };
    let row = run_of(&app, &stop.run_id).await?.filter(|row| row.thread == thread.thread);
    let row = row.ok_or_else(missing)?;
    match app.engine.run(&row.view.run).cancel(caller.user().clone()).await {
        // The run has ended, or its cancellation is in progress.
        Ok(_) | Err(EngineError::Rejected(Reject::Closed { .. })) => {}
        Err(EngineError::Rejected(Reject::NotFound { .. })) => withdraw(&app, &row, caller.user()).await?,
        Err(error) => return Err(error.into()),
    }
    let Stop { conversation_id, run_id } = stop;
    Ok(Json(json!({"status": "stopped", "conversation_id": conversation_id, "run_id": run_id})))
}

/// Returns the run of an outward id.
async fn run_of(app: &Shared, id: &str) -> Result<Option<RunRow>, EngineError> {
    let own = id.rsplit_once('-').filter(|(_, seq)| seq.parse::<u64>().is_ok()).map(|(run, _)| run);
    for id in [Some(id), own].into_iter().flatten() {
        match app.engine.run(&RunId::from(id)).row().await {
            Err(EngineError::NoRun(_)) => {}
            found => return found.map(Some),
        }
    }
    Ok(None)
}

/// Withdraws the message that would start the run.
async fn withdraw(app: &Shared, row: &RunRow, by: &Principal) -> Result<(), EngineError> {
    let machine = app.engine.thread(&row.thread).folded().await?;
    let waiting = machine.state().queue.iter().find(|waiting| waiting.queued.run == row.view.run);
    let Some(waiting) = waiting else { return Ok(()) };
    app.engine.thread(&row.thread).queue().withdraw(&waiting.id, by.clone()).await.map(drop)
}
