//! Responses: secrets that a service echoes, redirects, sizes, images.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{TOKEN, said, service, tool};
use crate::outbound::{Far, Reply};

fn echo(path: &str) -> Reply {
    let percent: String = TOKEN.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n";
    match path {
        "/plain" => Reply::ok("text/plain", format!("token {TOKEN} end")),
        "/json" => Reply::ok("application/json", json!({"token": TOKEN}).to_string()),
        "/base64" => Reply::ok("text/plain", STANDARD.encode(format!("user:{TOKEN}"))),
        "/url" => Reply::ok("text/plain", percent),
        "/utf16" => {
            let bytes: Vec<u8> = TOKEN.encode_utf16().flat_map(u16::to_le_bytes).collect();
            Reply::ok("text/plain; charset=utf-16le", bytes)
        }
        "/chunks" => {
            let chunks: String = TOKEN.chars().map(|c| format!("1\r\n{c}\r\n")).collect();
            Reply::Pieces(
                format!("{head}transfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n").into_bytes(),
                3,
            )
        }
        // The bound falls within the secret.
        "/cut" => Reply::ok("text/plain", format!("{}{TOKEN}", "x".repeat(990))),
        "/broken" => Reply::Bytes(format!("{head}content-length: 99\r\n\r\nab {}", &TOKEN[..9]).into_bytes()),
        "/header" => Reply::with(200, &[("etag", TOKEN), ("location", &format!("/?t={TOKEN}"))], ""),
        // The displayed part of the value ends within the secret.
        "/long-header" => Reply::with(200, &[("etag", &format!("{}{TOKEN}", "x".repeat(490)))], ""),
        "/error" => Reply::with(401, &[("content-type", "text/plain")], format!("bad token {TOKEN}")),
        "/picture" => Reply::ok("image/png", [b"\x89PNG\r\n\x1a\n".as_slice(), TOKEN.as_bytes()].concat()),
        "/binary" => Reply::ok("application/octet-stream", [b"\0\x01".as_slice(), TOKEN.as_bytes()].concat()),
        other => panic!("{other}"),
    }
}

// rows: LM-I6
#[tokio::test]
async fn no_echo_of_a_secret_reaches_the_model() {
    let far = Far::start(|asked| echo(asked.line().split_once(' ').unwrap().1)).await;
    let tool = tool(vec![service(json!({
        "name": "a", "base_url": far.url(""), "auth": {"type": "bearer", "token_ref": "t"}, "max_response_bytes": 1000,
    }))]);
    for (path, expected) in [
        ("/plain", "token [masked] end"),
        ("/json", r#"{"token":"[masked]"}"#),
        ("/base64", "[masked]"),
        ("/url", "[masked]"),
        ("/utf16", "[masked]"),
        ("/chunks", "[masked]"),
        ("/cut", "xxx[masked]\n[truncated after 1000 bytes]"),
        ("/broken", "ab [masked]\n[incomplete after 12 bytes"),
        ("/header", "etag: [masked]\nlocation: /?t=[masked]"),
        ("/long-header", "xxx[masked]"),
        ("/error", "error: HTTP 401 Unauthorized\ncontent-type: text/plain\n\nbad token [masked]"),
        ("/picture", "<image/png, 16 bytes>"),
        ("/binary", "[18 bytes of binary data, not shown]"),
    ] {
        let said = said(&tool, json!({"service": "a", "method": "GET", "path": path})).await;
        assert!(said.contains(expected), "{path}: {said}");
        assert!(!said.contains("SENT") && !said.contains(&STANDARD.encode(TOKEN)[4..12]), "{path}: {said}");
    }
}

#[tokio::test]
async fn redirects_stay_with_the_service_and_on_its_paths() {
    let other = Far::start(|_| Reply::ok("text/plain", "other")).await;
    let elsewhere = other.url("/v1/a/there");
    let far = Far::start(move |asked| match asked.line().split_once(' ').unwrap().1 {
        "/v1/a/in" => Reply::to(302, "/v1/a/there"),
        "/v1/a/there" => Reply::ok("text/plain", "here"),
        "/v1/a/out" => Reply::to(302, "/v1/admin"),
        "/v1/a/up" => Reply::to(302, "/v2/a/x"),
        "/v1/a/twisted" => Reply::to(302, "/v1/a/%2e%2e%2fadmin"),
        "/v1/a/other" => Reply::to(307, &elsewhere),
        path => panic!("{path}"),
    })
    .await;
    let auth = json!({"type": "bearer", "token_ref": "t"});
    let tool = tool(vec![service(
        json!({"name": "a", "base_url": far.url("/v1"), "auth": auth, "allowed_paths": ["^/a/"]}),
    )]);
    for (method, path, expected) in [
        ("GET", "/a/in", "\n\nhere"),
        ("GET", "/a/out", "HTTP 302 Found\nlocation: /v1/admin"),
        ("GET", "/a/up", "HTTP 302 Found"),
        ("GET", "/a/twisted", "HTTP 302 Found"),
        ("GET", "/a/other", "HTTP 307 Temporary Redirect"),
        // A call with an effect is never sent twice.
        ("POST", "/a/in", "HTTP 302 Found"),
        ("PUT", "/a/other", "HTTP 307 Temporary Redirect"),
    ] {
        let said = said(&tool, json!({"service": "a", "method": method, "path": path})).await;
        assert!(said.contains(expected), "{method} {path}: {said}");
    }
    assert!(other.asked().is_empty());
}
