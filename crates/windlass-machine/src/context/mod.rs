//! Builds requests from the state. No other code builds prompts.
//!
//! The prefix comes first (instructions, tools, history), then the tail, which is rebuilt for each step and never
//! enters the history.

mod fragment;
mod mode;
pub(crate) mod nudge;
mod part;
mod repair;
mod request;
pub(crate) mod window;

use std::sync::Arc;

pub use self::nudge::{EMPTY_RETRIES, OVERRUN_RETRIES};
pub use self::part::{Part, PartContent, PartKind};
pub use self::repair::arguments as repair_arguments;
pub use self::request::ModelRequest;
use crate::agent::Agent;
use crate::event::{RunOptions, StepMode};
use crate::id::Digest;
use crate::message::{Content, Message, Role};
use crate::mode::Mode;
use crate::state::{Run, State};

/// Key of the tool state that lists tools shown beside the catalogue: a JSON object with tool specs under `specs`.
pub const LOADED_TOOLS: &str = "toolsets";

/// Maximum number of messages for the plain answer at the step limit. (WT-L11)
const FALLBACK_MESSAGES: usize = 12;

/// Maximum number of characters of each message for the plain answer. (WT-L11)
const FALLBACK_CHARS: usize = 2_000;

impl ModelRequest {
    /// Builds the request of the current step; `None` without an active run.
    pub fn of(state: &State) -> Option<Self> {
        let run = state.run.as_ref()?;
        let fallback = run.mode == StepMode::Fallback;
        let history = state.history.first_outside().into_iter();
        let messages = if fallback {
            compacted(state)
        } else {
            history.chain(state.history.messages.iter()).cloned().collect()
        };
        Some(Self {
            model: run.step_model.clone(),
            system: system(run),
            tools: run.agent.tools.clone().filter(|_| !fallback),
            loaded: state.kept.get(LOADED_TOOLS).cloned().filter(|_| !fallback),
            messages,
            tail: tail(run),
            mode: run.options.mode(),
            settings: run.agent.settings.clone(),
        })
    }
}

/// Returns the digest of the current step's request. The digest is computed from digests in the state, so the cost
/// does not grow with the history. It covers all messages that the thread ever had, including withdrawn ones.
pub(crate) fn digest(state: &State) -> Digest {
    let Some(run) = &state.run else { return Digest::default() };
    // A mode's text is part of the instructions; without a mode, nothing is added to the pinned agent.
    let place = (state.history.start, state.history.end(), run.mode, &run.step_model, tail(run));
    let pinned = state.history.chain.chain(&place).chain(&*run.agent);
    let pinned = match run.options.mode() {
        Mode::Agent => pinned,
        mode => pinned.chain(&mode), // tidy: every mode that withholds something
    };
    state.kept.get(LOADED_TOOLS).map_or(pinned, |loaded| pinned.chain(loaded))
}

/// Whether a run's requests have instructions, which count as a message.
pub(crate) fn has_instructions(agent: &Agent, options: &RunOptions) -> bool {
    !agent.instructions.is_empty() || mode::instructions(options.mode()).is_some()
}

/// Returns the instructions, which are stable within a run: the agent's, then the mode's.
fn system(run: &Run) -> Vec<Content> {
    let mode = mode::instructions(run.options.mode()).map(Content::from);
    run.agent.instructions.iter().cloned().chain(mode).collect()
}

fn tail(run: &Run) -> Vec<String> {
    let time = run.options.utc_offset_minutes.map(|offset| fragment::time(run.step_at, offset));
    time.into_iter().collect()
}

/// Returns the first and the newest texts of user and model without tools, then the final instruction. The
/// instruction is a separate message: otherwise the request could end with a reply, which the model would continue.
fn compacted(state: &State) -> Vec<Arc<Message>> {
    let history = state.history.first_outside().into_iter().chain(&state.history.messages);
    let said = history.filter_map(|message| match message.role {
        Role::User | Role::Assistant => said(message),
        Role::System | Role::Tool => None,
    });
    let mut all: Vec<_> = said.collect();
    // The first user message is kept as in the window, because it usually contains the task.
    let newest = all.len().saturating_sub(FALLBACK_MESSAGES - 1).max(1);
    if newest < all.len() {
        all.drain(1..newest);
    }
    all.push(Arc::new(Message::text(Role::User, nudge::ANSWER_NOW)));
    all
}

fn said(message: &Message) -> Option<Arc<Message>> {
    let text = message.shown_text();
    if text.trim().is_empty() {
        return None;
    }
    let short = match text.char_indices().nth(FALLBACK_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    };
    Some(Arc::new(Message::text(message.role, short)))
}
