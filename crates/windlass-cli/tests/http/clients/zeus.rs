//! The Zeus frontend and programs that call its backend: the request bodies that its API reference publishes.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::super::auth::administrator;
use super::super::exchange::frames;
use super::super::{Server, answer};
use super::{event, is_kept, names, server, start, stream, writer};
use crate::cli::model::{Model, Turn};

const INVOKE: &str = "/zeus/api/agent/invoke";
const RESUME: &str = "/zeus/api/agent/resume";
const KEY: &str = "sk-sentinel-91b7";

/// The model configuration as in the reference, where all fields are required.
fn llm(model: &Model, name: &str) -> Value {
    json!({"baseUrl": model.url(), "apiKey": KEY, "modelName": name, "temperature": 0.7})
}

fn invoke(llm: &Value) -> Value {
    json!({
        "message": "Write a file",
        "llm_config": llm,
        "session_id": "session_0123456789ab",
        "mode": "agent",
        "tools": [],
        "enable_memory": false,
        "knowledge_base_ids": [],
        "chat_history": [],
        "tool_interrupt_config": {
            "Write": {"enabled": true, "requires_interrupt": true, "allowed_decisions": ["approved", "rejected", "modified"]},
        },
    })
}

fn resume(llm: &Value, call: &str, decision: Value) -> Value {
    let mut result = json!({"tool_call_id": call, "tool_name": "Write"});
    result.as_object_mut().unwrap().extend(decision.as_object().unwrap().clone());
    json!({"session_id": "session_0123456789ab", "llm_config": llm, "tool_call_results": [result]})
}

/// Exchanges the link that the server has printed for the bearer token of the first account.
async fn bearer(server: &Server) -> String {
    // The link exists before the first response is sent.
    answer(server.request(Method::GET, "/api/v1/health")).await.is(StatusCode::OK);
    let link = std::fs::read_to_string(server.user.store().join("first-link")).unwrap();
    let token = super::super::auth::token(&link).to_owned();
    let signed_in = server.request(Method::POST, "/api/v1/auth/link").json(&json!({"token": token}));
    answer(signed_in).await.is(StatusCode::OK).body["access_token"].as_str().unwrap().to_owned()
}

async fn post(server: &Server, key: &str, path: &str, body: &Value) -> Vec<(String, Value)> {
    stream(server.request(Method::POST, path).bearer_auth(key).json(body)).await
}

fn call(events: &[(String, Value)]) -> String {
    event(events, "tool_call")["tool_call_id"].as_str().unwrap().to_owned()
}

// rows: ZE-E1, ZE-E2, ZE-E3, ZE-E14, ZE-C7
#[tokio::test]
async fn the_published_bodies_run_and_are_approved() {
    let model = writer();
    let server = server("[server.dialect.zeus]\nenabled = true\n", &model);
    let token = bearer(&server).await;
    // The address is that of a configured provider. The server sends its own key there, and discards the client's.
    let llm = llm(&model, "scripted");
    let events = post(&server, &token, INVOKE, &invoke(&llm)).await;
    assert_eq!(event(&events, "tool_call")["requires_approval"], true, "{events:#?}");
    let events =
        post(&server, &token, RESUME, &resume(&llm, &call(&events), json!({"decision": "approved"}))).await;
    assert_eq!(names(&events).last(), Some(&"complete"), "{events:#?}");
    assert_eq!(event(&events, "tool_call_result")["is_error"], false);
    assert_eq!(event(&events, "complete")["content"], "It is written.");
    assert!(model.steps().iter().all(|step| !step.authorization.contains(KEY)));
    assert!(!is_kept(&server, KEY));
}

// rows: ZE-E1
#[tokio::test]
async fn a_browser_comes_by_its_cookie() {
    let model = writer();
    let server = server("", &model);
    let mut browser = administrator(&server).await;
    let llm = llm(&model, "scripted");
    let begun = browser.post(INVOKE, invoke(&llm)).await.is(StatusCode::OK);
    let call = call(&frames(begun.body.as_str().unwrap()));
    let done = browser.post(RESUME, resume(&llm, &call, json!({"decision": "approved"}))).await;
    let events = frames(done.is(StatusCode::OK).body.as_str().unwrap());
    assert_eq!(names(&events).last(), Some(&"complete"), "{events:#?}");
    // Requests from other sites are rejected despite the cookie.
    let elsewhere = browser.bare(Method::POST, INVOKE).header("sec-fetch-site", "cross-site");
    assert_eq!(answer(elsewhere.json(&invoke(&llm))).await.status, 403);
}

// rows: ZE-H6
#[tokio::test]
async fn a_modified_call_runs_with_its_new_parameters_without_being_asked_again() {
    let model = writer();
    let server = server("", &model);
    let (token, llm) = (bearer(&server).await, llm(&model, "scripted"));
    let events = post(&server, &token, INVOKE, &invoke(&llm)).await;
    let first = call(&events);
    let other = json!({"decision": "modified", "parameters": {"file_path": "b.md", "content": "y"}});
    let events = post(&server, &token, RESUME, &resume(&llm, &first, other)).await;
    assert_eq!(names(&events).last(), Some(&"complete"), "{events:#?}");
    let running = event(&events, "tool_call");
    assert_eq!((&running["requires_approval"], &running["status"]), (&json!(false), &json!("running")));
    assert_eq!(
        (&running["parameters"]["file_path"], running["tool_call_id"].as_str()),
        (&json!("b.md"), Some(&*first))
    );
    assert_eq!(event(&events, "tool_call_result")["tool_call_id"].as_str(), Some(&*first));
    // The journal has both actions of the caller: the edit and the approval.
    let told = server.user.run(&["threads", "export"]).exits(0).out;
    assert!(told.contains("call.edited") && told.contains("interrupt.closed"), "{told}");
}

/// Settings that let clients choose an endpoint at a model's address.
fn open_to(model: &Model) -> String {
    let port = model.url().rsplit_once(':').unwrap().1.split('/').next().unwrap();
    format!(
        "[server.dialect.zeus]\nclient_endpoints = true\n[outbound]\ninternal_hosts = ['127.0.0.1']\nports = [{port}]\n"
    )
}

// rows: ZE-C7, ZE-E1, ZE-E2, ZE-E14
#[tokio::test]
async fn with_the_switch_a_run_calls_the_clients_endpoint_with_its_key() {
    let (own, configured) = (writer(), writer());
    let mut server = server(&open_to(&own), &configured);
    let key = server.key(&[]);
    let llm = llm(&own, "vendor/own-model");
    let events = post(&server, &key, INVOKE, &invoke(&llm)).await;
    let call = call(&events);
    let first = own.steps()[0].clone();
    assert_eq!(
        (first.authorization.as_str(), &first.body["model"]),
        (&*format!("Bearer {KEY}"), &json!("vendor/own-model"))
    );
    // After a restart, the server learns the endpoint from the next request.
    server = start(server.kill(), &configured);
    let events = post(&server, &key, RESUME, &resume(&llm, &call, json!({"decision": "approved"}))).await;
    assert_eq!(names(&events).last(), Some(&"complete"), "{events:#?}");
    assert!(own.steps().iter().all(|step| step.authorization == format!("Bearer {KEY}")));
    assert!(configured.steps().is_empty());
    assert!(!is_kept(&server, KEY));
    // No other user can name that endpoint, and `[outbound]` rejects addresses that tools may not call.
    let told = server.user.run(&["threads", "export"]).exits(0).out;
    let name = told.split('"').find(|text| text.starts_with("client-endpoint-")).unwrap();
    let body = json!({"message": "hi", "model": name});
    server.post("/api/v1/runs", &key, &body).await.is_problem(422, "invalid");
    let mut inside = llm.clone();
    inside["baseUrl"] = json!("http://127.0.0.2:80/v1");
    let refused = server.post(INVOKE, &key, &invoke(&inside)).await;
    refused.is_problem(422, "invalid");
    assert!(!refused.body.to_string().contains(KEY), "{refused:#?}");
}

// rows: ZE-C7
#[tokio::test]
async fn without_the_switch_an_endpoint_of_elsewhere_is_refused() {
    let (own, configured) = (writer(), writer());
    let server = server("", &configured);
    let refused = server.post(INVOKE, &server.key(&[]), &invoke(&llm(&own, "gpt-4o"))).await;
    refused.is_problem(422, "invalid");
    assert!(refused.body["detail"].as_str().unwrap().contains("`llm_config.baseUrl`"), "{refused:#?}");
    assert!(refused.body["hint"].as_str().unwrap().contains("client_endpoints"), "{refused:#?}");
    assert!(own.steps().is_empty() && !refused.body.to_string().contains(KEY));
}

// rows: ZE-X8
#[tokio::test]
async fn a_run_may_take_as_many_steps_as_the_dialect_says() {
    let look = |nth: usize| Turn::Call(vec![("Glob", json!({"pattern": format!("{nth}*")}))]);
    let turns = (0..30).map(look).chain([Turn::Say("Done.")]).collect();
    let model = Model::start(turns);
    // The model counts its own replies, so the request must contain all of them.
    let server =
        server("[server.dialect.zeus]\nmax_steps = 999\n[agent.limits]\nwindow_messages = 0\n", &model);
    let events = post(&server, &server.key(&[]), INVOKE, &json!({"message": "go"})).await;
    assert_eq!((names(&events).last(), model.steps().len()), (Some(&"complete"), 31), "{events:#?}");
}
