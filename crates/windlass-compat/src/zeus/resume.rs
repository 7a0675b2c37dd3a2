//! Answers a run's waiting calls and takes a further instruction. (ZE-E3, ZE-E14)
//!
//! All answers of a request are applied, or none. The run continues with its original model and tools.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde_json::{Map, Value};
use windlass::machine::{
    Answer, CallKey, Given, InputId, InterruptKind, Run, RunOptions, Surface, ThreadId, WhenBusy,
};
use windlass::{AgentConfig, Task};
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::input::{Body, Query};
use windlass_server::http::problem::Problem;
use windlass_server::http::routes::interrupts::submit;
use windlass_server::http::start::begin::begin;
use windlass_server::http::start::send::Said;
use windlass_server::http::stream::place::StreamPlace;

use super::super::decision::Decided;
use super::super::revision::Target;
use super::super::session;
use super::super::stream::{feed, respond};
use super::body::{CallResult, Decision, Guards, Resume};
use super::calls::Calls;
use super::confirm::confirm;
use super::guard;
use super::invoke::{Written, named};
use super::speak::Zeus;
use super::word::Scene;
use crate::call;

/// Result of a call that was not decided, as the model reads it.
const NO_ANSWER: &str = "no answer in time";

/// Applies the answers and streams the run.
pub async fn resume(
    State(app): State<Shared>,
    caller: Caller,
    Query(written): Query<Written>,
    headers: HeaderMap,
    Body(body): Body<Map<String, Value>>,
) -> Result<Response, Problem> {
    caller.approves()?;
    let place = StreamPlace::take(&app, &caller)?;
    let Resume { session, llm, results, order, guards } = Resume::read(body)?;
    let agent = llm.agent(&app, &caller)?;
    let (session, _) = session::begun(&app, &caller, &session).await?;
    guard::check(&app, &caller, &session, &guards).await?;
    let machine = app.engine.thread(&session.thread).folded().await?;
    let run = machine.state().run.as_ref();
    let run = run.ok_or_else(|| {
        Problem::conflict("closed", format!("no call is waiting in session `{}`", session.name))
    })?;
    let given = results.iter().map(|result| given(run, &guards, result)).collect::<Result<Vec<_>, _>>()?;
    // The instruction is queued before the answers, so that the next step reads it and not a later one.
    let ordered = match order {
        Some(order) => Some(instruct(&app, &caller, &session.thread, agent, order).await?),
        None => None,
    };
    let answered: Vec<_> = given.iter().map(|given| given.interrupt.clone()).collect();
    let edited = edited(&results, &given);
    let submitted = submit(&app, &caller, &machine, given, Vec::new(), None).await;
    let seq = match submitted {
        Ok((accepted, _)) => accepted.seq,
        Err(error) => {
            take_back(&app, &caller, &session.thread, ordered).await;
            return Err(error.into());
        }
    };
    let confirmed = match edited.is_empty() {
        true => Vec::new(),
        false => confirm(&app, &caller, &session.thread, seq, edited).await,
    };
    let scene = Scene { session: session.name.clone(), names: written.events };
    // Open interrupts are sent again, so that no stream is empty.
    let first = Calls::resumed(run).open(&scene, run, &answered);
    let speaker = Zeus::beside(scene, run).confirmed(confirmed);
    let feed = feed(&app, &headers, &session.thread, seq);
    Ok(named(respond(&app, place, feed, speaker, first), &session.name, &run.id))
}

/// Returns the edited calls that run without a further approval. Parameters sent with `approved` may be a client's
/// shortened copy, so such a call requires approval again.
fn edited(results: &[CallResult], given: &[Given]) -> BTreeSet<CallKey> {
    let edits = results.iter().zip(given).filter(|(result, given)| {
        result.decision == Decision::Modified && matches!(given.answer, Answer::Edit { .. })
    });
    edits.filter_map(|(result, _)| Some(call::named(&result.tool_call_id)?.1)).collect()
}

/// Creates the answer to the call that a result names.
fn given(run: &Run, guards: &Guards, result: &CallResult) -> Result<Given, Problem> {
    let id = windlass_server::text::first_line(&result.tool_call_id, 128);
    let target = Target::find(Some(run), &result.tool_call_id)?;
    let tool = target.call.tool.as_str();
    if let Some(named) = result.tool_name.as_deref().filter(|named| *named != tool) {
        let named = windlass_server::text::first_line(named, 64);
        return Err(Problem::invalid(format!("call `{id}` is for `{tool}`, but `tool_name` is `{named}`")));
    }
    guard::allows(guards, tool, result)?;
    Ok(target.given(answer(&target.asked.kind, result)?))
}

/// Converts a decision to the answer for an interrupt of this kind. (ZE-H4, ZE-H6)
fn answer(kind: &InterruptKind, result: &CallResult) -> Result<Answer, Problem> {
    let reason = result.reason.clone().filter(|reason| !reason.is_empty());
    let is_yes = match result.decision {
        Decision::Approved | Decision::Modified => true,
        Decision::Rejected | Decision::Timeout => false,
    };
    let reason = match result.decision {
        Decision::Timeout => reason.or_else(|| Some(NO_ANSWER.to_owned())),
        Decision::Approved | Decision::Modified | Decision::Rejected => reason,
    };
    let parameters = result.parameters.clone();
    if result.decision == Decision::Modified && parameters.is_none() {
        return Err(Problem::invalid("the decision `modified` requires `parameters`"));
    }
    Ok(Decided { is_yes, reason, parameters }.answer(kind))
}

/// Queues an instruction, which the run reads before its next step. Returns the id of the queued message.
async fn instruct(
    app: &Shared,
    caller: &Caller,
    thread: &ThreadId,
    agent: AgentConfig,
    order: String,
) -> Result<Option<InputId>, Problem> {
    let mut task = Task::new(agent, "");
    task.message = Said::Text(order).read()?;
    task.thread = Some(thread.clone());
    task.options = RunOptions { surface: Surface::Chat, serialized: true, ..RunOptions::default() };
    task.when_busy = WhenBusy::Steer;
    let started = begin(app, caller, task).await?;
    Ok(started.behind.map(|_| started.id))
}

/// Withdraws an instruction whose answers were rejected.
async fn take_back(app: &Shared, caller: &Caller, thread: &ThreadId, id: Option<Option<InputId>>) {
    if let Some(Some(id)) = id
        && let Err(error) = app.engine.thread(thread).queue().withdraw(&id, caller.user().clone()).await
    {
        tracing::warn!(%error, %thread, "the instruction of a rejected answer could not be withdrawn");
    }
}
