//! The fragments of one running generation, stored compactly for later followers.
//!
//! The newest fragments are kept individually, so that a follower can resume exactly after a lost connection. Older
//! fragments are merged: the text of each block remains, without the boundaries. Thousands of runs may stream without
//! followers, so the ring stores the text in few strings with little overhead per fragment.

use std::sync::Arc;

use windlass_machine::{Attempt, Seq};

use crate::port::bus::Signal;
use crate::port::model::Delta;

/// Maximum size of a generation's text in bytes. The longest replies that models offer are 128,000 tokens, about 600
/// KiB; the limit is thirteen times that size. For a longer reply the ring keeps only the newest fragments, and never
/// presents a part of the reply as the whole reply.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of individual fragments. A very fast model
/// generates this number in ten seconds; the overhead is 8 KiB.
const MAX_FRAGMENTS: usize = 2 * 1024;
/// Maximum size of the individual fragments' text in bytes. It limits the copying when the fragments are merged.
const MAX_RECENT_BYTES: usize = 256 * 1024;
/// Overhead in bytes that is counted per block, so that the size is also limited for a reply of many empty blocks.
const BLOCK_BYTES: usize = 128;
/// Minimum growth of the text buffer in bytes. It is small, so that an idle ring wastes little memory.
const GROWTH_BYTES: usize = 2 * 1024;

/// The fragments of one generation.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    generation: Option<(Seq, Attempt)>,
    /// Number of the newest fragment.
    newest: u64,
    /// All fragments before the recent fragments, merged by block in order of appearance.
    merged: Merged,
    recent: Recent,
    /// The last snapshot, shared by all followers that were too slow.
    snapshot: Option<Arc<Signal>>,
}

/// Merged fragments, without their boundaries.
#[derive(Clone, Debug, Default)]
struct Merged {
    blocks: Vec<Block>,
    cost: usize,
    /// Whether fragments at the beginning are missing.
    is_torn: bool,
}

#[derive(Clone, Debug)]
struct Block {
    kind: Kind,
    text: String,
}

/// The newest fragments, with their boundaries.
#[derive(Clone, Debug, Default)]
struct Recent {
    text: String,
    /// End of each fragment in the text.
    ends: Vec<u32>,
    /// Changes of kind, each with the number of fragments before the change.
    kinds: Vec<(usize, Kind)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Text(u32),
    Reasoning(u32),
    Call(u32, Option<Arc<str>>),
}

/// Result of adding a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// The fragment is new.
    New,
    /// The fragment is a duplicate, or is part of an older generation: do not publish it.
    Old,
}

/// The ring's next output for a follower.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    /// The next fragment, or a snapshot of all fragments.
    Told(Arc<Signal>),
    /// The follower has everything in the ring.
    Nothing,
    /// The ring has neither the next fragment nor the whole reply.
    Missing,
}

impl Ring {
    /// Returns the start of the generation.
    pub fn seq(&self) -> Option<Seq> {
        self.generation.map(|(seq, _)| seq)
    }

    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Adds a fragment. A fragment of a newer generation clears the ring.
    pub fn push(&mut self, seq: Seq, attempt: Attempt, number: u64, delta: &Delta) -> Pushed {
        if !self.turn_to(seq, attempt) || number <= self.newest {
            return Pushed::Old;
        }
        if number > self.newest + 1 {
            self.merged.tear();
            self.recent = Recent::default();
        }
        self.newest = number;
        self.snapshot = None;
        self.recent.push(delta);
        if self.recent.ends.len() >= MAX_FRAGMENTS || self.recent.text.len() > MAX_RECENT_BYTES {
            self.recent.merge_half_into(&mut self.merged);
        }
        Pushed::New
    }

    /// Replaces the content with a snapshot if the snapshot is newer.
    pub fn replace(&mut self, seq: Seq, attempt: Attempt, number: u64, parts: &[Delta]) -> Pushed {
        if !self.turn_to(seq, attempt) || number <= self.newest {
            return Pushed::Old;
        }
        *self = Self { generation: Some((seq, attempt)), newest: number, ..Self::default() };
        for part in parts {
            let (kind, text) = parts_of(part);
            self.merged.add(&kind, text);
        }
        Pushed::New
    }

    /// Returns the fragment or snapshot that follows the first `told` fragments.
    pub fn after(&mut self, told: u64) -> Next {
        let Some((seq, attempt)) = self.generation else { return Next::Nothing };
        if told >= self.newest {
            return Next::Nothing;
        }
        let number = told + 1;
        let before = self.newest - self.recent.ends.len() as u64;
        if told >= before {
            let delta = self.recent.fragment((told - before) as usize);
            return Next::Told(Arc::new(Signal::Delta { seq, number, attempt, delta }));
        }
        self.whole_after(told)
    }

    /// Returns a snapshot of all fragments, for a follower that has received the first `told`.
    pub fn whole_after(&mut self, told: u64) -> Next {
        let Some((seq, attempt)) = self.generation else { return Next::Nothing };
        if told >= self.newest {
            return Next::Nothing;
        }
        if self.merged.is_torn {
            return Next::Missing;
        }
        let number = self.newest;
        let whole = || Signal::Snapshot { seq, number, attempt, parts: self.merged.with(&self.recent) };
        let snapshot = self.snapshot.take().unwrap_or_else(|| Arc::new(whole()));
        self.snapshot = Some(snapshot.clone());
        Next::Told(snapshot)
    }

    /// Clears the ring for a newer generation. Returns `false` for an older generation.
    fn turn_to(&mut self, seq: Seq, attempt: Attempt) -> bool {
        if self.generation.is_none_or(|(current, _)| current < seq) {
            *self = Self { generation: Some((seq, attempt)), ..Self::default() };
        }
        self.generation == Some((seq, attempt))
    }

    /// Returns the size of the ring in bytes, and the size of its text in bytes.
    #[cfg(test)]
    fn cost(&self) -> (usize, usize) {
        let kinds = self.recent.kinds.capacity() * size_of::<(usize, Kind)>();
        let blocks = self.merged.blocks.iter().map(|block| block.text.capacity() + size_of::<Block>());
        let recent = self.recent.text.capacity() + self.recent.ends.capacity() * size_of::<u32>() + kinds;
        let text: usize = self.merged.blocks.iter().map(|block| block.text.len()).sum();
        (size_of::<Self>() + blocks.sum::<usize>() + recent, text + self.recent.text.len())
    }
}

impl Merged {
    fn add(&mut self, kind: &Kind, text: &str) {
        if self.is_torn {
            return;
        }
        let block = match self.blocks.iter().rposition(|block| block.kind.is_same_block(kind)) {
            Some(at) => &mut self.blocks[at],
            None => {
                self.cost += BLOCK_BYTES;
                self.blocks.push(Block { kind: kind.clone(), text: String::new() });
                let at = self.blocks.len() - 1;
                &mut self.blocks[at]
            }
        };
        block.kind.learn_name(kind);
        grow(&mut block.text, text);
        self.cost += text.len();
        if self.cost > MAX_BYTES {
            self.tear();
        }
    }

    fn tear(&mut self) {
        *self = Self { is_torn: true, ..Self::default() };
    }

    /// Returns each block, including the recent fragments.
    fn with(&self, recent: &Recent) -> Arc<[Delta]> {
        let mut whole = self.clone();
        let mut recent = recent.clone();
        recent.merge_into(&mut whole, recent.ends.len());
        whole.blocks.into_iter().map(|block| block.kind.delta(block.text.into())).collect()
    }
}

impl Recent {
    fn push(&mut self, delta: &Delta) {
        let (kind, text) = parts_of(delta);
        if self.kinds.last().is_none_or(|(_, last)| *last != kind) {
            self.kinds.push((self.ends.len(), kind));
        }
        grow(&mut self.text, text);
        self.ends.push(self.text.len() as u32);
    }

    fn fragment(&self, index: usize) -> Delta {
        let from = self.start(index);
        let kind = self.kinds.partition_point(|(first, _)| *first <= index) - 1;
        self.kinds[kind].1.delta(self.text[from..self.ends[index] as usize].into())
    }

    /// Returns the start of a fragment in the text; for the index after the last fragment, the end of the text.
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }

    fn merge_half_into(&mut self, merged: &mut Merged) {
        self.merge_into(merged, self.ends.len().div_ceil(2));
    }

    /// Moves the first fragments to `merged`.
    fn merge_into(&mut self, merged: &mut Merged, count: usize) {
        for at in 0..self.kinds.len() {
            let (first, kind) = &self.kinds[at];
            let next = self.kinds.get(at + 1).map_or(count, |(next, _)| count.min(*next));
            if *first >= count {
                break;
            }
            merged.add(kind, &self.text[self.start(*first)..self.start(next)]);
        }
        let cut = self.start(count);
        let kind = self.kinds.partition_point(|(first, _)| *first <= count).saturating_sub(1);
        self.kinds.drain(..kind);
        self.kinds.iter_mut().for_each(|(first, _)| *first = first.saturating_sub(count));
        self.ends.drain(..count);
        self.ends.iter_mut().for_each(|end| *end -= cut as u32);
        self.text.drain(..cut);
    }
}

impl Kind {
    fn delta(&self, text: Arc<str>) -> Delta {
        match self {
            Self::Text(part) => Delta::Text { part: *part, text },
            Self::Reasoning(part) => Delta::Reasoning { part: *part, text },
            Self::Call(part, name) => Delta::Call { part: *part, name: name.clone(), arguments: text },
        }
    }

    fn is_same_block(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(one), Self::Text(two))
            | (Self::Reasoning(one), Self::Reasoning(two))
            | (Self::Call(one, _), Self::Call(two, _)) => one == two,
            (Self::Text(_) | Self::Reasoning(_) | Self::Call(..), _) => false,
        }
    }

    fn learn_name(&mut self, other: &Self) {
        if let (Self::Call(_, known @ None), Self::Call(_, name)) = (self, other) {
            known.clone_from(name);
        }
    }
}

fn parts_of(delta: &Delta) -> (Kind, &str) {
    match delta {
        Delta::Text { part, text } => (Kind::Text(*part), text),
        Delta::Reasoning { part, text } => (Kind::Reasoning(*part), text),
        Delta::Call { part, name, arguments } => (Kind::Call(*part, name.clone()), arguments),
    }
}

/// Grows the buffer by a quarter instead of doubling it, because most of the memory is text.
fn grow(held: &mut String, text: &str) {
    if held.capacity() - held.len() < text.len() {
        held.reserve_exact(text.len().max(GROWTH_BYTES).max(held.len() / 4));
    }
    held.push_str(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTEMPT: Attempt = Attempt { step: 1, attempt: 1 };

    fn text(text: &str) -> Delta {
        Delta::Text { part: 0, text: text.into() }
    }

    fn call(name: Option<&str>, arguments: &str) -> Delta {
        Delta::Call { part: 2, name: name.map(Into::into), arguments: arguments.into() }
    }

    fn told(seq: u64, number: u64, delta: Delta) -> Next {
        Next::Told(Arc::new(Signal::Delta { seq: Seq(seq), number, attempt: ATTEMPT, delta }))
    }

    fn snapshot(seq: u64, number: u64, parts: &[Delta]) -> Next {
        let signal = Signal::Snapshot { seq: Seq(seq), number, attempt: ATTEMPT, parts: parts.into() };
        Next::Told(Arc::new(signal))
    }

    #[test]
    fn every_fragment_comes_back_as_it_was() {
        let deltas = [
            Delta::Reasoning { part: 0, text: "hm, ".into() },
            Delta::Text { part: 1, text: "Grüße".into() },
            Delta::Text { part: 1, text: "".into() },
            Delta::Text { part: 1, text: "x".repeat(100_000).into() },
            call(Some("read"), ""),
            call(None, "{\"a\""),
        ];
        let mut ring = Ring::default();
        for (number, delta) in (1..).zip(&deltas) {
            assert_eq!(ring.push(Seq(7), ATTEMPT, number, delta), Pushed::New);
        }
        assert_eq!(ring.push(Seq(7), ATTEMPT, 3, &text("again")), Pushed::Old);
        for (before, delta) in (0..).zip(deltas) {
            assert_eq!(ring.after(before), told(7, before + 1, delta));
        }
        assert_eq!((ring.after(6), ring.after(9)), (Next::Nothing, Next::Nothing));
    }

    #[test]
    fn a_new_generation_resets_the_ring_and_an_older_one_is_ignored() {
        let mut ring = Ring::default();
        ring.push(Seq(7), ATTEMPT, 1, &text("lost"));
        ring.push(Seq(9), ATTEMPT, 1, &text("kept"));
        assert_eq!(ring.push(Seq(7), ATTEMPT, 2, &text("late")), Pushed::Old);
        assert_eq!((ring.after(0), ring.after(1)), (told(9, 1, text("kept")), Next::Nothing));
    }

    #[test]
    fn old_fragments_are_merged_block_by_block() {
        let mut ring = Ring::default();
        let many = MAX_FRAGMENTS as u64;
        let mut texts = [String::new(), String::new()];
        for number in 1..=many {
            let part = number % 2;
            texts[part as usize].push_str(&format!("{number} "));
            let delta = match part {
                0 => text(&format!("{number} ")),
                _ => call((number == 1).then_some("read"), &format!("{number} ")),
            };
            ring.push(Seq(7), ATTEMPT, number, &delta);
        }
        let whole = [call(Some("read"), &texts[1]), text(&texts[0])];
        assert_eq!(ring.after(0), snapshot(7, many, &whole));
        assert_eq!(ring.after(many / 2 - 1), snapshot(7, many, &whole));
        assert_eq!(ring.after(many / 2), told(7, many / 2 + 1, call(None, &format!("{} ", many / 2 + 1))));
        assert_eq!(ring.after(many - 1), told(7, many, text(&format!("{many} "))));
        // The ring of another process applies the snapshot and continues from it.
        let mut other = Ring::default();
        assert_eq!(other.replace(Seq(7), ATTEMPT, many, &whole), Pushed::New);
        assert_eq!(other.replace(Seq(7), ATTEMPT, many, &whole), Pushed::Old);
        other.push(Seq(7), ATTEMPT, many + 1, &text("end"));
        let end = [whole[0].clone(), text(&format!("{}end", texts[0]))];
        assert_eq!(other.after(5), snapshot(7, many + 1, &end));
        assert_eq!(other.after(many), told(7, many + 1, text("end")));
    }

    #[test]
    fn what_follows_a_gap_is_not_shown_as_the_whole() {
        let mut torn = Ring::default();
        torn.push(Seq(1), ATTEMPT, 1, &text("a"));
        torn.push(Seq(1), ATTEMPT, 5, &text("e"));
        assert_eq!((torn.after(0), torn.after(4)), (Next::Missing, told(1, 5, text("e"))));
        torn.replace(Seq(1), ATTEMPT, 6, &[text("abcdef")]);
        assert_eq!(torn.after(0), snapshot(1, 6, &[text("abcdef")]));
    }

    #[test]
    fn a_reply_without_end_is_bounded() {
        let mut ring = Ring::default();
        let large = text(&"x".repeat(100_000));
        for number in 1..=200 {
            ring.push(Seq(1), ATTEMPT, number, &large);
        }
        let (all, _) = ring.cost();
        assert!(all < 1024 * 1024, "{all} bytes");
        assert_eq!((ring.after(0), ring.after(199)), (Next::Missing, told(1, 200, large)));
    }

    #[test]
    fn a_fragment_costs_a_few_bytes_beside_its_text() {
        let mut ring = Ring::default();
        for number in 1..=4000 {
            ring.push(Seq(1), ATTEMPT, number, &text("word "));
        }
        let (all, text) = ring.cost();
        assert!(all - text < 20 * 1024, "{} bytes beside {text} bytes of text", all - text);
    }
}
