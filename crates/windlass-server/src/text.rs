//! Makes external texts safe to display: replaces control characters with visible ones, and truncates long texts.

use std::borrow::Cow;

/// Makes a text safe for a terminal. Replaces control characters with visible ones, because they could move the cursor,
/// hide text or send input in the user's name.
pub fn shown(text: &str) -> Cow<'_, str> {
    let tame = |c: char| !c.is_control() && !is_direction(c) || c == '\n' || c == '\t';
    if text.chars().all(tame) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            _ if tame(c) => safe.push(c),
            '\r' => {}
            '\x00'..='\x1f' => safe.push(char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}')),
            _ => safe.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(safe)
}

/// Makes a name or path safe for a terminal, always on one line.
pub fn shown_line(text: &str) -> Cow<'_, str> {
    match shown(text) {
        text if text.contains('\n') => Cow::Owned(text.replace('\n', "␊")),
        text => text,
    }
}

/// Makes JSON safe for a terminal. Escapes control characters, which does not change the meaning of the JSON. Such
/// characters occur only in strings, and valid JSON already escapes those below U+0020.
pub fn tame_json(json: &str) -> Cow<'_, str> {
    let wild = |c: char| c >= '\x7f' && (c.is_control() || is_direction(c));
    if !json.contains(wild) {
        return Cow::Borrowed(json);
    }
    let mut tame = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            _ if wild(c) => tame.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => tame.push(c),
        }
    }
    Cow::Owned(tame)
}

/// Returns whether a character changes the text direction. With such characters, one text can look like another.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// Returns the first line of a text, truncated to `max_chars` characters.
pub fn first_line(text: &str, max_chars: usize) -> String {
    let mut lines = text.trim().lines();
    let line = lines.next().unwrap_or_default();
    let cut: String = line.chars().take(max_chars).collect();
    let whole = cut.len() == line.len() && lines.next().is_none();
    if whole { cut } else { format!("{}…", cut.trim_end()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_never_steered_by_a_text() {
        assert_eq!(shown("plain\n\ttext ä 🙂"), "plain\n\ttext ä 🙂");
        assert_eq!(shown("\x1b[2Jgone\x07"), "␛[2Jgone␇");
        assert_eq!(shown("a\r\nb"), "a\nb");
        assert_eq!(shown("a\u{202e}b\u{9b}c"), "a\\u{202e}b\\u{9b}c");
    }

    #[test]
    fn lines_and_json_are_tamed_too() {
        assert_eq!(shown_line("a\nb\u{9b}"), "a␊b\\u{9b}");
        let value = serde_json::json!({"a\u{9b}": "\u{1b}[2J\u{7f}\u{85}\u{202e} ä 🙂\n"});
        let tame = tame_json(&value.to_string()).into_owned();
        assert_eq!(tame, r#"{"a\u009b":"\u001b[2J\u007f\u0085\u202e ä 🙂\n"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&tame).unwrap(), value);
    }

    #[test]
    fn first_lines() {
        assert_eq!(first_line("one", 10), "one");
        assert_eq!(first_line("one\ntwo", 10), "one…");
        assert_eq!(first_line("abcdef", 3), "abc…");
    }
}
