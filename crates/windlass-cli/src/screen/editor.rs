//! A line editor without a terminal: takes keys, and returns its text and actions.

use unicode_segmentation::UnicodeSegmentation;

use super::key::KeyPress;

/// Maximum number of messages in the history for Up and Down.
const HISTORY_MAX: usize = 1_000;

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The key changed at most the text or the cursor.
    Edited,
    /// Send this text; the input is empty again.
    Submit(String),
    /// Ctrl-C in an empty input.
    Interrupt,
    /// Ctrl-D in an empty input.
    Leave,
    /// Ctrl-Z.
    Suspend,
    /// Tab.
    Complete,
    /// Ctrl-L.
    Redraw,
}

/// A text with a cursor and a history.
#[derive(Debug, Default)]
pub struct Editor {
    text: String,
    /// The cursor's byte index, always between two grapheme clusters.
    cursor: usize,
    /// The text last removed by Ctrl-U, Ctrl-K or Ctrl-W.
    killed: String,
    history: Vec<String>,
    /// Index of the displayed history entry; `None` while the draft is displayed.
    shown: Option<usize>,
    /// The unsent draft, while a history entry is displayed.
    draft: String,
}

impl Editor {
    /// Creates an empty input with a history, oldest message first.
    pub fn new(history: Vec<String>) -> Self {
        let mut editor = Self::default();
        history.into_iter().for_each(|text| editor.remember(&text));
        editor
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Inserts an unsent text before the current one.
    pub fn put_back(&mut self, text: &str) {
        let after = std::mem::take(&mut self.text);
        let gap = if after.is_empty() { "" } else { "\n" };
        self.set(format!("{text}{gap}{after}"));
    }

    /// Replaces the text between `from` and the cursor, and moves the cursor behind the replacement.
    pub fn replace(&mut self, from: usize, text: &str) {
        self.text.replace_range(from..self.cursor, text);
        self.cursor = from + text.len();
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyPress) -> Action {
        match key {
            KeyPress::Char(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            KeyPress::Paste(text) => self.insert(&printable(&text)),
            KeyPress::Enter => return self.enter(),
            KeyPress::NewLine | KeyPress::Ctrl('j') => self.insert("\n"),
            KeyPress::Tab => return Action::Complete,
            KeyPress::Backspace | KeyPress::Ctrl('h') => self.delete(self.before(), false),
            KeyPress::Delete => self.delete(self.after(), false),
            KeyPress::Left | KeyPress::Ctrl('b') => self.cursor = self.before(),
            KeyPress::Right | KeyPress::Ctrl('f') => self.cursor = self.after(),
            KeyPress::WordLeft | KeyPress::Alt('b') => self.cursor = self.word_before(),
            KeyPress::WordRight | KeyPress::Alt('f') => self.cursor = self.word_after(),
            KeyPress::Home | KeyPress::Ctrl('a') => self.cursor = self.line_begin(),
            KeyPress::End | KeyPress::Ctrl('e') => self.cursor = self.line_end(),
            KeyPress::Up | KeyPress::Ctrl('p') => self.up(),
            KeyPress::Down | KeyPress::Ctrl('n') => self.down(),
            KeyPress::Ctrl('u') => self.delete(self.line_begin(), true),
            KeyPress::Ctrl('k') => self.delete(self.line_end(), true),
            KeyPress::Ctrl('w') | KeyPress::Alt('\u{7f}') => self.delete(self.word_before(), true),
            KeyPress::Alt('d') => self.delete(self.word_after(), true),
            KeyPress::Ctrl('y') => self.insert(&self.killed.clone()),
            KeyPress::Ctrl('c') if self.text.is_empty() => return Action::Interrupt,
            KeyPress::Ctrl('c') => self.abandon(),
            KeyPress::Ctrl('d') if self.text.is_empty() => return Action::Leave,
            KeyPress::Ctrl('d') => self.delete(self.after(), false),
            KeyPress::Ctrl('z') => return Action::Suspend,
            KeyPress::Ctrl('l') => return Action::Redraw,
            KeyPress::Ctrl(_) | KeyPress::Alt(_) | KeyPress::Escape => {}
        }
        Action::Edited
    }

    fn enter(&mut self) -> Action {
        if self.text[..self.cursor].ends_with('\\') {
            self.cursor -= 1;
            self.text.replace_range(self.cursor..=self.cursor, "\n");
            self.cursor += 1;
            return Action::Edited;
        }
        let text = std::mem::take(&mut self.text);
        self.set(String::new());
        Action::Submit(text)
    }

    /// Clears the input. Up and Ctrl-Y restore the cleared text. If a history entry is
    /// displayed, restores the draft instead.
    fn abandon(&mut self) {
        let text = std::mem::take(&mut self.text);
        let was_shown = self.shown.is_some();
        self.killed.clone_from(&text);
        if !was_shown {
            self.keep(&text);
        }
        let draft = std::mem::take(&mut self.draft);
        self.set(if was_shown { draft } else { String::new() });
    }

    /// Adds a text to the history. As in a shell, a text that begins with a space is not added.
    pub fn remember(&mut self, text: &str) {
        if !text.starts_with(' ') {
            self.keep(text);
        }
    }

    fn keep(&mut self, text: &str) {
        if !text.trim().is_empty() && self.history.last().is_none_or(|last| last != text) {
            self.history.push(text.to_owned());
            if self.history.len() > HISTORY_MAX {
                self.history.remove(0);
            }
        }
    }

    fn set(&mut self, text: String) {
        (self.cursor, self.text, self.shown) = (text.len(), text, None);
    }

    fn insert(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    /// Deletes the text between the cursor and the index `to`.
    fn delete(&mut self, to: usize, is_killed: bool) {
        let (from, to) = (self.cursor.min(to), self.cursor.max(to));
        let gone: String = self.text.drain(from..to).collect();
        self.cursor = from;
        if is_killed && !gone.is_empty() {
            self.killed = gone;
        }
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        let next = self.text[self.cursor..].graphemes(true).next();
        self.cursor + next.map_or(0, str::len)
    }

    fn word_before(&self) -> usize {
        let mut words = self.text[..self.cursor].unicode_word_indices();
        words.next_back().map_or(0, |(at, _)| at)
    }

    fn word_after(&self) -> usize {
        let mut words = self.text[self.cursor..].unicode_word_indices();
        words.next().map_or(self.text.len(), |(at, word)| self.cursor + at + word.len())
    }

    fn line_begin(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    /// Returns the number of grapheme clusters between the start of the line and the cursor.
    fn column(&self) -> usize {
        self.text[self.line_begin()..self.cursor].graphemes(true).count()
    }

    /// Returns the byte index of a column in the line that starts at `begin`.
    fn place(&self, begin: usize, column: usize) -> usize {
        let line = self.text[begin..].split('\n').next().unwrap_or_default();
        line.grapheme_indices(true).nth(column).map_or(begin + line.len(), |(at, _)| begin + at)
    }

    fn up(&mut self) {
        let begin = self.line_begin();
        if begin > 0 {
            let above = self.text[..begin - 1].rfind('\n').map_or(0, |at| at + 1);
            self.cursor = self.place(above, self.column());
            return;
        }
        let at = self.shown.unwrap_or(self.history.len());
        if let Some(text) = at.checked_sub(1).and_then(|at| self.history.get(at)).cloned() {
            if self.shown.is_none() {
                self.draft = std::mem::take(&mut self.text);
            }
            self.set(text);
            self.shown = Some(at - 1);
        }
    }

    fn down(&mut self) {
        let end = self.line_end();
        if end < self.text.len() {
            self.cursor = self.place(end + 1, self.column());
            return;
        }
        let Some(at) = self.shown else { return };
        match self.history.get(at + 1).cloned() {
            Some(text) => {
                self.set(text);
                self.shown = Some(at + 1);
            }
            None => {
                let draft = std::mem::take(&mut self.draft);
                self.set(draft);
            }
        }
    }
}

/// Returns a pasted text without control characters. A tab becomes four spaces.
fn printable(text: &str) -> String {
    text.replace('\t', "    ").chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::key::Decoder;
    use super::*;

    /// Feeds bytes as a terminal sends them. Returns the text with `|` at the cursor, and all actions except `Edited`.
    fn typed(editor: &mut Editor, bytes: &str) -> (String, Vec<Action>) {
        let keys = Decoder::default().feed(bytes.as_bytes());
        let actions = keys.into_iter().map(|key| editor.key(key));
        let actions = actions.filter(|action| *action != Action::Edited).collect();
        let (before, after) = editor.text().split_at(editor.cursor());
        (format!("{before}|{after}"), actions)
    }

    fn check(bytes: &str) -> (String, Vec<Action>) {
        typed(&mut Editor::new(vec!["first".into(), "second\nline".into()]), bytes)
    }

    fn sent(text: &str) -> Vec<Action> {
        vec![Action::Submit(text.to_owned())]
    }

    #[test]
    fn enter_sends_and_four_other_keys_begin_a_line() {
        assert_eq!(check("hello\r"), ("|".into(), sent("hello")));
        assert_eq!(check("a\\\rb\r"), ("|".into(), sent("a\nb")));
        assert_eq!(check("a\x1b\rb\nc\x1b[13;2ud\r"), ("|".into(), sent("a\nb\nc\nd")));
        assert_eq!(check("\x1b[200~one\r\ntwo\x1b[201~\r"), ("|".into(), sent("one\ntwo")));
    }

    #[test]
    fn the_cursor_moves_by_clusters_words_and_lines() {
        assert_eq!(check("äöe\u{301}\x1b[D\x7f").0, "ä|e\u{301}");
        assert_eq!(check("one two\x1bb\x1bbx\x1bf").0, "xone| two");
        assert_eq!(check("long line\nab\x1b[A").0, "lo|ng line\nab");
        assert_eq!(check("ab\nlong line\x1b[A\x01\x1b[B\x05").0, "ab\nlong line|");
    }

    #[test]
    fn a_text_that_is_abandoned_is_not_lost() {
        assert_eq!(check("  indented\x03\x1b[A").0, "  indented|");
        assert_eq!(check("  indented\x03\x19").0, "  indented|");
        // While a history entry is displayed, Ctrl-C returns to the draft.
        assert_eq!(check("draft\x1b[A\x03").0, "draft|");
    }

    #[test]
    fn what_is_killed_comes_back() {
        assert_eq!(check("one two\x17x\x19").0, "one xtwo|");
        assert_eq!(check("one two\x15\x19\x19").0, "one twoone two|");
        assert_eq!(check("one two\x01\x0b\x19").0, "one two|");
    }

    #[test]
    fn up_and_down_walk_through_the_messages_and_keep_the_draft() {
        assert_eq!(check("draft\x1b[A").0, "second\nline|");
        assert_eq!(check("draft\x1b[A\x1b[A\x1b[A").0, "first|", "within the text first");
        assert_eq!(check("draft\x1b[A\x1b[B").0, "draft|");
    }

    #[test]
    fn ctrl_c_and_ctrl_d_lose_no_text() {
        let (text, actions) = check("half a thought\x03");
        assert_eq!((text.as_str(), actions), ("|", vec![]));
        assert_eq!(check("half a thought\x03\x1b[A").0, "half a thought|");
        assert_eq!(check("\x03").1, [Action::Interrupt]);
        assert_eq!(check("\x04").1, [Action::Leave]);
        assert_eq!(check("ab\x01\x04"), ("|b".into(), vec![]));
    }

    #[test]
    fn a_message_that_was_not_sent_stands_before_what_is_written() {
        let mut editor = Editor::default();
        typed(&mut editor, "next");
        editor.put_back("not sent");
        assert_eq!(typed(&mut editor, "").0, "not sent\nnext|");
    }

    #[test]
    fn a_paste_cannot_steer_the_screen() {
        assert_eq!(check("\x1b[200~a\x1b[2J\tb\x1b[201~").0, "a[2J    b|");
    }

    proptest::proptest! {
        #[test]
        fn any_keys_leave_the_cursor_between_two_clusters(bytes in "\\PC{0,8}([\\x01-\\x1f]|\\x1b\\[[A-DHF]|\\PC){0,40}") {
            let mut editor = Editor::new(vec!["one\ntwo".into()]);
            typed(&mut editor, &bytes);
        }
    }
}
