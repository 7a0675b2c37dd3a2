//! A tool server with OAuth sign-in on loopback that returns every secret it received or issued. It uses every form, in
//! pieces of five bytes: results, pictures, files, schemas, resources, tasks, questions, completions, progress, log
//! lines and errors.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// The secrets that the sign-in issues: a client secret, the first token, its successor, and the refresh token.
pub const GIVEN: [&str; 4] =
    ["sentinel-cli/2a+31a", "sentinel-old/7b+02b", "sentinel-acc/5f+88e", "sentinel-ref/3c+55c"];

/// The server. Dropping it stops the server.
pub struct Echo {
    pub base: String,
    heard: Arc<Mutex<String>>,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct World {
    base: String,
    heard: Arc<Mutex<String>>,
}

impl Echo {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::<Mutex<String>>::default();
        let router = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/token", post(token))
            .route("/mcp", post(mcp))
            .with_state(World { base: base.clone(), heard: heard.clone() });
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { base, heard, serving }
    }

    /// The heads and bodies of received requests.
    pub fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn said(status: u16, body: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

async fn resource(State(world): State<World>) -> Response {
    said(200, &json!({ "resource": format!("{}/mcp", world.base), "authorization_servers": [world.base] }))
}

async fn metadata(State(world): State<World>) -> Response {
    let base = world.base;
    said(
        200,
        &json!({
            "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
            "authorization_response_iss_parameter_supported": true,
        }),
    )
}

async fn register(body: Bytes) -> Response {
    let asked: Value = serde_json::from_slice(&body).unwrap();
    said(
        201,
        &json!({ "client_id": "c1", "client_secret": GIVEN[0], "redirect_uris": asked["redirect_uris"],
            "token_endpoint_auth_method": "client_secret_post" }),
    )
}

async fn token(State(world): State<World>, body: String) -> Response {
    world.heard.lock().unwrap().push_str(&body);
    let token = if body.contains("grant_type=refresh_token") { GIVEN[2] } else { GIVEN[1] };
    said(
        200,
        &json!({ "access_token": token, "token_type": "Bearer", "expires_in": 3600, "refresh_token": GIVEN[3] }),
    )
}

async fn mcp(State(world): State<World>, headers: HeaderMap, body: Bytes) -> Response {
    let head = format!("{headers:?}");
    world.heard.lock().unwrap().push_str(&format!("{head} {}", String::from_utf8_lossy(&body)));
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let method = asked["method"].as_str().unwrap_or_default();
    let has = |token: &str| {
        headers.get(header::AUTHORIZATION).is_some_and(|value| *value == format!("Bearer {token}"))
    };
    // The first token is valid until a tool is called.
    if !has(GIVEN[2]) && (method == "tools/call" || !has(GIVEN[1])) {
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", world.base);
        let mut refused = said(401, &json!({ "error": everything(&world, &headers) }));
        let challenge = format!("Bearer resource_metadata=\"{metadata}\", scope=\"read\"");
        refused.headers_mut().insert(header::WWW_AUTHENTICATE, challenge.parse().unwrap());
        return refused;
    }
    let all = everything(&world, &headers);
    let result = match method {
        "server/discover" => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {}, "resources": {} },
            "ttlMs": 0, "cacheScope": "private", "instructions": all,
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "echo", "version": all } },
        }),
        "tools/list" => json!({
            "resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "private",
            "tools": [{ "name": "echo", "title": "Echo", "description": all, "tags": [all],
                "inputSchema": form(&all),
                "annotations": { "readOnlyHint": true, "destructiveHint": false, "openWorldHint": false } },
                { "name": "named", "inputSchema": { "type": "object", "properties": { all.as_str(): {} } } },
                { "name": format!("echo {all}") }],
        }),
        "tools/call" => return called(&asked, &all),
        "resources/list" => json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "resources": [{ "uri": format!("note://{all}"), "name": all, "description": all }],
        }),
        "resources/templates/list" => return said(500, &json!(all)),
        "resources/read" => json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "contents": [{ "uri": "note://1", "text": all }, file(&all)["resource"]],
        }),
        "tasks/get" => match asked["params"]["taskId"].as_str() {
            Some("ends") => {
                task("failed", &json!({ "error": { "code": -1, "message": all }, "statusMessage": all }))
            }
            _ => task(
                "input_required",
                &json!({ "inputRequests": { "a": question(&all) }, "statusMessage": all }),
            ),
        },
        _ => return said(404, &json!(all)),
    };
    said(200, &json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }))
}

/// A form that contains everything in every text.
fn form(all: &str) -> Value {
    json!({ "type": "object", "properties": {
        "text": { "type": "string", "title": all, "description": all, "default": all },
        "which": { "type": "string", "enum": ["plain", all], "description": all } } })
}

fn question(all: &str) -> Value {
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": all, "requestedSchema": form(all) } })
}

fn file(all: &str) -> Value {
    let data = STANDARD.encode(format!("bytes of {all}"));
    json!({ "type": "resource", "resource": { "uri": "note://1.bin", "blob": data, "mimeType": format!("x/{all}") } })
}

fn task(status: &str, more: &Value) -> Value {
    let mut task = json!({ "resultType": "complete", "taskId": "ends", "status": status, "pollIntervalMs": 500,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

/// All secrets received or issued so far, in every form.
fn everything(world: &World, headers: &HeaderMap) -> String {
    // A process that starts later does not know the invalidated token, so it cannot mask it.
    let is_renewed = world.heard.lock().unwrap().contains("grant_type=refresh_token");
    let other = GIVEN[if is_renewed { 1 } else { 2 }];
    let key = headers.get("x-api-key").map(|value| value.to_str().unwrap()).unwrap_or_default();
    let all = GIVEN.iter().copied().filter(|secret| *secret != other).chain([key]);
    let all = all.filter(|secret| !secret.is_empty());
    let said = |secret: &str| {
        let percent: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let odd = secret.replace('/', "%2F").replace('+', "%2B");
        let [packed, user] = [secret.to_owned(), format!("bo{secret}")].map(|text| STANDARD.encode(text));
        format!("{secret} {percent} {odd} {packed} {user}")
    };
    all.map(said).collect::<Vec<_>>().join(" ")
}

fn wants(id: &Value, request: &Value, state: &str) -> Value {
    let result =
        json!({ "resultType": "input_required", "inputRequests": { "a": request }, "requestState": state });
    json!({ "id": id, "result": result })
}

fn called(asked: &Value, all: &str) -> Response {
    let (id, way) = (&asked["id"], asked["params"]["arguments"]["text"].as_str().unwrap_or_default());
    let wrap = |mut message: Value| {
        message["jsonrpc"] = json!("2.0");
        format!("event: message\ndata: {message}\n\n")
    };
    let last = match way {
        "error" => json!({ "id": id, "error": { "code": -32_000, "message": all } }),
        "picture" => {
            let data = STANDARD.encode(format!("a picture of {all}"));
            let picture = json!({ "type": "image", "data": data, "mimeType": "image/png" });
            json!({ "id": id, "result": { "resultType": "complete", "content": [picture, file(all)] } })
        }
        "complete" if asked["params"].get("inputResponses").is_none() => {
            let message = json!({ "role": "user", "content": { "type": "text", "text": all } });
            let params = json!({ "messages": [message], "systemPrompt": all, "maxTokens": 5 });
            wants(id, &json!({ "method": "sampling/createMessage", "params": params }), "opaque")
        }
        "ask" => wants(id, &question(all), "opaque"),
        "want back" => wants(id, &question("How many?"), all),
        "task" | "asking task" => {
            let begun = json!({ "resultType": "task", "taskId": if way == "task" { "ends" } else { "asks" },
                "statusMessage": all });
            json!({ "id": id, "result": task("working", &begun) })
        }
        _ => {
            json!({ "id": id, "result": { "resultType": "complete", "content": [{ "type": "text", "text": all }],
            "structuredContent": { "all": all } } })
        }
    };
    let token = &asked["params"]["_meta"]["progressToken"];
    let events = [
        json!({ "method": "notifications/message", "params": { "level": "error", "data": all } }),
        json!({ "method": "notifications/progress", "params": { "progressToken": token, "progress": 1, "message": all } }),
        last,
    ];
    let text: String = events.into_iter().map(wrap).collect();
    let pieces: Vec<Result<Bytes, std::io::Error>> =
        text.as_bytes().chunks(5).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let body = Body::from_stream(futures::stream::iter(pieces));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}
