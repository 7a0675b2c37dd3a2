//! The durable engine: drives the pure machine of `windlass-machine` over ports.
//!
//! A host program passes a store, models, tools and a schema compiler as ports ([`port`]) to [`Builder::new`]. This
//! crate contains only in-memory ports ([`memory`], [`bus`]) and the system clock ([`clock`]). It contains no code
//! for providers, databases, protocols or HTTP.

mod allowance;
mod builder;
pub mod bus;
pub mod clock;
mod drive;
mod engine;
mod error;
pub mod limits;
pub mod memory;
mod outcome;
pub mod port;
mod restore;
mod task;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tool;
mod trial;

pub use windlass_machine as machine;

pub use crate::allowance::Allowance;
pub use crate::builder::{Attend, Builder};
pub use crate::drive::FoldedThread;
pub use crate::drive::genai;
pub use crate::drive::watch::Update;
pub use crate::engine::handle::{
    FilesHandle, PolicyHandle, QueueHandle, RunHandle, ThreadHandle, ToolsHandle,
};
pub use crate::engine::messages::{
    AnswerWord, Answered, CallState, MESSAGES_MAX, MessageStatus, StoredCall, StoredMessage,
};
pub use crate::engine::offer::{OfferedTool, OfferedToolset};
pub use crate::engine::policy::GrantDraft;
pub use crate::engine::prompt::{PROMPT_TEXT_MAX_BYTES, Prompt, PromptPart};
pub use crate::engine::queue::QueuedMessage;
pub use crate::engine::whose::Whose;
pub use crate::engine::{Engine, Started};
pub use crate::error::{EngineError, Fault, SlowDriver, TryAgain};
pub use crate::outcome::{ErrorInfo, Evidence, Figures, OpenInterrupt, Outcome, Status, Tokens, Waiting};
pub use crate::port::background::BackgroundCommand;
pub use crate::port::bus::{Backlog, NoPosition, Position};
pub use crate::port::journal::Accepted;
pub use crate::restore::{
    FileFate, ForkFiles, ForkFolder, ForkedThread, RestoreMode, Restored, RestoredFile, UnrestoredFile,
    UnrestoredReason, UnseenCall,
};
pub use crate::task::{AgentConfig, RunTools, Task};
pub use crate::trial::{Consent, Standing, Supposed, Trial, TrialResult, Tried};
