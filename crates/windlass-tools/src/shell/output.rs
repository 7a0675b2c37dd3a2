//! Buffers a command's output: its beginning and its end, within fixed limits.
//!
//! Positions count every byte of output, so that a reader can detect dropped bytes.

use std::collections::VecDeque;

/// Number of bytes kept of the beginning, which has a build's first messages.
const HEAD_BYTES: usize = 128 * 1024;
/// Number of bytes kept of the end. A result displays less.
const TAIL_BYTES: usize = 512 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Heard {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Heard {
    /// Appends output.
    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = HEAD_BYTES - self.head.len();
        if room > 0 {
            let (first, rest) = bytes.split_at(room.min(bytes.len()));
            self.head.extend_from_slice(first);
            bytes = rest;
        }
        let newest = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let over = (self.tail.len() + newest.len()).saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
        self.tail.extend(newest);
    }

    /// Returns the total size of the output, in bytes.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns at most `most` bytes of output from a position on, and the position after them.
    pub(crate) fn from(&self, position: u64, most: usize) -> (String, u64) {
        let head_end = self.head.len() as u64;
        let tail_start = self.total - self.tail.len() as u64;
        let is_whole = head_end == tail_start;
        let mut at = position.min(self.total);
        let (mut text, mut left) = (String::new(), most);
        let mut say = |text: &mut String, bytes: Vec<u8>| {
            let piece = whole(&bytes, left);
            text.push_str(&String::from_utf8_lossy(piece));
            left -= piece.len();
            piece.len() as u64
        };
        if at < head_end {
            let rest = if is_whole { 0..self.tail.len() } else { 0..0 };
            let bytes = self.head[at as usize..].iter().chain(self.tail.range(rest));
            at += say(&mut text, bytes.take(most + 1).copied().collect());
            if is_whole || at < head_end {
                return (text, at);
            }
        }
        if at < tail_start {
            text.push_str(&format!("\n[… {} bytes omitted …]\n", tail_start - at));
            at = tail_start;
        }
        let bytes = self.tail.range((at - tail_start) as usize..).take(most + 1).copied().collect();
        at += say(&mut text, bytes);
        (text, at)
    }
}

/// Returns at most `most` bytes, without splitting a character.
fn whole(bytes: &[u8], most: usize) -> &[u8] {
    if bytes.len() <= most {
        return bytes;
    }
    // A character has at most four bytes; all bytes after its first one begin with the bits 10.
    let cut = (most.saturating_sub(3)..=most).rev().find(|at| bytes[*at] & 0xc0 != 0x80);
    &bytes[..cut.filter(|cut| *cut > 0).unwrap_or(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(heard: &Heard, mut at: u64, most: usize) -> String {
        let mut all = String::new();
        loop {
            let (text, next) = heard.from(at, most);
            all.push_str(&text);
            if next == at {
                return all;
            }
            at = next;
        }
    }

    #[test]
    fn a_short_output_is_kept_whole_however_it_is_read() {
        let text: String = (0..10_000).map(|nth| format!("zeile {nth} äöü€\n")).collect();
        let mut heard = Heard::default();
        for piece in text.as_bytes().chunks(777) {
            heard.take(piece);
        }
        for most in [7, 100, 4_096, 10_000_000] {
            assert!(said(&heard, 0, most) == text, "{most}");
        }
        assert_eq!(said(&heard, text.len() as u64 - 4, 100), "\u{20ac}\n");
        assert_eq!(said(&heard, u64::MAX, 100), "");
    }

    #[test]
    fn a_long_output_keeps_its_beginning_and_its_newest() {
        let mut heard = Heard::default();
        for nth in 0..2_000_u64 {
            heard.take(format!("{nth:0>999}\n").as_bytes());
        }
        let all = said(&heard, 0, 10_000_000);
        let gap = 2_000_000 - HEAD_BYTES - TAIL_BYTES;
        assert!(all.contains(&format!("\n[… {gap} bytes omitted …]\n")));
        assert!(all.starts_with(&format!("{:0>999}\n", 0)) && all.ends_with(&format!("{:0>999}\n", 1999)));
        assert!(heard.head.len() == HEAD_BYTES && heard.tail.len() == TAIL_BYTES);
        // A read from a dropped position reports the gap too.
        assert!(said(&heard, 200_000, 1_000).starts_with("\n[… "));
    }

    #[test]
    fn one_piece_larger_than_all_that_is_kept_leaves_the_newest() {
        let mut heard = Heard::default();
        heard.take(&vec![b'a'; 3 * TAIL_BYTES]);
        heard.take(b"end");
        assert!(said(&heard, 0, 10_000_000).ends_with("aend"));
        assert_eq!(heard.total(), 3 * TAIL_BYTES as u64 + 3);
    }
}
