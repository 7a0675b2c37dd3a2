//! The members of a workspace, managed by its administrators.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::auth::{PASSWORD, administrator, member, token};
use super::browser::Browser;
use super::{Server, answer};

const MEMBERS: &str = "/api/v1/team/members";

// rows: SK-R8
#[tokio::test]
async fn members_are_added_changed_deactivated_and_come_back() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    let body = json!({"email": "Ann@Example.com", "password": PASSWORD});
    let added = admin.post(MEMBERS, body.clone()).await.is(StatusCode::CREATED);
    let place = added.headers["location"].to_str().unwrap().to_owned();
    let one = (&added.body["email"], &added.body["role"], &added.body["active"]);
    assert_eq!(one, (&json!("ann@example.com"), &json!("member"), &json!(true)));
    admin.post(MEMBERS, body.clone()).await.is_problem(409, "email_taken");
    let short = json!({"email": "b@example.com", "password": "1234567"});
    admin.post(MEMBERS, short).await.is_problem(422, "invalid");

    let mut ann = Browser::new(&server);
    ann.post("/api/v1/auth/login", body).await.is(StatusCode::OK);
    ann.get(MEMBERS).await.is_problem(403, "forbidden");
    let promoted = admin.send(Method::PATCH, &place, Some(json!({"role": "admin"}))).await;
    assert_eq!(promoted.is(StatusCode::OK).body["role"], "admin");
    // Effective at once, with the same token.
    let list = ann.get(MEMBERS).await.is(StatusCode::OK);
    let ids: Vec<&str> =
        list.body["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["local", place.rsplit_once('/').unwrap().1]);
    ann.send(Method::DELETE, &place, None).await.is_problem(409, "own_account");
    ann.send(Method::PATCH, &place, Some(json!({"role": "member"}))).await.is_problem(409, "own_account");
    ann.send(Method::DELETE, &format!("{MEMBERS}/local"), None).await.is_problem(409, "local_account");

    admin.send(Method::DELETE, &place, None).await.is(StatusCode::NO_CONTENT);
    ann.get("/api/v1/auth/me").await.is_problem(401, "unauthenticated");
    ann.send(Method::POST, "/api/v1/auth/refresh", None).await.is_problem(401, "unauthenticated");
    let login = json!({"email": "ann@example.com", "password": PASSWORD});
    ann.post("/api/v1/auth/login", login).await.is_problem(401, "wrong_login");
    let back = json!({"email": "ann@example.com", "password": "another horse", "role": "viewer"});
    let back = admin.post(MEMBERS, back).await.is(StatusCode::CREATED);
    assert_eq!((&back.body["id"], &back.body["role"]), (&added.body["id"], &json!("viewer")));
    let login = json!({"email": "ann@example.com", "password": "another horse"});
    ann.post("/api/v1/auth/login", login).await.is(StatusCode::OK);
}

#[tokio::test]
async fn a_stale_change_is_refused() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    let ann = server.add_user("ann@example.com", &[]);
    let place = format!("{MEMBERS}/{ann}");
    let seen = admin.get(&place).await.is(StatusCode::OK).headers["etag"].clone();
    let change = |name: &str, tag: &reqwest::header::HeaderValue| {
        let request = admin.bare(Method::PATCH, &place).header("origin", &server.address);
        answer(request.header("if-match", tag).json(&json!({"name": name})))
    };
    let first = change("Ann", &seen).await.is(StatusCode::OK);
    change("Anna", &seen).await.is_problem(412, "changed");
    let second = change("Anna", &first.headers["etag"]).await.is(StatusCode::OK);
    assert_eq!(second.body["name"], "Anna");
    assert_ne!(second.headers["etag"], first.headers["etag"]);
    change("X", &"W/x".parse().unwrap()).await.is_problem(412, "changed");
    change("Ann", &"*".parse().unwrap()).await.is(StatusCode::OK);
}

// rows: OV-17
#[tokio::test]
async fn data_of_another_workspace_is_hidden() {
    let server = Server::start(&[]);
    let said = server.user.run(&["admin", "add-workspace", "north", "--address", &server.address]).exits(0);
    server.user.run(&["admin", "add-workspace", "north"]).exits(2);
    server.user.run(&["admin", "add-workspace", "No Name"]).exits(2);
    let mut north = Browser::new(&server);
    let body = json!({"email": "n@example.com", "password": PASSWORD, "invite": token(&said.out)});
    let joined = north.post("/api/v1/auth/register", body).await.is(StatusCode::CREATED);
    let user = &joined.body["user"];
    assert_eq!((&user["workspace"], &user["role"]), (&json!("north"), &json!("admin")));
    let mut admin = administrator(&server).await;
    let ann = server.add_user("ann@example.com", &[]);
    let list = north.get(MEMBERS).await.is(StatusCode::OK);
    assert_eq!(list.body["data"].as_array().unwrap().len(), 1);
    for (method, body) in
        [(Method::GET, None), (Method::PATCH, Some(json!({"role": "admin"}))), (Method::DELETE, None)]
    {
        north.send(method, &format!("{MEMBERS}/{ann}"), body).await.is_problem(404, "not_found");
    }
    let keys = north.get(&format!("/api/v1/keys?user={ann}")).await;
    keys.is_problem(404, "not_found");
    // An address is unique on the server.
    let taken = json!({"email": "n@example.com", "password": PASSWORD});
    admin.post(MEMBERS, taken).await.is_problem(409, "email_taken");
    let log = north.get("/api/v1/audit").await.is(StatusCode::OK);
    assert!(log.body["data"].as_array().unwrap().iter().all(|entry| entry["workspace"] == "north"));
}

#[tokio::test]
async fn an_invitation_can_be_taken_back() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    let made = admin.post("/api/v1/team/invites", json!({"role": "viewer"})).await.is(StatusCode::CREATED);
    let list = admin.get("/api/v1/team/invites").await.is(StatusCode::OK);
    assert_eq!(
        (&list.body["data"][0]["id"], &list.body["data"][0]["role"]),
        (&made.body["id"], &json!("viewer"))
    );
    assert!(!list.body.to_string().contains(made.body["token"].as_str().unwrap()), "{list:#?}");
    let place = format!("/api/v1/team/invites/{}", made.body["id"].as_str().unwrap());
    admin.send(Method::DELETE, &place, None).await.is(StatusCode::NO_CONTENT);
    admin.send(Method::DELETE, &place, None).await.is_problem(404, "not_found");
    let body = json!({"email": "a@example.com", "password": PASSWORD, "invite": made.body["token"]});
    Browser::new(&server).post("/api/v1/auth/register", body).await.is_problem(410, "link_invalid");
    let mut viewer = member(&mut admin, &server, "v@example.com", "viewer").await;
    viewer.post("/api/v1/team/invites", json!({})).await.is_problem(403, "forbidden");
}

#[tokio::test]
async fn an_administrator_sees_where_people_are_signed_in_and_signs_them_out() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    let mut ann = member(&mut admin, &server, "ann@example.com", "member").await;
    let mut other = Browser::new(&server);
    let login = json!({"email": "ann@example.com", "password": PASSWORD});
    other.post("/api/v1/auth/login", login).await.is(StatusCode::OK);
    let id = ann.get("/api/v1/auth/me").await.body["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/team/members/{id}/sessions");
    ann.get(&path).await.is_problem(403, "forbidden");
    let seen = admin.get(&path).await.is(StatusCode::OK).body["data"].clone();
    assert_eq!(seen.as_array().unwrap().len(), 2, "{seen:#}");
    assert!(seen[0]["from"] == "127.0.0.1" && seen[0]["current"] == false, "{seen:#}");
    let own = ann.get("/api/v1/auth/sessions").await.body["data"].clone();
    let of_ann =
        own.as_array().unwrap().iter().find(|session| session["current"] == true).unwrap()["id"].clone();
    let one = format!("{path}/{}", of_ann.as_str().unwrap());
    admin.send(Method::DELETE, &one, None).await.is(StatusCode::NO_CONTENT);
    ann.get("/api/v1/auth/me").await.is_problem(401, "unauthenticated");
    other.get("/api/v1/auth/me").await.is(StatusCode::OK);
    admin.send(Method::DELETE, &one, None).await.is_problem(404, "not_found");
    admin.send(Method::DELETE, &path, None).await.is(StatusCode::NO_CONTENT);
    other.get("/api/v1/auth/me").await.is_problem(401, "unauthenticated");
    let log = admin.get("/api/v1/audit?limit=2").await.body["data"].clone();
    assert_eq!((&log[0]["action"], &log[0]["subject"]), (&json!("member.signed_out"), &json!(id)));
    // An administrator of another workspace gets 404.
    let elsewhere = server.add_user("b@example.com", &["--role", "admin", "--workspace", "b"]);
    server.get(&path, &server.key(&["--user", &elsewhere])).await.is_problem(404, "not_found");
}
