//! Makes the call ids of one request unique.
//!
//! If an earlier reply has used an id, the id gets a counter, so that each result refers to one call. The
//! wire decides which ids an endpoint accepts.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

/// The ids of one request.
#[derive(Default)]
pub(crate) struct CallIds<'a> {
    taken: HashSet<Cow<'a, str>>,
    /// The last counter assigned to a repeated id.
    counters: HashMap<Cow<'a, str>, u32>,
    /// The sent ids of each recorded id in the newest assistant message, in the order of its calls.
    newest: HashMap<&'a str, VecDeque<Cow<'a, str>>>,
}

impl<'a> CallIds<'a> {
    /// Begins an assistant message. Results after it answer only its calls.
    pub(crate) fn begin_message(&mut self) {
        self.newest.clear();
    }

    /// Returns the id to send for a call that is recorded with `id`. `wanted` is
    /// that id in a form that the endpoint accepts.
    pub(crate) fn call(&mut self, id: &'a str, wanted: Cow<'a, str>) -> Cow<'a, str> {
        let mut free = wanted.clone();
        while self.taken.contains(&free) {
            let counter = self.counters.entry(wanted.clone()).or_default();
            *counter += 1;
            free = Cow::Owned(with_counter(&wanted, *counter));
        }
        self.taken.insert(free.clone());
        self.newest.entry(id).or_default().push_back(free.clone());
        free
    }

    /// Returns the sent id of the call that a result answers: the next one
    /// with this recorded id in the newest message.
    pub(crate) fn result(&mut self, id: &'a str) -> Cow<'a, str> {
        match self.newest.get_mut(id) {
            Some(ids) if ids.len() > 1 => ids.pop_front().unwrap_or(Cow::Borrowed(id)),
            Some(ids) => ids.front().cloned().unwrap_or(Cow::Borrowed(id)),
            None => Cow::Borrowed(id),
        }
    }
}

/// Replaces the id's last characters by a number in base 36. The new id has
/// the same length and is valid on every wire.
fn with_counter(id: &str, attempt: u32) -> String {
    let mut digits = Vec::new();
    let mut rest = attempt;
    while rest > 0 {
        digits.extend(char::from_digit(rest % 36, 36));
        rest /= 36;
    }
    let kept = id.chars().count().saturating_sub(digits.len());
    id.chars().take(kept).chain(digits.into_iter().rev()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_ids_get_a_counter() {
        let mut ids = CallIds::default();
        ids.begin_message();
        assert_eq!(
            [ids.call("call_0", "call_0".into()), ids.call("call_0", "call_0".into())],
            ["call_0", "call_1"]
        );
        assert_eq!([ids.result("call_0"), ids.result("call_0")], ["call_0", "call_1"]);
        ids.begin_message();
        assert_eq!(ids.call("call_0", "call_0".into()), "call_2");
        assert_eq!(ids.result("call_0"), "call_2");
        assert_eq!(ids.result("other"), "other");
    }
}
