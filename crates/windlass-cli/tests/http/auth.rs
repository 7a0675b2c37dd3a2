//! Signing in and out, from browsers and programs.

use std::io::{BufRead, BufReader};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::browser::Browser;
use super::{Server, answer};
use crate::cli::User;

pub const PASSWORD: &str = "correct horse";

/// The token of a link.
pub fn token(link: &str) -> &str {
    link.trim().split_once("?token=").unwrap_or_else(|| panic!("no link: {link}")).1
}

/// A browser in which the local administrator has signed in with a link from the terminal.
pub async fn administrator(server: &Server) -> Browser<'_> {
    let said = server.user.run(&["admin", "link", "--address", &server.address]).exits(0);
    assert!(said.out.starts_with(&format!("{}/auth/link?token=", server.address)), "{said:#?}");
    let mut browser = Browser::new(server);
    browser.post("/api/v1/auth/link", json!({"token": token(&said.out)})).await.is(StatusCode::OK);
    browser
}

/// A browser in which a user has registered by invitation.
pub async fn member<'s>(admin: &mut Browser<'s>, server: &'s Server, email: &str, role: &str) -> Browser<'s> {
    let invite = json!({"role": role, "email": email});
    let invite = admin.post("/api/v1/team/invites", invite).await.is(StatusCode::CREATED);
    let mut browser = Browser::new(server);
    let body = json!({"email": email, "password": PASSWORD, "invite": invite.body["token"]});
    browser.post("/api/v1/auth/register", body).await.is(StatusCode::CREATED);
    browser
}

async fn login(browser: &mut Browser<'_>, email: &str, password: &str) -> super::Answer {
    browser.post("/api/v1/auth/login", json!({"email": email, "password": password})).await
}

#[tokio::test]
async fn a_link_is_used_up_by_its_button_and_not_by_looking() {
    let server = Server::start(&[]);
    let said = server.user.run(&["admin", "link", "--address", &server.address]).exits(0);
    let link = token(&said.out).to_owned();
    let mut browser = Browser::new(&server);
    for _ in 0..2 {
        let page = browser.get(&format!("/auth/link?token={link}")).await.is(StatusCode::OK);
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(page.headers["referrer-policy"], "same-origin");
        assert!(page.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
        let info = browser.get(&format!("/api/v1/auth/link?token={link}")).await.is(StatusCode::OK);
        assert_eq!((&info.body["for"], &info.body["workspace"]), (&json!("sign_in"), &json!("default")));
    }
    browser.get("/api/v1/auth/me").await.is_problem(401, "unauthenticated");
    let went = browser.submit(&format!("token={link}")).await.is(StatusCode::SEE_OTHER);
    assert_eq!(went.headers["location"], "/");
    let me = browser.get("/api/v1/auth/me").await.is(StatusCode::OK);
    assert_eq!((&me.body["id"], &me.body["role"]), (&json!("local"), &json!("admin")));
    let mut other = Browser::new(&server);
    other.submit(&format!("token={link}")).await.is(StatusCode::GONE);
    other.get(&format!("/auth/link?token={link}")).await.is(StatusCode::GONE);
    other.post("/api/v1/auth/link", json!({"token": link})).await.is_problem(410, "link_invalid");
    assert!(other.cookies.is_empty());
}

/// The first lines of output of `serve`, and the running server.
fn start_and_read(user: User, lines: usize) -> (Vec<String>, std::process::Child, User) {
    let mut process = user.start(&["serve", "--listen", "127.0.0.1:0"]);
    let out = BufReader::new(process.stdout.take().unwrap()).lines();
    (out.take(lines).map(Result::unwrap).collect(), process, user)
}

/// The link in the file that a server without a terminal names in its output, because logs would keep a printed link.
pub fn first_link(said: &str) -> String {
    let file = std::path::Path::new(said.trim());
    assert_eq!(crate::cli::mode(file), 0o600, "{said}");
    std::fs::read_to_string(file).unwrap().trim().to_owned()
}

// rows: SK-P10
#[tokio::test]
async fn each_start_prints_a_link_until_the_first_registration() {
    let (said, mut process, user) = start_and_read(User::new(), 3);
    let address = said[0].rsplit_once(' ').unwrap().1.to_owned();
    assert!(said[1].starts_with("no account is registered yet"), "{said:?}");
    let link = first_link(&said[2]).strip_prefix(&address).unwrap().to_owned();
    process.kill().unwrap();
    process.wait().unwrap();
    // The next start prints another link, and the first one is no longer valid.
    let (said, mut process, user) = start_and_read(user, 3);
    let address = said[0].rsplit_once(' ').unwrap().1.to_owned();
    let newer = first_link(&said[2]).strip_prefix(&address).unwrap().to_owned();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let post = async |path: &str, body: Value, cookie: &str| {
        let request = client.post(format!("{address}{path}")).json(&body).header("origin", &address);
        request.header("cookie", cookie).send().await.unwrap()
    };
    let used = post("/api/v1/auth/link", json!({"token": token(&link)}), "").await;
    assert_eq!(used.status(), 410);
    let first = json!({"email": "a@example.com", "password": PASSWORD});
    assert_eq!(post("/api/v1/auth/register", first, "").await.status(), 403);
    let signed_in = post("/api/v1/auth/link", json!({"token": token(&newer)}), "").await;
    assert_eq!(signed_in.status(), 200);
    let body: Value = signed_in.json().await.unwrap();
    // Programs use the access token in the body.
    let bearer = body["access_token"].as_str().unwrap();
    let me = client.patch(format!("{address}/api/v1/auth/me")).bearer_auth(bearer);
    assert_eq!(me.json(&json!({"email": "Me@Example.com"})).send().await.unwrap().status(), 200);
    let password = client.put(format!("{address}/api/v1/auth/password")).bearer_auth(bearer);
    let password = password.json(&json!({"new_password": PASSWORD})).send().await.unwrap();
    assert_eq!(password.status(), 204);
    process.kill().unwrap();
    process.wait().unwrap();
    let server = Server::start_for(user, &[]);
    let options = answer(server.request(Method::GET, "/api/v1/auth/options")).await;
    assert_eq!(options.body, json!({"registration": "invite", "registered": true, "providers": []}));
    let mut browser = Browser::new(&server);
    login(&mut browser, "me@example.com", PASSWORD).await.is(StatusCode::OK);
}

// rows: SK-R7, SK-P9
#[tokio::test]
async fn registered_signed_in_refreshed_and_out_again() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    let mut browser = Browser::new(&server);
    let alone = json!({"email": "a@example.com", "password": PASSWORD});
    browser.post("/api/v1/auth/register", alone).await.is_problem(403, "forbidden");
    let invite = json!({"role": "member", "email": "A@Example.com"});
    let invite = admin.post("/api/v1/team/invites", invite).await.is(StatusCode::CREATED);
    let with = |email: &str, password: &str| json!({"email": email, "password": password, "invite": invite.body["token"], "name": "Ann"});
    for (email, password, status, code) in [
        ("b@example.com", PASSWORD, 403, "forbidden"),
        ("a@example.com", "1234567", 422, "invalid"),
        ("nobody", PASSWORD, 422, "invalid"),
    ] {
        browser.post("/api/v1/auth/register", with(email, password)).await.is_problem(status, code);
    }
    let joined = browser.post("/api/v1/auth/register", with("a@example.com", PASSWORD)).await;
    assert_eq!(joined.status, 201, "{joined:#?}");
    assert_eq!(
        (&joined.body["user"]["role"], &joined.body["user"]["name"]),
        (&json!("member"), &json!("Ann"))
    );
    assert_eq!((&joined.body["token_type"], &joined.body["expires_in"]), (&json!("bearer"), &json!(900)));
    let again = browser.post("/api/v1/auth/register", with("a@example.com", PASSWORD)).await;
    again.is_problem(410, "link_invalid");

    let mut other = Browser::new(&server);
    for (email, password) in [("a@example.com", "wrong horse"), ("z@example.com", PASSWORD)] {
        let refused = login(&mut other, email, password).await;
        refused.is_problem(401, "wrong_login");
        assert_eq!(refused.body["detail"], "the address or the password is wrong");
    }
    login(&mut other, "A@EXAMPLE.com", PASSWORD).await.is(StatusCode::OK);
    let before = other.cookies.clone();
    other.send(Method::POST, "/api/v1/auth/refresh", None).await.is(StatusCode::OK);
    assert_ne!(before["windlass_refresh"], other.cookies["windlass_refresh"]);
    let sessions = other.get("/api/v1/auth/sessions").await.is(StatusCode::OK);
    assert_eq!(sessions.body["data"].as_array().unwrap().len(), 2);
    let stolen = other.clone();
    other.send(Method::POST, "/api/v1/auth/logout", None).await.is(StatusCode::NO_CONTENT);
    assert!(other.cookies.is_empty());
    // The access token was revoked before its expiry of a quarter of an hour.
    answer(stolen.bare(Method::GET, "/api/v1/auth/me")).await.is_problem(401, "unauthenticated");
    let refused = stolen.clone().send(Method::POST, "/api/v1/auth/refresh", None).await;
    refused.is_problem(401, "unauthenticated");
    let cleared = refused.headers.get_all("set-cookie").iter();
    assert_eq!(cleared.filter(|line| line.to_str().unwrap().contains("Max-Age=0")).count(), 2);
    browser.get("/api/v1/auth/me").await.is(StatusCode::OK);
    browser.send(Method::DELETE, "/api/v1/auth/sessions", None).await.is(StatusCode::NO_CONTENT);
    browser.get("/api/v1/auth/me").await.is_problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_cookie_changes_nothing_for_pages_elsewhere() {
    let server = Server::start(&[]);
    let admin = administrator(&server).await;
    let invite = || admin.bare(Method::POST, "/api/v1/team/invites").json(&json!({}));
    answer(invite()).await.is_problem(403, "cross_site");
    answer(invite().header("sec-fetch-site", "same-site")).await.is_problem(403, "cross_site");
    answer(invite().header("origin", "null")).await.is_problem(403, "forbidden");
    answer(invite().header("sec-fetch-site", "same-origin")).await.is(StatusCode::CREATED);
    answer(invite().header("origin", &server.address)).await.is(StatusCode::CREATED);
    for path in ["/api/v1/auth/refresh", "/api/v1/auth/logout"] {
        answer(admin.bare(Method::POST, path)).await.is_problem(403, "cross_site");
    }
    // An explicit `Authorization` header takes precedence over the cookie.
    let both = admin.bare(Method::GET, "/api/v1/auth/me").bearer_auth("wls_nobody");
    answer(both).await.is_problem(401, "unauthenticated");
}

#[tokio::test]
async fn guessing_takes_longer_each_time() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    for email in ["a@example.com", "b@example.com"] {
        member(&mut admin, &server, email, "member").await;
    }
    let mut browser = Browser::new(&server);
    for _ in 0..6 {
        login(&mut browser, "a@example.com", "wrong horse").await.is_problem(401, "wrong_login");
    }
    let refused = login(&mut browser, "a@example.com", PASSWORD).await;
    refused.is_problem(429, "too_many_attempts");
    assert_eq!(refused.headers["retry-after"], "1");
    login(&mut browser, "b@example.com", PASSWORD).await.is(StatusCode::OK);
}

#[tokio::test]
async fn a_password_change_requires_the_old_password_or_a_link() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    let mut browser = member(&mut admin, &server, "a@example.com", "member").await;
    let mut elsewhere = Browser::new(&server);
    login(&mut elsewhere, "a@example.com", PASSWORD).await.is(StatusCode::OK);
    let put = |current: &str, new: &str| Some(json!({"current_password": current, "new_password": new}));
    let path = "/api/v1/auth/password";
    browser.send(Method::PUT, path, put("wrong", "another horse")).await.is_problem(400, "wrong_password");
    browser.send(Method::PUT, path, put(PASSWORD, "short")).await.is_problem(422, "invalid");
    browser.send(Method::PUT, path, put(PASSWORD, "another horse")).await.is(StatusCode::NO_CONTENT);
    browser.get("/api/v1/auth/me").await.is(StatusCode::OK);
    elsewhere.get("/api/v1/auth/me").await.is_problem(401, "unauthenticated");
    login(&mut elsewhere, "a@example.com", PASSWORD).await.is_problem(401, "wrong_login");

    let id = browser.get("/api/v1/auth/me").await.body["id"].as_str().unwrap().to_owned();
    let made = admin.send(Method::POST, &format!("/api/v1/team/members/{id}/reset"), None).await;
    let made = made.is(StatusCode::CREATED);
    let page = elsewhere.get(made.body["url"].as_str().unwrap().strip_prefix(&server.address).unwrap()).await;
    assert!(page.body.as_str().unwrap().contains("Choose a new password"), "{page:#?}");
    let form = |password: &str| format!("token={}&password={password}", made.body["token"].as_str().unwrap());
    elsewhere.submit(&form("short")).await.is(StatusCode::UNPROCESSABLE_ENTITY);
    elsewhere.submit(&form("a+third+horse")).await.is(StatusCode::SEE_OTHER);
    elsewhere.get("/api/v1/auth/me").await.is(StatusCode::OK);
    browser.get("/api/v1/auth/me").await.is_problem(401, "unauthenticated");
    login(&mut browser, "a@example.com", "a third horse").await.is(StatusCode::OK);
    browser.submit(&form("a+fourth+horse")).await.is(StatusCode::GONE);
    // A link from the terminal works as well.
    let said = server.user.run(&["admin", "reset", "a@example.com", "--address", &server.address]).exits(0);
    let body = json!({"token": token(&said.out), "password": "a fifth horse"});
    browser.post("/api/v1/auth/password/reset", body).await.is(StatusCode::OK);
}

#[tokio::test]
async fn who_may_register_is_configured() {
    let open = User::new();
    open.configure("[server]\nregistration = 'open'\n");
    let server = Server::start_for(open, &[]);
    let body = |email: &str| json!({"email": email, "password": PASSWORD});
    let mut browser = Browser::new(&server);
    // Registration is closed until an administrator exists, so no client can win a race for the first account.
    browser.post("/api/v1/auth/register", body("a@example.com")).await.is_problem(403, "forbidden");
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "first@example.com", "admin").await;
    let joined = browser.post("/api/v1/auth/register", body("a@example.com")).await.is(StatusCode::CREATED);
    assert_eq!(joined.body["user"]["role"], "member");
    let taken = Browser::new(&server).post("/api/v1/auth/register", body("A@example.com")).await;
    taken.is_problem(409, "email_taken");

    let closed = User::new();
    closed.configure("[server]\nregistration = 'closed'\n");
    let server = Server::start_for(closed, &[]);
    let mut admin = administrator(&server).await;
    admin.post("/api/v1/team/invites", json!({})).await.is_problem(409, "registration_closed");
    let body = json!({"email": "a@example.com", "password": PASSWORD});
    admin.post("/api/v1/team/members", body.clone()).await.is(StatusCode::CREATED);
    Browser::new(&server).post("/api/v1/auth/login", body).await.is(StatusCode::OK);
}
