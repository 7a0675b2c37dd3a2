//! Decodes the escapes of JSON, JavaScript, HTML and percent-encoding, with the original position of each byte.
//!
//! Programs differ in which characters they escape, so a fixed list of forms would be
//! incomplete. This module does not depend on secrets.

/// Maximum number of nested encodings. Typical logs have two.
const MAX_LAYERS: usize = 3;

/// Maximum size of an escape, in bytes, including its end: `&#x0010FFFF;`.
const MAX_BYTES: usize = 12;

/// A decoded text.
#[derive(Clone)]
pub(super) struct Plain {
    pub bytes: Vec<u8>,
    /// The original position of each byte, and of the end. Masked texts are far smaller than 4 GiB.
    places: Vec<u32>,
}

impl Plain {
    /// Returns the original position of a byte.
    pub(super) fn at(&self, index: usize) -> usize {
        self.places.get(index).map_or(0, |place| *place as usize)
    }
}

/// Returns the text decoded once, twice, and so on while it contains escapes.
pub(super) fn layers(text: &[u8]) -> impl Iterator<Item = Plain> {
    std::iter::successors(undone(text), |plain| {
        let next = undone(&plain.bytes)?;
        let places = next.places.iter().map(|place| plain.places[*place as usize]).collect();
        Some(Plain { bytes: next.bytes, places })
    })
    .take(MAX_LAYERS)
}

/// Returns the position of an escape that the end of a text may have split.
pub(super) fn halved(text: &[u8]) -> Option<usize> {
    let from = text.len().saturating_sub(MAX_BYTES);
    let at = from + text[from..].iter().rposition(|byte| b"\\&%".contains(byte))?;
    let tail = &text[at + 1..];
    let goes_on = tail.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'#');
    (goes_on && read(&text[at..]).is_none()).then_some(at)
}

/// Decodes one layer. Returns `None` if the text contains no escape.
fn undone(text: &[u8]) -> Option<Plain> {
    if text.len() > u32::MAX as usize || !text.iter().any(|byte| b"\\&%".contains(byte)) {
        return None;
    }
    let mut plain =
        Plain { bytes: Vec::with_capacity(text.len()), places: Vec::with_capacity(text.len() + 1) };
    let (mut at, mut any) = (0, false);
    while let Some(byte) = text.get(at) {
        let mut push = |bytes: &[u8]| {
            plain.bytes.extend_from_slice(bytes);
            plain.places.resize(plain.bytes.len(), at as u32);
        };
        at += match read(&text[at..]) {
            Some((Meant::Sign(sign), count)) => {
                push(sign.encode_utf8(&mut [0; 4]).as_bytes());
                any = true;
                count
            }
            Some((Meant::Byte(byte), count)) => {
                push(&[byte]);
                any = true;
                count
            }
            None => {
                push(&[*byte]);
                1
            }
        };
    }
    plain.places.push(text.len() as u32);
    any.then_some(plain)
}

/// The meaning of an escape.
enum Meant {
    Sign(char),
    Byte(u8),
}

/// Decodes the escape at the beginning of a text. Returns the meaning and the length of the escape.
fn read(text: &[u8]) -> Option<(Meant, usize)> {
    let sign = |sign: char, count: usize| Some((Meant::Sign(sign), count));
    match text {
        [b'%', rest @ ..] => Some((Meant::Byte(number(rest.get(..2)?, 16)? as u8), 3)),
        [b'\\', b'u', rest @ ..] => {
            let unit = number(rest.get(..4)?, 16)?;
            if let Some(known) = char::from_u32(unit) {
                return sign(known, 6);
            }
            // The two halves of a UTF-16 surrogate pair.
            let second = rest.get(4..)?.strip_prefix(b"\\u")?;
            let pair = [unit as u16, number(second.get(..4)?, 16)? as u16];
            sign(char::decode_utf16(pair).next()?.ok()?, 12)
        }
        [b'\\', b'x', rest @ ..] => sign(char::from_u32(number(rest.get(..2)?, 16)?)?, 4),
        [b'\\', known @ (b'/' | b'"' | b'\'' | b'\\'), ..] => sign(char::from(*known), 2),
        [b'&', b'#', rest @ ..] => {
            let rest = &rest[..rest.len().min(MAX_BYTES - 2)];
            let (digits, radix) = match rest {
                [b'x' | b'X', digits @ ..] => (digits, 16),
                digits => (digits, 10),
            };
            let count = digits.iter().position(|byte| *byte == b';')?;
            let known = char::from_u32(number(&digits[..count], radix)?)?;
            sign(known, 2 + (rest.len() - digits.len()) + count + 1)
        }
        [b'&', rest @ ..] => NAMED.iter().find_map(|(name, known)| {
            rest.starts_with(name.as_bytes()).then_some((Meant::Sign(*known), 1 + name.len()))
        }),
        _ => None, // tidy: not our enum
    }
}

/// Entities that templates produce.
const NAMED: &[(&str, char)] = &[
    ("amp;", '&'),
    ("lt;", '<'),
    ("gt;", '>'),
    ("quot;", '"'),
    ("apos;", '\''),
    ("sol;", '/'),
    ("plus;", '+'),
    ("equals;", '='),
];

/// Parses digits as a number. A sign is not accepted.
fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let is_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_digits)?;
    u32::from_str_radix(text, radix).ok()
}
