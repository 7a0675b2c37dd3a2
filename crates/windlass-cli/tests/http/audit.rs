//! The audit log: written together with each action, and verified without the server.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::auth::{PASSWORD, administrator, member};
use super::browser::Browser;
use super::{Server, answer};
use crate::cli::lines;

#[tokio::test]
async fn what_people_do_is_in_the_log() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    let mut ann = member(&mut admin, &server, "ann@example.com", "member").await;
    let wrong = json!({"email": "ann@example.com", "password": "wrong horse"});
    ann.post("/api/v1/auth/login", wrong).await.is_problem(401, "wrong_login");
    let key =
        ann.post("/api/v1/keys", json!({"name": "k", "password": PASSWORD})).await.is(StatusCode::CREATED);
    let id = key.body["user"].as_str().unwrap();
    let place = format!("/api/v1/team/members/{id}");
    admin.send(reqwest::Method::PATCH, &place, Some(json!({"role": "viewer"}))).await.is(StatusCode::OK);
    ann.get("/api/v1/audit").await.is_problem(403, "forbidden");

    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = admin.get(&format!("/api/v1/audit?limit=3{cursor}")).await.is(StatusCode::OK);
        seen.extend(page.body["data"].as_array().unwrap().clone());
        match page.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    seen.reverse();
    let actions: Vec<&str> = seen.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(
        actions,
        [
            "member.add", // the local administrator's account
            "link.add",   // the link that the server printed
            "link.add",   // the administrator's sign-in link
            "login",
            "link.add", // Ann's invitation
            "register",
            "login.failed",
            "key.add",
            "member.role",
        ]
    );
    let failed = &seen[6];
    assert_eq!((&failed["actor"], &failed["subject"]), (&Value::Null, &json!("ann@example.com")));
    assert_eq!(failed["from"], "127.0.0.1");
    let role = &seen[8];
    assert_eq!((&role["actor"], &role["subject"]), (&json!("local"), &json!(id)));
    assert_eq!(role["details"], json!({"role_before": "member", "role": "viewer"}));
    assert!(role["via"].as_str().unwrap().starts_with("ses_"));
    let secrets = [PASSWORD, "wrong horse", key.body["secret"].as_str().unwrap()];
    let all = Value::Array(seen).to_string();
    assert!(secrets.iter().all(|secret| !all.contains(secret)), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_checked_without_the_store() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    // Several processes write concurrently: each entry has exactly one predecessor.
    let invites = (0..20).map(|_| async {
        let mut admin = admin.clone();
        admin.post("/api/v1/team/invites", json!({})).await.is(StatusCode::CREATED)
    });
    let terminal = std::thread::scope(|scope| {
        let keys = scope.spawn(|| (0..3).for_each(|_| drop(server.key(&[]))));
        let made = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(futures::future::join_all(invites))
        });
        keys.join().unwrap();
        made.len()
    });
    assert_eq!(terminal, 20);
    let exported = admin.get("/api/v1/audit/export").await.is(StatusCode::OK);
    assert_eq!(exported.headers["content-type"], "application/x-ndjson");
    let text = exported.body.as_str().unwrap().to_owned();
    assert_eq!(server.user.run(&["admin", "audit", "export"]).exits(0).out, text);
    let noted = server.user.run(&["admin", "audit", "head"]).exits(0).out;
    let (count, hash) = noted.trim().split_once(' ').unwrap();
    assert_eq!(count, (lines(&text).len() - 1).to_string());

    // On a machine without the store.
    let auditor = crate::cli::User::new();
    let file = auditor.folder().join("audit.ndjson");
    let check = |text: &str, head: &[&str], code: i32| {
        std::fs::write(&file, text).unwrap();
        let mut all = vec!["admin", "audit", "verify", "audit.ndjson"];
        all.extend(head);
        auditor.run(&all).exits(code)
    };
    let whole = check(&text, &["--head", hash], 0);
    assert!(
        whole.out.starts_with(&format!("verified {count} entries of the workspace `default`")),
        "{whole:#?}"
    );
    assert!(!auditor.home().join("data").exists(), "checking makes no store");
    let changed = check(&text.replacen("\"login\"", "\"logout\"", 1), &[], 1);
    assert!(changed.err.contains("was changed after it was written"), "{changed:#?}");
    check(&text, &["--head", &hash.replace(char::is_numeric, "0")], 1);
    let mut rows: Vec<&str> = text.lines().collect();
    rows.remove(4);
    check(&rows.join("\n"), &[], 1);
}

#[tokio::test]
async fn every_failure_is_one_entry() {
    let server = Server::start(&[]);
    let mut browser = Browser::new(&server);
    for _ in 0..3 {
        let unknown = json!({"email": "unknown@example.com", "password": PASSWORD});
        browser.post("/api/v1/auth/login", unknown).await.is_problem(401, "wrong_login");
    }
    let log =
        answer(server.request(reqwest::Method::GET, "/api/v1/audit").bearer_auth(server.key(&[]))).await;
    let failed = log.body["data"].as_array().unwrap().iter().filter(|one| one["action"] == "login.failed");
    assert_eq!(failed.count(), 3);
}
