//! Which requests are sent or rejected, and their effect classes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass::clock::SystemClock;
use windlass::machine::EffectClass;
use windlass::port::tool::{Tool, ToolOutcome};
use windlass::secret::Secret;
use windlass::tool::api::{Api, ApiCall, AuthCall, ResolveAuth, Service};

use super::{Noted, Signer, TOKEN, call, context, mirror, of, said, service, tool};
use crate::outbound::{Far, Reply, inside, way};

// rows: LM-I1, LM-I2
#[tokio::test]
async fn a_model_sees_names_and_nothing_else() {
    let far = mirror().await;
    let make = |services| {
        ApiCall::new(
            Api::new(services, BTreeMap::new()),
            way(inside(&["127.0.0.1"]), &[]),
            Arc::new(SystemClock::new()),
        )
    };
    assert!(make(vec![]).unwrap().is_none(), "without services there is no tool");
    let services = [
        json!({
            "name": "widgets", "baseUrl": far.url("/v1"), "description": "Our stock.",
            "auth": {"type": "bearer", "tokenRef": "vault:widgets"},
            "allowedPaths": ["^/widgets"], "allowedMethods": ["get", "POST"],
        }),
        json!({"name": "open", "base_url": far.url("/")}),
    ];
    let tool = make(services.map(service).to_vec()).unwrap().unwrap();
    let spec = tool.spec();
    assert_eq!(spec.name.as_str(), "ApiCall");
    assert_eq!(spec.input_schema["properties"]["service"]["enum"], json!(["widgets", "open"]));
    let seen = serde_json::to_string(spec).unwrap();
    for hidden in ["127.0.0.1", "/v1", "vault"] {
        assert!(!seen.contains(hidden), "{hidden}: {seen}");
    }
    assert!(
        spec.description
            .contains("Service `widgets`: Our stock.\nMethods: GET, POST\nAllowed paths: ^/widgets")
    );
}

// rows: LM-I3, LM-I4, LM-I10, LM-X17
#[tokio::test]
async fn each_call_is_sent_as_it_was_asked_or_refused_with_the_reason() {
    let far = mirror().await;
    let tool = tool(vec![
        service(json!({
            "name": "w", "base_url": far.url("/v1"), "auth": {"type": "bearer", "token_ref": "t"},
            "allowed_paths": [r"^/widgets(/\d+)?$", "^/up"], "allowed_methods": ["GET", "POST", "PATCH"],
            "max_body_bytes": 40, "headers": {"X-Tenant": "acme"},
        })),
        service(json!({"name": "open", "base_url": far.url("")})),
    ]);
    let get = |path: &str| json!({"service": "w", "method": "GET", "path": path});
    let post = |body: Value| json!({"service": "w", "method": "POST", "path": "/widgets", "body": body});
    let raw = |body: Value| json!({"service": "w", "method": "PATCH", "path": "/up?uploadType=media", "body": body, "bodyEncoding": "raw"});
    let mut markdown = raw(json!("# Hello"));
    markdown["headers"] = json!({"content-type": "text/markdown"});
    let rows = [
        (get("/widgets"), "GET /v1/widgets by somebody -:"),
        (get("/widgets/42?full=true"), "GET /v1/widgets/42?full=true by somebody -:"),
        // Rules judge exactly what is sent, so there is only one valid spelling.
        (get("/%77idgets"), "error: write the path as `/widgets`: policy rules match it exactly as written"),
        (get("/widgets?f%75ll=%74rue"), "error: write the path as `/widgets?full=true`"),
        (get("/widgets?full=a b"), "error: write the path as `/widgets?full=a%20b`"),
        (
            get("/gadgets"),
            r"error: the path `/gadgets` is not allowed; it must match ^/widgets(/\d+)?$ or ^/up",
        ),
        (get("/widgets/x"), "error: the path `/widgets/x` is not allowed"),
        (get("/widgets/%2e%2e/admin"), "error: the path `/widgets/%2e%2e/admin` has a `.` or `..` segment"),
        (get("/up/../../admin"), "has a `.` or `..` segment"),
        (get("/up%2f..%2fadmin"), "encodes a separator"),
        (get("//evil.example/up"), "has an empty segment"),
        (get("https://evil.example/up"), "must begin with `/`"),
        (get("/up\r\nX: y"), "contains a control character"),
        (post(json!({"a": 1})), "POST /v1/widgets by somebody application/json keyed: {\"a\":1}"),
        (post(json!("text")), "application/json keyed: \"text\""),
        (post(json!("x".repeat(39))), "error: the body has 41 bytes; `w` accepts at most 40"),
        (raw(json!("plain")), "PATCH /v1/up?uploadType=media by somebody text/plain keyed: plain"),
        (markdown, "by somebody text/markdown keyed: # Hello"),
        (raw(json!({"a": 1})), "error: ERR_API_RAW_BODY_NOT_STRING"),
        (raw(json!("x".repeat(41))), "error: the body has 41 bytes; `w` accepts at most 40"),
        (
            json!({"service": "w", "method": "GET", "path": "/widgets", "body": 1}),
            "error: `GET` requests cannot have a body",
        ),
        (json!({"service": "w", "method": "DELETE", "path": "/widgets"}), "allowed: GET, POST, PATCH"),
        (json!({"service": "w", "method": "TRACE", "path": "/widgets"}), "error: `/method`"),
        (json!({"service": "v", "method": "GET", "path": "/"}), "error: `/service`"),
        (json!({"service": "w", "method": "GET"}), "error: `arguments`: \"path\" is a required property"),
        (json!({"service": "w", "method": "GET", "path": "/widgets", "url": "x"}), "error: `arguments`"),
        (json!({"service": "open", "method": "GET", "path": "/"}), "GET / by nobody"),
        (json!({"service": "open", "method": "DELETE", "path": "/a/b/"}), "DELETE /a/b/ by nobody - keyed"),
    ];
    let refused = rows
        .iter()
        .filter(|(_, expected)| !expected.contains("by ") && !expected.starts_with("application"))
        .count();
    for (arguments, expected) in &rows {
        let said = said(&tool, arguments.clone()).await;
        assert!(said.contains(expected), "{arguments}: {said}");
    }
    let asked = far.asked();
    assert_eq!(asked.len(), rows.len() - refused, "nothing that was refused was sent");
    assert_eq!(asked[0].header("x-tenant"), Some("acme"));
}

// rows: LM-I5, LM-I8
#[tokio::test]
async fn each_kind_of_credentials_becomes_its_header() {
    let far = Far::start(|_| Reply::ok("text/plain", "")).await;
    let named =
        |name: &str, auth: Value| service(json!({"name": name, "base_url": far.url("/"), "auth": auth}));
    let services = vec![
        named("none", json!({"type": "none"})),
        named("bearer", json!({"type": "bearer", "token_ref": "t"})),
        named("header", json!({"type": "header", "name": "X-Key", "value_ref": "t"})),
        named("basic", json!({"type": "basic", "user_ref": "u", "pass_ref": "p"})),
        named("custom", json!({"type": "custom", "id": "hmac"})),
        named("missing", json!({"type": "bearer", "token_ref": "nothing"})),
        named("unknown", json!({"type": "custom", "id": "other"})),
    ];
    let mut api = Api::new(services, BTreeMap::new());
    api.secrets = Arc::new(BTreeMap::from(
        [("t", TOKEN), ("u", "ann"), ("p", "pass-SENTINEL")]
            .map(|(name, value)| (name.to_owned(), windlass::secret::Secret::new(value))),
    ));
    api.resolve_auth = Some(Arc::new(Signer));
    let tool = of(api);
    let rows = [
        ("none", None, None),
        ("bearer", Some("Bearer sk-SENTINEL/9+x="), None),
        ("header", None, Some(TOKEN)),
        // `ann:pass-SENTINEL`
        ("basic", Some("Basic YW5uOnBhc3MtU0VOVElORUw="), None),
        ("custom", Some("custom|POST|/a|2|SENTINEL"), None),
    ];
    for (name, authorization, key) in rows {
        // A model cannot authenticate as another user.
        let headers =
            json!({"AUTHORIZATION": "Bearer forged", "Cookie": "a=b", "x-key": "forged", "x-fine": "yes"});
        let arguments =
            json!({"service": name, "method": "POST", "path": "/a?b=c", "body": {}, "headers": headers});
        let said = said(&tool, arguments).await;
        let asked = far.asked().pop().unwrap();
        let key = key.or((name != "header").then_some("forged"));
        assert_eq!((asked.header("authorization"), asked.header("x-key")), (authorization, key), "{name}");
        assert_eq!((asked.header("cookie"), asked.header("x-fine")), (None, Some("yes")));
        assert!(said.contains("not sent, because they are reserved: AUTHORIZATION, Cookie"), "{said}");
        assert!(!said.contains("SENTINEL"), "{said}");
    }
    let before = far.asked().len();
    for (name, expected) in [
        ("missing", "error: the service `missing` cannot be called: there is no secret named `nothing`"),
        ("unknown", "error: the scheme `other` is not known"),
    ] {
        assert_eq!(said(&tool, json!({"service": name, "method": "GET", "path": "/"})).await, expected);
    }
    assert_eq!(far.asked().len(), before);
}

#[test]
fn definitions_that_make_no_sense_are_refused() {
    let with = |change: Value| {
        let mut json = json!({"name": "a", "base_url": "https://api.example.com/v1"});
        json.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let services = vec![service(json.clone())];
        let outbound = way(inside(&["127.0.0.1"]), &[]);
        let made = ApiCall::new(Api::new(services, BTreeMap::new()), outbound, Arc::new(SystemClock::new()));
        made.err().map_or("taken".to_owned(), |error| error.to_string())
    };
    for (change, expected) in [
        (json!({}), "taken"),
        (json!({"base_url": "https://api.example.com:8443/v1"}), "taken"),
        (json!({"base_url": "http://127.0.0.1:9/"}), "taken"),
        (json!({"name": ""}), "a name must have 1 to 64"),
        (json!({"name": "a b"}), "a name must have 1 to 64"),
        (json!({"base_url": "api.example.com"}), "is not a valid URL"),
        (json!({"base_url": "ftp://api.example.com"}), "`ftp` URLs are not allowed"),
        (json!({"base_url": "http://10.0.0.1"}), "the setting `internal_hosts` contains neither"),
        (
            json!({"base_url": "https://u:hunter2@api.example.com"}),
            "`base_url` contains a user name or password; use `auth`",
        ),
        (
            json!({"base_url": "https://api.example.com/?key=hunter2"}),
            "`base_url` must not have a query or a fragment",
        ),
        (
            json!({"base_url": "https://u:hunter2@api.example.com/?a"}),
            "`base_url` contains a user name or password",
        ),
        (json!({"base_url": "https://u:hunter2@api example.com/"}), "`base_url` is not a valid URL"),
        (json!({"base_url": "http://api.example.com"}), "taken"),
        (
            json!({"base_url": "http://api.example.com", "auth": {"type": "bearer", "token_ref": "t"}}),
            "would send credentials unencrypted",
        ),
        (
            json!({"allowed_paths": ["/widgets"]}),
            "would match in the middle of another path; begin it with `^`",
        ),
        (json!({"allowed_paths": ["^/(a"]}), "the allowed path `^/(a` is not a valid regular expression"),
        (json!({"allowed_methods": ["FETCH"]}), "`FETCH` is not a supported method"),
        (json!({"headers": {"Authorization": "x"}}), "put secrets into `auth`"),
        (json!({"headers": {"X\n": "x"}}), "is not a valid header name"),
        (
            json!({"auth": {"type": "header", "name": "x y", "value_ref": "t"}}),
            "`x y` is not a valid header name",
        ),
        (json!({"max_body_bytes": 1_000_000_000}), "must not exceed"),
        (json!({"timeout_ms": 0}), "`timeout_ms = 0` is not between"),
        (json!({"openapi": "openapi: 2.0"}), "supported: 3.0 to 3.2"),
    ] {
        let said = with(change.clone());
        assert!(said.contains(expected), "{change}: {said}");
        assert!(!said.contains("hunter2"));
    }
    let twice = vec![Service::new("a", "https://a.example"), Service::new("a", "https://b.example")];
    let made =
        ApiCall::new(Api::new(twice, BTreeMap::new()), way(inside(&[]), &[]), Arc::new(SystemClock::new()));
    assert_eq!(made.err().unwrap().to_string(), "the service `a`: another service has the same name");
}

#[test]
fn a_call_counts_as_what_its_method_does() {
    let tool = tool(vec![
        service(json!({"name": "plain", "base_url": "https://a.example"})),
        service(json!({"name": "keyed", "base_url": "https://a.example", "idempotency_keys": true})),
    ]);
    for (method, service, class, read_only, destructive) in [
        ("GET", "plain", EffectClass::Pure, true, false),
        ("HEAD", "plain", EffectClass::Pure, true, false),
        ("OPTIONS", "plain", EffectClass::Pure, true, false),
        ("PUT", "plain", EffectClass::Idempotent, false, false),
        ("DELETE", "plain", EffectClass::Idempotent, false, true),
        ("POST", "plain", EffectClass::Once, false, false),
        ("PATCH", "plain", EffectClass::Once, false, false),
        ("POST", "keyed", EffectClass::Keyed, false, false),
        ("PATCH", "keyed", EffectClass::Keyed, false, false),
        ("get", "plain", EffectClass::Once, false, false),
    ] {
        let conduct = tool.conduct(&json!({"service": service, "method": method, "path": "/"}));
        let hints = conduct.annotations;
        assert_eq!(
            (conduct.class, hints.read_only_hint, hints.destructive_hint, hints.open_world_hint),
            (class, read_only, destructive, false),
            "{method} {service}"
        );
    }
    assert_eq!(tool.conduct(&Value::Null).class, EffectClass::Once);
    // An approval covers the target of a call only.
    let at = |url: &str| {
        let tool = super::tool(vec![service(json!({"name": "a", "base_url": url}))]);
        tool.conduct(&json!({"service": "a", "method": "POST"})).added
    };
    assert_eq!(at("https://a.example"), at("https://a.example/"));
    assert_ne!(at("https://a.example"), at("https://b.example"));
}

#[tokio::test]
async fn a_request_with_an_unknown_outcome_is_reported_as_such() {
    let far = Far::start(|asked| match asked.line().contains("/cut") {
        true => Reply::Bytes(Vec::new()),
        false => Reply::Bytes(b"HTTP/1.1 201 Created\r\ncontent-length: 50\r\n\r\nhalf".to_vec()),
    })
    .await;
    let tool = tool(vec![
        service(json!({"name": "a", "base_url": far.url("/")})),
        service(json!({"name": "gone", "base_url": "http://127.0.0.1:1/"})),
    ]);
    let ask =
        |service: &str, method: &str, path: &str| json!({"service": service, "method": method, "path": path});
    for (arguments, expected) in [
        (ask("a", "POST", "/cut"), "lost: the connection to `127.0.0.1` was lost before it responded"),
        (ask("a", "DELETE", "/cut"), "lost: "),
        (ask("a", "GET", "/cut"), "error: the connection to `127.0.0.1` was lost before it responded"),
        // The status reveals the outcome.
        (ask("a", "POST", "/half"), "ok: HTTP 201 Created\n\nhalf\n[incomplete after 4 bytes"),
        // Nothing was sent.
        (ask("gone", "POST", "/"), "error: cannot reach `127.0.0.1`"),
    ] {
        let said = said(&tool, arguments.clone()).await;
        assert!(said.starts_with(expected), "{arguments}: {said}");
    }
}

// rows: LM-I9
#[tokio::test]
async fn observers_get_each_request_without_secrets() {
    let far = mirror().await;
    let auth = json!({"type": "bearer", "token_ref": "t"});
    let services = vec![
        service(json!({"name": "a", "base_url": far.url("/"), "auth": auth})),
        service(json!({"name": "gone", "base_url": "http://127.0.0.1:1/"})),
    ];
    let env = BTreeMap::from([("t".to_owned(), windlass::secret::Secret::new(TOKEN))]);
    let noted = Arc::new(Noted::default());
    let tool = of(Api { observer: Some(noted.clone()), ..Api::new(services, env) });
    said(&tool, json!({"service": "a", "method": "GET", "path": "/x?q=1"})).await;
    said(&tool, json!({"service": "gone", "method": "GET", "path": "/y"})).await;
    said(&tool, json!({"service": "a", "method": "GET", "path": "/../y"})).await;
    let noted = noted.0.lock().unwrap().clone();
    assert_eq!(
        noted,
        [
            "ApiRequest { service: \"a\", method: \"GET\", path: \"/x\" }",
            "/x Some(200) 26",
            "ApiRequest { service: \"gone\", method: \"GET\", path: \"/y\" }",
            "/y None 0",
        ]
    );
}

#[tokio::test]
async fn a_cancelled_read_ends_at_once() {
    let far = Far::start(|_| Reply::Silence(Vec::new())).await;
    let tool = tool(vec![service(json!({"name": "a", "base_url": far.url("/")}))]);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let output =
        tool.call(context(None, cancel), json!({"service": "a", "method": "GET", "path": "/"})).await;
    assert_eq!(output, ToolOutcome::error("the call was cancelled"));
    let output =
        call(&tool, json!({"service": "a", "method": "GET", "path": "/", "headers": {"a": 1}})).await;
    assert!(output.unwrap().error);
}

/// Triggers the cancel signal while it signs, and then signs or never returns.
struct Cancels {
    cancel: CancellationToken,
    ends: bool,
}

#[async_trait]
impl ResolveAuth for Cancels {
    async fn resolve(&self, _id: &str, _call: &AuthCall<'_>) -> Result<Vec<(String, Secret)>, String> {
        self.cancel.cancel();
        if !self.ends {
            std::future::pending::<()>().await;
        }
        Ok(vec![("Authorization".to_owned(), Secret::new("Bearer late"))])
    }
}

#[tokio::test]
async fn nothing_is_sent_once_a_call_was_cancelled() {
    let far = mirror().await;
    for (method, ends) in [("POST", true), ("GET", true), ("POST", false), ("GET", false)] {
        let cancel = CancellationToken::new();
        let auth = json!({"type": "custom", "id": "slow"});
        let services = vec![service(json!({"name": "a", "base_url": far.url("/"), "auth": auth}))];
        let resolver: Arc<dyn ResolveAuth> = Arc::new(Cancels { cancel: cancel.clone(), ends });
        let tool = of(Api { resolve_auth: Some(resolver), ..Api::new(services, BTreeMap::new()) });
        let arguments = json!({"service": "a", "method": method, "path": "/"});
        let output = tool.call(context(None, cancel), arguments);
        let output = tokio::time::timeout(Duration::from_secs(60), output).await.expect("it ends");
        assert_eq!(output, ToolOutcome::error("the call was cancelled"), "{method} {ends}");
    }
    assert!(far.asked().is_empty(), "{:?}", far.lines());
}

#[tokio::test]
async fn an_ambiguous_status_leaves_the_outcome_of_a_write_unknown() {
    let far = Far::start(|asked| {
        let line = asked.line();
        let status: u16 = line.rsplit_once('/').unwrap().1.split('?').next().unwrap().parse().unwrap();
        let after = [("retry-after", "5")];
        Reply::with(status, if line.contains("after") { &after } else { &[] }, "said")
    })
    .await;
    let tool = tool(vec![service(json!({"name": "a", "base_url": far.url("/")}))]);
    for (method, path, expected) in [
        (
            "POST",
            "/504",
            "lost: `a` returned status 504 Gateway Timeout: it is unknown whether the request took effect",
        ),
        ("POST", "/502", "lost: `a` returned status 502"),
        ("PATCH", "/408", "lost: `a` returned status 408"),
        ("DELETE", "/504", "lost: "),
        ("PUT", "/502", "lost: "),
        ("POST", "/503", "lost: `a` returned status 503"),
        ("POST", "/503?after", "error: HTTP 503 Service Unavailable\nretry-after: 5"),
        ("POST", "/500", "error: HTTP 500"),
        ("POST", "/429", "error: HTTP 429"),
        ("GET", "/504", "error: HTTP 504 Gateway Timeout\n\nsaid"),
        ("HEAD", "/502", "error: HTTP 502"),
    ] {
        let said = said(&tool, json!({"service": "a", "method": method, "path": path})).await;
        assert!(said.starts_with(expected), "{method} {path}: {said}");
    }
}
