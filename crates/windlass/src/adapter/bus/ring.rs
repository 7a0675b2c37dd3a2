//! The fragments of one running generation, kept compactly for whoever comes later.
//!
//! Fragments are a few bytes each, and thousands of runs may stream while nobody watches: the text
//! lies in one string, and a fragment costs a byte or two beside it.

use std::sync::Arc;

use windlass_machine::{Attempt, Seq};

use crate::port::bus::Signal;
use crate::port::model::Delta;

/// Text that a ring holds at most; a follower who comes after more has streamed sees the newest part only.
const MAX_BYTES: usize = 256 * 1024;
/// Fragments that a ring holds at most, which bounds the bytes beside the text.
const MAX_FRAGMENTS: usize = 64 * 1024;
/// The text grows by at least this much, so that an idle ring wastes little.
const GROWTH_BYTES: usize = 2 * 1024;

/// One generation's fragments so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    generation: Option<(Seq, Attempt)>,
    /// Number of the newest fragment.
    newest: u64,
    /// How many are held, the newest ones.
    held: usize,
    /// Whether older ones are gone.
    overflowed: bool,
    text: String,
    /// Each fragment's length in bytes, as a base-128 number, low digits first.
    lengths: Vec<u8>,
    /// Where the kind changes: the held fragments before, and the kind from there on.
    kinds: Vec<(usize, Kind)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Text(u32),
    Reasoning(u32),
    Call(u32, Option<Arc<str>>),
}

/// What a fragment is to those who follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// The next one.
    Next,
    /// One that was there already: not to be shown again.
    Repeated,
    /// Some before it are missing.
    AfterGap,
}

impl Ring {
    /// Adds a fragment; one of another generation begins anew.
    pub fn push(&mut self, seq: Seq, attempt: Attempt, number: u64, delta: &Delta) -> Pushed {
        if self.generation != Some((seq, attempt)) {
            let generation = Some((seq, attempt));
            *self = Self { generation, ..Self::default() };
        }
        if number <= self.newest {
            return Pushed::Repeated;
        }
        let pushed = if number == self.newest + 1 { Pushed::Next } else { Pushed::AfterGap };
        let (kind, text) = parts(delta);
        let full = self.text.len() + text.len() > MAX_BYTES || self.held == MAX_FRAGMENTS;
        if full || pushed == Pushed::AfterGap {
            self.forget();
        }
        self.newest = number;
        if text.len() > MAX_BYTES {
            self.overflowed = true;
            return pushed;
        }
        if self.kinds.last().is_none_or(|(_, last)| *last != kind) {
            self.kinds.push((self.held, kind));
        }
        if self.text.capacity() - self.text.len() < text.len() {
            // A quarter more each time, not twice as much: most of what is held is text.
            self.text.reserve_exact(text.len().max(GROWTH_BYTES).max(self.text.len() / 4));
        }
        self.text.push_str(text);
        push_length(&mut self.lengths, text.len());
        self.held += 1;
        pushed
    }

    /// Drops what is held: the ring is full, or what came before is missing.
    fn forget(&mut self) {
        self.text.clear();
        self.lengths.clear();
        self.kinds.clear();
        self.held = 0;
        self.overflowed = true;
    }

    /// Shows what is held, as signals; first that some are gone, where they are.
    pub fn replay(self) -> impl Iterator<Item = Signal> + Send {
        let lagged = self.overflowed.then_some(Signal::Lagged);
        lagged.into_iter().chain(Replay { ring: self, fragment: 0, text_at: 0, length_at: 0, kind_at: 0 })
    }

    /// Bytes that the ring occupies, and bytes of text among them.
    #[cfg(test)]
    fn cost(&self) -> (usize, usize) {
        let kinds = self.kinds.capacity() * size_of::<(usize, Kind)>();
        let all = size_of::<Self>() + self.text.capacity() + self.lengths.capacity() + kinds;
        (all, self.text.len())
    }
}

struct Replay {
    ring: Ring,
    fragment: usize,
    text_at: usize,
    length_at: usize,
    kind_at: usize,
}

impl Iterator for Replay {
    type Item = Signal;

    fn next(&mut self) -> Option<Signal> {
        let (seq, attempt) = self.ring.generation?;
        if self.fragment == self.ring.held {
            return None;
        }
        while self.ring.kinds.get(self.kind_at + 1).is_some_and(|(from, _)| *from <= self.fragment) {
            self.kind_at += 1;
        }
        let (_, kind) = self.ring.kinds.get(self.kind_at)?;
        let length = read_length(&self.ring.lengths, &mut self.length_at);
        let text: Arc<str> = self.ring.text.get(self.text_at..self.text_at + length)?.into();
        self.text_at += length;
        self.fragment += 1;
        let number = self.ring.newest - (self.ring.held - self.fragment) as u64;
        let delta = match kind {
            Kind::Text(part) => Delta::Text { part: *part, text },
            Kind::Reasoning(part) => Delta::Reasoning { part: *part, text },
            Kind::Call(part, name) => Delta::Call { part: *part, name: name.clone(), arguments: text },
        };
        Some(Signal::Delta { seq, number, attempt, delta })
    }
}

fn parts(delta: &Delta) -> (Kind, &str) {
    match delta {
        Delta::Text { part, text } => (Kind::Text(*part), text),
        Delta::Reasoning { part, text } => (Kind::Reasoning(*part), text),
        Delta::Call { part, name, arguments } => (Kind::Call(*part, name.clone()), arguments),
    }
}

fn push_length(lengths: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        lengths.push(length as u8 | 0x80);
        length >>= 7;
    }
    lengths.push(length as u8);
}

fn read_length(lengths: &[u8], at: &mut usize) -> usize {
    let (mut length, mut shift) = (0, 0);
    while let Some(byte) = lengths.get(*at) {
        *at += 1;
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Delta {
        Delta::Text { part: 0, text: text.into() }
    }

    fn attempt(attempt: u32) -> Attempt {
        Attempt { step: 1, attempt }
    }

    #[test]
    fn every_fragment_comes_back_as_it_was() {
        let call = |name: Option<&str>, arguments: &str| Delta::Call {
            part: 2,
            name: name.map(Into::into),
            arguments: arguments.into(),
        };
        let deltas = [
            Delta::Reasoning { part: 0, text: "hm, ".into() },
            Delta::Text { part: 1, text: "Grüße".into() },
            Delta::Text { part: 1, text: "".into() },
            Delta::Text { part: 1, text: "x".repeat(100_000).into() },
            call(Some("read"), ""),
            call(None, "{\"a\""),
        ];
        let mut ring = Ring::default();
        let mut wanted = Vec::new();
        for (number, delta) in (1..).zip(deltas) {
            assert_eq!(ring.push(Seq(7), attempt(1), number, &delta), Pushed::Next);
            wanted.push(Signal::Delta { seq: Seq(7), number, attempt: attempt(1), delta });
        }
        assert_eq!(ring.clone().replay().collect::<Vec<_>>(), wanted);
        assert_eq!(ring.push(Seq(7), attempt(1), 3, &text("again")), Pushed::Repeated);
        assert_eq!(ring.replay().count(), 6);
    }

    #[test]
    fn the_next_generation_begins_anew() {
        let mut ring = Ring::default();
        ring.push(Seq(7), attempt(1), 1, &text("lost"));
        ring.push(Seq(9), attempt(2), 1, &text("kept"));
        let replayed: Vec<_> = ring.replay().collect();
        let wanted = Signal::Delta { seq: Seq(9), number: 1, attempt: attempt(2), delta: text("kept") };
        assert_eq!(replayed, [wanted]);
    }

    #[test]
    fn an_overflow_or_a_gap_is_told_first() {
        let mut full = Ring::default();
        let large = "x".repeat(100_000);
        for number in 1..=3 {
            full.push(Seq(1), attempt(1), number, &text(&large));
        }
        let replayed: Vec<_> = full.replay().collect();
        assert!(matches!(replayed[..], [Signal::Lagged, Signal::Delta { number: 3, .. }]));

        let mut torn = Ring::default();
        torn.push(Seq(1), attempt(1), 1, &text("a"));
        assert_eq!(torn.push(Seq(1), attempt(1), 5, &text("e")), Pushed::AfterGap);
        let replayed: Vec<_> = torn.replay().collect();
        assert!(matches!(replayed[..], [Signal::Lagged, Signal::Delta { number: 5, .. }]));
    }

    #[test]
    fn a_fragment_costs_a_byte_or_two_beside_its_text() {
        let mut ring = Ring::default();
        for number in 1..=4000 {
            ring.push(Seq(1), attempt(1), number, &text("word "));
        }
        let (all, text) = ring.cost();
        assert!(all - text < 10 * 1024, "{} bytes beside {text} bytes of text", all - text);
    }
}
