//! Call ids as a chat endpoint receives them.
//!
//! An id goes out as its provider gave it. Ids from elsewhere are fitted to the endpoint's rules, and an id that an
//! earlier reply of the history used gets a counter, so that each result names one call.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::chat::dialect::Dialect;

/// Longest id that OpenAI accepts.
const ID_MAX_CHARS: usize = 40;

/// The ids of one request.
#[derive(Default)]
pub(crate) struct CallIds<'a> {
    taken: HashSet<Cow<'a, str>>,
    /// The last counter that a repeated id got.
    counters: HashMap<Cow<'a, str>, u32>,
    /// The ids of the newest assistant message: what each recorded id became, in the order of its calls.
    newest: HashMap<&'a str, VecDeque<Cow<'a, str>>>,
}

impl<'a> CallIds<'a> {
    /// Begins an assistant message: the results after it answer its calls alone.
    pub(crate) fn begin_message(&mut self) {
        self.newest.clear();
    }

    /// The id of a call. `own` says that the endpoint itself gave it, or might have.
    pub(crate) fn call(&mut self, id: &'a str, own: bool, dialect: &Dialect) -> Cow<'a, str> {
        let wanted = fitted(id, own, dialect);
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

    /// The id of the call that a result answers: the next one of the newest message with this recorded id.
    pub(crate) fn result(&mut self, id: &'a str) -> Cow<'a, str> {
        match self.newest.get_mut(id) {
            Some(ids) if ids.len() > 1 => ids.pop_front().unwrap_or(Cow::Borrowed(id)),
            Some(ids) => ids.front().cloned().unwrap_or(Cow::Borrowed(id)),
            None => Cow::Borrowed(id),
        }
    }
}

fn fitted<'a>(id: &'a str, own: bool, dialect: &Dialect) -> Cow<'a, str> {
    if dialect.nine_letter_ids {
        let fits = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        return if fits { Cow::Borrowed(id) } else { Cow::Owned(hash(id, 9)) };
    }
    if own {
        return Cow::Borrowed(id);
    }
    // The responses wire gives ids of two halves.
    let halves = id.split_once('|').map(|(call, item)| [call, item]);
    let joined = match halves {
        None => Cow::Borrowed(id),
        Some(halves) => {
            let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
            let parts = halves.iter().filter(|half| !half.is_empty());
            let parts: Vec<String> = parts.map(|half| half.chars().map(legal).collect()).collect();
            Cow::Owned(parts.join("_"))
        }
    };
    if joined.chars().count() <= ID_MAX_CHARS || halves.is_none() && !dialect.short_ids {
        return joined;
    }
    let kept: String = joined.chars().take(ID_MAX_CHARS - 9).collect();
    Cow::Owned(format!("{kept}_{}", hash(id, 8)))
}

fn hash(id: &str, length: usize) -> String {
    blake3::hash(id.as_bytes()).to_hex()[..length].to_owned()
}

/// The id with its last characters replaced by a number in base 36, which keeps its length and is legal everywhere.
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
    fn ids_fit_the_endpoint() {
        let long = "x".repeat(50);
        let check = |provider: &str, own: bool, id: &str, expected: &str| {
            let ids = &mut CallIds::default();
            assert_eq!(ids.call(id, own, &Dialect::of(provider, true)), expected, "{provider} {id}");
            assert_eq!(ids.result(id), expected);
        };
        check("", false, "call_1", "call_1");
        check("", true, "a|b", "a|b");
        check("", false, "call/1|fc:2", "call_1_fc_2");
        check("", false, &long, &long);
        check("openai-chat", false, &long, &format!("{}_{}", "x".repeat(31), hash(&long, 8)));
        check("openai-chat", true, &long, &long);
        check("mistral", true, "abcDEF123", "abcDEF123");
        check("mistral", true, "call_1", &hash("call_1", 9));
    }

    #[test]
    fn repeated_ids_get_a_counter() {
        let mut ids = CallIds::default();
        let dialect = Dialect::of("", true);
        ids.begin_message();
        assert_eq!(
            [ids.call("call_0", true, &dialect), ids.call("call_0", true, &dialect)],
            ["call_0", "call_1"]
        );
        assert_eq!([ids.result("call_0"), ids.result("call_0")], ["call_0", "call_1"]);
        ids.begin_message();
        assert_eq!(ids.call("call_0", true, &dialect), "call_2");
        assert_eq!(ids.result("call_0"), "call_2");
        assert_eq!(ids.result("other"), "other");
    }
}
