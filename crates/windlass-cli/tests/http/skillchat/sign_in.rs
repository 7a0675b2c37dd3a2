//! Users of the chat: signed-in accounts, guests, and invalid cookies.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::super::auth::{PASSWORD, administrator};
use super::super::browser::Browser;
use super::super::{Server, answer};
use crate::cli::User;
use crate::cli::model::{Model, Turn};

const API: &str = "/skillchat/api";
const COOKIE: &str = "windlass_skillchat";

fn server(table: &str) -> Server {
    let user = User::new();
    user.configure(table);
    let model = Model::start(vec![Turn::Say("Hello."), Turn::Say("Hello again.")]);
    let command = model.command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    Server::spawn(user, command)
}

fn with_guests() -> Server {
    server("[server.dialect.skillchat]\nguest = true\n")
}

async fn chat(page: &mut Browser<'_>) -> super::super::Answer {
    page.post(&format!("{API}/ai/chat"), json!({"message": "hi", "session_id": "s"})).await
}

// rows: WT-E7
#[tokio::test]
async fn a_user_registers_signs_in_chats_and_signs_out() {
    let server = server("[server]\nregistration = \"open\"\n");
    let mut page = Browser::new(&server);
    let login = json!({"email": "ann@example.com", "password": PASSWORD});
    let register = json!({"email": "ann@example.com", "password": PASSWORD, "display_name": "Ann"});
    // The first account is reserved for the administrator, as in the native interface.
    let early = page.post(&format!("{API}/auth/register"), register.clone()).await;
    assert_eq!((early.status, &early.body["detail"]["code"]), (403, &json!("forbidden")));
    let mut admin = administrator(&server).await;
    let first = json!({"email": "admin@example.com", "password": PASSWORD});
    admin.post("/api/v1/team/members", first).await.is(StatusCode::CREATED);

    let made = page.post(&format!("{API}/auth/register"), register).await.is(StatusCode::OK).body;
    assert_eq!((&made["token_type"], &made["profile"]["display_name"]), (&json!("bearer"), &json!("Ann")));
    assert_eq!(made["profile"]["email"], "ann@example.com");
    chat(&mut page).await.is(StatusCode::OK);
    // Programs use the token in the body. It is valid for a day, and ends with the session.
    let token = made["access_token"].as_str().unwrap();
    server.get(&format!("{API}/sessions/s"), token).await.is(StatusCode::OK);
    page.post(&format!("{API}/auth/logout"), json!({})).await.is(StatusCode::OK);
    assert!(page.cookies.is_empty());
    assert_eq!(server.get(&format!("{API}/sessions/s"), token).await.status, 401);

    let wrong = json!({"email": "ann@example.com", "password": "no"});
    let wrong = page.post(&format!("{API}/auth/login"), wrong).await;
    let words = json!({"code": "invalid_credentials", "message": "Invalid credentials"});
    assert_eq!((wrong.status, wrong.body), (401, json!({"detail": words})));
    let again = page.post(&format!("{API}/auth/login"), login).await.is(StatusCode::OK);
    assert_eq!(again.headers["set-cookie"].to_str().unwrap().matches("Max-Age=86400").count(), 1);
    let session = page.get(&format!("{API}/sessions/s")).await.is(StatusCode::OK).body;
    assert_eq!(session["messages"].as_array().unwrap().len(), 2, "{session:#}");
}

// rows: WT-E7
#[tokio::test]
async fn a_guest_is_a_member_of_this_dialect_alone() {
    let server = with_guests();
    let mut page = Browser::new(&server);
    chat(&mut page).await.is(StatusCode::OK);
    let cookie = page.cookies[COOKIE].clone();
    chat(&mut page).await.is(StatusCode::OK);
    assert_eq!(page.cookies[COOKIE], cookie, "the same guest");
    page.get(&format!("{API}/sessions/s")).await.is(StatusCode::OK);
    // Another browser is another guest, who sees nothing of the first one.
    let mut other = Browser::new(&server);
    other.post(&format!("{API}/ai/initial-greeting"), json!({})).await.is(StatusCode::OK);
    assert_eq!(other.get(&format!("{API}/sessions/s")).await.status, 404);
    // The guest's cookie and token are invalid outside of the dialect.
    assert_eq!(page.get("/api/v1/threads").await.status, 401);
    for path in ["/api/v1/threads", "/api/v1/keys", "/api/v1/auth/me", "/skyflo/api/v1/conversations"] {
        assert_eq!(server.get(path, &cookie).await.status, 403, "{path}");
    }
    for path in ["/api/v1/keys", "/api/v1/runs", "/agui"] {
        let body = json!({"name": "x", "message": "x"});
        assert_eq!(server.post(path, &cookie, &body).await.status, 403, "{path}");
    }
    let members = server.get("/api/v1/team/members", &server.key(&[])).await.is(StatusCode::OK).body;
    let members = members["data"].as_array().unwrap();
    let guests: Vec<_> = members.iter().filter(|member| member["name"] == "Guest").collect();
    assert!(guests.len() == 2 && guests.iter().all(|it| it["role"] == "member"), "{members:#?}");
}

#[tokio::test]
async fn a_guest_is_admitted_where_one_chats_and_nowhere_else() {
    let server = with_guests();
    let status = async |method: Method, path: &str| {
        let request = server.request(method, &format!("{API}{path}"));
        answer(request.json(&json!({"message": ""}))).await
    };
    for (method, path) in [
        (Method::GET, "/sessions"),
        (Method::GET, "/ai/reminders"),
        (Method::POST, "/ai/chat/hitl-response"),
        (Method::POST, "/sessions/s/commit"),
        (Method::POST, "/auth/logout"),
    ] {
        let refused = status(method, path).await;
        assert!(refused.status >= 400 && !refused.headers.contains_key("set-cookie"), "{path}: {refused:#?}");
    }
    // A rejected request does not consume a guest's slot.
    for (body, code) in [
        (json!({"message": ""}), 400),
        (json!({"message": 7}), 400),
        (json!(["a message"]), 400),
        (json!({"message": "hi", "doc_id": "d"}), 501),
    ] {
        for path in ["/ai/chat", "/ai/chat/stream"] {
            let request = server.request(Method::POST, &format!("{API}{path}"));
            let rejected = answer(request.json(&body)).await;
            let has_cookie = rejected.headers.contains_key("set-cookie");
            assert_eq!((rejected.status, has_cookie), (code, false), "{path} {body}: {rejected:#?}");
        }
    }
    assert!(status(Method::POST, "/ai/initial-greeting").await.headers.contains_key("set-cookie"));
    // Neither a page of another site nor a request through a proxy gets a guest account.
    let forward = |name: &'static str, value: &'static str| {
        let request = server.request(Method::POST, &format!("{API}/ai/chat")).json(&json!({"message": "hi"}));
        answer(request.header(name, value))
    };
    assert_eq!(forward("origin", "https://evil.example").await.status, 403);
    assert_eq!(forward("x-forwarded-for", "203.0.113.7").await.status, 401);
    // An invalid credential does not create a guest.
    assert_eq!(forward("authorization", "Bearer wrong").await.status, 401);
}

#[tokio::test]
async fn guests_are_rejected_unless_enabled() {
    let server = server("");
    let mut page = Browser::new(&server);
    assert_eq!(chat(&mut page).await.status, 401);
    assert!(page.cookies.is_empty());
}

#[tokio::test]
async fn cookies_of_other_programs_are_no_credential() {
    let server = with_guests();
    let mut page = Browser::new(&server);
    for name in ["access_token", "session", "auth_token", "windlass_auth", COOKIE] {
        page.cookies.insert(name.into(), "eyJhbGciOiJIUzI1NiJ9.e30.x".into());
    }
    chat(&mut page).await.is(StatusCode::OK);
    assert_ne!(page.cookies[COOKIE], "eyJhbGciOiJIUzI1NiJ9.e30.x");
    page.get(&format!("{API}/sessions/s")).await.is(StatusCode::OK);
    // A page on another port of the same machine cannot use the cookie.
    let path = format!("{API}/ai/chat");
    let neighbour = page.bare(Method::POST, &path).header("sec-fetch-site", "same-site");
    let refused = answer(neighbour.json(&json!({"message": "hi"}))).await;
    assert_eq!((refused.status, &refused.body["detail"]["code"]), (403, &json!("cross_site")));
}

#[test]
fn a_server_that_others_reach_admits_guests_only_where_everybody_may_register() {
    let user = User::new();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--public-url", "https://agents.example.com"];
    user.configure("[server.dialect.skillchat]\nguest = true\n");
    let said = user.run(&arguments).exits(2);
    assert!(said.err.contains("guest = true` admits every client"), "{said:#?}");
    assert!(said.err.contains("registration = \"open\""), "{said:#?}");
}
