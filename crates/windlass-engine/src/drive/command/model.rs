//! Model calls: completes the request, streams the reply and prepares it for the journal. Each call sends exactly one
//! message (`Letter`) to the thread's driver when it ends.
//!
//! This module does not decide the consequences of an outcome.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use tokio_util::sync::CancellationToken;
use windlass_machine::{
    Arguments, Attempt, Block, CallView, Content, Digest, FailureClass, Fingerprint, Input, ModelFailed,
    ModelReplied, ModelRequest, Seq, ToolName, ToolSpec, View,
};

use super::context::{CommandServices, Place, followed};
use crate::drive::contents::{Contents, NewBlobs};
use crate::drive::policy::budgets::Bounds;
use crate::drive::thread::mail::Letter;
use crate::port::bus::Signal;
use crate::port::clock::Clock;
use crate::port::journal::StoreError;
use crate::port::model::{Delta, Model, ModelCall, ModelError, ModelEvent, Reply};
use crate::tool::panic_text;

/// Maximum size of a reply's text in bytes; a larger reply indicates a faulty provider.
const REPLY_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Number of fragments after which the task yields; well below the capacity of a watcher's queue.
const BURST: u64 = 128;

/// A model call to make.
pub(in crate::drive) struct ModelWork {
    pub attempt: Attempt,
    /// Position of the `step.started` event of this generation.
    pub seq: Seq,
    pub request: ModelRequest,
    /// Names of the run's own tools.
    pub own_tools: Vec<ToolName>,
    pub fingerprint: Fingerprint,
    /// Limits that budgets impose on the call.
    pub bounds: Bounds,
    pub cancel: CancellationToken,
}

/// Makes one model call. A panic of the adapter is reported as a failure of the call.
pub(in crate::drive) async fn call_model(place: Place, work: ModelWork) -> Letter {
    let attempt = work.attempt;
    followed(place, async |place, started| {
        AssertUnwindSafe(answered(place, work, started)).catch_unwind().await.unwrap_or_else(|panic| {
            let text = format!("the model's adapter crashed: {}", panic_text(&*panic));
            Letter::plain(failed(attempt, ModelError::new(FailureClass::Malformed, text), None))
        })
    })
    .await
}

async fn answered(place: Place, work: ModelWork, started: u64) -> Letter {
    let mut heard = Heard::default();
    let ended = tokio::select! {
        biased;
        () = work.cancel.cancelled() => None,
        ended = converse(&place, &work, &mut heard, started) => Some(ended),
    };
    let ended_ms = place.services.clock.monotonic_ms();
    let duration_ms = ended_ms.saturating_sub(started);
    let mut blobs = NewBlobs::default();
    let partial = match heard.text.is_empty() {
        true => None,
        false => blobs.text(&place.services.contents, std::mem::take(&mut heard.text)).await.ok(),
    };
    let attempt = work.attempt;
    let input = match ended {
        None => Input::ModelStopped { attempt, partial },
        Some(Ok((model, reply))) => {
            let cost = model.info().price.and_then(|price| price.cost(&reply.usage));
            let calls =
                place.services.inspector.known_of(&place, attempt.step, &reply.blocks, &heard.shown).await;
            // The driver adds the policy when it processes the reply.
            let view = View { calls, ..View::default() };
            match recorded(&place.services.contents, &mut blobs, reply, view).await {
                Ok((blocks, reply, view)) => Input::ModelReplied(Box::new(ModelReplied {
                    attempt,
                    blocks,
                    stop: reply.stop,
                    usage: reply.usage,
                    cost,
                    request: work.fingerprint,
                    ttft_ms: heard.ttft_ms,
                    duration_ms,
                    thoughts_ms: std::mem::take(&mut heard.thoughts).ended(ended_ms),
                    view,
                })),
                Err(error) => failed(attempt, unstored(&error), partial),
            }
        }
        Some(Err(error)) => failed(attempt, error, partial),
    };
    Letter { blobs: blobs.0, ..Letter::plain(input) }
}

/// Converts a store error to the failure of a model call.
fn unstored(error: &StoreError) -> ModelError {
    let class = match error {
        StoreError::Unavailable { .. } => FailureClass::Transient,
        StoreError::NotFound { .. }
        | StoreError::Refused { .. }
        | StoreError::Unreadable { .. }
        | StoreError::Corrupt { .. } => FailureClass::MissingBlob,
    };
    ModelError::new(class, error.to_string())
}

fn failed(attempt: Attempt, error: ModelError, partial: Option<Content>) -> Input {
    Input::ModelFailed(Box::new(ModelFailed {
        attempt,
        class: error.class,
        message: error.message,
        retry_after_ms: error.retry_after_ms,
        partial,
    }))
}

/// Moves a reply's long texts into blobs.
async fn recorded(
    contents: &Contents,
    blobs: &mut NewBlobs,
    mut reply: Box<Reply>,
    mut view: View,
) -> Result<(Vec<Block>, Box<Reply>, View), StoreError> {
    let blocks = blobs.blocks(contents, std::mem::take(&mut reply.blocks)).await?;
    for call in &mut view.calls {
        if let CallView::Known(known) = call
            && let Arguments::Repaired { arguments, .. } = &mut known.arguments
        {
            *arguments = blobs.content(contents, arguments.clone()).await?;
        }
    }
    Ok((blocks, reply, view))
}

/// The received part of a reply.
#[derive(Default)]
struct Heard {
    text: String,
    bytes: usize,
    ttft_ms: Option<u64>,
    thoughts: Thoughts,
    /// The tools that the model was shown.
    shown: Arc<[ToolSpec]>,
}

/// Measures the duration of reasoning blocks, from their first fragment to the first fragment of the next block.
#[derive(Default)]
struct Thoughts {
    /// Duration by part, in the order in which they began.
    ended_ms: Vec<(u32, u64)>,
    /// The reasoning block in progress, with its start time.
    open: Option<(u32, u64)>,
}

impl Thoughts {
    fn heard(&mut self, delta: &Delta, clock: &dyn Clock) {
        let thinks_of = match delta {
            Delta::Reasoning { part, .. } => Some(*part),
            Delta::Text { .. } | Delta::Call { .. } => None,
        };
        if self.open.map(|(part, _)| part) == thinks_of {
            return;
        }
        let now = clock.monotonic_ms();
        self.end(now);
        self.open = thinks_of.map(|part| (part, now));
    }

    fn end(&mut self, now: u64) {
        let Some((part, since)) = self.open.take() else { return };
        let ms = now.saturating_sub(since);
        match self.ended_ms.iter_mut().find(|(known, _)| *known == part) {
            Some((_, sum)) => *sum += ms,
            None => self.ended_ms.push((part, ms)),
        }
    }

    fn ended(mut self, now: u64) -> Vec<u64> {
        self.end(now);
        self.ended_ms.into_iter().map(|(_, ms)| ms).collect()
    }
}

async fn converse(
    place: &Place,
    work: &ModelWork,
    heard: &mut Heard,
    started: u64,
) -> Result<(Arc<dyn Model>, Box<Reply>), ModelError> {
    let services = &*place.services;
    let model = services.models.resolve(&work.request.model)?;
    if work.bounds.needs_a_price && model.info().price.is_none() {
        let name = &work.request.model;
        let text = format!(
            "the run has a limit of money, and the price of model `{name}` is not known; say it in the \
             configuration (`[providers.<name>.models.\"<model>\"] price`), or set a limit of tokens instead"
        );
        return Err(ModelError::new(FailureClass::Config, text));
    }
    if let Some((provider, _)) = model.info().name.split_once('/') {
        place.span.record(crate::drive::genai::PROVIDER, provider);
    }
    let mut request = work.request.clone();
    // A reply must not exceed the amount that was reserved for it.
    request.settings.max_output_tokens = request.settings.max_output_tokens.or(work.bounds.output_tokens);
    let call = fill(place, request, &work.own_tools).await;
    let call = call.map_err(|error| unstored(&error))?;
    heard.shown = call.tools.clone();
    let mut stream = model.stream(call);
    let mut fragments = Fragments { place, work, count: 0, waiting: Vec::new() };
    while let Some(event) = fragments.next(&mut stream).await {
        match event? {
            ModelEvent::Delta(delta) => {
                if heard.ttft_ms.is_none() {
                    heard.ttft_ms = Some(services.clock.monotonic_ms().saturating_sub(started));
                }
                heard.thoughts.heard(&delta, &*services.clock);
                heard.bytes += size(&delta);
                if heard.bytes > REPLY_MAX_BYTES {
                    let text = format!("the reply is longer than {REPLY_MAX_BYTES} bytes");
                    return Err(ModelError::new(FailureClass::Malformed, text));
                }
                if let Delta::Text { text, .. } = &delta {
                    heard.text.push_str(text);
                }
                fragments.add(delta).await;
            }
            ModelEvent::Finished(reply) => {
                tracing::trace!(text = heard.text, "reply");
                return Ok((model, reply));
            }
        }
    }
    Err(ModelError::new(FailureClass::Truncated, "the reply ended before it was complete"))
}

/// The fragments of a reply that are not published yet. Fragments that arrive together are published together, so
/// that a follower is woken once for all of them.
struct Fragments<'a> {
    place: &'a Place,
    work: &'a ModelWork,
    /// Number of fragments that have arrived.
    count: u64,
    waiting: Vec<Signal>,
}

impl Fragments<'_> {
    /// Returns the next event of the stream. Publishes the pending fragments before it waits.
    async fn next(
        &mut self,
        stream: &mut BoxStream<'static, Result<ModelEvent, ModelError>>,
    ) -> Option<Result<ModelEvent, ModelError>> {
        std::future::poll_fn(|context| {
            let next = stream.poll_next_unpin(context);
            if next.is_pending() {
                self.publish();
            }
            next
        })
        .await
    }

    async fn add(&mut self, delta: Delta) {
        self.count += 1;
        let (seq, attempt) = (self.work.seq, self.work.attempt);
        self.waiting.push(Signal::Delta { seq, number: self.count, attempt, delta });
        // A provider that sends many fragments at once would fill a watcher's queue before the watcher is polled.
        if self.count.is_multiple_of(BURST) {
            self.publish();
            tokio::task::yield_now().await;
        }
    }

    fn publish(&mut self) {
        if !self.waiting.is_empty() {
            self.place.services.bus.publish_all(&self.place.thread, &mut self.waiting);
        }
    }
}

impl Drop for Fragments<'_> {
    /// Publishes the pending fragments before the event that ends the reply, also if the call fails or is dropped.
    fn drop(&mut self) {
        self.publish();
    }
}

fn size(delta: &Delta) -> usize {
    match delta {
        Delta::Text { text, .. } | Delta::Reasoning { text, .. } => text.len(),
        Delta::Call { arguments, .. } => arguments.len(),
    }
}

/// Reads the blobs that a request references. `own` are the names of the run's own tools.
async fn fill(place: &Place, request: ModelRequest, own: &[ToolName]) -> Result<ModelCall, StoreError> {
    let CommandServices { catalog, contents, .. } = &*place.services;
    let tools = catalog.shown(&request, &place.run, own).await?;
    let mut named = Vec::new();
    request.system.iter().for_each(|content| name(content, &mut named));
    for message in &request.messages {
        message.blocks.iter().for_each(|block| name_in(block, &mut named));
    }
    let mut blobs = HashMap::with_capacity(named.len());
    for digest in named {
        if let Entry::Vacant(vacant) = blobs.entry(digest) {
            vacant.insert(contents.blob(&digest).await?);
        }
    }
    Ok(ModelCall { request, tools, blobs })
}

fn name(content: &Content, into: &mut Vec<Digest>) {
    if let Content::Blob(blob) = content {
        into.push(blob.digest);
    }
}

fn name_in(block: &Block, into: &mut Vec<Digest>) {
    match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => name(text, into),
        Block::Image { blob } | Block::File { blob, .. } => into.push(blob.digest),
        Block::ToolCall(call) => name(&call.asked, into),
        Block::ToolResult(result) => result.content.iter().for_each(|block| name_in(block, into)),
        Block::Opaque { .. } => {}
    }
}
