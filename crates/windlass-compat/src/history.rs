//! The conversation that a client had before its session began on this server.
//!
//! The conversation is sent with the first message. It has the same authority as the user's
//! text, for every role that a line names.

use serde::Deserialize;
use windlass::EngineError;
use windlass::machine::{Input, ThreadId};
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;

/// A message of the earlier conversation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Line {
    pub role: String,
    pub content: String,
}

/// Formats the newest lines as text for the agent.
pub fn told(lines: &[Line], newest: usize) -> Option<String> {
    let lines = &lines[lines.len().saturating_sub(newest)..];
    let told: String = lines.iter().map(|line| format!("\n[{}] {}", line.role, line.content)).collect();
    (!told.is_empty()).then(|| format!("\n\nEarlier messages of this conversation:{told}"))
}

/// Titles a session by its first message, without the earlier conversation.
pub async fn title(
    app: &Shared,
    caller: &Caller,
    thread: &ThreadId,
    message: &str,
) -> Result<(), EngineError> {
    let title = windlass_server::text::first_line(message, TITLE_CHARS);
    app.engine.thread(thread).send(Input::Title { title, by: caller.user().clone() }).await.map(drop)
}

/// Maximum length of a title in characters: the engine's limit.
const TITLE_CHARS: usize = 59;

#[cfg(test)]
mod tests {
    use super::*;

    // rows: ZE-E7, WT-L3
    #[test]
    fn the_newest_lines_are_included() {
        let line = |number: usize| Line { role: "user".into(), content: number.to_string() };
        let lines: Vec<Line> = (0..40).map(line).collect();
        let told = told(&lines, 2).unwrap();
        assert_eq!(told, "\n\nEarlier messages of this conversation:\n[user] 38\n[user] 39");
        assert_eq!(super::told(&[], 2), None);
    }
}
