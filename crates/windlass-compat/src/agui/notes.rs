//! The ids that clients give to runs, as notes in the journal. Each is recorded in the append that takes the client's
//! message or answers, so that no crash loses one.

use serde_json::{Value, json};
use windlass::machine::{InputId, Note, RunId};

/// The name of the notes.
const NAME: &str = "agui.run";

/// What a client named.
#[derive(Clone, Debug, PartialEq)]
pub enum Named {
    /// The run that a message leads to.
    Message(InputId),
    /// A run.
    Run(RunId),
}

/// A client's id of the run that a message leads to.
pub fn of_message(outward: &str, message: &InputId) -> Note {
    Note { name: NAME.into(), data: json!({"outward": outward, "message": message.as_str()}) }
}

/// A client's id of a run.
pub fn of_run(outward: &str, run: &RunId) -> Note {
    Note { name: NAME.into(), data: json!({"outward": outward, "run": run.as_str()}) }
}

/// Reads a note; `None` if it is another program's.
pub fn read(name: &str, data: &Value) -> Option<(String, Named)> {
    let text = |member: &str| data[member].as_str().filter(|_| name == NAME);
    let named = match text("message") {
        Some(message) => Named::Message(InputId::from(message)),
        None => Named::Run(RunId::from(text("run")?)),
    };
    Some((text("outward")?.to_owned(), named))
}
