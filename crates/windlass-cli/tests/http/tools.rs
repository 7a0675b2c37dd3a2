//! `/tools` and `/toolsets`: lists of tools, and trial calls.

use std::sync::Arc;
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use windlass::testing::mcp::{introduction, reading_tool};

use super::{Server, answer};
use crate::cli::User;

/// A server with one tool, whose calls wait until the test releases them.
async fn slow() -> (User, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let gate = permits.clone();
    let answer = async move |Json(asked): Json<Value>| {
        let method = asked["method"].as_str().unwrap_or_default();
        let result = match introduction(method, &json!([reading_tool("wait")])) {
            Some(introduction) => introduction,
            None => {
                gate.acquire().await.unwrap().forget();
                json!({ "resultType": "complete", "content": [{ "type": "text", "text": "waited" }] })
            }
        };
        Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let user = User::new();
    user.configure(&format!(
        "[mcp.slow]\nurl = 'http://{}/mcp'\ntrusted = true\n",
        listener.local_addr().unwrap()
    ));
    tokio::spawn(
        async move { axum::serve(listener, Router::new().route("/mcp", post(answer))).await.unwrap() },
    );
    (user, permits)
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trial_call_whose_caller_hangs_up_keeps_its_room_and_is_noted() {
    let (user, permits) = slow().await;
    let server = Server::start_for(user, &[]);
    let key = server.key(&[]);
    let soon = Duration::from_millis(50);
    for _ in 0..600 {
        if server.get("/api/v1/tools/wait", &key).await.status == 200 {
            break;
        }
        tokio::time::sleep(soon).await; // tidy: sleep the server's server has to get there
    }
    let call =
        |key: &str| server.request(Method::POST, "/api/v1/tools/wait/call").bearer_auth(key).json(&json!({}));
    let people = ["ann", "bob", "cleo", "dan"].map(|name| server.member(name).0.key);
    let twice = people.iter().chain(&people);
    let hung_up = twice.map(|key| call(key).timeout(Duration::from_secs(1)).send());
    for ended in futures::future::join_all(hung_up).await {
        assert!(ended.unwrap_err().is_timeout());
    }
    answer(call(&people[0])).await.is_problem(429, "busy");
    answer(call(&key)).await.is_problem(503, "busy");
    let noted = async |outcome: &str| {
        let audit = server.get("/api/v1/audit?limit=100", &key).await.is(StatusCode::OK).body;
        let entries = audit["data"].as_array().unwrap().clone();
        entries.iter().filter(|entry| entry["details"]["outcome"] == outcome).count()
    };
    assert_eq!(noted("ran").await, 0);
    permits.add_permits(8);
    for _ in 0..600 {
        if noted("ran").await == 8 {
            break;
        }
        tokio::time::sleep(soon).await; // tidy: sleep they come to their end by themselves
    }
    assert_eq!(noted("ran").await, 8);
    permits.add_permits(1);
    answer(call(&key)).await.is(StatusCode::OK);
}

#[tokio::test]
async fn tools_say_how_they_get_to_a_model_and_in_which_modes() {
    let server = Server::start(&[]);
    let key = server.key(&[]);
    let tool = async |name: &str| server.get(&format!("/api/v1/tools/{name}"), &key).await.body;
    let write = tool("Write").await;
    assert_eq!((&write["loadable"], &write["modes"]), (&json!(false), &json!(["agent"])));
    let task = tool("TaskCreate").await;
    assert_eq!((&task["loadable"], &task["toolset"]), (&json!(true), &json!("planning")));
    let sets = server.get("/api/v1/toolsets", &key).await.is(StatusCode::OK).body;
    let names: Vec<_> =
        sets["data"].as_array().unwrap().iter().map(|set| set["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["notebooks", "planning", "time", "web"]);
    let time = server.get("/api/v1/toolsets/time", &key).await.is(StatusCode::OK).body;
    assert_eq!(
        (&time["tools"], &time["loadable"]),
        (&json!(["CurrentTime", "Sleep"]), &json!(["CurrentTime", "Sleep"]))
    );
    server.get("/api/v1/toolsets/none", &key).await.is_problem(404, "not_found");
}

#[tokio::test]
async fn a_trial_call_goes_by_the_rules_and_stands_in_the_audit_log() {
    let server = Server::start(&[]);
    let (boss, ann) = (server.key(&[]), server.add_user("ann@example.com", &[]));
    let key = |scopes: &[&str]| {
        let scopes = scopes.iter().flat_map(|scope| ["--scope", scope]);
        server.key(&["--user", &*ann].into_iter().chain(scopes).collect::<Vec<_>>())
    };
    let (whole, runs) = (key(&[]), key(&["read", "run"]));
    let call = async |tool: &str, key: &str, body| {
        server.post(&format!("/api/v1/tools/{tool}/call"), key, &body).await
    };
    let upload = server.request(Method::PUT, "/api/v1/files/data.csv").bearer_auth(&whole);
    answer(upload.body("city,people\nRome,3\n")).await.is(StatusCode::CREATED);
    let read =
        call("Read", &runs, json!({"arguments": {"file_path": "data.csv"}})).await.is(StatusCode::OK).body;
    assert_eq!((&read["error"], &read["by"]), (&json!(false), &json!("annotations")));
    let content = &read["content"][0];
    assert!(content["type"] == "text" && content["data"].as_str().unwrap().contains("Rome,3"), "{read}");
    // The files of another user do not exist for the caller.
    let other =
        call("Read", &boss, json!({"arguments": {"file_path": "data.csv"}})).await.is(StatusCode::OK).body;
    assert_eq!((&other["error"], &other["content"][0]["type"]), (&json!(true), &json!("error")));
    let write = json!({"arguments": {"file_path": "b.txt", "content": "two"}});
    call("Write", &runs, write.clone()).await.is_problem(409, "asks");
    let mut approved = write;
    approved["approve"] = json!(true);
    // A key without the scope `approve` cannot approve a call.
    call("Write", &runs, approved.clone()).await.is_problem(403, "forbidden");
    // If the submitted preview differs from the current one, approval is requested again.
    approved["preview"] = json!("nothing");
    let asks = call("Write", &whole, approved.clone()).await;
    asks.is_problem(409, "asks");
    let (_, shown) = asks.body["detail"].as_str().unwrap().split_once("It would do this:\n").unwrap();
    approved["preview"] = json!(shown);
    let ran = call("Write", &whole, approved).await.is(StatusCode::OK).body;
    assert_eq!(ran["by"], "annotations, approved");
    call("Read", &runs, json!({"arguments": {"path": 1}})).await.is_problem(422, "invalid");
    call("Nope", &runs, json!({})).await.is_problem(404, "not_found");
    let long = json!({"arguments": {"pattern": "*"}, "timeout_seconds": 3_000});
    call("Glob", &runs, long).await.is_problem(422, "invalid");
    let json = call("CurrentTime", &runs, json!({})).await.is(StatusCode::OK).body;
    assert_eq!(json["content"][0]["type"], "json");
    let audit = server.get("/api/v1/audit?limit=100", &boss).await.is(StatusCode::OK).body.to_string();
    for (subject, outcome) in [("Read", "ran"), ("Write", "asks"), ("Write", "ran"), ("Read", "unfit")] {
        let entry = format!("\"outcome\":\"{outcome}\"");
        assert!(
            audit.contains("tool.trial") && audit.contains(subject) && audit.contains(&entry),
            "{entry}: {audit}"
        );
    }
}

#[tokio::test]
async fn what_a_trial_call_writes_keeps_to_its_callers_room() {
    let user = crate::cli::User::new();
    user.configure("[files]\nmax_total_bytes = 1000\n");
    let server = Server::start_for(user, &[]);
    let key = server.key(&[]);
    let write = async |path: &str, size: usize| {
        let arguments = json!({"file_path": path, "content": "x".repeat(size)});
        let body = json!({"arguments": arguments, "approve": true});
        let ran = server.post("/api/v1/tools/Write/call", &key, &body).await.is(StatusCode::OK).body;
        let said = ran["content"][0]["data"].as_str().unwrap().to_owned();
        (ran["error"] == json!(true)).then_some(said)
    };
    assert_eq!(write("a.txt", 900).await, None);
    let refused = write("b.txt", 101).await.unwrap();
    assert!(refused.contains("900 of 1000 bytes are used; 101 more do not fit"), "{refused}");
    let listed = server.get("/api/v1/files", &key).await.is(StatusCode::OK).body;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    // Replacing a file frees its space, and a smaller file always fits.
    assert_eq!(write("a.txt", 1000).await, None);
    assert_eq!(write("a.txt", 10).await, None);
}

#[tokio::test]
async fn no_file_tool_tells_where_a_servers_folder_lies() {
    let server = Server::start(&[]);
    let key = server.key(&[]);
    let outside = [
        ("Read", json!({"file_path": "/etc/passwd"})),
        ("Read", json!({"file_path": "../../x"})),
        ("Write", json!({"file_path": "/x", "content": "x"})),
        ("Glob", json!({"pattern": "/etc/*"})),
        ("Grep", json!({"pattern": "x", "path": "/etc"})),
    ];
    let store = server.user.store().file_name().unwrap().to_str().unwrap().to_owned();
    for (tool, arguments) in outside {
        let body = json!({"arguments": arguments, "approve": true});
        let ran =
            server.post(&format!("/api/v1/tools/{tool}/call"), &key, &body).await.is(StatusCode::OK).body;
        assert_eq!(ran["error"], true, "{ran}");
        let said = ran.to_string();
        assert!(said.contains("outside the working folder") && !said.contains(&store), "{said}");
    }
}

#[tokio::test]
async fn the_next_run_keeps_the_mode_of_the_previous_run() {
    let server = Server::start(&[]);
    let key = server.key(&[]);
    let modes = async |thread: &str| {
        let events =
            server.get(&format!("/api/v1/threads/{thread}/events"), &key).await.is(StatusCode::OK).body;
        let started =
            events["data"].as_array().unwrap().iter().filter(|event| event["type"] == "run.started");
        started.map(|event| event["options"]["mode"].clone()).collect::<Vec<_>>()
    };
    let run = server.post("/api/v1/runs", &key, &json!({"message": "hello", "mode": "ask"})).await;
    let run = run.is(StatusCode::CREATED).body;
    let thread = run["thread"].as_str().unwrap();
    server.get(&format!("/api/v1/runs/{}/wait", run["run"].as_str().unwrap()), &key).await.is(StatusCode::OK);
    let more = json!({"message": "go on", "thread": thread});
    server.post("/api/v1/runs", &key, &more).await.is(StatusCode::CREATED);
    assert_eq!(modes(thread).await, [json!("ask"), json!("ask")]);
    server
        .post("/api/v1/runs", &key, &json!({"message": "x", "mode": "act"}))
        .await
        .is_problem(422, "invalid");
}
