//! Grants, allow lists and auto-run: of the caller, and for administrators of every member of their workspace.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::client::{Client, each};
use super::{Server, answer};

// rows: ZE-H1, ZE-H9
#[tokio::test]
async fn modes_and_allow_lists_are_kept_for_each_user() {
    let server = Server::start(&[]);
    let (ann, id) = server.member("ann");
    let (bob, _) = server.member("bob");
    let (admin, of_ann) = (server.admin(), format!("/auto-run?user={id}"));
    assert_eq!(ann.get("/auto-run").await.body, json!({"auto_run": null, "effective": "ask"}));
    let chosen = ann.put("/auto-run", json!({"auto_run": "allowlist"})).await.is(StatusCode::OK);
    assert_eq!(chosen.body, json!({"auto_run": "allowlist", "effective": "allowlist"}));
    assert_eq!(admin.get(&of_ann).await.body, chosen.body);
    bob.get(&of_ann).await.is_problem(404, "not_found");
    // A key with narrow scopes manages its user's own settings, but not those of others, even for an administrator.
    let narrow = Client { server: &server, key: server.key(&["--scope", "approve", "--scope", "read"]) };
    narrow.get("/auto-run").await.is(StatusCode::OK);
    narrow.get(&of_ann).await.is_problem(403, "forbidden");
    narrow.put(&of_ann, json!({"auto_run": "everything"})).await.is_problem(403, "forbidden");
    bob.put(&of_ann, json!({"auto_run": "everything"})).await.is_problem(404, "not_found");
    ann.put("/auto-run", json!({"auto_run": "all"})).await.is_problem(422, "invalid");
    let stale = ann.request(Method::PUT, "/auto-run").header("if-match", "\"old\"");
    answer(stale.json(&json!({"auto_run": "ask"}))).await.is_problem(412, "changed");
    // Of several concurrent writes with the same ETag, exactly one succeeds.
    let seen = ann.get("/auto-run").await.headers["etag"].clone();
    let chooses = (0..16).map(|nth| {
        let choice = if nth % 2 == 0 { "ask" } else { "everything" };
        let request = ann.request(Method::PUT, "/auto-run").header("if-match", seen.clone());
        answer(request.json(&json!({ "auto_run": choice })))
    });
    let answers = futures::future::join_all(chooses).await;
    let first = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((first, answers.len()), (1, 16), "{answers:#?}");
    ann.put("/auto-run", json!({"auto_run": "allowlist"})).await.is(StatusCode::OK);

    ann.put("/allowlist/Write", json!(null)).await.is(StatusCode::NO_CONTENT);
    ann.put("/allowlist/no%20tool", json!(null)).await.is_problem(422, "invalid");
    let unknown = ann.put("/allowlist/Wirte", json!(null)).await;
    unknown.is_problem(422, "invalid");
    assert_eq!(unknown.body["hint"], "did you mean `Write`?");
    assert_eq!(ann.get("/allowlist").await.body, json!({"data": ["Write"]}));
    assert_eq!(bob.get("/allowlist").await.body, json!({"data": []}));
    // A tool on the list runs without asking.
    let thread = ann.prepared().await;
    let done = ann.task(&thread).await;
    assert_eq!((&done["status"], &done["meta"]["toolCalls"]), (&json!("done"), &json!(3)));
    // A conversation's own setting takes precedence.
    let mode = format!("/threads/{thread}/auto-run");
    assert_eq!(ann.get(&mode).await.body, json!({"auto_run": null, "effective": "allowlist"}));
    bob.get(&mode).await.is_problem(404, "not_found");
    assert_eq!(
        ann.put(&mode, json!({"auto_run": "ask"})).await.body,
        json!({"auto_run": "ask", "effective": "ask"})
    );
    ann.delete(&mode).await.is(StatusCode::NO_CONTENT);
    ann.delete("/allowlist/Write").await.is(StatusCode::NO_CONTENT);
    ann.delete("/auto-run").await.is(StatusCode::NO_CONTENT);
    assert_eq!(ann.get(&mode).await.body, json!({"auto_run": null, "effective": "ask"}));
}

#[tokio::test]
async fn grants_are_written_listed_and_revoked_by_whom_they_concern() {
    let server = Server::start(&[]);
    let (ann, id) = server.member("ann");
    let (bob, _) = server.member("bob");
    let admin = server.admin();
    let draft = json!({"tool": "Write", "arguments": [{"argument": "/file_path", "is": {"equals": "insights.md"}}], "count": 1});
    let granted = ann.post("/grants", draft.clone()).await.is(StatusCode::CREATED);
    let grant = &granted.body;
    assert_eq!((&grant["user"], &grant["by"], &grant["remaining"]), (&json!(id), &json!(id), &json!(1)));
    let path = format!("/grants/{}", grant["id"].as_str().unwrap());
    assert_eq!(granted.headers["location"], format!("/api/v1{path}"));
    assert_eq!(&ann.get(&path).await.body, grant);
    let mut for_ann = draft.clone();
    for_ann["user"] = json!(id);
    let by_admin = admin.post("/grants", for_ann.clone()).await.is(StatusCode::CREATED);
    assert_eq!((&by_admin.body["user"], &by_admin.body["by"]), (&json!(id), &json!("local")));
    bob.post("/grants", for_ann).await.is_problem(404, "not_found");
    bob.get(&path).await.is_problem(404, "not_found");
    bob.delete(&path).await.is_problem(404, "not_found");
    bob.get("/grants?all=true").await.is_problem(403, "forbidden");
    assert_eq!(bob.all("/grants", 50).await.len(), 0);
    assert_eq!(ann.all("/grants", 1).await.len(), 2);
    assert_eq!(each(&admin.all("/grants?all=true", 1).await, "user"), [&*id, &*id]);
    // The grant covers exactly the call that it names.
    let done = ann.task(&ann.prepared().await).await;
    assert_eq!((&done["status"], &done["meta"]["toolCalls"]), (&json!("done"), &json!(3)));
    admin
        .delete(&format!("/grants/{}", by_admin.body["id"].as_str().unwrap()))
        .await
        .is(StatusCode::NO_CONTENT);
    ann.delete(&path).await.is(StatusCode::NO_CONTENT);
    let log = admin.all("/audit", 50).await;
    let mut told = each(&log, "action");
    told.retain(|action| ["grant.", "interrupt."].iter().any(|word| action.starts_with(word)));
    assert_eq!(told, ["grant.revoked", "grant.revoked", "grant.made", "grant.made"]);
    ann.delete(&path).await.is_problem(404, "not_found");
    for (body, what) in [
        (json!({"tool": "no tool"}), "`no tool`"),
        (json!({"tool": "Wirte"}), "there is no tool `Wirte`"),
        (json!({"tool": "Write", "count": 0}), "`count` is 0"),
        (json!({"tool": "Write", "arguments": [{"argument": "path", "is": "present"}]}), "`path`"),
        (
            json!({"tool": "Write", "arguments": [{"argument": "/path", "is": {"matches": "("}}]}),
            "`matches` of `/path`",
        ),
    ] {
        let refused = ann.post("/grants", body).await;
        refused.is_problem(422, "invalid");
        assert!(refused.body["detail"].as_str().unwrap().contains(what), "{refused:#?}");
    }
}
