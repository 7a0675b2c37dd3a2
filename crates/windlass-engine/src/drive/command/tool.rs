//! Tool calls, previews, and reconciliation reads. Each sends exactly one message (`Letter`) to the thread's driver
//! when it ends.
//!
//! This module does not decide the consequences of an outcome.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_machine::{
    BlobRef, Block, CallKey, Command, Content, Digest, EffectClass, EffectId, Input, Kept, Offloaded,
    Replied, Resumed, RunId, ThreadId, ToolName, View, repair_arguments,
};

use super::change::Changes;
use super::contain::{Patience, attend};
use super::context::{Place, followed};
use super::dispatch::{AtDispatch, at_dispatch};
use super::offload::{self, Answered, offload};
use crate::drive::contents::NewBlobs;
use crate::drive::thread::mail::Letter;
use crate::port::bus::Signal;
use crate::port::journal::StoreError;
use crate::port::tool::{
    Ask, CallContext, Deferral, OutputPart, ProgressSender, Tool, ToolOutcome, ToolOutput, ToolReply,
    ToolResumed,
};
use crate::tool::panic_text;
use crate::tool::{Registry, WorkingFolder, key_of};

/// Maximum size of a preview in bytes: more than a person can review.
const PREVIEW_MAX_BYTES: usize = 256 * 1024;

/// Kind of work for a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::drive) enum Work {
    /// The call itself, with the number of its start.
    Call(u32),
    /// A preview, with its number.
    Preview(u32),
    /// A read that reconciles the outcome of a call, with the number of the attempt.
    Reconcile(u32),
}

/// Work for a tool.
pub(in crate::drive) struct ToolWork {
    pub call: CallKey,
    pub work: Work,
    pub tool: ToolName,
    pub effect: EffectId,
    /// Effect class of the call.
    pub class: Option<EffectClass>,
    /// Digest of the call that the gate judged.
    pub approval: Option<Digest>,
    pub arguments: Content,
    pub timeout_ms: u64,
    pub reply: Option<Box<Replied>>,
    pub resumed: Option<Box<Resumed>>,
    /// The tool's state in the thread.
    pub kept: Option<Content>,
    /// Offloaded results of the thread, for a tool that fetches them.
    pub offloaded: Vec<(String, BlobRef)>,
    /// Records the content of files before the call changes them.
    pub changes: Option<Changes>,
    pub cancel: CancellationToken,
}

impl ToolWork {
    /// Returns the tool work of a command; `None` for a model call.
    pub(in crate::drive) fn of(
        command: Command,
        thread: &ThreadId,
        run: &RunId,
        cancel: CancellationToken,
    ) -> Option<Self> {
        let new = |call, work, tool, arguments, timeout_ms| Self {
            call,
            work,
            tool,
            effect: EffectId::derive(thread, run, call),
            class: None,
            approval: None,
            arguments,
            timeout_ms,
            reply: None,
            resumed: None,
            kept: None,
            offloaded: Vec::new(),
            changes: None,
            cancel,
        };
        match command {
            Command::CallModel { .. } => None,
            Command::CallTool { call, start, tool, effect, arguments, timeout_ms, reply, resumed, class } => {
                let work = new(call, Work::Call(start), tool, arguments, timeout_ms);
                Some(Self { effect, class: Some(class), reply, resumed, ..work })
            }
            Command::PreviewTool { call, round, tool, arguments, timeout_ms } => {
                Some(new(call, Work::Preview(round), tool, arguments, timeout_ms))
            }
            Command::Reconcile { call, attempt, tool, effect, arguments, timeout_ms } => {
                let work = new(call, Work::Reconcile(attempt), tool, arguments, timeout_ms);
                Some(Self { effect, ..work })
            }
        }
    }
}

/// Returns the call and kind of work of a command; `None` for a model call.
pub(in crate::drive) fn wanted(command: &Command) -> Option<(CallKey, Work)> {
    match command {
        Command::CallModel { .. } => None,
        Command::CallTool { call, start, .. } => Some((*call, Work::Call(*start))),
        Command::PreviewTool { call, round, .. } => Some((*call, Work::Preview(*round))),
        Command::Reconcile { call, attempt, .. } => Some((*call, Work::Reconcile(*attempt))),
    }
}

/// Carries out the work. The start of a call must have been recorded before.
pub(in crate::drive) async fn carry_out(place: Place, work: ToolWork) -> Letter {
    let (call, kind) = (work.call, work.work);
    followed(place, async |place, started| contained(call, kind, carried_out(&place, work, started)).await)
        .await
}

async fn carried_out(place: &Place, work: ToolWork, started: u64) -> Letter {
    match work.work {
        Work::Call(_) => called(place, work, started).await,
        Work::Preview(round) => previewed(place, work, round).await,
        Work::Reconcile(attempt) => reconciled(place, work, attempt).await,
    }
}

/// Reports work that panicked outside its tool.
async fn contained(call: CallKey, kind: Work, work: impl Future<Output = Letter>) -> Letter {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        let reason = format!("it crashed: {}", panic_text(&*panic));
        Letter::plain(match kind {
            Work::Call(_) => stopped(call, reason),
            Work::Preview(round) => {
                let preview = untold(&reason);
                let digest = Digest::of(preview.as_bytes());
                Input::Previewed { call, round, preview: preview.into(), digest }
            }
            Work::Reconcile(attempt) => Input::Reconciled { call, attempt, found: None, reason },
        })
    })
}

async fn called(place: &Place, work: ToolWork, started: u64) -> Letter {
    let call = work.call;
    let mut sent = Value::Null;
    let ended = match ready_as_judged(place, &work).await {
        Ok(None) => return Letter::plain(not_dispatched(&work)),
        Ok(Some((tool, arguments, folder))) => {
            let arguments = with_key(&place.tools.registry, &work, arguments);
            if place.services.offloading.summarizer.is_some() {
                sent = arguments.clone();
            }
            let (context, progressed) = match context(place, &work, folder).await {
                Ok(context) => context,
                Err(reason) => return Letter::plain(stopped(call, reason)),
            };
            let patience = patience(place, &work, &context, progressed);
            attend(async move { tool.call(context, arguments).await }, patience).await
        }
        // The missing requirement does not reveal the outcome of an earlier start, so the effect class decides.
        Err(reason) if has_begun(&work) => Err(reason),
        Err(reason) => Ok(ToolOutcome::error(reason)),
    };
    let duration_ms = place.services.clock.monotonic_ms().saturating_sub(started);
    let mut blobs = NewBlobs::default();
    let unstored = |error| format!("its result could not be stored: {error}");
    let input = match ended {
        Ok(ToolOutcome::Ask(ask)) => {
            let Ask { kind, terms, state } = *ask;
            match blobs.text_if(&place.services.contents, state).await {
                Ok(state) => Input::ToolAsked { call, kind: Box::new(kind), terms, state },
                Err(error) => stopped(call, unstored(error)),
            }
        }
        Ok(ToolOutcome::Defer(deferral)) => {
            let Deferral { after_ms, state, rest } = *deferral;
            match blobs.text_if(&place.services.contents, state).await {
                Ok(state) => Input::ToolDeferred { call, after_ms, state, rest },
                Err(error) => stopped(call, unstored(error)),
            }
        }
        Ok(ToolOutcome::Unknown { reason }) => {
            Input::ToolStopped { call, reason, by_tool: true, view: View::default() }
        }
        Ok(ToolOutcome::Done(output)) => match returned(place, &work, &sent, output, &mut blobs).await {
            Ok(Returned { content, error, unavailable, kept, offloaded }) => {
                Input::ToolReturned { call, content, error, unavailable, duration_ms, kept, offloaded }
            }
            Err(error) => stopped(call, unstored(error)),
        },
        Err(reason) => stopped(call, reason),
    };
    Letter { blobs: blobs.0, ..Letter::plain(input) }
}

/// Reports a call without a recordable outcome. The driver adds the current policy when it processes the input.
fn stopped(call: CallKey, reason: String) -> Input {
    Input::ToolStopped { call, reason, by_tool: false, view: View::default() }
}

/// Reports a start that was not carried out. The driver adds the current policy when it processes the message.
fn not_dispatched(work: &ToolWork) -> Input {
    let start = match work.work {
        Work::Call(start) => start,
        Work::Preview(_) | Work::Reconcile(_) => 0,
    };
    Input::NotDispatched { call: work.call, start, view: View::default() }
}

/// Whether an earlier start of the call may have had effects: the call was repeated, got a reply, or was deferred.
fn has_begun(work: &ToolWork) -> bool {
    let is_first = matches!(work.work, Work::Call(1));
    !is_first || work.reply.is_some() || work.resumed.is_some()
}

/// Maximum size of a tool's state in a thread, in bytes: enough for several hundred tasks with descriptions.
const KEPT_MAX_BYTES: usize = 256 * 1024;

/// Converts a tool's answer and its new state for the journal.
async fn returned(
    place: &Place,
    work: &ToolWork,
    arguments: &Value,
    mut output: ToolOutput,
    blobs: &mut NewBlobs,
) -> Result<Returned, StoreError> {
    let known = place.tools.registry.get(work.tool.as_str());
    let name = known.and_then(|tool| tool.traits().keeps.map(str::to_owned));
    let keep = output.keep.take();
    let too_long = keep.as_ref().map(String::len).filter(|size| *size > KEPT_MAX_BYTES);
    if let Some(size) = too_long {
        let text = format!("Not kept: {size} bytes are more than the {KEPT_MAX_BYTES} that may be kept");
        output = ToolOutput::error(text);
    }
    for part in &output.parts {
        if let OutputPart::Text(text) = part {
            tracing::trace!(text, "result");
        }
    }
    let kept = match (keep.filter(|_| too_long.is_none()), name) {
        (Some(value), Some(name)) => {
            Some(Box::new(Kept { name, value: blobs.text(&place.services.contents, value).await? }))
        }
        (Some(_), None) | (None, _) => None,
    };
    let (error, unavailable) = (output.error, output.unavailable);
    let answered = Answered { tool: work.tool.as_str(), effect: &work.effect, arguments };
    let (offloaded, first) = offload(place, answered, &mut output, blobs).await?.unzip();
    let rest = blobs.output(&place.services.contents, output).await?;
    let content = first.into_iter().chain(rest).collect();
    Ok(Returned { content, error, unavailable, kept, offloaded })
}

/// An answer in the form that is recorded.
struct Returned {
    content: Vec<Block>,
    error: bool,
    unavailable: bool,
    kept: Option<Box<Kept>>,
    offloaded: Option<Box<Offloaded>>,
}

async fn previewed(place: &Place, work: ToolWork, round: u32) -> Letter {
    let call = work.call;
    let told = match ready_as_judged(place, &work).await {
        Ok(Some((tool, arguments, folder))) => {
            let arguments = with_key(&place.tools.registry, &work, arguments);
            match context(place, &work, folder).await {
                Ok((context, progressed)) => {
                    let patience = patience(place, &work, &context, progressed);
                    attend(async move { tool.preview(context, arguments).await }, patience).await.flatten()
                }
                Err(reason) => Err(reason),
            }
        }
        // The driver judges the call again before it can be approved.
        Ok(None) => Err("the call has changed since it was judged".to_owned()),
        Err(reason) => Err(reason),
    };
    let mut text = told.unwrap_or_else(|reason| untold(&reason));
    // The digest covers the whole preview, including the part that is cut.
    let digest = Digest::of(text.as_bytes());
    if text.len() > PREVIEW_MAX_BYTES {
        let all = text.len();
        text.truncate(text.floor_char_boundary(PREVIEW_MAX_BYTES));
        text.push_str(&format!("\n[… {} bytes more]", all - text.len()));
    }
    let mut blobs = NewBlobs::default();
    let preview = match blobs.text(&place.services.contents, text).await {
        Ok(preview) => preview,
        Err(error) => untold(&error.to_string()).into(),
    };
    let input = Input::Previewed { call, round, preview, digest };
    Letter { blobs: blobs.0, ..Letter::plain(input) }
}

fn untold(reason: &str) -> String {
    format!("It cannot be told what the call would do: {reason}")
}

async fn reconciled(place: &Place, work: ToolWork, attempt: u32) -> Letter {
    let call = work.call;
    let mut blobs = NewBlobs::default();
    let read = match read(place, &work).await {
        Ok(output) => {
            blobs.output(&place.services.contents, output).await.map_err(|error| error.to_string()).map(Some)
        }
        Err(reason) => Err(reason),
    };
    let (found, reason): (Option<Vec<Block>>, String) = match read {
        Ok(found) => (found, String::new()),
        Err(reason) => (None, reason),
    };
    Letter { blobs: blobs.0, ..Letter::plain(Input::Reconciled { call, attempt, found, reason }) }
}

/// Makes the read that may reveal a call's outcome. If the outcome stays unknown, returns an error with the reason.
async fn read(place: &Place, work: &ToolWork) -> Result<ToolOutput, String> {
    let registry = &place.tools.registry;
    let spec = registry.reconcile(work.tool.as_str());
    let spec = spec.ok_or_else(|| format!("no read is configured for `{}`", work.tool))?;
    let (_, lost) = prepare(place, work.tool.as_str(), &work.arguments).await?;
    let registered = registry.enabled(spec.tool.as_str());
    let registered = registered.ok_or_else(|| format!("the tool `{}` is not available", spec.tool))?;
    let arguments = spec.arguments_for(&lost, &work.effect)?;
    let class = registry.adjusted(registered, registered.tool.conduct(&arguments).class);
    if !matches!(class, EffectClass::Pure | EffectClass::Idempotent) {
        return Err(format!("`{}` is no tool that only reads", spec.tool));
    }
    registry.check_arguments(spec.tool.as_str(), &arguments)?;
    let folder = place.folder.find(&place.services.folders, &place.thread, &work.cancel).await?;
    let (context, progressed) = context(place, work, folder).await?;
    let tool = registered.tool.clone();
    let patience = patience(place, work, &context, progressed);
    let outcome = attend(async move { tool.call(context, arguments).await }, patience).await?;
    let output = match outcome {
        ToolOutcome::Done(output) => output,
        ToolOutcome::Ask(_) => return Err(format!("`{}` asks people", spec.tool)),
        ToolOutcome::Defer(_) => return Err(format!("`{}` has no answer yet", spec.tool)),
        ToolOutcome::Unknown { reason } => return Err(format!("`{}`: {reason}", spec.tool)),
    };
    let texts = output.parts.iter().filter_map(|part| match part {
        OutputPart::Text(text) => Some(text.as_str()),
        OutputPart::Image { .. } | OutputPart::File { .. } => None,
    });
    let text: String = texts.collect();
    if !output.error && spec.is_found(&text) {
        return Ok(output);
    }
    let shown: String = text.chars().take(200).collect();
    Err(format!("`{}` answered `{shown}`", spec.tool))
}

/// Returns the tool, arguments and folder that a call needs before it can start. If one is missing, the call is not
/// made, and the error is for the model.
async fn ready(
    place: &Place,
    work: &ToolWork,
) -> Result<(Arc<dyn Tool>, Value, Option<Arc<WorkingFolder>>), String> {
    let (tool, arguments) = prepare(place, work.tool.as_str(), &work.arguments).await?;
    Ok((tool, arguments, place.folder.find(&place.services.folders, &place.thread, &work.cancel).await?))
}

/// Like [`ready`], for a call or its preview. Returns `None` if the call has changed since its verdict.
async fn ready_as_judged(
    place: &Place,
    work: &ToolWork,
) -> Result<Option<(Arc<dyn Tool>, Value, Option<Arc<WorkingFolder>>)>, String> {
    let (tool, arguments, folder) = ready(place, work).await?;
    Ok(match at_dispatch(place, work, &arguments, folder).await {
        AtDispatch::AsJudged(folder) => Some((tool, arguments, folder)),
        AtDispatch::Changed => None,
    })
}

/// Returns the context for a call, and the notifier of its progress.
async fn context(
    place: &Place,
    work: &ToolWork,
    folder: Option<Arc<WorkingFolder>>,
) -> Result<(CallContext, Arc<Notify>), String> {
    let reply = match &work.reply {
        Some(replied) => {
            let state = wanted_back(place, replied.state.as_ref()).await?;
            Some(ToolReply { answer: replied.answer.clone(), state })
        }
        None => None,
    };
    let resumed = match &work.resumed {
        Some(resumed) => {
            let state = wanted_back(place, resumed.state.as_ref()).await?;
            Some(ToolResumed { times: resumed.times, state })
        }
        None => None,
    };
    let folder = match (&work.changes, work.work) {
        (Some(changes), Work::Call(_)) => folder.map(|folder| changes.watch(place, work.call, &folder)),
        (Some(_) | None, Work::Call(_) | Work::Preview(_) | Work::Reconcile(_)) => folder,
    };
    let progressed = Arc::new(Notify::new());
    let context = CallContext {
        workspace: place.workspace.clone(),
        thread: place.thread.clone(),
        run: place.run.clone(),
        call: work.call,
        effect_id: work.effect.clone(),
        class: work.class,
        cancel: work.cancel.child_token(),
        folder,
        now: place.services.clock.now(),
        utc_offset_minutes: place.utc_offset_minutes,
        kept: wanted_back(place, work.kept.as_ref()).await?,
        results: offload::results(&place.services.contents, work.offloaded.clone()),
        reply,
        resumed,
        progress: progress(place, work.call, progressed.clone()),
    };
    Ok((context, progressed))
}

async fn wanted_back(place: &Place, state: Option<&Content>) -> Result<Option<String>, String> {
    let Some(state) = state else { return Ok(None) };
    let text = place.services.contents.text_of(state).await;
    text.map(Some).map_err(|error| format!("what the tool wanted back cannot be read: {error}"))
}

fn patience<'a>(
    place: &'a Place,
    work: &'a ToolWork,
    context: &CallContext,
    progressed: Arc<Notify>,
) -> Patience<'a> {
    Patience {
        timeout_ms: work.timeout_ms,
        progressed,
        cancel: &work.cancel,
        signal: context.cancel.clone(),
        clock: &*place.services.clock,
    }
}

/// Returns the arguments with the idempotency key added, if the tool has an argument for it.
fn with_key(registry: &Registry, work: &ToolWork, mut arguments: Value) -> Value {
    let registered = registry.enabled(work.tool.as_str());
    if let (Some(name), Some(members)) =
        (registered.and_then(|registered| registered.key_argument.clone()), arguments.as_object_mut())
    {
        members.insert(name, Value::String(key_of(&work.effect)));
    }
    arguments
}

/// Finds the tool and parses its arguments. The error is for the model.
async fn prepare(place: &Place, name: &str, arguments: &Content) -> Result<(Arc<dyn Tool>, Value), String> {
    let tool = place.tools.registry.get(name);
    let tool = tool.ok_or_else(|| format!("The tool `{name}` is no longer available"))?;
    let text = place.services.contents.text_of(arguments).await.map_err(|error| error.to_string())?;
    let (value, _) = repair_arguments(&text)?;
    tracing::trace!(arguments = %value, "arguments");
    Ok((tool, value))
}

/// Maximum size of a progress text in bytes: a few lines. The text is sent to every watcher.
const PROGRESS_MAX_BYTES: usize = 4 * 1024;

fn progress(place: &Place, call: CallKey, progressed: Arc<Notify>) -> ProgressSender {
    let (bus, thread) = (place.services.bus.clone(), place.thread.clone());
    ProgressSender(Some(Arc::new(move |mut text: String| {
        progressed.notify_one();
        text.truncate(text.floor_char_boundary(PROGRESS_MAX_BYTES));
        bus.publish(&thread, Signal::Progress { call, text: text.into() });
    })))
}
