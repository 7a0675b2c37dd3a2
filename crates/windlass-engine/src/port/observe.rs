//! The observer port: what a host program counts, told once it is durable.
//!
//! It carries figures and the words of our own lists, never texts, arguments or results. Nothing waits for it.

use windlass_machine::{FailureClass, MicroUsd, ModelName, Outcome, RunStatus, ToolName, Usage};

/// Counts what happens.
pub trait Observer: Send + Sync {
    /// Is told of something. Called by whoever drives the thread: it must not block.
    fn observe(&self, measure: &Measure);
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Measure {
    /// A run began.
    RunStarted,
    /// A run ended.
    RunFinished {
        /// How.
        status: RunStatus,
        /// From start to end, in milliseconds.
        duration_ms: u64,
    },
    /// A model replied: one step.
    StepReplied {
        /// The model.
        model: ModelName,
        /// Tokens, as reported.
        usage: Usage,
        /// Its cost, where the price is known.
        cost: Option<MicroUsd>,
        /// From sending to the end, in milliseconds.
        duration_ms: u64,
    },
    /// A model call failed.
    StepFailed {
        /// What kind of failure.
        class: FailureClass,
    },
    /// A call has its result.
    CallFinished {
        /// The tool, as the model named it: it may be one that does not exist.
        tool: ToolName,
        /// How it came to its result.
        outcome: Outcome,
        /// Whether that is an error.
        error: bool,
        /// From dispatch to the tool's answer, in milliseconds; 0 where the tool gave none.
        duration_ms: u64,
    },
    /// An append came back.
    Appended {
        /// How long it took, in milliseconds.
        took_ms: u64,
        /// Whether it was written.
        written: bool,
    },
}
