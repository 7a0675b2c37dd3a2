//! The words of events about a call: the verdict on it, how it came to its result, and why a run's calls end with it.
//!
//! Part of what is serialised for ever; nothing here decides.

use serde::{Deserialize, Serialize};

/// The gate's verdict on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// A person decides.
    Ask,
    /// It may not run.
    Deny,
}

/// How a call came to its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The tool answered.
    #[default]
    Returned,
    /// It was never dispatched: unknown tool, bad arguments, or too many calls.
    Refused,
    /// What carries its tool out was not there: a server that is away, for example. Nothing was done. (LM-B4)
    Unavailable,
    /// The gate or a person denied it.
    Denied,
    /// The run ended before it was dispatched, or it was stopped and changes nothing.
    Cancelled,
    /// It was dispatched, and its outcome is unknown.
    InDoubt,
    /// A person told its result.
    Told,
    /// Its outcome was lost, and a read found it.
    Reconciled,
}

impl Outcome {
    pub(super) fn is_returned(&self) -> bool {
        *self == Self::Returned
    }
}

/// What may be done again of what is left of a call that was put off, when its outcome is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rest {
    /// What its effect class says of the whole of it.
    #[default]
    AsTheCall,
    /// It only looks after what has begun elsewhere: it is repeated, whatever the class.
    Repeatable,
}

impl Rest {
    pub(super) fn is_as_the_call(&self) -> bool {
        *self == Self::AsTheCall
    }
}

/// Why a run is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// A person or program asked for it.
    Requested,
    /// Another message takes its place.
    Replaced,
    /// Another message takes its place, and its own messages leave the prompt.
    RolledBack,
    /// Its time is up.
    RunTimeout,
    /// Another limit of it was reached, and nobody raises it.
    Limit,
}
