//! Normalizes the path that a model writes to the one form that is both evaluated and sent.
//!
//! Ambiguous paths are rejected, not repaired: dot segments, encoded separators, double encoding, empty
//! segments. The caller must check whether the model wrote the canonical form.

use std::fmt::Write;

/// Maximum size of a path with its query, in bytes. Servers accept about 8 KiB.
const MAX_BYTES: usize = 4096;

/// A normalized path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// The path. It starts with a slash, and only the characters that require encoding are encoded.
    pub path: String,
    /// The query, in the same form.
    pub query: Option<String>,
}

impl Path {
    /// Returns the canonical form of path and query.
    pub(super) fn form(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }
}

/// Normalizes a path. The model reads the error.
pub(super) fn normal(text: &str) -> Result<Path, String> {
    let refuse = |why: &str| {
        let shown: String = text.chars().take(200).collect();
        Err(format!("the path `{shown}` {why}"))
    };
    if text.len() > MAX_BYTES {
        return refuse(&format!("has {} bytes; the limit is {MAX_BYTES}", text.len()));
    }
    if text.contains('#') {
        return refuse("has a fragment (`#…`), which is never sent; remove it, or write `%23`");
    }
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    if !path.starts_with('/') {
        return refuse("must begin with `/`: it is relative to the service's base URL");
    }
    if text.chars().any(|c| c.is_control()) || path.contains('\\') {
        return refuse("contains a control character or a backslash");
    }
    let Some(decoded) = decoded(path) else {
        return refuse(
            "has a `%` that is not followed by two hexadecimal digits, or bytes that are not UTF-8",
        );
    };
    let Some(normal) = encoded(path) else {
        return refuse("percent-encodes a separator, a control character or another percent-encoding");
    };
    let segments: Vec<&str> = decoded.split('/').skip(1).collect();
    let last = segments.len() - 1;
    for (index, segment) in segments.iter().enumerate() {
        // Servers with path parameters treat `..;x` as `..`.
        let name = segment.split(';').next().unwrap_or_default();
        if name == "." || name == ".." {
            return refuse("has a `.` or `..` segment; write the path without them");
        }
        if segment.is_empty() && index < last {
            return refuse("has an empty segment (`//`)");
        }
    }
    Ok(Path { path: normal, query: query.map(of_query) })
}

/// Whether a byte is allowed unencoded in a path (RFC 3986, `pchar` and `/`).
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte)
}

/// Returns the byte that the two hexadecimal digits after a `%` encode.
fn pair(bytes: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(bytes.get(..2)?).ok()?;
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u8::from_str_radix(text, 16).ok().filter(|_| is_hex)
}

fn decoded(path: &str) -> Option<String> {
    let (bytes, mut at, mut decoded) = (path.as_bytes(), 0, Vec::new());
    while let Some(byte) = bytes.get(at) {
        if *byte == b'%' {
            decoded.push(pair(&bytes[at + 1..])?);
            at += 3;
        } else {
            decoded.push(*byte);
            at += 1;
        }
    }
    String::from_utf8(decoded).ok()
}

/// Encodes only the characters of a path that require encoding. Returns
/// `None` if an encoded byte must not be sent.
fn encoded(path: &str) -> Option<String> {
    let (bytes, mut at, mut normal) = (path.as_bytes(), 0, String::new());
    while let Some(byte) = bytes.get(at) {
        let (byte, is_encoded) = match byte {
            b'%' => (pair(&bytes[at + 1..])?, true),
            byte => (*byte, false),
        };
        at += if is_encoded { 3 } else { 1 };
        let separates = matches!(byte, b'/' | b'\\' | 0..=0x1f | 0x7f);
        // A server that decodes twice turns `%252e` into `%2e`, and that into a dot.
        if is_encoded && (separates || (byte == b'%' && pair(&bytes[at..]).is_some())) {
            return None;
        }
        if is_plain(byte) {
            normal.push(char::from(byte));
        } else {
            write!(normal, "%{byte:02X}").ok()?;
        }
    }
    Some(normal)
}

/// Encodes only the characters of a query that require encoding. Separators stay unchanged, because an
/// encoded separator has a different meaning.
fn of_query(text: &str) -> String {
    let (bytes, mut at, mut normal) = (text.as_bytes(), 0, String::new());
    while let Some(byte) = bytes.get(at) {
        let encoded = if *byte == b'%' { pair(&bytes[at + 1..]) } else { None };
        at += if encoded.is_some() { 3 } else { 1 };
        let byte = encoded.unwrap_or(*byte);
        let separates = b"&=+;".contains(&byte);
        // The URL parser encodes an apostrophe.
        let stands = byte.is_ascii_alphanumeric() || b"-._~!$()*,:@/?".contains(&byte);
        if stands || (separates && encoded.is_none()) {
            normal.push(char::from(byte));
        } else {
            normal.push_str(&format!("%{byte:02X}"));
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_form() {
        for (text, path, query) in [
            ("/", "/", None),
            ("/widgets/42", "/widgets/42", None),
            ("/widgets/", "/widgets/", None),
            ("/%77idgets/%34%32", "/widgets/42", None),
            ("/a%20b", "/a%20b", None),
            ("/a b", "/a%20b", None),
            ("/caf\u{e9}", "/caf%C3%A9", None),
            ("/caf%c3%a9", "/caf%C3%A9", None),
            ("/100%25", "/100%25", None),
            ("/a.b/.hidden/...", "/a.b/.hidden/...", None),
            ("/x:y@z;v=1,2", "/x:y@z;v=1,2", None),
            ("/a|b\"<>", "/a%7Cb%22%3C%3E", None),
            ("/s?q=a/../b//c&r=%2e", "/s", Some("q=a/../b//c&r=.")),
            ("/s?%66orce=1&a=%26%3d+%2B", "/s", Some("force=1&a=%26%3D+%2B")),
            ("/s?f[a]=caf\u{e9} 'x'&b=100%", "/s", Some("f%5Ba%5D=caf%C3%A9%20%27x%27&b=100%25")),
            ("/s?", "/s", Some("")),
        ] {
            let expected = Path { path: path.to_owned(), query: query.map(str::to_owned) };
            assert_eq!(normal(text), Ok(expected.clone()), "{text}");
            assert_eq!(normal(&expected.form()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let long = format!("/{}", "a".repeat(5000));
        for text in [
            "",
            "widgets",
            "?q",
            "https://evil.example/x",
            "//evil.example/x",
            "/a//b",
            "/a/..",
            "/a/../b",
            "/./a",
            "/a/%2e%2e/b",
            "/a/.%2E/b",
            "/a/%252e%252e/b",
            "/a%2fb",
            "/a%2Fb",
            "/a%5cb",
            "/a\\b",
            "/..\\b",
            "/a/..;/b",
            "/a/..;x=1/b",
            "/%00",
            "/a%0d%0aHost:x",
            "/a\r\nHost: x",
            "/a\tb",
            "/a?q=\n",
            "/a#b",
            "/%",
            "/%2",
            "/%zz",
            "/%+1",
            "/%c0%ae%c0%ae/",
            "/%ff",
            "/%252f",
            &long,
        ] {
            assert!(normal(text).is_err(), "{text}");
        }
    }
}
