//! Types of events about a call: its verdict, how it got its result, and why a run was cancelled.
//!
//! The types are part of the permanent journal format. This module makes no decisions.

use serde::{Deserialize, Serialize};

/// The gate's verdict on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call may run.
    Allow,
    /// A person decides.
    Ask,
    /// The call may not run.
    Deny,
}

/// How a call got its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The tool returned.
    #[default]
    Returned,
    /// Never dispatched: unknown tool, invalid arguments, or too many calls.
    Refused,
    /// The tool's backend was unavailable, so the call had no effect. (LM-B4)
    Unavailable,
    /// Denied by the gate or a person.
    Denied,
    /// The run ended before the dispatch, or the call was stopped and has no effects.
    Cancelled,
    /// Dispatched, with unknown outcome.
    InDoubt,
    /// A person provided the result.
    Told,
    /// The outcome was lost, and a read revealed it.
    Reconciled,
}

impl Outcome {
    pub(super) fn is_returned(&self) -> bool {
        *self == Self::Returned
    }
}

/// Determines whether the rest of a deferred call may be repeated if its outcome is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rest {
    /// The call's effect class decides.
    #[default]
    AsTheCall,
    /// The rest only polls work that was started elsewhere: repeat it, for every effect class.
    Repeatable,
}

impl Rest {
    pub(super) fn is_as_the_call(&self) -> bool {
        *self == Self::AsTheCall
    }
}

/// The reason why a run was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// A person or program requested it.
    Requested,
    /// Another message replaced the run.
    Replaced,
    /// Another message replaced the run, and the run's messages are no longer sent to the model.
    RolledBack,
    /// The run's time limit was reached.
    RunTimeout,
    /// Another limit was reached and not raised.
    Limit,
}
