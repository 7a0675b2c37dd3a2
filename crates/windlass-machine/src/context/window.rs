//! The plain window: which messages are still sent. (SK-C13)
//!
//! The start of the window is a recorded fact. When more than N messages would be sent it moves once,
//! so that N/2 are left, and prompt caches hit in between. It never separates a call from its result
//! and never drops the newest message.

use crate::message::Role;
use crate::state::History;

/// What the next request will hold beyond the history as it stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Added {
    /// Messages that the same batch adds.
    pub messages: u64,
}

/// Where the window starts after moving; `None` where it stays.
///
/// `limit` is N, 0 for no window; `system` says whether a system message counts against it.
pub fn moved(history: &History, added: Added, system: bool, limit: u32) -> Option<u64> {
    let limit = u64::from(limit);
    let end = history.end() + added.messages;
    let sent = (end - history.start) + u64::from(history.first_is_outside()) + u64::from(system);
    if limit == 0 || sent <= limit {
        return None;
    }
    // The first user message and the system message are always sent.
    let keep = (limit / 2).saturating_sub(1 + u64::from(system)).max(1);
    aligned(history, end.saturating_sub(keep), added)
}

/// Where the window starts when it must shrink at once because the prompt did not fit; `None` where it cannot.
pub fn shrunk(history: &History) -> Option<u64> {
    let keep = (history.messages.len() as u64 / 2).max(1);
    aligned(history, history.end().saturating_sub(keep), Added::default())
}

/// Moves a wanted start so that no result stands without its call; `None` where that leaves it in place.
fn aligned(history: &History, wanted: u64, added: Added) -> Option<u64> {
    let last = history.messages.len().checked_sub(1)?;
    let role = |index: usize| history.messages.get(index).map(|message| message.role);
    // The newest group that must stay: the last message, with its calls where it holds results, or where the
    // results are about to be added.
    let mut newest = last;
    while newest > 0 && role(newest) == Some(Role::Tool) {
        newest -= 1;
    }
    if added.messages > 0 && role(last) == Some(Role::Assistant) {
        newest = last;
    }
    let mut index = usize::try_from(wanted.saturating_sub(history.start)).unwrap_or(usize::MAX).min(newest);
    while index < newest && role(index) == Some(Role::Tool) {
        index += 1;
    }
    (index > 0).then_some(history.start + index as u64)
}
