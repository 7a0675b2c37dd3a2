//! Accounts through the Skyflo interface: sign-in, tokens and cookies, profiles, and the team.

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::super::{Answer, Server, answer};
use super::play::API;
use crate::cli::User;

const EMAIL: &str = "ann@example.com";
const PASSWORD: &str = "correct horse";

fn request(server: &Server, method: Method, path: &str) -> RequestBuilder {
    server.request(method, &format!("{API}{path}"))
}

async fn add(server: &Server, key: &str, email: &str, password: &str) -> Answer {
    server.post(&format!("{API}/team/members"), key, &json!({"email": email, "password": password})).await
}

async fn login(server: &Server, password: &str) -> Answer {
    let form = format!("username={}&password={}", EMAIL.replace('@', "%40"), password.replace(' ', "+"));
    let request = request(server, Method::POST, "/auth/jwt/login");
    answer(request.header("content-type", "application/x-www-form-urlencoded").body(form)).await
}

async fn token(server: &Server, password: &str) -> String {
    let signed_in = login(server, password).await.is(StatusCode::OK).body;
    assert_eq!(signed_in["token_type"], "bearer");
    signed_in["access_token"].as_str().unwrap().to_owned()
}

/// The value of a cookie that a response sets.
fn cookie(answer: &Answer, name: &str) -> Option<String> {
    let set = answer.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap());
    let mut of = set.filter_map(|set| set.strip_prefix(name)?.strip_prefix('='));
    of.next().map(|rest| rest.split(';').next().unwrap().to_owned())
}

async fn refresh(server: &Server, token: &str) -> Answer {
    let cookie = format!("refresh_token={token}");
    answer(request(server, Method::POST, "/auth/refresh").header("cookie", cookie)).await
}

// rows: SK-R7, SK-P8, SK-P9
#[tokio::test]
async fn a_sign_in_issues_tokens_and_a_refresh_issues_the_next_ones() {
    let server = Server::start(&[]);
    let key = server.key(&[]);
    add(&server, &key, EMAIL, PASSWORD).await.is(StatusCode::CREATED);
    login(&server, "wrong horse").await.is_problem(400, "login_bad_credentials");
    let access = token(&server, PASSWORD).await;
    let me = server.get(&format!("{API}/auth/me"), &access).await.is(StatusCode::OK).body;
    assert_eq!(
        (&me["email"], &me["role"], &me["is_superuser"]),
        (&json!(EMAIL), &json!("member"), &json!(false))
    );
    // The access token is also valid in the cookie, but not for requests from other sites.
    let by_cookie =
        || request(&server, Method::GET, "/conversations").header("cookie", format!("auth_token={access}"));
    answer(by_cookie()).await.is(StatusCode::OK);
    let made =
        request(&server, Method::POST, "/conversations").header("cookie", format!("auth_token={access}"));
    answer(made.header("sec-fetch-site", "cross-site").json(&json!({}))).await.is_problem(403, "cross_site");

    let issued =
        server.post(&format!("{API}/auth/refresh/issue"), &access, &json!({})).await.is(StatusCode::OK).body;
    assert_eq!(issued["expires_in"], 7 * 24 * 3_600);
    let again = server.post(&format!("{API}/auth/refresh/issue"), &access, &json!({})).await;
    again.is_problem(403, "forbidden");
    let first = issued["refresh_token"].as_str().unwrap();
    assert_eq!(first.len(), 64, "48 bytes");
    let next = refresh(&server, first).await.is(StatusCode::OK);
    assert_eq!((&next.body["user"]["email"], cookie(&next, "auth_token").is_some()), (&json!(EMAIL), true));
    let second = cookie(&next, "refresh_token").unwrap();
    let set: Vec<_> = next.headers.get_all("set-cookie").iter().map(|it| it.to_str().unwrap()).collect();
    for part in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(set.iter().all(|set| set.contains(part)), "{set:?}");
    }
    assert!(set[0].contains("Max-Age=900") && set[1].contains("Max-Age=604800"), "{set:?}");
    let missing = answer(request(&server, Method::POST, "/auth/refresh")).await;
    missing.is_problem(401, "unauthenticated");
    assert_eq!(cookie(&missing, "refresh_token").as_deref(), Some(""), "it is removed");
    let out =
        request(&server, Method::POST, "/auth/logout").header("cookie", format!("refresh_token={second}"));
    assert_eq!(answer(out).await.is(StatusCode::OK).body, json!({"success": true}));
    refresh(&server, &second).await.is_problem(401, "unauthenticated");
}

// rows: SK-R7
#[tokio::test]
async fn a_password_change_requires_the_old_password() {
    let server = Server::start(&[]);
    add(&server, &server.key(&[]), EMAIL, PASSWORD).await.is(StatusCode::CREATED);
    let access = token(&server, PASSWORD).await;
    let change = async |current: &str, new: &str| {
        let body = json!({"current_password": current, "new_password": new});
        answer(request(&server, Method::PATCH, "/auth/users/me/password").bearer_auth(&access).json(&body))
            .await
    };
    change("wrong horse", "another horse").await.is_problem(400, "wrong_password");
    change(PASSWORD, "short").await.is_problem(422, "invalid");
    let done = change(PASSWORD, "another horse").await.is(StatusCode::OK);
    assert_eq!(done.body, json!({"message": "Password updated successfully"}));
    token(&server, "another horse").await;
    let named =
        request(&server, Method::PATCH, "/auth/me").bearer_auth(&access).json(&json!({"full_name": "Ann"}));
    assert_eq!(answer(named).await.is(StatusCode::OK).body["full_name"], "Ann");
    let raised =
        request(&server, Method::PATCH, "/auth/me").bearer_auth(&access).json(&json!({"role": "admin"}));
    answer(raised).await.is_problem(403, "forbidden");
}

// rows: SK-R7
#[tokio::test]
async fn a_forgotten_password_is_reset_by_an_administrators_link() {
    let server = Server::start(&[]);
    let key = server.key(&[]);
    let ann = add(&server, &key, EMAIL, PASSWORD).await.is(StatusCode::CREATED).body;
    // Sends no mail, and does not disclose whether an address has an account.
    for path in ["/auth/verify/request-verify-token", "/auth/reset-password/forgot-password"] {
        for email in [EMAIL, "unknown@example.com"] {
            let asked = request(&server, Method::POST, path).json(&json!({"email": email}));
            assert_eq!(answer(asked).await.is(StatusCode::ACCEPTED).body, Value::Null, "{path}");
        }
    }
    let verify = request(&server, Method::POST, "/auth/verify/verify").json(&json!({"token": "x"}));
    let refused = answer(verify).await;
    assert_eq!((refused.status, &refused.body["detail"]), (400, &json!("VERIFY_USER_BAD_TOKEN")));
    let reset = async |token: &str| {
        let body = json!({"token": token, "password": "another horse"});
        answer(request(&server, Method::POST, "/auth/reset-password/reset-password").json(&body)).await
    };
    let refused = reset("x").await;
    assert_eq!((refused.status, &refused.body["detail"]), (400, &json!("RESET_PASSWORD_BAD_TOKEN")));
    let link = server.user.run(&["admin", "reset", EMAIL]).exits(0).out;
    assert_eq!(reset(crate::http::auth::token(&link)).await.is(StatusCode::OK).body, Value::Null);
    login(&server, PASSWORD).await.is_problem(400, "login_bad_credentials");
    let access = token(&server, "another horse").await;

    let path = format!("/auth/users/{}", ann["id"].as_str().unwrap());
    let found = answer(request(&server, Method::GET, &path).bearer_auth(&key)).await.is(StatusCode::OK);
    assert_eq!((&found.body["email"], &found.body["is_active"]), (&json!(EMAIL), &json!(true)));
    answer(request(&server, Method::GET, &path).bearer_auth(&access)).await.is_problem(403, "forbidden");
    let named = json!({"full_name": "Ann", "role": "viewer"});
    let changed = request(&server, Method::PATCH, &path).bearer_auth(&key).json(&named);
    let changed = answer(changed).await.is(StatusCode::OK).body;
    assert_eq!((&changed["full_name"], &changed["role"]), (&json!("Ann"), &json!("viewer")));
    answer(request(&server, Method::DELETE, &path).bearer_auth(&key)).await.is(StatusCode::NO_CONTENT);
    login(&server, "another horse").await.is_problem(400, "login_bad_credentials");
    let out = request(&server, Method::POST, "/auth/jwt/logout");
    answer(out).await.is_problem(401, "unauthenticated");
}

// rows: SK-X14
#[tokio::test]
async fn registration_creates_a_member_under_either_path() {
    let user = User::new();
    user.configure("[server]\nregistration = 'open'\n");
    let server = Server::start_for(user, &[]);
    let is_first = async || {
        let asked = answer(request(&server, Method::GET, "/auth/is_admin_user")).await;
        asked.is(StatusCode::OK).body["is_admin"].clone()
    };
    let register = async |path: &str, email: &str| {
        let account = json!({"email": email, "password": PASSWORD, "full_name": "Ann", "role": "admin"});
        answer(request(&server, Method::POST, path).json(&account)).await
    };
    // Registration is closed until an administrator exists, so no client can win a race for the first account.
    assert_eq!(is_first().await, json!(false));
    assert_eq!(register("/auth/register", EMAIL).await.status, 403);
    add(&server, &server.key(&[]), "first@example.com", PASSWORD).await.is(StatusCode::CREATED);
    for (path, email) in [("/auth/register", EMAIL), ("/auth/register/register", "bob@example.com")] {
        let account = register(path, email).await.is(StatusCode::CREATED).body;
        assert_eq!((&account["email"], &account["role"]), (&json!(email), &json!("member")), "{path}");
        assert_eq!(register(path, email).await.status, 400, "{path}");
    }
    token(&server, PASSWORD).await;
}

// rows: SK-R8
#[tokio::test]
async fn administrators_manage_the_team() {
    let server = Server::start(&[]);
    let key = server.key(&[]);
    let ann = add(&server, &key, EMAIL, PASSWORD).await.is(StatusCode::CREATED).body;
    assert_eq!((&ann["role"], &ann["status"]), (&json!("member"), &json!("active")));
    assert_eq!(add(&server, &key, EMAIL, PASSWORD).await.status, 400);
    assert_eq!(add(&server, &key, "b@example.com", "short").await.status, 422);
    let access = token(&server, PASSWORD).await;
    server.get(&format!("{API}/team/members"), &access).await.is_problem(403, "forbidden");
    let path = format!("/team/members/{}", ann["id"].as_str().unwrap());
    let role = request(&server, Method::PATCH, &path).bearer_auth(&key).json(&json!({"role": "admin"}));
    assert_eq!(answer(role).await.is(StatusCode::OK).body["role"], "admin");
    let own = request(&server, Method::DELETE, &path).bearer_auth(&access);
    assert_eq!(answer(own).await.status, 400, "the own account cannot be removed");
    answer(request(&server, Method::DELETE, &path).bearer_auth(&key)).await.is(StatusCode::NO_CONTENT);
    let members = server.get(&format!("{API}/team/members"), &key).await.is(StatusCode::OK).body;
    assert!(members.as_array().unwrap().iter().all(|member| member["email"] != EMAIL), "{members:#}");
    login(&server, PASSWORD).await.is_problem(400, "login_bad_credentials");
    let back: Value = add(&server, &key, EMAIL, "another horse").await.is(StatusCode::CREATED).body;
    assert_eq!(
        (&back["id"], &back["status"], &back["role"]),
        (&ann["id"], &json!("active"), &json!("member"))
    );
    token(&server, "another horse").await;
}
