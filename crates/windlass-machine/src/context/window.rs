//! The plain window: which messages are still sent. (SK-C13)
//!
//! The start of the window is a recorded fact. When more than N messages would be sent it moves once,
//! so that N/2 are left, and prompt caches hit in between. It never separates a call from its result
//! and never drops the newest message.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::message::{Message, Role};
use crate::state::History;

/// The history as it will stand once the facts of a decision are folded in.
#[derive(Clone, Debug)]
pub struct Ahead<'a> {
    history: &'a History,
    /// Index of the first message that is sent.
    start: u64,
    /// Messages from `start` on that had left the window.
    back: Vec<Role>,
    /// Index after the last message that stays.
    kept: u64,
    /// Who speaks in the messages that follow.
    added: Vec<Role>,
    /// Whether the first message of a user is among those that left.
    first_left: bool,
}

impl<'a> Ahead<'a> {
    /// The history as it stands.
    pub fn of(history: &'a History) -> Self {
        let (start, kept) = (history.start, history.end());
        Self { history, start, back: Vec::new(), kept, added: Vec::new(), first_left: false }
    }

    /// A message joins.
    pub fn add(&mut self, role: Role) {
        self.added.push(role);
    }

    /// The messages from an index on leave, and those before it that had left the window stand in it again.
    pub fn cut(&mut self, from: u64, dropped: &VecDeque<Arc<Message>>) {
        self.added.clear();
        self.first_left = self.history.first.as_ref().is_some_and(|(index, _)| *index >= from);
        self.kept = self.kept.min(from);
        self.back = dropped.iter().map(|message| message.role).collect();
        self.start = self.history.start.min(from).saturating_sub(dropped.len() as u64);
    }

    /// Whether the first message of a user is sent although it stands before the window.
    fn has_first_outside(&self) -> bool {
        let is_outside = self.history.first.as_ref().is_some_and(|(index, _)| *index < self.start);
        is_outside && !self.first_left
    }

    fn end(&self) -> u64 {
        self.kept + self.added.len() as u64
    }

    fn role(&self, index: u64) -> Option<Role> {
        if index < self.kept {
            let place = usize::try_from(index.checked_sub(self.start)?).ok()?;
            if let Some(role) = self.back.get(place) {
                return Some(*role);
            }
            let place = usize::try_from(index.checked_sub(self.history.start)?).ok()?;
            return self.history.messages.get(place).map(|message| message.role);
        }
        self.added.get(usize::try_from(index - self.kept).ok()?).copied()
    }
}

/// Where the window starts after moving; `None` where it stays.
///
/// `nudges` are messages that the step itself adds; `limit` is N, 0 for no window; `system` says whether a system
/// message counts against it.
pub fn moved(ahead: &Ahead<'_>, nudges: u64, system: bool, limit: u32) -> Option<u64> {
    let limit = u64::from(limit);
    let end = ahead.end() + nudges;
    let sent = (end - ahead.start) + u64::from(ahead.has_first_outside()) + u64::from(system);
    if limit == 0 || sent <= limit {
        return None;
    }
    // The first user message and the system message are always sent.
    let keep = (limit / 2).saturating_sub(1 + u64::from(system)).max(1);
    aligned(ahead, end.saturating_sub(keep))
}

/// Where the window starts when it must shrink at once because the prompt did not fit; `None` where it cannot.
pub fn shrunk(history: &History) -> Option<u64> {
    let keep = (history.messages.len() as u64 / 2).max(1);
    aligned(&Ahead::of(history), history.end().saturating_sub(keep))
}

/// Moves a wanted start so that no result stands without its call; `None` where that leaves it in place.
fn aligned(ahead: &Ahead<'_>, wanted: u64) -> Option<u64> {
    let start = ahead.start;
    // The newest group must stay: the last message, with its calls where it holds results.
    let mut newest = ahead.end().checked_sub(1)?;
    while newest > start && ahead.role(newest) == Some(Role::Tool) {
        newest -= 1;
    }
    let mut index = wanted.max(start).min(newest);
    while index < newest && ahead.role(index) == Some(Role::Tool) {
        index += 1;
    }
    (index > start).then_some(index)
}
