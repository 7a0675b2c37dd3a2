//! Windlass: a durable engine for LLM agents.
//!
//! The library that programs embed. It drives the pure machine of `windlass-machine` over ports for
//! models, tools, stores and buses; it knows neither HTTP servers nor command lines.

pub mod adapter;
mod allowance;
mod attach;
mod builder;
mod drive;
mod engine;
mod error;
mod export;
mod gate;
pub mod limits;
mod messages;
mod offer;
mod outcome;
pub mod port;
mod prompt;
mod queue;
pub mod reader;
mod restore;
mod status;
mod task;
#[cfg(feature = "testing")]
pub mod testing;
mod title;
pub mod tool;
mod trial;
mod wait;

pub use windlass_machine as machine;
pub use windlass_outbound as outbound;
pub use windlass_outbound::secret;

pub use crate::allowance::Allowance;
pub use crate::attach::media_type;
pub use crate::builder::{Attend, Builder};
pub use crate::drive::genai;
pub use crate::drive::watch::Update;
pub use crate::engine::{Engine, Started};
pub use crate::error::{EngineError, Fault, SlowDriver, TryAgain};
pub use crate::gate::{GrantDraft, Whose};
pub use crate::messages::{
    AnswerWord, Answered, CallState, MESSAGES_MAX, MessageStatus, StoredCall, StoredMessage,
};
pub use crate::offer::{OfferedTool, OfferedToolset};
pub use crate::outcome::{ErrorInfo, Evidence, Meta, OpenInterrupt, Outcome, Status, Tokens, Waiting};
pub use crate::port::background::BackgroundCommand;
pub use crate::port::bus::{Backlog, NoPosition, Position};
pub use crate::prompt::{PROMPT_TEXT_MAX_BYTES, Prompt, PromptPart};
pub use crate::queue::QueuedMessage;
pub use crate::restore::{
    FileFate, ForkFiles, ForkFolder, ForkedThread, RestoreMode, Restored, RestoredFile, UnrestoredFile,
    UnrestoredReason, UnseenCall,
};
pub use crate::task::{AgentConfig, RunTools, Task};
pub use crate::trial::{Consent, Standing, Supposed, Trial, TrialResult, Tried};
