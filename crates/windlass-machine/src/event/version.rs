//! An event and its versioned encoding. Decoding converts older versions.
//!
//! No other code handles older versions.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Fact;
use crate::id::{RunId, Timestamp};

/// A recorded fact with its time and run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Thread time of the decision; never earlier than the previous event.
    pub at: Timestamp,
    /// Wall clock at the append, if it was behind `at`: thread time does not follow a wall clock that is set back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Timestamp>,
    /// The run that the event belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The recorded fact.
    #[serde(flatten)]
    pub fact: Fact,
}

/// The version that this code writes.
pub const VERSION: u32 = 1;

/// An event that this code cannot decode.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableEvent {
    /// A newer Windlass wrote it.
    #[error("the event has version {found}, and this build reads versions up to {VERSION}; upgrade windlass")]
    Newer {
        /// Version of the event.
        found: u32,
    },
    /// The text is not a valid event.
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
    /// Encodes the event for the journal: one line of JSON with its version.
    pub fn encode(&self) -> String {
        // An event contains only strings, numbers and JSON values, which always serialise.
        serde_json::to_string(&Versioned { v: VERSION, event: self }).expect("an event is always JSON")
    }

    /// Decodes the output of [`Event::encode`], of this version or an older version. The decoder rejects deeply
    /// nested JSON, so external JSON is checked before it becomes part of an event ([`crate::check_json`]).
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

/// Converts an older event to [`VERSION`], one version at a time.
/// Version 1 is the first, so no event needs a conversion yet.
pub fn upcast(_version: u32, _event: &mut Value) {}
