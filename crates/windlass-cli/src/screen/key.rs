//! Decodes a terminal's input into keys. The decoder performs no I/O, so that tests can cover every byte sequence.

/// Maximum length of an escape sequence in bytes; a longer sequence is dropped.
const SEQUENCE_MAX_BYTES: usize = 32;

/// Maximum size of a pasted text in bytes; the rest is dropped.
const PASTE_MAX_BYTES: usize = 1024 * 1024;

const PASTE_BEGIN: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPress {
    Char(char),
    /// Ctrl with a lower-case letter.
    Ctrl(char),
    Alt(char),
    Enter,
    /// Enter with Alt or Shift.
    NewLine,
    Tab,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    WordLeft,
    WordRight,
    Escape,
    /// A text from one bracketed paste.
    Paste(String),
}

/// Buffers bytes until a key is complete.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// The paste in progress.
    paste: Option<Vec<u8>>,
    /// Number of silent reads since the last byte of the paste. A silent read returns no byte.
    silent: u8,
}

/// Number of silent reads after which a paste without an end mark ends: about one second.
const PASTE_SILENT_READS: u8 = 20;

impl Decoder {
    /// Adds bytes and returns the complete keys.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<KeyPress> {
        self.bytes.extend_from_slice(bytes);
        self.silent = 0;
        let mut keys = Vec::new();
        loop {
            if self.paste.is_some() {
                match self.pasted() {
                    Some(text) => keys.push(KeyPress::Paste(text)),
                    None => return keys,
                }
                continue;
            }
            match step(&self.bytes) {
                Step::KeyPress(key, length) => {
                    self.bytes.drain(..length);
                    keys.push(key);
                }
                Step::Skip(length) => drop(self.bytes.drain(..length)),
                Step::Paste => {
                    self.bytes.drain(..PASTE_BEGIN.len());
                    self.paste = Some(Vec::new());
                }
                Step::More => return keys,
            }
        }
    }

    /// Handles a silent read: a lone escape byte is the key Esc, and an incomplete sequence is dropped.
    pub fn flush(&mut self) -> Option<KeyPress> {
        if self.paste.is_some() {
            self.silent += 1;
            if self.silent < PASTE_SILENT_READS {
                return None;
            }
            let mut text = self.paste.take().unwrap_or_default();
            text.append(&mut self.bytes);
            return Some(KeyPress::Paste(pasted_text(&text)));
        }
        let is_escape = self.bytes == [0x1b];
        self.bytes.clear();
        is_escape.then_some(KeyPress::Escape)
    }

    /// Moves bytes into the paste. Returns its text when the end mark has arrived.
    fn pasted(&mut self) -> Option<String> {
        let paste = self.paste.get_or_insert_default();
        let end = self.bytes.windows(PASTE_END.len()).position(|window| window == PASTE_END);
        // The end mark may be split between two reads.
        let count = end.unwrap_or_else(|| self.bytes.len().saturating_sub(PASTE_END.len() - 1));
        let room = PASTE_MAX_BYTES.saturating_sub(paste.len());
        paste.extend(self.bytes.drain(..count).take(room));
        end?;
        self.bytes.drain(..PASTE_END.len());
        let text = self.paste.take().unwrap_or_default();
        Some(pasted_text(&text))
    }
}

fn pasted_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n")
}

/// The result of decoding the start of a buffer.
enum Step {
    KeyPress(KeyPress, usize),
    /// Bytes without a meaning, to be skipped.
    Skip(usize),
    Paste,
    /// The sequence is incomplete.
    More,
}

fn step(bytes: &[u8]) -> Step {
    match *bytes {
        [] => Step::More,
        [0x1b, ref rest @ ..] => escape(rest),
        [b'\r', ..] => Step::KeyPress(KeyPress::Enter, 1),
        [b'\t', ..] => Step::KeyPress(KeyPress::Tab, 1),
        [0x7f | 0x08, ..] => Step::KeyPress(KeyPress::Backspace, 1),
        [byte @ 0x01..=0x1a, ..] => Step::KeyPress(KeyPress::Ctrl(char::from(byte - 1 + b'a')), 1),
        [0x00..=0x1f, ..] => Step::Skip(1),
        _ => character(bytes).map_or(Step::More, |(c, length)| match c {
            Some(c) => Step::KeyPress(KeyPress::Char(c), length),
            None => Step::Skip(length),
        }),
    }
}

/// Returns the first character of a buffer and its length. Returns `None` if the character is
/// incomplete, and no character if it is invalid.
fn character(bytes: &[u8]) -> Option<(Option<char>, usize)> {
    let length = match bytes.first()? {
        0x00..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some((None, 1)),
    };
    let whole = match bytes.get(..length) {
        Some(whole) => whole,
        // A byte that cannot continue the character makes the character invalid at once.
        None if bytes[1..].iter().all(|byte| byte & 0xc0 == 0x80) => return None,
        None => return Some((None, 1)),
    };
    let text = std::str::from_utf8(whole).ok().and_then(|text| text.chars().next());
    Some(text.map_or((None, 1), |c| (Some(c), length)))
}

/// Decodes the bytes after an escape byte.
fn escape(rest: &[u8]) -> Step {
    match *rest {
        [] => Step::More,
        [b'[', ref sequence @ ..] => control(sequence),
        [b'O', ref letter @ ..] => match letter.first() {
            None => Step::More,
            Some(letter) => named(*letter, 1).map_or(Step::Skip(3), |key| Step::KeyPress(key, 3)),
        },
        [b'\r' | b'\n', ..] => Step::KeyPress(KeyPress::NewLine, 2),
        [0x7f | 0x08, ..] => Step::KeyPress(KeyPress::Alt('\u{7f}'), 2),
        [0x1b, ..] => Step::KeyPress(KeyPress::Escape, 1),
        [0x00..=0x1f, ..] => Step::Skip(2),
        _ => character(rest).map_or(Step::More, |(c, length)| match c {
            Some(c) => Step::KeyPress(KeyPress::Alt(c), length + 1),
            None => Step::Skip(length + 1),
        }),
    }
}

/// Decodes a control sequence after `ESC [`: numbers, then a final letter or `~`.
fn control(sequence: &[u8]) -> Step {
    let mut bytes = sequence.iter().take(SEQUENCE_MAX_BYTES);
    let Some(end) = bytes.position(|byte| (0x40..=0x7e).contains(byte)) else {
        let is_broken = sequence.len() >= SEQUENCE_MAX_BYTES;
        return if is_broken { Step::Skip(SEQUENCE_MAX_BYTES + 2) } else { Step::More };
    };
    let length = end + 3;
    let numbers = String::from_utf8_lossy(&sequence[..end]);
    let mut numbers = numbers.split(';').map(|number| number.parse::<u32>().unwrap_or(1));
    let (first, second, third) = (numbers.next().unwrap_or(1), numbers.next().unwrap_or(1), numbers.next());
    let key = match (sequence[end], first, second, third) {
        (b'~', 200, ..) => return Step::Paste,
        (b'~', 1 | 7, ..) => Some(KeyPress::Home),
        (b'~', 4 | 8, ..) => Some(KeyPress::End),
        (b'~', 3, ..) => Some(KeyPress::Delete),
        // Enter with a modifier, in the encodings of xterm and kitty.
        (b'~', 27, 2.., Some(13)) | (b'u', 13, 2.., _) => Some(KeyPress::NewLine),
        (b'u', 13, ..) => Some(KeyPress::Enter),
        (letter, _, modifier, _) => named(letter, modifier),
    };
    key.map_or(Step::Skip(length), |key| Step::KeyPress(key, length))
}

/// Decodes a key by its final letter. A modifier above 1 means Shift, Alt or Ctrl.
fn named(letter: u8, modifier: u32) -> Option<KeyPress> {
    Some(match (letter, modifier) {
        (b'A', _) => KeyPress::Up,
        (b'B', _) => KeyPress::Down,
        (b'C', 3..) => KeyPress::WordRight,
        (b'D', 3..) => KeyPress::WordLeft,
        (b'C', _) => KeyPress::Right,
        (b'D', _) => KeyPress::Left,
        (b'H', _) => KeyPress::Home,
        (b'F', _) => KeyPress::End,
        (b'M', _) => KeyPress::Enter,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<KeyPress> {
        Decoder::default().feed(bytes)
    }

    #[test]
    fn a_paste_whose_end_is_lost_ends_after_a_silence() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"\x1b[200~one\x03"), []);
        let silent: Vec<KeyPress> = (1..PASTE_SILENT_READS).filter_map(|_| decoder.flush()).collect();
        assert_eq!(silent, []);
        assert_eq!(decoder.flush(), Some(KeyPress::Paste("one\x03".into())));
        assert_eq!(decoder.feed(b"\x03"), [KeyPress::Ctrl('c')]);
    }

    #[test]
    fn characters_and_control_keys() {
        let wanted = [
            KeyPress::Char('a'),
            KeyPress::Char('ä'),
            KeyPress::Char('🙂'),
            KeyPress::Enter,
            KeyPress::Ctrl('j'),
            KeyPress::Ctrl('c'),
        ];
        assert_eq!(keys("aä🙂\r\n\x03".as_bytes()), wanted);
        assert_eq!(keys(b"\t\x7f\x08"), [KeyPress::Tab, KeyPress::Backspace, KeyPress::Backspace]);
    }

    #[test]
    fn sequences_of_the_common_terminals() {
        assert_eq!(
            keys(b"\x1b[A\x1bOB\x1b[C\x1b[D"),
            [KeyPress::Up, KeyPress::Down, KeyPress::Right, KeyPress::Left]
        );
        assert_eq!(keys(b"\x1b[1;5C\x1b[1;3D"), [KeyPress::WordRight, KeyPress::WordLeft]);
        assert_eq!(
            keys(b"\x1b[H\x1b[F\x1b[1~\x1b[4~\x1b[3~"),
            [KeyPress::Home, KeyPress::End, KeyPress::Home, KeyPress::End, KeyPress::Delete]
        );
        assert_eq!(
            keys(b"\x1b\r\x1b[13;2u\x1b[27;2;13~"),
            [KeyPress::NewLine, KeyPress::NewLine, KeyPress::NewLine]
        );
        assert_eq!(keys(b"\x1bb\x1bf"), [KeyPress::Alt('b'), KeyPress::Alt('f')]);
        assert_eq!(keys(b"\x1b[?1;2cx"), [KeyPress::Char('x')], "what is unknown is skipped");
    }

    #[test]
    fn a_paste_is_one_text_whatever_it_holds() {
        let wanted = KeyPress::Paste("one\ntwo\x03\n".to_owned());
        assert_eq!(keys(b"\x1b[200~one\r\ntwo\x03\r\x1b[201~x"), [wanted, KeyPress::Char('x')]);
    }

    #[test]
    fn a_lone_escape_is_a_key_once_nothing_follows() {
        let mut decoder = Decoder::default();
        assert_eq!((decoder.feed(b"\x1b"), decoder.flush()), (vec![], Some(KeyPress::Escape)));
        assert_eq!((decoder.feed(b"a"), decoder.flush()), (vec![KeyPress::Char('a')], None));
    }

    proptest::proptest! {
        #[test]
        fn bytes_mean_the_same_however_they_are_cut(bytes in proptest::collection::vec(0_u8.., 0..64), at in 0_usize..64) {
            let cut = at.min(bytes.len());
            let mut decoder = Decoder::default();
            let mut parts = decoder.feed(&bytes[..cut]);
            parts.extend(decoder.feed(&bytes[cut..]));
            proptest::prop_assert_eq!(parts, keys(&bytes));
        }
    }
}
