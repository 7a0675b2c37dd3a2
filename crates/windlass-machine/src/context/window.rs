//! The window: the messages of the history that are sent to the model. (SK-C13)
//!
//! The start of the window is a recorded fact. If more than N messages would be sent, the start moves once such that
//! N/2 remain. Prompt caches stay valid between two moves. A move never separates a call from its result and never
//! drops the newest message.

use crate::message::Role;
use crate::state::History;

/// Returns the new start of the window; `None` if it does not move.
///
/// `nudges` are messages that the step itself adds; `limit` is N, 0 for no window; `system` is whether a system
/// message counts towards the limit.
pub fn moved(history: &History, nudges: u64, system: bool, limit: u32) -> Option<u64> {
    let limit = u64::from(limit);
    let end = history.end() + nudges;
    let has_first_outside = history.first_outside().is_some();
    let sent = (end - history.start) + u64::from(has_first_outside) + u64::from(system);
    if limit == 0 || sent <= limit {
        return None;
    }
    // The first user message and the system message are always sent.
    let keep = (limit / 2).saturating_sub(1 + u64::from(system)).max(1);
    aligned(history, end.saturating_sub(keep))
}

/// Returns the new start of the window if it must shrink because the prompt was too long; `None` if it cannot.
pub fn shrunk(history: &History) -> Option<u64> {
    let keep = (history.messages.len() as u64 / 2).max(1);
    aligned(history, history.end().saturating_sub(keep))
}

/// Moves a start such that no result is sent without its call; `None` if it does not move.
fn aligned(history: &History, wanted: u64) -> Option<u64> {
    let start = history.start;
    let holds_results = |index: u64| {
        let place = usize::try_from(index - start).ok();
        let message = place.and_then(|place| history.messages.get(place));
        message.is_some_and(|message| message.role == Role::Tool)
    };
    // The newest group must stay: the last message, with its calls if it contains results.
    let mut newest = history.end().checked_sub(1)?;
    while newest > start && holds_results(newest) {
        newest -= 1;
    }
    let mut index = wanted.max(start).min(newest);
    while index < newest && holds_results(index) {
        index += 1;
    }
    (index > start).then_some(index)
}
