//! The durable engine: drives the pure machine of `windlass-machine` over ports.
//!
//! A host program gives it a store, models, tools and a schema compiler as ports ([`port`]) and calls [`Builder::new`]. In
//! this crate are only in-memory ports ([`memory`], [`bus`]) and the system's clock ([`clock`]). It knows no provider,
//! database, protocol or HTTP.

mod allowance;
mod answer;
mod attach;
mod builder;
pub mod bus;
pub mod clock;
mod drive;
mod engine;
mod error;
mod export;
mod handle;
pub mod limits;
pub mod memory;
mod messages;
mod offer;
mod outcome;
mod policy;
pub mod port;
mod prompt;
mod queue;
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

pub use crate::allowance::Allowance;
pub use crate::builder::{Attend, Builder};
pub use crate::drive::FoldedThread;
pub use crate::drive::genai;
pub use crate::drive::watch::Update;
pub use crate::engine::{Engine, Started};
pub use crate::error::{EngineError, Fault, SlowDriver, TryAgain};
pub use crate::handle::{FilesHandle, PolicyHandle, QueueHandle, RunHandle, ThreadHandle, ToolsHandle};
pub use crate::messages::{
    AnswerWord, Answered, CallState, MESSAGES_MAX, MessageStatus, StoredCall, StoredMessage,
};
pub use crate::offer::{OfferedTool, OfferedToolset};
pub use crate::outcome::{ErrorInfo, Evidence, Figures, OpenInterrupt, Outcome, Status, Tokens, Waiting};
pub use crate::policy::{GrantDraft, Whose};
pub use crate::port::background::BackgroundCommand;
pub use crate::port::bus::{Backlog, NoPosition, Position};
pub use crate::port::journal::Accepted;
pub use crate::prompt::{PROMPT_TEXT_MAX_BYTES, Prompt, PromptPart};
pub use crate::queue::QueuedMessage;
pub use crate::restore::{
    FileFate, ForkFiles, ForkFolder, ForkedThread, RestoreMode, Restored, RestoredFile, UnrestoredFile,
    UnrestoredReason, UnseenCall,
};
pub use crate::task::{AgentConfig, RunTools, Task};
pub use crate::trial::{Consent, Standing, Supposed, Trial, TrialResult, Tried};
