//! A streamed reply on a chat's screen. Complete blocks are rendered and printed; the incomplete
//! block is displayed above the input.

use std::sync::Arc;

use windlass_server::text::shown;

use crate::console::Console;
use crate::paint::Paint;
use crate::screen::ChatScreen;
use crate::screen::markdown::{Stream, render};

pub struct ReplyText {
    screen: Arc<ChatScreen>,
    paint: Paint,
    stream: Stream,
    /// Whether a block was printed. An empty line then separates it from the next block.
    has_block: bool,
}

impl ReplyText {
    /// Creates a reply on the console's screen. Returns `None` if the console has no screen.
    pub fn on(console: &Console) -> Option<Self> {
        let (screen, paint) = (console.screen()?.clone(), console.out_paint);
        Some(Self { screen, paint, stream: Stream::default(), has_block: false })
    }

    /// Adds a piece of text.
    pub fn push(&mut self, piece: &str) {
        let complete = self.stream.push(piece);
        let lines = complete.map_or(String::new(), |blocks| self.rendered(&blocks));
        self.screen.print_blocks(&lines, &shown(self.stream.rest()));
    }

    /// Prints the remaining text.
    pub fn finish(&mut self) {
        let rest = self.stream.finish();
        let lines = self.rendered(&rest);
        self.screen.print_blocks(&lines, "");
        self.has_block = false;
    }

    fn rendered(&mut self, source: &str) -> String {
        let lines = render(source, self.screen.columns(), self.paint);
        if lines.is_empty() {
            return String::new();
        }
        let gap = if std::mem::replace(&mut self.has_block, true) { "\n" } else { "" };
        format!("{gap}{}\n", lines.join("\n"))
    }
}
