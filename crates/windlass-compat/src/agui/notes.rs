//! Notes in the journal that hold the run ids chosen by clients. Each note is recorded in the append that takes the
//! client's message or answers, so that a crash cannot lose it.

use serde_json::{Value, json};
use windlass::machine::{InputId, Note, RunId};

const NAME: &str = "agui.run";

/// The target of a client's run id.
#[derive(Clone, Debug, PartialEq)]
pub enum Named {
    /// The run that this message starts.
    Message(InputId),
    /// An existing run.
    Run(RunId),
}

/// Creates a note with the client's id of the run that `message` starts.
pub fn of_message(outward: &str, message: &InputId) -> Note {
    Note { name: NAME.into(), data: json!({"outward": outward, "message": message.as_str()}) }
}

/// Creates a note with the client's id of an existing run.
pub fn of_run(outward: &str, run: &RunId) -> Note {
    Note { name: NAME.into(), data: json!({"outward": outward, "run": run.as_str()}) }
}

/// Parses a note. Returns `None` if another program wrote it.
pub fn read(name: &str, data: &Value) -> Option<(String, Named)> {
    let text = |member: &str| data[member].as_str().filter(|_| name == NAME);
    let named = match text("message") {
        Some(message) => Named::Message(InputId::from(message)),
        None => Named::Run(RunId::from(text("run")?)),
    };
    Some((text("outward")?.to_owned(), named))
}
