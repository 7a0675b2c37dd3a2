//! What a tool of the tales remembers from one start to the next.

use windlass_machine::*;

/// What a tool wants back: how often it has asked, and how often it has put its call off.
#[derive(Clone, Copy, Default)]
pub struct Wants {
    pub asked: u64,
    pub deferred: u64,
}

impl Wants {
    pub fn of(reply: Option<&Replied>, resumed: Option<&Resumed>) -> Self {
        let state = match (reply, resumed) {
            (Some(Replied { state, .. }), _) | (None, Some(Resumed { state, .. })) => state.as_ref(),
            (None, None) => None,
        };
        let state = state.and_then(Content::inline).and_then(|state| state.split_once('.'));
        match state {
            Some((asked, deferred)) => {
                Self { asked: asked.parse().unwrap(), deferred: deferred.parse().unwrap() }
            }
            // It was asked at once what the call is for.
            None => Self { asked: u64::from(reply.is_some()), deferred: 0 },
        }
    }

    pub fn state(self) -> Content {
        format!("{}.{}", self.asked, self.deferred).into()
    }
}
