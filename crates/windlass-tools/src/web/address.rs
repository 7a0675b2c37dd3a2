//! The canonical form of a URL. It ensures that the policy and the HTTP client read a URL in the same way.
//!
//! This module evaluates no policy and sends no request.

use windlass_outbound::Url;

/// Returns the required form of a URL: as parsers write it, without a fragment, and without unnecessary
/// encoding. (RFC 3986, section 6.2.2)
pub(super) fn form(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    if let Some(host) = url.host_str().map(|host| host.trim_end_matches('.').to_owned())
        && url.set_host(Some(&host)).is_err()
    {
        // The path has only dots; the URL is rejected later.
        return url.into();
    }
    let (path, query) = (decoded(url.path()), url.query().map(decoded));
    url.set_path(&path);
    url.set_query(query.as_deref());
    url.into()
}

/// Decodes characters that need no encoding.
fn decoded(text: &str) -> String {
    let (mut decoded, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, behind)) = rest.split_once('%') {
        decoded.push_str(before);
        let digits = behind.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                decoded.push(char::from(byte));
            }
            Some(byte) => decoded.push_str(&format!("%{byte:02X}")),
            None => decoded.push('%'),
        }
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    decoded.push_str(rest);
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_form() {
        for (text, expected) in [
            ("https://a.example/", "https://a.example/"),
            ("https://a.example", "https://a.example/"),
            ("HTTPS://A.Example:443/x", "https://a.example/x"),
            ("https://a.example./x", "https://a.example/x"),
            ("https://%61.example/x", "https://a.example/x"),
            ("https://b\u{fc}cher.example/", "https://xn--bcher-kva.example/"),
            ("https://a.example/%61dmin/%2e%2e/x?%71=%2f%7e#part", "https://a.example/x?q=%2F~"),
            ("https://a.example/caf\u{e9} x?y=a b", "https://a.example/caf%C3%A9%20x?y=a%20b"),
            ("https://a.example/100%/%zz/%2", "https://a.example/100%/%zz/%2"),
            ("http:\\\\a.example\\x", "http://a.example/x"),
            ("http://127.1:8080/", "http://127.0.0.1:8080/"),
            ("http://[::1]/", "http://[::1]/"),
            ("https://a.example/web/https://b.example//", "https://a.example/web/https://b.example//"),
        ] {
            let form = form(&Url::parse(text).unwrap());
            assert_eq!(form, expected, "{text}");
            assert_eq!(super::form(&Url::parse(&form).unwrap()), form, "{text}");
        }
    }
}
