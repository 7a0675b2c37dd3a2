//! The Skyflo Command Center: the requests of its pages and of its server.

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::super::{Answer, Server, answer};
use super::{event, names, server, stream, writer};

const API: &str = "/skyflo/api/v1";
const CONVERSATION: &str = "7f1b2c3d-0000-4000-8000-000000000001";
const FIRST: &str = "[server.dialect.skyflo]\nfirst_registration = true\n";

fn request(server: &Server, method: Method, path: &str) -> RequestBuilder {
    server.request(method, &format!("{API}{path}"))
}

/// Submits the form for the first account.
async fn register(server: &Server, email: &str) -> Answer {
    let account = json!({"full_name": "Ann", "email": email, "password": "correct horse"});
    answer(request(server, Method::POST, "/auth/register/register/").json(&account)).await
}

async fn sign_in(server: &Server, email: &str) -> String {
    let form = format!("username={}&password=correct+horse", email.replace('@', "%40"));
    let login = request(server, Method::POST, "/auth/jwt/login")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(form);
    let login = answer(login).await.is(StatusCode::OK).body;
    login["access_token"].as_str().unwrap().to_owned()
}

async fn is_admin_user(server: &Server) -> Value {
    answer(request(server, Method::GET, "/auth/is_admin_user")).await.is(StatusCode::OK).body["is_admin"]
        .clone()
}

/// A request with a message or an answer, with the page's headers.
fn sent(server: &Server, token: &str, path: &str, body: &Value) -> RequestBuilder {
    request(server, Method::POST, path)
        .bearer_auth(token)
        .header("accept", "text/event-stream")
        .header("cache-control", "no-cache")
        .json(body)
}

// rows: SK-P10, SK-R1, SK-R2, SK-R4, SK-R7, SK-E3
#[tokio::test]
async fn from_the_first_registration_to_an_approved_run() {
    let model = writer();
    let server = server(FIRST, &model);
    assert_eq!(is_admin_user(&server).await, json!(true));
    let account = register(&server, "ann@example.com").await.is(StatusCode::CREATED).body;
    assert_eq!(
        (&account["role"], &account["is_superuser"], &account["is_verified"], &account["is_active"]),
        (&json!("admin"), &json!(true), &json!(true), &json!(true))
    );
    assert_eq!(is_admin_user(&server).await, json!(false));
    let token = sign_in(&server, "ann@example.com").await;
    let issued = request(&server, Method::POST, "/auth/refresh/issue").bearer_auth(&token);
    let refresh = answer(issued).await.is(StatusCode::OK).body["refresh_token"].as_str().unwrap().to_owned();
    let me = server.get(&format!("{API}/auth/me"), &token).await.is(StatusCode::OK).body;
    assert_eq!((&me["email"], &me["full_name"]), (&json!("ann@example.com"), &json!("Ann")));
    // The lists of the pages exist and are empty.
    for path in
        ["/conversations?limit=25", "/integrations", "/team/members", "/analytics/metrics?last_n_days=7"]
    {
        server.get(&format!("{API}{path}"), &token).await.is(StatusCode::OK);
    }

    let new = json!({"conversation_id": CONVERSATION, "title": "New Conversation 2026-11-25"});
    server.post(&format!("{API}/conversations"), &token, &new).await.is(StatusCode::OK);
    let path = format!("{API}/conversations/{CONVERSATION}");
    let begun = server.get(&path, &token).await.is(StatusCode::OK).body;
    let welcome = &begun["system_message"];
    assert_eq!((&welcome["role"], &welcome["sequence"]), (&json!("system"), &json!(1)));
    assert_eq!(begun["messages"], json!([]));

    let message = json!({
        "conversation_id": CONVERSATION,
        "messages": [{"role": "user", "content": "Write a file"}],
    });
    let events = stream(sent(&server, &token, "/agent/chat", &message)).await;
    let pending = event(&events, "tools.pending");
    assert_eq!(event(&events, "workflow_complete")["status"], "awaiting_approval", "{events:#?}");
    let offered = model.steps()[0].body["tools"].as_array().unwrap().len();
    assert_eq!(event(&events, "generation.start")["tools_available"], offered);
    let call = event(&events, "tool.awaiting_approval")["call_id"].as_str().unwrap();
    assert_eq!(
        (pending["tools"][0]["call_id"].as_str(), &pending["tools"][0]["requires_approval"]),
        (Some(call), &json!(true))
    );

    let yes = json!({"approve": true, "conversation_id": CONVERSATION});
    let events = stream(sent(&server, &token, &format!("/agent/approvals/{call}"), &yes)).await;
    for name in ["ready", "tool.approved", "tool.executing", "tool.result", "token", "completed"] {
        event(&events, name);
    }
    assert_eq!(names(&events).last(), Some(&"workflow_complete"));
    assert_eq!(event(&events, "workflow_complete")["status"], "completed");
    let messages = server.get(&path, &token).await.is(StatusCode::OK).body["messages"].clone();
    let types: Vec<_> = messages.as_array().unwrap().iter().map(|message| message["type"].as_str()).collect();
    assert_eq!(types, [Some("user"), Some("assistant")]);
    assert_eq!(messages[1]["segments"][0]["toolExecution"]["status"], "completed", "{messages:#}");

    let cookies = format!("auth_token={token}; refresh_token={refresh}");
    let next = request(&server, Method::POST, "/auth/refresh").header("cookie", &cookies).bearer_auth(&token);
    assert_eq!(answer(next).await.is(StatusCode::OK).body["user"]["email"], "ann@example.com");
}

// rows: SK-P10
#[tokio::test]
async fn one_account_is_the_first_and_others_are_invited() {
    let server = server(FIRST, &writer());
    register(&server, "ann@example.com").await.is(StatusCode::CREATED);
    register(&server, "bob@example.com").await.is_problem(403, "forbidden");
    // The link from the terminal is no longer valid.
    let link = std::fs::read_to_string(server.user.store().join("first-link")).unwrap();
    let token = super::super::auth::token(&link).to_owned();
    let used = server.request(Method::POST, "/api/v1/auth/link").json(&json!({"token": token}));
    answer(used).await.is_problem(410, "link_invalid");
}

// rows: SK-P10
#[tokio::test]
async fn without_the_switch_the_pages_ask_for_a_sign_in() {
    let server = server("", &writer());
    assert_eq!(is_admin_user(&server).await, json!(false));
    register(&server, "ann@example.com").await.is_problem(403, "forbidden");
}

// rows: SK-R13
#[tokio::test]
async fn a_page_elsewhere_may_send_what_the_command_center_sends() {
    let server = server("[server]\ncors = ['https://desk.example.com']\n", &writer());
    let asks = request(&server, Method::OPTIONS, "/agent/chat")
        .header("origin", "https://desk.example.com")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,cache-control,content-type");
    let allowed = answer(asks).await.is(StatusCode::NO_CONTENT);
    let headers = allowed.headers["access-control-allow-headers"].to_str().unwrap();
    let headers: Vec<&str> = headers.split(", ").collect();
    for name in ["authorization", "cache-control", "content-type"] {
        assert!(headers.contains(&name), "{name}: {headers:?}");
    }
    assert_eq!(allowed.headers["access-control-allow-credentials"], "true");
}

// rows: SK-R9
#[tokio::test]
async fn the_integrations_page_connects_a_system() {
    let server = server(FIRST, &writer());
    register(&server, "ann@example.com").await.is(StatusCode::CREATED);
    let token = sign_in(&server, "ann@example.com").await;
    let path = format!("{API}/integrations");
    let new = json!({
        "provider": "jenkins",
        "metadata": {"api_url": "https://ci.example.com"},
        "credentials": {"username": "bot", "api_token": "sentinel-7d1c"},
    });
    let made = server.post(&path, &token, &new).await.is(StatusCode::OK).body;
    let names: Vec<&str> = made.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["id", "provider", "name", "metadata", "status", "created_at", "updated_at"]);
    let date = made["created_at"].as_str().unwrap();
    assert!(date.len() == 24 && date.ends_with('Z'), "{date}");
    assert_eq!(
        (&made["provider"], &made["name"], &made["status"]),
        (&json!("jenkins"), &json!("jenkins"), &json!("active"))
    );
    assert_eq!(server.post(&path, &token, &new).await.status, 400, "one of a provider");
    let other = json!({"provider": "fax", "credentials": {}});
    assert_eq!(server.post(&path, &token, &other).await.status, 400);
    let one = format!("{path}/{}", made["id"].as_str().unwrap());
    let change = json!({"metadata": {"api_url": "https://ci.example.com"}, "status": "disabled"});
    let changed = answer(server.request(Method::PATCH, &one).bearer_auth(&token).json(&change)).await;
    assert_eq!(changed.is(StatusCode::OK).body["status"], "disabled");
    // All members can read them, but only administrators can change them. Both lists are the server's own
    // integrations.
    let member = server.key(&["--user", &server.add_user("m@example.com", &[])]);
    let listed = server.get(&format!("{path}?provider=Jenkins"), &member).await.is(StatusCode::OK).body;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &made["id"]));
    assert!(!listed.to_string().contains("sentinel"));
    server.post(&path, &member, &new).await.is_problem(403, "forbidden");
    let native = server.get("/api/v1/integrations", &token).await.is(StatusCode::OK).body;
    assert_eq!(native["data"][0]["id"], made["id"]);
    let gone = answer(server.request(Method::DELETE, &one).bearer_auth(&token)).await;
    gone.is(StatusCode::NO_CONTENT);
    assert_eq!(server.get(&path, &token).await.is(StatusCode::OK).body, json!([]));
    answer(server.request(Method::DELETE, &one).bearer_auth(&token)).await.is_problem(404, "not_found");
}
