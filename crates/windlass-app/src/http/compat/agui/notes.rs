//! What clients call runs, as notes in the journal: they go wherever the thread goes, and with it.

use serde_json::{Value, json};
use windlass::machine::{Input, RunId};

/// The name of the notes.
const NAME: &str = "agui.run";

/// A note: a client calls a run so.
pub fn note(outward: &str, run: &RunId) -> Input {
    Input::Note { name: NAME.into(), data: json!({"outward": outward, "run": run.as_str()}) }
}

/// Reads a note of ours.
pub fn read(name: &str, data: &Value) -> Option<(String, RunId)> {
    let text = |member: &str| data[member].as_str().filter(|_| name == NAME);
    Some((text("outward")?.to_owned(), RunId::from(text("run")?)))
}
