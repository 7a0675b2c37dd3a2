//! API keys: shown once, no broader than their creator's permissions, and revoked at once.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::Server;
use super::auth::{PASSWORD, administrator, member};

const KEYS: &str = "/api/v1/keys";

#[tokio::test]
async fn a_key_is_shown_once_and_gone_at_once() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    let mut ann = member(&mut admin, &server, "ann@example.com", "member").await;
    // A session alone cannot create a key, because the key would outlive it.
    ann.post(KEYS, json!({"name": "script"})).await.is_problem(400, "wrong_password");
    let guess = json!({"name": "script", "password": "wrong horse"});
    ann.post(KEYS, guess).await.is_problem(400, "wrong_password");
    let body = json!({"name": "script", "scopes": ["read"], "password": PASSWORD});
    let made = ann.post(KEYS, body).await.is(StatusCode::CREATED);
    let secret = made.body["secret"].as_str().unwrap().to_owned();
    server.get("/api/v1/auth/me", &secret).await.is(StatusCode::OK);
    let list = ann.get(KEYS).await.is(StatusCode::OK);
    assert_eq!(list.body["data"][0]["begins"], secret[..8]);
    assert!(!list.body.to_string().contains(&secret), "{list:#?}");
    let mine = server.key(&[]);
    let body = json!({"name": "x"});
    ann.post(KEYS, json!({"name": " "})).await.is_problem(422, "invalid");
    let over = json!({"name": "x", "expires_at": 1, "password": PASSWORD});
    ann.post(KEYS, over).await.is_problem(422, "invalid");
    server.post(KEYS, &secret, &body).await.is_problem(403, "forbidden");
    // Only the owner and an administrator of the workspace can revoke a key.
    let id = made.body["id"].as_str().unwrap();
    let ann_id = made.body["user"].as_str().unwrap();
    admin.send(Method::DELETE, &format!("{KEYS}/{id}"), None).await.is_problem(404, "not_found");
    let place = format!("{KEYS}/{id}?user={ann_id}");
    admin.send(Method::DELETE, &place, None).await.is(StatusCode::NO_CONTENT);
    server.get("/api/v1/auth/me", &secret).await.is_problem(401, "unauthenticated");
    server.get("/api/v1/auth/me", &mine).await.is(StatusCode::OK);
}

#[tokio::test]
async fn a_key_makes_none_that_covers_more() {
    let server = Server::start(&[]);
    let parent = server.key(&["--scope", "admin", "--scope", "read"]);
    let make = |name: &str, scopes: &[&str]| json!({"name": name, "scopes": scopes});
    server.post(KEYS, &parent, &make("all", &[])).await.is_problem(403, "forbidden");
    server.post(KEYS, &parent, &make("run", &["run"])).await.is_problem(403, "forbidden");
    let child = server.post(KEYS, &parent, &make("read", &["read"])).await.is(StatusCode::CREATED);
    assert_eq!(child.body["scopes"], json!(["read"]));
    let child = child.body["secret"].as_str().unwrap();
    server.get("/api/v1/team/members", child).await.is_problem(403, "forbidden");
    server.get("/api/v1/team/members", &parent).await.is(StatusCode::OK);
    // Nor can a key create one with a later expiry.
    let soon = made_at(&server, &parent).await + 3_600_000;
    let body = json!({"name": "short", "scopes": ["admin"], "expires_at": soon});
    let short = server.post(KEYS, &parent, &body).await.is(StatusCode::CREATED);
    let body = json!({"name": "long", "scopes": ["admin"], "expires_at": soon * 2});
    let long = server.post(KEYS, short.body["secret"].as_str().unwrap(), &body).await.is(StatusCode::CREATED);
    assert_eq!(long.body["expires_at"], soon);
    // API keys cannot change a password.
    let password = server.request(Method::PUT, "/api/v1/auth/password").bearer_auth(&parent);
    let password = password.json(&json!({"new_password": "correct horse"}));
    super::answer(password).await.is_problem(403, "forbidden");
}

async fn made_at(server: &Server, key: &str) -> u64 {
    let list = server.get(KEYS, key).await.is(StatusCode::OK);
    list.body["data"][0]["created_at"].as_u64().unwrap()
}
