//! Determines the headers that a model may set, in any spelling of their names.
//!
//! A model cannot set headers that authenticate, route or frame the request, or that override its method.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

/// Headers that affect the request itself.
const RESERVED: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "idempotency-key",
    "keep-alive",
    "origin",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// Prefixes of reserved headers.
const RESERVED_STARTS: &[&str] = &["proxy-", "sec-", "x-forwarded-"];

/// Substrings of the names of authentication headers.
const SIGNING: &[&str] = &[
    "authorization",
    "cookie",
    "api-key",
    "apikey",
    "auth-token",
    "access-token",
    "secret",
    "credential",
    "password",
];

/// Maximum number of headers in a call. Servers accept about 100.
const MAX_HEADERS: usize = 32;

/// Maximum size of a header value, in bytes. Servers accept about 8 KiB for all headers together.
const MAX_VALUE_BYTES: usize = 4096;

/// The headers of a call.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub headers: HeaderMap,
    /// Names of the headers that were dropped.
    pub left_out: Vec<String>,
}

/// Validates the headers that a model requests. `own`: the headers that the service's definition sets.
pub(super) fn sanitised(asked: &Map<String, Value>, own: &[HeaderName]) -> Result<Said, String> {
    if asked.len() > MAX_HEADERS {
        return Err(format!("{} headers are too many; the limit is {MAX_HEADERS}", asked.len()));
    }
    let mut said = Said::default();
    for (name, value) in asked {
        let shown: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
        let known = HeaderName::from_bytes(name.trim().as_bytes());
        let Ok(known) = known else { return Err(format!("`{shown}` is not a valid header name")) };
        if is_reserved(known.as_str())
            || own.iter().any(|own| one_name(own.as_str()) == one_name(known.as_str()))
        {
            said.left_out.push(shown);
            continue;
        }
        // The gate evaluated the arguments as written. Programs behind a gateway
        // must not receive two spellings of one name.
        let one = one_name(known.as_str());
        if one != *name {
            return Err(format!("write the header as `{one}`: policy rules match it exactly as written"));
        }
        let value =
            value.as_str().ok_or_else(|| format!("the value of the header `{shown}` must be a string"))?;
        if value.len() > MAX_VALUE_BYTES {
            return Err(format!(
                "the header `{shown}` has {} bytes; the limit is {MAX_VALUE_BYTES}",
                value.len()
            ));
        }
        let value = HeaderValue::from_str(value).map_err(|_| {
            format!("the header `{shown}` contains characters that are not allowed in a header")
        })?;
        said.headers.insert(known, value);
    }
    Ok(said)
}

/// Whether a model may not set a header.
pub(super) fn is_reserved(name: &str) -> bool {
    let name = one_name(name);
    RESERVED.contains(&&*name)
        || RESERVED_STARTS.iter().any(|start| name.starts_with(start))
        || SIGNING.iter().any(|word| name.contains(word))
        // `Private-Token`, `X-Vault-Token`.
        || name.rsplit('-').next() == Some("token")
}

/// Returns a header's name as programs behind a gateway see it. CGI maps every character other than letters
/// and digits to the same character. (RFC 3875, section 4.1.18)
fn one_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // rows: LM-I8
    #[test]
    fn a_model_sets_no_header_that_says_who_asks_or_where() {
        let own = [HeaderName::from_static("x-tenant")];
        for name in [
            "Authorization",
            "AUTHORIZATION",
            "aUtHoRiZaTiOn",
            " authorization ",
            "Proxy-Authorization",
            "Cookie",
            "Set-Cookie",
            "X-API-Key",
            "x-apikey",
            "X-Auth-Token",
            "X-Goog-Api-Key",
            "X-Amz-Security-Secret",
            "Host",
            "Content-Length",
            "Transfer-Encoding",
            "Connection",
            "Upgrade",
            "X-Forwarded-For",
            "X-HTTP-Method-Override",
            "Idempotency-Key",
            "X-Tenant",
            "X_Tenant",
            "x.tenant",
            "X_HTTP_METHOD_OVERRIDE",
            "X_API_KEY",
            "x.api_key",
            "X_Forwarded_For",
            "Private-Token",
            "X-Vault-Token",
            "X-Amz-Security-Token",
            "token",
            "Sec-Fetch-Site",
        ] {
            let asked = json!({ name: "x", "accept": "text/plain" });
            let said = sanitised(asked.as_object().unwrap(), &own).unwrap();
            assert_eq!((said.headers.len(), said.left_out.len()), (1, 1), "{name}");
        }
    }

    #[test]
    fn a_model_sets_other_headers() {
        for name in ["accept", "x-tenants", "x-page", "x-token-count", "if-match", "x-tokens"] {
            let said = sanitised(json!({ name: "x" }).as_object().unwrap(), &[]).unwrap();
            assert_eq!((said.headers.len(), said.left_out.len()), (1, 0), "{name}");
        }
    }

    #[test]
    fn a_header_has_one_spelling_that_rules_can_judge() {
        for (name, one) in [
            ("Accept", "accept"),
            (" accept", "accept"),
            ("aCCEPT ", "accept"),
            ("x_dry_run", "x-dry-run"),
            ("x.dry-run", "x-dry-run"),
            ("X_Dry-Run", "x-dry-run"),
        ] {
            let refused = sanitised(json!({ name: "x" }).as_object().unwrap(), &[]).unwrap_err();
            let said = format!("write the header as `{one}`: policy rules match it exactly as written");
            assert_eq!(refused, said, "{name}");
        }
    }

    #[test]
    fn what_no_header_can_hold_is_refused() {
        let long = "x".repeat(5000);
        for asked in [
            json!({ "x-a": "a\r\nAuthorization: Bearer x" }),
            json!({ "x-a": "a\nb" }),
            json!({ "x-a": "\u{0}" }),
            json!({ "x-a": "caf\u{7f}" }),
            json!({ "x-a\r\nAuthorization": "x" }),
            json!({ "x a": "x" }),
            json!({ "": "x" }),
            json!({ "x-a": 5 }),
            json!({ "x-a": long }),
        ] {
            assert!(sanitised(asked.as_object().unwrap(), &[]).is_err(), "{asked}");
        }
        let many: Map<String, Value> = (0..33).map(|n| (format!("x-{n}"), json!("x"))).collect();
        assert!(sanitised(&many, &[]).is_err());
    }
}
