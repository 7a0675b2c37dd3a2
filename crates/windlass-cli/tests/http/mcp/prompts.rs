//! Prompts of a server: listed and expanded, over HTTP and on the command line.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::header;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use windlass::testing::mcp::introduction;

use super::{PATH, state};
use crate::cli::{User, lines};
use crate::http::Server;

/// A server that offers prompts. Dropping it stops the server.
pub struct Stage {
    url: String,
    serving: JoinHandle<()>,
}

impl Stage {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = axum::Router::new().route("/mcp", post(mcp));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, serving }
    }

    /// A user with this server, and with another one that is unreachable.
    pub fn user(&self) -> User {
        let user = User::new();
        user.configure(&format!(
            "[mcp.texts]\nurl = '{}'\n[mcp.gone]\nurl = 'http://127.0.0.1:1/mcp'\n",
            self.url
        ));
        user
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn mcp(body: Bytes) -> Response {
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let (method, params) = (asked["method"].as_str().unwrap_or_default(), &asked["params"]);
    let text =
        |role: &str, text: String| json!({ "role": role, "content": { "type": "text", "text": text } });
    let answer = match (introduction(method, &json!([])), method, params["name"].as_str().unwrap_or_default())
    {
        (Some(mut said), ..) => {
            if method == "server/discover" {
                said["capabilities"]["prompts"] = json!({});
            }
            Ok(said)
        }
        (None, "prompts/list", _) => {
            Ok(json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "prompts": [
            { "name": "greet", "title": "Greeting", "description": "Greets a city", "arguments": [
                { "name": "city", "description": "Which", "required": true }, { "name": "tone" }] },
            { "name": "a/b asks" }, { "name": "broken" },
        ] }))
        }
        (None, "prompts/get", "greet") => {
            let given = &params["arguments"];
            let city = given["city"].as_str().unwrap();
            let tone = given["tone"].as_str().unwrap_or("as you like");
            let messages =
                [text("user", format!("Greet {city}, {tone}")), text("assistant", format!("Hello {city}"))];
            Ok(json!({ "resultType": "complete", "messages": messages }))
        }
        (None, "prompts/get", "a/b asks") => Ok(json!({ "resultType": "input_required", "inputRequests": {
            "a": { "method": "elicitation/create", "params": { "message": "How many?", "requestedSchema": {
                "type": "object", "properties": {} } } } } })),
        _ => Err(json!({ "code": -32603, "message": "out of paper" })),
    };
    let (key, value) = match answer {
        Ok(result) => ("result", result),
        Err(error) => ("error", error),
    };
    let mut body = json!({ "jsonrpc": "2.0", "id": asked["id"] });
    body[key] = value;
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

// The test blocks on commands while the server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_are_listed_and_rendered_for_callers_that_see_the_tools() {
    let stage = Stage::start().await;
    let server = Server::start_for(stage.user(), &[]);
    let boss = server.key(&[]);
    let viewer = server.key(&["--user", &server.add_user("v@example.com", &["--role", "viewer"])]);
    state(&server, &boss, "texts", "connected").await;
    state(&server, &boss, "gone", "down").await;
    let path = |name: &str| format!("{PATH}/texts/prompts/{name}");
    let listed = server.get(&format!("{PATH}/texts/prompts"), &viewer).await.is(StatusCode::OK).body;
    let greet = json!({ "name": "greet", "title": "Greeting", "description": "Greets a city", "arguments": [
        { "name": "city", "description": "Which", "required": true },
        { "name": "tone", "description": null, "required": false }] });
    assert_eq!((&listed["data"][0], listed["data"].as_array().unwrap().len()), (&greet, 3), "{listed:#}");
    let oslo = json!({"arguments": {"city": "Oslo", "tone": "warmly"}});
    let filled = server.post(&path("greet"), &viewer, &oslo).await.is(StatusCode::OK).body;
    let says =
        |role: &str, text: &str| json!({ "role": role, "content": [{ "type": "text", "data": text }] });
    let wanted = json!({"messages": [says("user", "Greet Oslo, warmly"), says("assistant", "Hello Oslo")]});
    assert_eq!(filled, wanted);
    for (server_name, prompt, body, (status, code), detail) in [
        ("none", "greet", &oslo, (404, "not_found"), "`none`"),
        ("gone", "greet", &oslo, (502, "tool_server"), "the server `gone` is not available"),
        (
            "texts",
            "nod",
            &oslo,
            (404, "not_found"),
            "no prompt `nod`; its prompts: `greet`, `a/b asks`, `broken`",
        ),
        ("texts", "greet", &json!({}), (422, "invalid"), "the prompt `greet` requires `city`"),
        (
            "texts",
            "greet",
            &json!({"arguments": {"city": "Oslo", "town": "x"}}),
            (422, "invalid"),
            "has no argument `town`; its arguments: `city`, `tone`",
        ),
        ("texts", "greet", &json!({"arguments": {"city": 1}}), (422, "invalid"), "expected a string"),
        ("texts", "broken", &json!({}), (502, "tool_server"), "out of paper"),
        (
            "texts",
            "a%2Fb%20asks",
            &json!({}),
            (502, "tool_server"),
            "`a/b asks` of the server `texts` requires input",
        ),
    ] {
        let refused = server.post(&format!("{PATH}/{server_name}/prompts/{prompt}"), &viewer, body).await;
        refused.is_problem(status, code);
        let said = refused.body["detail"].as_str().unwrap();
        assert!(said.contains(detail), "{server_name} {prompt}: {said}");
    }
    let away = server.get(&format!("{PATH}/gone/prompts"), &viewer).await;
    away.is_problem(502, "tool_server");
    server.get(&format!("{PATH}/none/prompts"), &viewer).await.is_problem(404, "not_found");
}

// The test blocks on commands while the server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_are_listed_and_filled_in_on_the_command_line() {
    let stage = Stage::start().await;
    let user = stage.user();
    let run = |arguments: &[&str]| user.run(&[&["mcp", "prompts"], arguments].concat());
    let listed = run(&["texts"]).exits(0).out;
    let greet = "    greet  city [tone]  Greets a city\n";
    assert_eq!(listed, format!("texts  3 prompts\n{greet}    a/b asks\n    broken\n"));
    let all = run(&[]).exits(1);
    assert!(all.out.contains(greet) && all.err.contains("the server `gone` is not available"), "{all:#?}");
    let rows = lines(&run(&["texts", "--json"]).exits(0).out);
    assert_eq!((&rows[0]["name"], &rows[0]["server"]), (&json!("greet"), &json!("texts")));
    let filled = run(&["texts", "greet", "--arg", "city=Oslo=Kristiania"]).exits(0).out;
    assert_eq!(filled, "user\nGreet Oslo=Kristiania, as you like\nassistant\nHello Oslo=Kristiania\n");
    let rows = lines(&run(&["texts", "greet", "--arg", "city=Oslo", "--json"]).exits(0).out);
    assert_eq!(
        rows[1],
        json!({ "role": "assistant", "content": [{ "type": "text", "data": "Hello Oslo" }] })
    );
    for (arguments, code, wanted) in [
        (&["none"][..], 2, "no server named `none` is configured"),
        (&["gone", "greet"], 1, "the server `gone` is not available"),
        (&["gone"], 1, "`windlass mcp test gone` shows more"),
        (&["texts", "nod"], 2, "no prompt `nod`; its prompts: `greet`"),
        (&["texts", "greet"], 2, "the prompt `greet` requires `city`"),
        (&["texts", "greet", "--arg", "city"], 2, "`--arg city` is not NAME=VALUE"),
        (&["texts", "greet", "--arg", "city=a", "--arg", "city=b"], 2, "`--arg city` is given twice"),
        (&["texts", "a/b asks"], 1, "requires input"),
        (&["texts", "broken"], 1, "out of paper"),
    ] {
        let said = run(arguments).exits(code).err;
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
}
