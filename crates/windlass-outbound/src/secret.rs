//! Secrets: values that must not be displayed, their sources, and the mask that redacts them.
//!
//! A secret is read only when a request is about to be sent, and no other component ever holds it. The mask
//! is a second line of defence, against servers that echo secrets.

mod escape;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// A key or another value that must not be displayed. It implements neither `Debug` nor `Serialize`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }
    /// Returns the value, for use where a request is sent.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Resolves references to secrets. The value is read for each use, so that a change takes effect at once.
pub trait SecretSource: Send + Sync {
    /// Reads the secret. The error names the reference and a remedy, and never contains a value.
    fn secret(&self, reference: &str) -> Result<Secret, String>;
}

impl SecretSource for BTreeMap<String, Secret> {
    fn secret(&self, reference: &str) -> Result<Secret, String> {
        self.get(reference).cloned().ok_or_else(|| format!("there is no secret named `{reference}`"))
    }
}

/// The text that replaces a redacted secret.
pub const MASKED: &str = "[masked]";

/// Minimum size of a redacted value, in bytes. A shorter value is not a
/// durable secret and occurs in ordinary texts.
const MIN_BYTES: usize = 6;

/// Minimum size of the beginning of a secret that is redacted at the end of a truncated text, in bytes.
const MIN_PIECE_BYTES: usize = 4;

/// Redacts secrets from texts. Finds secrets verbatim and in base64, percent-encoding, hexadecimal, JSON and
/// HTML, including within longer encoded text and with any combination of escaped characters. Ignores case.
#[derive(Clone)]
pub struct Mask {
    forms: Option<Arc<Forms>>,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mask")
    }
}

struct Forms {
    search: AhoCorasick,
    texts: Vec<Vec<u8>>,
}

impl Mask {
    /// Creates a mask for these values. Values shorter than six bytes are not redacted.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut texts = BTreeSet::new();
        for secret in secrets {
            let value = secret.expose().trim();
            if value.len() >= MIN_BYTES {
                forms_of(value, &mut texts);
            }
        }
        let texts: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
        if texts.is_empty() {
            return Self { forms: None };
        }
        let search = AhoCorasickBuilder::new()
            .match_kind(MatchKind::LeftmostLongest)
            .ascii_case_insensitive(true)
            .build(&texts);
        // Cannot fail: a search fails only beyond 2³¹ states, and a header has far fewer.
        let search = search.expect("a mask of a few values can be built");
        Self { forms: Some(Arc::new(Forms { search, texts })) }
    }

    /// Redacts a text.
    pub fn text(&self, text: &str) -> String {
        match &self.forms {
            None => text.to_owned(),
            // Every form, and the text between two forms, consists of whole characters.
            Some(_) => String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned(),
        }
    }

    /// Redacts bytes.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let Some(forms) = &self.forms else { return bytes.to_vec() };
        let mut masked = Vec::with_capacity(bytes.len());
        forms.search.replace_all_with_bytes(bytes, &mut masked, |_, _, masked| {
            masked.extend_from_slice(MASKED.as_bytes());
            true
        });
        let mut places: Vec<(usize, usize)> = Vec::new();
        for plain in escape::layers(&masked) {
            let found = forms.search.find_iter(&plain.bytes);
            places.extend(found.map(|found| (plain.at(found.start()), plain.at(found.end()))));
        }
        places.sort_unstable();
        let (mut plain, mut at) = (Vec::with_capacity(masked.len()), 0);
        for (first, last) in places {
            if first >= at {
                plain.extend_from_slice(&masked[at..first]);
                plain.extend_from_slice(MASKED.as_bytes());
            }
            at = at.max(last);
        }
        plain.extend_from_slice(&masked[at..]);
        plain
    }

    /// Redacts truncated bytes. If the truncation splits a secret, redacts its beginning too.
    pub fn cut_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut masked = self.bytes(bytes);
        let Some(forms) = &self.forms else { return masked };
        // The truncation may also have split an escape.
        let ends = [Some(masked.len()), escape::halved(&masked)];
        let begins = ends.into_iter().flatten().filter_map(|end| forms.begun(&masked[..end])).min();
        if let Some(begins) = begins {
            masked.truncate(begins);
            masked.extend_from_slice(MASKED.as_bytes());
        }
        masked
    }
}

impl Forms {
    /// Returns the position of a secret whose rest was truncated.
    fn begun(&self, bytes: &[u8]) -> Option<usize> {
        let count = |bytes: &[u8]| {
            let begins = |text: &Vec<u8>| {
                let most = text.len().saturating_sub(1).min(bytes.len());
                (MIN_PIECE_BYTES..=most)
                    .rev()
                    .find(|count| bytes[bytes.len() - count..].eq_ignore_ascii_case(&text[..*count]))
            };
            self.texts.iter().filter_map(begins).max()
        };
        let plain = count(bytes).map(|count| bytes.len() - count);
        let escaped = escape::layers(bytes)
            .filter_map(|plain| count(&plain.bytes).map(|count| plain.at(plain.bytes.len() - count)));
        escaped.chain(plain).min()
    }
}

/// Adds the encoded forms of a value.
fn forms_of(value: &str, forms: &mut BTreeSet<String>) {
    let bytes = value.as_bytes();
    let hex = |separator: &str, only_odd: bool| -> String {
        let plain = |byte: u8| only_odd && (byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte));
        let one = |byte: &u8| match plain(*byte) {
            true => char::from(*byte).to_string(),
            false => format!("{separator}{byte:02x}"),
        };
        bytes.iter().map(one).collect()
    };
    let json = serde_json::Value::from(value).to_string();
    let quoted = json.trim_matches('"').to_owned();
    forms.extend([
        value.to_owned(),
        hex("%", true),
        hex("%", true).replace("%20", "+"),
        hex("%", false),
        hex("", false),
        quoted.replace('/', "\\/"),
        quoted,
        value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;"),
        STANDARD.encode(bytes),
    ]);
    // The base64 form of a value depends on its offset. The search uses only the
    // characters that the value alone determines.
    for before in 0..3 {
        let padded = [&[0; 2][..before], bytes].concat();
        let (first, end) = ([0, 2, 3][before], padded.len() * 8 / 6);
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&padded);
            if end.saturating_sub(first) >= MIN_BYTES {
                forms.insert(encoded[first..end].to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "sk-TOKEN/with+odd=chars&more";

    fn mask() -> Mask {
        Mask::new(&[Secret::new(TOKEN), Secret::new("short"), Secret::new("")])
    }

    #[test]
    fn a_secret_goes_in_every_form_that_it_comes_back_in() {
        let wrapped = |text: &str| STANDARD.encode(text);
        let percent: String = TOKEN.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let hex: String = TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect();
        let rows = [
            TOKEN.to_owned(),
            TOKEN.to_ascii_uppercase(),
            "sk-TOKEN%2Fwith%2Bodd%3Dchars%26more".to_owned(),
            "sk-TOKEN%2fwith%2bodd%3dchars%26more".to_owned(),
            percent,
            hex,
            wrapped(TOKEN),
            wrapped(&format!("u:{TOKEN}")),
            wrapped(&format!("user:{TOKEN}")),
            wrapped(&format!("{{\"token\":\"{TOKEN}\"}}")),
            URL_SAFE_NO_PAD.encode(format!("x{TOKEN}yz")),
            "sk-TOKEN\\/with+odd=chars&more".to_owned(),
            "sk-TOKEN/with+odd=chars&amp;more".to_owned(),
            // Forms of .NET, Gson, templates, and encoders that do not escape all characters.
            r"sk-TOKEN/with\u002Bodd=chars\u0026more".to_owned(),
            r"sk-TOKEN\/with+odd\u003dchars\u0026more".to_owned(),
            r"\u0073k-TOKEN/with+odd=chars\u0026mor\u0065".to_owned(),
            "sk-TOKEN/with&#43;odd&#61;chars&amp;more".to_owned(),
            "sk-TOKEN&#x2F;with&#x2b;odd&#0061;chars&#X26;more".to_owned(),
            "sk-TOKEN/with%2Bodd=chars%26more".to_owned(),
            // Nested encodings.
            r"sk-TOKEN\\/with\\u002Bodd=chars\\u0026more".to_owned(),
            "sk-TOKEN/with&amp;#43;odd=chars&amp;amp;more".to_owned(),
        ];
        for row in rows {
            let masked = mask().text(&format!("before {row} after"));
            let longest = masked.split(MASKED).map(str::len).max().unwrap();
            assert!(masked.contains(MASKED) && longest < 24, "{row}: {masked}");
            assert!(masked.starts_with("before ") && masked.ends_with(" after"), "{masked}");
        }
        let escaped = r"a \u002B b \\ &#43; 100% \u &# &amp; \ud800 \ud83d\ude00 \n";
        for honest in ["short", "", "sk-TOKEN/with", "nothing of it", escaped] {
            assert_eq!(mask().text(honest), honest);
        }
        assert_eq!(mask().bytes(b"\xff\xfe"), b"\xff\xfe");
        let mask = Mask::new(&[Secret::new("caf\u{e9}-\u{1f600}-key")]);
        for text in
            [r"<caf\u00e9-\ud83d\ude00-key>", "<caf&#233;-&#x1F600;-key>", "<caf%C3%A9-%F0%9F%98%80-key>"]
        {
            assert_eq!(mask.text(text), "<[masked]>", "{text}");
        }
    }

    #[test]
    fn what_is_left_of_a_secret_where_a_text_was_cut_goes_too() {
        for (text, expected) in [
            ("body sk-TOKEN/with", "body [masked]"),
            ("body sk-T", "body [masked]"),
            ("body sk-", "body sk-"),
            ("body sk-TOKEN/with+odd=chars&more", "body [masked]"),
            ("body sk-TOKEN!", "body sk-TOKEN!"),
            (r"body \u002B sk-TOKEN\/with\u002B", r"body \u002B [masked]"),
            (r"body sk-TOKEN\/with\u00", "body [masked]"),
            ("body sk-TOKEN&#x2F", "body [masked]"),
            ("body sk-TOKEN%2", "body [masked]"),
            ("body &#x2F", "body &#x2F"),
            ("", ""),
        ] {
            assert_eq!(mask().cut_bytes(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }
}
