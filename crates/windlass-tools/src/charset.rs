//! Decodes bytes from the web by the encoding that a byte order mark, a header or the head of the text names.
//!
//! The decoder does not guess: it replaces invalid bytes by U+FFFD and reports them.

use encoding_rs::{Encoding, UTF_8};

/// Number of bytes searched for a page's encoding, as in browsers.
const HEAD_BYTES: usize = 1024;

/// A decoded text, and whether it had invalid bytes.
pub(crate) struct Decoded {
    pub text: String,
    pub is_lossy: bool,
}

/// Decodes bytes as text.
pub(crate) fn decode(bytes: &[u8], content_type: Option<&str>) -> Decoded {
    let named = content_type.and_then(|kind| parameter(kind, "charset"));
    let encoding = match Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding,
        None => named
            .and_then(|label| Encoding::for_label(label.as_bytes()))
            .or_else(|| in_head(bytes))
            .unwrap_or(UTF_8),
    };
    let (text, _, is_lossy) = encoding.decode(bytes);
    Decoded { text: text.into_owned(), is_lossy }
}

/// Returns the media type of a `Content-Type`, in lower case and without parameters.
pub(crate) fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether a media type is textual.
pub(crate) fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
        || [
            "application/json",
            "application/x-ndjson",
            "application/xml",
            "application/javascript",
            "application/ecmascript",
            "application/yaml",
            "application/x-yaml",
            "application/toml",
            "application/x-sh",
            "application/sql",
            "application/graphql",
            "application/x-www-form-urlencoded",
        ]
        .contains(&media_type)
}

fn parameter<'a>(kind: &'a str, wanted: &str) -> Option<&'a str> {
    kind.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case(wanted).then(|| value.trim().trim_matches('"'))
    })
}

/// Returns the encoding that an HTML or XML text declares in its head: `<meta charset="…">`, `encoding="…"`.
fn in_head(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES)]).to_ascii_lowercase();
    let labelled = |word: &str| {
        let behind = head.split_once(word)?.1.trim_start();
        let value = behind.strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
        let end =
            value.find(|c: char| !(c.is_ascii_alphanumeric() || "-_:.".contains(c))).unwrap_or(value.len());
        Encoding::for_label(&value.as_bytes()[..end])
    };
    let found = match head.trim_start().starts_with("<?xml") {
        true => labelled("encoding"),
        false if head.contains("<meta") => labelled("charset"),
        false => None,
    };
    // A head that was decoded as ASCII cannot be in a two-byte encoding.
    found.map(|encoding| if encoding.output_encoding() == encoding { encoding } else { UTF_8 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_in_the_encoding_that_is_named() {
        let rows: [(&[u8], Option<&str>, &str, bool); 10] = [
            (b"caf\xc3\xa9", None, "café", false),
            (b"caf\xe9", Some("text/plain; charset=iso-8859-1"), "café", false),
            (b"caf\xe9", Some("text/plain;CHARSET=\"windows-1252\""), "café", false),
            (b"\xef\xbb\xbfcaf\xc3\xa9", Some("text/plain; charset=latin1"), "café", false),
            (b"\xff\xfec\0a\0", None, "ca", false),
            (
                b"<meta charset='windows-1251'>\xef",
                Some("text/html"),
                "<meta charset='windows-1251'>п",
                false,
            ),
            (
                b"<?xml version='1.0' encoding='latin1'?>\xe9",
                None,
                "<?xml version='1.0' encoding='latin1'?>é",
                false,
            ),
            (b"<meta charset=utf-16le>\xc3\xa9", None, "<meta charset=utf-16le>é", false),
            (b"caf\xe9", None, "caf\u{fffd}", true),
            (b"caf\xe9", Some("text/plain; charset=klingon"), "caf\u{fffd}", true),
        ];
        for (bytes, kind, text, is_lossy) in rows {
            let decoded = decode(bytes, kind);
            assert_eq!((&*decoded.text, decoded.is_lossy), (text, is_lossy), "{kind:?}");
        }
    }
}
