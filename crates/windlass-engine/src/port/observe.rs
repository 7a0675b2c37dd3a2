//! The observer port: measurements for the host program, reported after they are durable.
//!
//! Measurements contain numbers and enumerated values, never texts,
//! arguments or results. The driver does not wait for an observer.

use windlass_machine::{FailureClass, MicroUsd, ModelName, Outcome, RunStatus, ToolName, Usage};

/// Receives measurements.
pub trait Observer: Send + Sync {
    /// Reports a measurement. The driver calls this method on its own task, so it must not block.
    fn observe(&self, measure: &Measure);
}

/// A measurement of the engine.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Measure {
    /// A run began.
    RunStarted,
    /// A run ended.
    RunFinished {
        /// Final status of the run.
        status: RunStatus,
        /// Milliseconds from start to end.
        duration_ms: u64,
    },
    /// A model replied: one step succeeded.
    StepReplied {
        /// Name of the model, `provider/model`.
        model: ModelName,
        /// Token counts, as reported by the provider.
        usage: Usage,
        /// Cost; `None` if the price is unknown.
        cost: Option<MicroUsd>,
        /// Milliseconds from the request to the end of the reply.
        duration_ms: u64,
    },
    /// A model call failed.
    StepFailed {
        /// Kind of failure.
        class: FailureClass,
    },
    /// A tool call has its result.
    CallFinished {
        /// Name of the tool from the model's reply; a tool of this name may not exist.
        tool: ToolName,
        /// How the call got its result.
        outcome: Outcome,
        /// Whether the result is an error.
        error: bool,
        /// Milliseconds from dispatch to the tool's answer; 0 if the tool gave none.
        duration_ms: u64,
    },
    /// An append finished.
    Appended {
        /// Duration in milliseconds.
        took_ms: u64,
        /// Whether the batch was written.
        written: bool,
    },
}
