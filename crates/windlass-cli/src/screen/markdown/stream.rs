//! Splits a Markdown text that arrives in pieces into complete blocks.

/// The text after the last complete block.
#[derive(Debug, Default)]
pub struct Stream {
    text: String,
    /// Byte index of the start of the incomplete line.
    line: usize,
    /// The fence of the open code block: its character and length.
    fence: Option<(char, usize)>,
    /// Whether the previous line is empty.
    is_after_blank: bool,
}

impl Stream {
    /// Adds a piece of text. Returns the blocks that the piece completes.
    ///
    /// A block ends at an unindented line that follows an empty one, except inside a code block.
    pub fn push(&mut self, piece: &str) -> Option<String> {
        self.text.push_str(piece);
        let mut end = None;
        loop {
            let rest = &self.text[self.line..];
            let begins = rest.chars().next().is_some_and(|c| !c.is_whitespace());
            if self.is_after_blank && self.fence.is_none() && begins && self.line > 0 {
                end = Some(self.line);
                self.is_after_blank = false;
            }
            let Some(length) = rest.find('\n') else { break };
            let line = &rest[..length];
            self.fence = fence(self.fence, line);
            self.is_after_blank = line.trim().is_empty();
            self.line += length + 1;
        }
        let end = end?;
        self.line -= end;
        Some(self.text.drain(..end).collect())
    }

    /// Returns the text of the incomplete block.
    pub fn rest(&self) -> &str {
        &self.text
    }

    /// Ends the text. Returns the incomplete block.
    pub fn finish(&mut self) -> String {
        std::mem::take(self).text
    }
}

/// Returns the open fence after this line.
fn fence(open: Option<(char, usize)>, line: &str) -> Option<(char, usize)> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'));
    let length = mark.map_or(0, |mark| line.chars().take_while(|c| *c == mark).count());
    match (open, mark) {
        (None, Some(mark)) if length >= 3 => Some((mark, length)),
        (Some((opened, least)), Some(mark)) if mark == opened && length >= least => {
            let closes = line.trim().chars().all(|c| c == mark);
            if closes { None } else { open }
        }
        (open, _) => open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes a text one character at a time. Returns all blocks, including the last one.
    fn check(text: &str) -> Vec<String> {
        let mut stream = Stream::default();
        let mut blocks: Vec<String> =
            text.chars().filter_map(|c| stream.push(c.encode_utf8(&mut [0; 4]))).collect();
        blocks.push(stream.finish());
        blocks
    }

    #[test]
    fn a_block_is_complete_once_the_next_one_begins() {
        assert_eq!(check("one\ntwo\n\nthree"), ["one\ntwo\n\n", "three"]);
        assert_eq!(check("- a\n\n  more of a\n\n- b\n"), ["- a\n\n  more of a\n\n", "- b\n"]);
        assert_eq!(check("one\n\n"), ["one\n\n"]);
    }

    #[test]
    fn code_is_one_block() {
        let code = "```rust\nfn a() {}\n\nfn b() {}\n```\n\n";
        assert_eq!(check(&format!("{code}after")), [code, "after"]);
        let inner = "````md\n```\n\ncode\n```\n\n````\n\n";
        assert_eq!(check(&format!("{inner}after")), [inner, "after"]);
    }

    proptest::proptest! {
        #[test]
        fn no_letter_is_lost(text in "([a-z `~\n-]|\n\n){0,60}") {
            proptest::prop_assert_eq!(check(&text).concat(), text);
        }
    }
}
