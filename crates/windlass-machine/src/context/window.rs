//! The plain window: which messages are still sent. (SK-C13)
//!
//! The start of the window is a recorded fact. When more than N messages would be sent it moves once,
//! so that N/2 are left, and prompt caches hit in between. It never separates a call from its result
//! and never drops the newest message.

use crate::message::Role;
use crate::state::History;

/// The history as it will stand once the facts of a decision are folded in.
#[derive(Clone, Debug)]
pub struct Ahead<'a> {
    history: &'a History,
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
        Self { history, kept: history.end(), added: Vec::new(), first_left: false }
    }

    /// A message joins.
    pub fn add(&mut self, role: Role) {
        self.added.push(role);
    }

    /// The messages from an index on leave.
    pub fn cut(&mut self, from: u64) {
        self.added.clear();
        self.first_left = self.history.first.as_ref().is_some_and(|(index, _)| *index >= from);
        self.kept = self.kept.min(from).max(self.history.start);
    }

    fn end(&self) -> u64 {
        self.kept + self.added.len() as u64
    }

    fn role(&self, index: u64) -> Option<Role> {
        if index < self.kept {
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
    let first = ahead.history.first_outside().is_some() && !ahead.first_left;
    let sent = (end - ahead.history.start) + u64::from(first) + u64::from(system);
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
    let start = ahead.history.start;
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
