//! The OpenAPI document, and the page that displays it.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::{Server, answer};

#[tokio::test]
async fn every_operation_is_described_once_with_what_goes_wrong_and_who_may_call() {
    let server = Server::start(&[]);
    let answered = answer(server.request(Method::GET, "/api/v1/openapi.json")).await.is(StatusCode::OK);
    let document = answered.body;
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["security"], serde_json::json!([{"key": []}, {"session": []}]));
    let schemes = document["components"]["securitySchemes"].as_object().unwrap();
    assert_eq!(schemes.keys().collect::<Vec<_>>(), ["key", "session"]);
    let mut ids = BTreeSet::new();
    let mut tagged = 0;
    let mut open = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let named = format!("{method} {path}");
            assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{named}");
            assert!(!operation["summary"].as_str().unwrap_or_default().is_empty(), "{named}");
            let responses = operation["responses"].as_object().unwrap();
            let problem = &responses["default"]["content"]["application/problem+json"]["schema"]["$ref"];
            assert_eq!(problem, "#/components/schemas/Problem", "{named}");
            let takes = |header: &str| {
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                parameters.into_iter().any(|parameter| parameter["name"] == header)
            };
            let known = responses.contains_key("304");
            let read = responses.get("200");
            let tag = read.is_some_and(|read| !read["headers"]["ETag"].is_null());
            assert_eq!(known, takes("If-None-Match"), "{named}");
            assert_eq!(tag, read.is_some() && (known || takes("If-Match")), "{named}");
            tagged += usize::from(known);
            if operation["security"] == serde_json::json!([]) {
                open.insert(named);
            }
        }
    }
    assert!(tagged >= 6, "{tagged} things are known by their version");
    let health = ["get /api/v1/health", "get /api/v1/health/ready", "get /api/v1/version"];
    assert!(health.iter().all(|named| open.contains(*named)), "{open:?}");
    assert!(!open.iter().any(|named| named.contains("/threads") || named.contains("/runs")), "{open:?}");
    for reference in references(&document) {
        let pointer = reference.trim_start_matches('#');
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    let tag = answered.headers["etag"].clone();
    let same = server.request(Method::GET, "/api/v1/openapi.json").header("if-none-match", tag);
    assert_eq!(answer(same).await.status, 304);
}

#[tokio::test]
async fn tags_are_declared_and_a_key_is_listed_where_a_post_happens_once() {
    let server = Server::start(&[]);
    let document = answer(server.request(Method::GET, "/api/v1/openapi.json")).await.is(StatusCode::OK).body;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let declared: BTreeSet<String> =
        document["tags"].as_array().unwrap().iter().map(|tag| text(&tag["name"])).collect();
    let mut used = BTreeSet::new();
    // Responses with a secret are not stored for a repeated request.
    let mut never = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            used.extend(operation["tags"].as_array().unwrap().iter().map(text));
            let mut parameters = operation["parameters"].as_array().into_iter().flatten();
            let once = parameters.any(|parameter| parameter["name"] == "Idempotency-Key");
            assert!(method == "post" || !once, "{method} {path}");
            if method == "post" && !once {
                let place = path.trim_start_matches("/api/v1/");
                never.insert(place.split('/').next().unwrap().to_owned());
            }
        }
    }
    assert_eq!(used, declared);
    assert_eq!(never.into_iter().collect::<Vec<_>>(), ["auth", "keys", "mcp", "team"]);
    for (path, once) in [("/mcp/servers", true), ("/mcp/servers/{server}/sign-in", false)] {
        let parameters = &document["paths"][format!("/api/v1{path}")]["post"]["parameters"];
        let listed = parameters.as_array().into_iter().flatten().any(|it| it["name"] == "Idempotency-Key");
        assert_eq!(listed, once, "{path}");
    }
}

#[tokio::test]
async fn nothing_but_what_says_so_is_open() {
    let server = Server::start(&[]);
    let document = answer(server.request(Method::GET, "/api/v1/openapi.json")).await.is(StatusCode::OK).body;
    let mut asked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if operation["security"] == serde_json::json!([]) {
                continue;
            }
            let path = path.replace("{seq}", "1").replace(['{', '}'], "x");
            let method: Method = method.to_uppercase().parse().unwrap();
            let anonymous = answer(server.request(method.clone(), &path)).await;
            assert_eq!(anonymous.status, 401, "{method} {path}: {anonymous:#?}");
            asked += 1;
        }
    }
    assert!(asked > 40, "{asked}");
}

fn references(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str);
            own.into_iter().chain(members.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

#[tokio::test]
async fn the_page_runs_nothing_but_its_own_script() {
    let server = Server::start(&[]);
    let page = answer(server.request(Method::GET, "/api/docs")).await.is(StatusCode::OK);
    let html = page.body.as_str().unwrap();
    for header in ["src=\"", "href=\""] {
        for part in html.split(header).skip(1) {
            let address = part.split('"').next().unwrap();
            assert!(address.starts_with("/api/") || address == "data:,", "{address}");
        }
    }
    for path in ["/api/docs", "/api/docs/page.js", "/api/docs/page.css"] {
        let part = answer(server.request(Method::GET, path)).await.is(StatusCode::OK);
        let policy = part.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    }
}
