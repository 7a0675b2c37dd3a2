//! The sent prompt of a step, for finding the cause of a model's reply.
//!
//! Prompts are not stored. The code that built the sent prompt rebuilds it from the journal.

use std::sync::Arc;

use serde::Serialize;
use windlass_machine::{
    Attempt, Block, Content, Fact, Fingerprint, Message, ModelName, ModelRequest, Part, PartContent,
    PartKind, Reject, Role, RunId, Seq, StepMode, ThreadId, Timestamp,
};

use crate::engine::Engine;
use crate::engine::handle::ThreadHandle;
use crate::error::EngineError;
use crate::port::journal::{Head, Recorded};

/// Maximum size of one shown text in bytes; longer texts are cut.
pub const PROMPT_TEXT_MAX_BYTES: usize = 64 * 1024;

/// Maximum total size of all shown texts in bytes.
const ALL_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of events read from a journal at a time.
const PAGE: usize = 64;

/// The request of a step, with its parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Prompt {
    /// Run of the step.
    pub run: RunId,
    /// Step and attempt of the request.
    pub attempt: Attempt,
    /// Time of the `step.started` event.
    pub at: Timestamp,
    /// The called model.
    pub model: ModelName,
    /// The reason why the step runs, which adds texts to the request.
    pub mode: StepMode,
    /// Fingerprint of the rebuilt request.
    pub digest: Fingerprint,
    /// Fingerprint of the sent request from the reply's event; `None` without a reply.
    pub replied: Option<Fingerprint>,
    /// Estimated tokens of the whole request.
    pub tokens: u64,
    /// The parts in the order in which they were sent.
    pub parts: Vec<PromptPart>,
    /// The request itself, with blobs as references.
    pub request: ModelRequest,
}

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PromptPart {
    /// Kind of the part.
    pub kind: PartKind,
    /// Author role; absent if the part is not a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Size of the part's texts and media in bytes.
    pub size_bytes: u64,
    /// Estimated tokens of the part.
    pub tokens: u64,
    /// Content: complete texts, also those stored as blobs; media by digest; items of a provider's own format
    /// omitted.
    pub blocks: Vec<Block>,
    /// Whether a text was cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl Engine {
    /// Returns the request fingerprint that the reply to a step recorded.
    async fn replied(
        &self,
        thread: &ThreadId,
        mut after: Seq,
        run: &RunId,
        wanted: Attempt,
    ) -> Result<Option<Fingerprint>, EngineError> {
        loop {
            let page = self.services.store.journal.read(thread, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(None) };
            after = last.seq;
            for Recorded { event, .. } in page.into_iter().filter(|one| one.event.run.as_ref() == Some(run)) {
                match event.fact {
                    Fact::StepReplied { attempt, request, .. } if attempt == wanted => {
                        // A reply that was stopped midway has no digest.
                        return Ok(Some(request).filter(|request| *request != Fingerprint::default()));
                    }
                    Fact::StepStarted { .. } | Fact::StepFailed { .. } | Fact::RunFinished { .. } => {
                        return Ok(None);
                    }
                    _ => {} // tidy: the other kinds end no step
                }
            }
        }
    }

    async fn shown(&self, part: Part, left: &mut usize) -> Result<PromptPart, EngineError> {
        let Part { kind, content, size_bytes, tokens } = part;
        let text = |text| Message { role: Role::System, blocks: vec![Block::Text { text, native: None }] };
        let (role, message) = match content {
            PartContent::Text(content) => (None, Arc::new(text(content))),
            PartContent::Catalogue(blob) => (None, Arc::new(text(Content::Blob(blob)))),
            PartContent::Message(message) => (Some(message.role), message),
        };
        let (mut blocks, mut cut) = (Vec::with_capacity(message.blocks.len()), false);
        for block in &message.blocks {
            match block {
                Block::ToolResult(result) => {
                    let mut result = result.clone();
                    for block in &mut result.content {
                        *block = self.readable(block.clone(), left, &mut cut).await?;
                    }
                    blocks.push(Block::ToolResult(result));
                }
                Block::Opaque { .. } => {}
                other => blocks.push(self.readable(other.clone(), left, &mut cut).await?), // tidy: these are readable
            }
        }
        Ok(PromptPart { kind, role, size_bytes, tokens, blocks, cut })
    }

    /// Returns a block with its text, and without the provider's item.
    async fn readable(&self, block: Block, left: &mut usize, cut: &mut bool) -> Result<Block, EngineError> {
        Ok(match block {
            Block::Text { text, .. } => {
                Block::Text { text: self.whole(&text, left, cut).await?, native: None }
            }
            Block::Reasoning { text, .. } => {
                Block::Reasoning { text: self.whole(&text, left, cut).await?, native: None }
            }
            Block::ToolCall(mut call) => {
                (call.asked, call.native) = (self.whole(&call.asked, left, cut).await?, None);
                Block::ToolCall(call)
            }
            Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) | Block::Opaque { .. } => block,
        })
    }

    /// Returns a text, cut to the limits.
    async fn whole(&self, text: &Content, left: &mut usize, cut: &mut bool) -> Result<Content, EngineError> {
        let mut text = self.services.contents.text_of(text).await?;
        let room = text.floor_char_boundary(PROMPT_TEXT_MAX_BYTES.min(*left));
        if room < text.len() {
            (text, *cut) = (text[..room].to_owned(), true);
        }
        *left -= text.len();
        Ok(Content::Inline(text))
    }
}

impl ThreadHandle<'_> {
    /// Returns the request that was sent after the `step.started` event at a position.
    pub async fn prompt(self, step_started: Seq) -> Result<Prompt, EngineError> {
        let Self { engine, id: thread } = self;
        let head = engine.services.store.journal.head(thread).await?;
        let head = head.ok_or_else(|| EngineError::NoThread(thread.clone()))?;
        let missing = || {
            let what = format!("a `step.started` at event {step_started}");
            EngineError::Rejected(Reject::NotFound { what })
        };
        if step_started > head.seq || step_started == Seq::default() {
            return Err(missing());
        }
        let before = Seq(step_started.0 - 1);
        let started = engine
            .services
            .store
            .journal
            .read(thread, before, 1)
            .await?
            .into_iter()
            .next()
            .ok_or_else(missing)?;
        let Fact::StepStarted { attempt, model, mode, .. } = started.event.fact else {
            return Err(missing());
        };
        let machine =
            engine.services.store.restore(thread, &Head { seq: step_started, ..head }).await?.machine;
        // A step always starts in a run.
        let (request, run) = machine.request().zip(started.event.run).ok_or_else(missing)?;
        let mut left = ALL_MAX_BYTES;
        let mut parts = Vec::new();
        for part in request.parts() {
            parts.push(engine.shown(part, &mut left).await?);
        }
        Ok(Prompt {
            replied: engine.replied(thread, step_started, &run, attempt).await?,
            digest: machine.request_fingerprint(),
            tokens: request.tokens(),
            at: started.event.at,
            run,
            attempt,
            model,
            mode,
            parts,
            request,
        })
    }

    /// Returns the number of tools that the model sees in the step whose `step.started` event is at a position. Tools
    /// that an administrator has disabled later are not counted.
    pub async fn tools_shown(self, step_started: Seq) -> Result<usize, EngineError> {
        let Self { engine, id: thread } = self;
        let head = engine.services.store.journal.head(thread).await?;
        let head = head.ok_or_else(|| EngineError::NoThread(thread.clone()))?;
        let machine = engine
            .services
            .store
            .restore(thread, &Head { seq: step_started.min(head.seq), ..head })
            .await?
            .machine;
        let Some((request, run)) = machine.request().zip(machine.state().run.as_ref()) else { return Ok(0) };
        let own = &run.options.own_tools;
        Ok(engine.services.catalog.shown(&request, &run.id, own).await?.len())
    }
}
