//! Self-contained HTML pages, which need no script and no other file.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

/// Content security policy: only this page's own style and form.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

/// Builds a response with a page around an HTML body.
pub fn page(status: StatusCode, body: &str) -> Response {
    // The colors are those of the web UI, whose style sheet is not available to this page.
    const STYLE: &str = ":root{color-scheme:light dark}\
        body{font:1rem/1.5 system-ui,sans-serif;margin:0;min-height:100vh;display:grid;place-items:center;\
        background:light-dark(#fbfbfa,#131716);color:light-dark(#1c2321,#e6ebe9)}\
        main{box-sizing:border-box;width:min(26rem,100vw - 2rem);padding:1.6rem;border-radius:14px;\
        background:light-dark(#fff,#1a201e);border:1px solid light-dark(#d9dedb,#36403d)}\
        h1{font-size:1.35rem;margin:0 0 .75rem}a{color:light-dark(#0f766e,#4fc4b7)}\
        label,input,button{display:block;width:100%;box-sizing:border-box;font:inherit}\
        input,button{margin:.25rem 0 1rem;padding:.5rem .75rem;border-radius:8px;\
        border:1px solid light-dark(#d9dedb,#36403d)}\
        button{margin-bottom:0;border:0;font-weight:600;cursor:pointer;\
        background:light-dark(#0f766e,#4fc4b7);color:light-dark(#fff,#06231f)}";
    let html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Windlass</title>\
         <meta name=viewport content=\"width=device-width\"><style>{STYLE}</style><main>{body}</main></html>"
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        // With `no-referrer`, a browser would submit the form with the origin `null`, which the server rejects.
        (header::REFERRER_POLICY, "same-origin"),
    ];
    (status, headers, html).into_response()
}

/// Escapes a text for HTML content and quoted attributes.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_input_is_escaped() {
        assert_eq!(
            escaped("\"><script>'a' & b</script>"),
            "&quot;&gt;&lt;script&gt;&#39;a&#39; &amp; b&lt;/script&gt;"
        );
    }
}
