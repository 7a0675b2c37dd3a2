//! An event, and events as text, with their version: an older one is lifted when it is read.
//!
//! Nothing else knows that it was old.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Fact;
use crate::id::{RunId, Timestamp};

/// A recorded fact with its time and place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it was decided; never earlier than the event before it.
    pub at: Timestamp,
    /// The wall clock at the append, if it was behind `at`: the thread's time does not follow a clock that is set back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Timestamp>,
    /// The run that it belongs to, where it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// What happened.
    #[serde(flatten)]
    pub fact: Fact,
}

/// The version that this code writes.
pub const VERSION: u32 = 1;

/// An event that this code cannot read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableEvent {
    /// A newer Windlass wrote it.
    #[error("the event has version {found}, and this build reads versions up to {VERSION}; upgrade windlass")]
    Newer {
        /// The event's version.
        found: u32,
    },
    /// The text is not an event.
    #[error("the event is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
}

/// The version of a line without `v`.
const FIRST: u32 = 1;

#[derive(Serialize)]
struct Versioned<'a> {
    #[serde(skip_serializing_if = "is_first")]
    v: u32,
    #[serde(flatten)]
    event: &'a Event,
}

fn is_first(version: &u32) -> bool {
    *version == FIRST
}

impl Event {
    /// The event as the journal keeps it: one line of JSON with its version.
    pub fn encode(&self) -> String {
        // An event holds only strings, numbers and JSON values: nothing that the serialiser refuses.
        serde_json::to_string(&Versioned { v: VERSION, event: self }).expect("an event is always JSON")
    }

    /// Reads what [`Event::encode`] wrote, in this version or an older one. JSON from outside is bounded in depth before it
    /// becomes part of an event ([`crate::check_json`]), because the decoder rejects what nests too deeply.
    pub fn decode(line: &str) -> Result<Self, UnreadableEvent> {
        let mut value: Value = serde_json::from_str(line)?;
        let found = value.get("v").and_then(Value::as_u64).unwrap_or(u64::from(FIRST));
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        if found > VERSION {
            return Err(UnreadableEvent::Newer { found });
        }
        upcast(found, &mut value);
        Ok(serde_json::from_value(value)?)
    }
}

/// Lifts an older event to [`VERSION`], one version at a time. Version 1 is the first: nothing to lift yet.
pub fn upcast(_version: u32, _event: &mut Value) {}
