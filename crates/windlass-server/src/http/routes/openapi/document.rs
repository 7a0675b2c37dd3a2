//! Assembles the API's document from the handlers' descriptions, and tests that the file is current.
//!
//! This module adds what all operations share: authentication, errors, and unique operation ids. The module is compiled
//! only for tests.

use std::path::Path;

use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use super::DOCUMENT;
use crate::http::cookie::ACCESS;
use crate::http::problem::{MEDIA_TYPE, Problem};
use crate::http::routes::{PREFIX, v1};

/// The general part of the document. Routes and schemas come from the handlers.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Windlass",
        description = "A durable engine for LLM agents.\n\nTimes are milliseconds since the Unix epoch. \
            Lists are paginated: `next_cursor` requests the next page. Errors are \
            `application/problem+json` with a `code` for programs and a `hint` for people. A `POST` with an \
            `Idempotency-Key` takes effect once if the operation lists that header; other operations ignore \
            it. If a response has an `ETag`, `If-None-Match` avoids reading it again, and `If-Match` \
            prevents overwriting the change of another client."
    ),
    components(schemas(Problem)),
    tags(
        (name = "threads", description = "Conversations and their contents"),
        (name = "runs", description = "Start, follow and cancel runs"),
        (name = "streams", description = "Live events of a conversation or a run"),
        (name = "interrupts", description = "Requests for approval or input, and their answers"),
        (name = "gate", description = "Which calls run without approval: auto-run, allow lists, grants and \
            policy rules"),
        (name = "agents", description = "Agents and models that can be given a task"),
        (name = "tools", description = "Tools that agents can use"),
        (name = "files", description = "Uploads, and the files of a conversation's folder"),
        (name = "mcp", description = "MCP servers, and signing in to them"),
        (name = "integrations", description = "External systems that the workspace is connected to"),
        (name = "auth", description = "Signing in and out, and the caller's own account"),
        (name = "team", description = "Members of the workspace"),
        (name = "keys", description = "API keys for programs"),
        (name = "usage", description = "Usage and limits"),
        (name = "audit", description = "The audit log"),
        (name = "server", description = "The server itself")
    )
)]
struct Frame;

/// Routes without authentication: load balancers have no credential, and users who sign in have no credential yet.
const OPEN: [&str; 10] = [
    "/api/v1/health",
    "/api/v1/version",
    "/api/v1/auth/options",
    "/api/v1/auth/register",
    "/api/v1/auth/login",
    "/api/v1/auth/logout",
    "/api/v1/auth/refresh",
    "/api/v1/auth/link",
    "/api/v1/auth/password/reset",
    "/api/v1/auth/oidc/",
];

/// Describes the session cookie.
const SESSION: &str = "The session of a user who signed in with a browser. Over TLS its name begins with \
    `__Host-`. It is ignored if the request has `Authorization`. Changes also require an `Origin` of this \
    server or of `[server] cors`.";

/// The media type of binary file content.
const OCTETS: &str = "application/octet-stream";

/// Adds the parts that all operations share.
fn complete(mut document: Value) -> Value {
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    document["security"] = json!([{ "key": [] }, { "session": [] }]);
    let key = json!({ "type": "http", "scheme": "bearer", "description": "An API key: `Authorization: Bearer wls_…`" });
    if let Some(components) = document["components"].as_object_mut() {
        let schemes = components.entry("securitySchemes").or_insert_with(|| json!({}));
        schemes["key"] = key;
        schemes["session"] =
            json!({ "type": "apiKey", "in": "cookie", "name": ACCESS, "description": SESSION });
    }
    let Some(paths) = document["paths"].as_object_mut() else { return document };
    for (path, item) in paths {
        let operations = item.as_object_mut().into_iter().flatten();
        for (method, operation) in operations.filter(|(_, value)| value.get("responses").is_some()) {
            if let Some(operation) = operation.as_object_mut() {
                finish(method, path, operation);
            }
        }
    }
    document
}

fn finish(method: &str, path: &str, operation: &mut Map<String, Value>) {
    // Function names repeat across files, so operation ids are built from method and path, which are unique.
    let words =
        path.trim_start_matches("/api/v1").split(['/', '{', '}', '-']).filter(|word| !word.is_empty());
    let id = words.fold(method.to_owned(), |id, word| format!("{id}_{word}"));
    operation.insert("operationId".into(), id.into());
    if let Some(body) = operation.get_mut("requestBody").filter(|body| !body["content"][OCTETS].is_null()) {
        // An uploaded file may be empty.
        body["required"] = false.into();
    }
    if OPEN.iter().any(|open| path.starts_with(open)) {
        operation.insert("security".into(), json!([]));
    }
    let has = |name: &str| parameters(operation).any(|parameter| parameter["name"] == name);
    let (may_be_known, may_be_changed) = (has("If-None-Match"), has("If-Match"));
    let problem = json!({ MEDIA_TYPE: { "schema": { "$ref": "#/components/schemas/Problem" } } });
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else { return };
    for response in responses.values_mut() {
        if is_problem(response) {
            response["content"] = problem.clone();
        }
    }
    if let Some(read) = responses.get_mut("200").filter(|_| may_be_known || may_be_changed) {
        let tag = json!({ "description": "the version of the resource", "schema": { "type": "string" } });
        read["headers"]["ETag"] = tag;
    }
    if may_be_known {
        responses.insert("304".into(), json!({ "description": "the client has the current version" }));
    }
    let other = json!({ "description": "error", "content": problem });
    responses.entry("default").or_insert(other);
}

fn parameters(operation: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    operation.get("parameters").and_then(Value::as_array).into_iter().flatten()
}

/// Returns whether a response has the schema of a problem, which has its own media type.
fn is_problem(response: &Value) -> bool {
    let schema = &response["content"]["application/json"]["schema"]["$ref"];
    schema.as_str().is_some_and(|name| name.ends_with("/Problem"))
}

/// Environment variable that makes the test rewrite the file.
const RENEW: &str = "WINDLASS_TEST_RENEW";

/// Builds the document of the server's routes.
fn document() -> Value {
    let document = v1(0, |keyed| keyed).describe_under(PREFIX, Frame::openapi());
    complete(serde_json::to_value(document).unwrap())
}

/// Number of levels of the document that have a line for each member: down to the operations of a path, and to the
/// schemas.
const LEVELS: usize = 3;

/// Writes JSON with a line for each member of the upper levels, so that a change of one operation changes one line.
fn render(value: &Value, levels: usize, indent: &str) -> String {
    match value {
        Value::Object(members) if levels > 0 && !members.is_empty() => {
            let inner = format!("{indent} ");
            let line = |(name, member): (&String, &Value)| {
                format!("{inner}{}:{}", json!(name), render(member, levels - 1, &inner))
            };
            let lines: Vec<String> = members.iter().map(line).collect();
            format!("{{\n{}\n{indent}}}", lines.join(",\n"))
        }
        Value::Object(_)
        | Value::Array(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_) => value.to_string(),
    }
}

#[test]
fn the_file_has_every_route_as_it_is_described() {
    let current = render(&document(), LEVELS, "") + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/routes/docs/openapi.json");
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(&path, current).unwrap();
        return;
    }
    let changed = current.lines().zip(DOCUMENT.lines()).find(|(current, file)| current != file);
    let shown = changed.map(|(current, file)| [current, file].map(|line| crate::text::first_line(line, 200)));
    assert!(
        current == DOCUMENT,
        "`{}` is not current: {shown:#?}\nrenew it with `{RENEW}=1 cargo nextest run --workspace \
         --features windlass/testing -E 'test(the_file_has_every_route)'`",
        path.display()
    );
}
