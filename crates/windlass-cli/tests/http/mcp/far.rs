//! A tool server with OAuth sign-in on loopback. It counts requests, and revokes its tokens on request of a test.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use windlass::testing::mcp::{introduction, reading_tool};

/// The server. Dropping it stops the server.
pub struct Far {
    /// `http://127.0.0.1:PORT`.
    pub base: String,
    pub port: u16,
    world: Arc<World>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct World {
    base: Mutex<String>,
    /// The valid credentials; `None` admits every client.
    counts: Mutex<Option<String>>,
    /// The header `Authorization` of each tool call.
    calls: Mutex<Vec<String>>,
    /// The scope that a tool call requires, in addition to a token.
    call_scope: Mutex<Option<String>>,
    /// The scopes of the last authorization request.
    scopes: Mutex<String>,
    given: Mutex<u32>,
    asked: Mutex<u32>,
}

impl Far {
    /// A server that requires a sign-in.
    pub async fn guarded() -> Self {
        Self::start(Some("no token yet".into())).await
    }

    /// A server without authentication.
    pub async fn open() -> Self {
        Self::start(None).await
    }

    async fn start(counts: Option<String>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let base = format!("http://127.0.0.1:{port}");
        let world = Arc::new(World {
            base: Mutex::new(base.clone()),
            counts: Mutex::new(counts),
            ..World::default()
        });
        let router = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-protected-resource", get(resource))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/mcp", post(mcp))
            .with_state(world.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { base, port, world, serving }
    }

    /// Revokes all tokens, including refresh tokens.
    pub fn takes_back(&self) {
        *self.world.counts.lock().unwrap() = Some("no token any more".into());
    }

    /// From now on a tool call requires a token with this scope.
    pub fn requires_for_calls(&self, scope: &str) {
        *self.world.call_scope.lock().unwrap() = Some(scope.to_owned());
    }

    /// The header `Authorization` of each tool call.
    pub fn calls(&self) -> Vec<String> {
        self.world.calls.lock().unwrap().clone()
    }

    /// Number of requests.
    pub fn asked(&self) -> u32 {
        *self.world.asked.lock().unwrap()
    }

    /// Number of issued tokens.
    pub fn given(&self) -> u32 {
        *self.world.given.lock().unwrap()
    }

    /// The query of the redirect from an authorization page.
    pub fn back(&self, page: &str) -> String {
        let state = value(page, "state");
        *self.world.scopes.lock().unwrap() = value(page, "scope").replace('+', " ").replace("%20", " ");
        format!("code=good&state={state}&iss={}", self.base)
    }
}

/// A raw value of an address's query.
pub fn value<'a>(url: &'a str, name: &str) -> &'a str {
    let (_, query) = url.split_once('?').unwrap();
    let found = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no `{name}` in {url}"))
}

impl Drop for Far {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn said(status: u16, body: Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

async fn resource(State(world): State<Arc<World>>) -> Response {
    let base = world.base.lock().unwrap().clone();
    said(200, json!({ "resource": format!("{base}/mcp"), "authorization_servers": [base] }))
}

async fn metadata(State(world): State<Arc<World>>) -> Response {
    let base = world.base.lock().unwrap().clone();
    said(
        200,
        json!({
            "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "none"],
            "authorization_response_iss_parameter_supported": true,
        }),
    )
}

async fn register(body: Bytes) -> Response {
    let asked: Value = serde_json::from_slice(&body).unwrap();
    said(
        201,
        json!({ "client_id": "c1", "client_secret": "SENTINEL-client", "redirect_uris": asked["redirect_uris"],
            "token_endpoint_auth_method": "client_secret_post" }),
    )
}

/// The authorization page, whose button redirects back.
async fn authorize(
    State(world): State<Arc<World>>,
    Query(asked): Query<HashMap<String, String>>,
) -> Response {
    let base = world.base.lock().unwrap().clone();
    let (back, state) = (&asked["redirect_uri"], &asked["state"]);
    Html(format!(
        "<!doctype html><html lang=en><meta charset=utf-8><link rel=icon href=data:,><title>Far</title>\
         <h1>May Windlass use far?</h1><a href=\"{back}?code=good&state={state}&iss={base}\">Allow it</a> \
         <a href=\"{back}?error=access_denied&state={state}\">Refuse it</a>"
    ))
    .into_response()
}

async fn token(State(world): State<Arc<World>>, body: String) -> Response {
    if !body.contains("code=good") || !body.contains("code_verifier=") {
        return said(400, json!({ "error": "invalid_grant" }));
    }
    let token = {
        let mut given = world.given.lock().unwrap();
        *given += 1;
        format!("SENTINEL-token-{given}")
    };
    *world.counts.lock().unwrap() = Some(format!("Bearer {token}"));
    let scope = world.scopes.lock().unwrap().clone();
    said(
        200,
        json!({ "access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": scope,
            "refresh_token": "SENTINEL-refresh" }),
    )
}

fn refused(base: &str, status: u16, error: &str, scope: &str) -> Response {
    let metadata = format!("{base}/.well-known/oauth-protected-resource/mcp");
    let challenge = format!("Bearer error=\"{error}\", resource_metadata=\"{metadata}\", scope=\"{scope}\"");
    let mut refused = said(status, json!({ "error": error }));
    refused.headers_mut().insert(header::WWW_AUTHENTICATE, challenge.parse().unwrap());
    refused
}

async fn mcp(State(world): State<Arc<World>>, headers: HeaderMap, body: Bytes) -> Response {
    *world.asked.lock().unwrap() += 1;
    let credentials = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
    let base = world.base.lock().unwrap().clone();
    if let Some(wanted) = world.counts.lock().unwrap().clone()
        && credentials.as_ref() != Some(&wanted)
    {
        return refused(&base, 401, "invalid_token", "read");
    }
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let method = asked["method"].as_str().unwrap_or_default();
    let mut tool = reading_tool("once");
    (tool["title"], tool["description"]) = (json!("Just once"), json!("does it"));
    tool["inputSchema"]["properties"] = json!({ "text": { "type": "string" } });
    let result = match (introduction(method, &json!([tool])), method) {
        (Some(introduction), _) => introduction,
        (None, "tools/call") => {
            if let Some(needed) = world.call_scope.lock().unwrap().clone()
                && !world.scopes.lock().unwrap().split(' ').any(|granted| granted == needed)
            {
                return refused(&base, 403, "insufficient_scope", &needed);
            }
            world.calls.lock().unwrap().push(credentials.unwrap_or_default());
            json!({ "resultType": "complete", "content": [{ "type": "text", "text": "it was done" }] })
        }
        (None, _) => return said(404, Value::Null),
    };
    said(200, json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }))
}
