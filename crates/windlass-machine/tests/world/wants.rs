//! The state of a tool in the tales between two starts.

use windlass_machine::*;

/// Tool state: how often the tool has asked, and how often it has deferred its call.
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
            // The question of the call itself was asked before the first start.
            None => Self { asked: u64::from(reply.is_some()), deferred: 0 },
        }
    }

    pub fn state(self) -> Content {
        format!("{}.{}", self.asked, self.deferred).into()
    }
}
