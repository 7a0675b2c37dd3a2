//! The inbox: open interrupts, visible to and answered by authorized users.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::Server;
use super::client::{Client, each};
use crate::cli::{INSIGHTS, User};

async fn ids(client: &Client<'_>) -> Vec<String> {
    let rows = client.all("/interrupts", 50).await;
    each(&rows, "id").into_iter().map(str::to_owned).collect()
}

async fn answered(client: &Client<'_>, interrupt: &str, body: Value) -> super::Answer {
    client.post(&format!("/interrupts/{interrupt}/answer"), body).await
}

// rows: SK-A9, LM-R14
#[tokio::test]
async fn what_waits_is_seen_and_answered_by_its_owner_and_administrators() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (bob, _) = server.member("bob");
    let admin = server.admin();
    let (thread, run, interrupt) = ann.asked().await;
    assert_eq!(ids(&ann).await, [&*interrupt]);
    assert_eq!(ids(&admin).await, [&*interrupt]);
    assert_eq!(ids(&bob).await, [""; 0]);
    let path = format!("/interrupts/{interrupt}");
    let shown = ann.get(&path).await.is(StatusCode::OK).body;
    let told = ["id", "thread", "run", "kind", "tool"].map(|field| shown[field].as_str().unwrap());
    assert_eq!(told, [&*interrupt, &*thread, &*run, "approval", "Write"]);
    assert!(shown["preview"].as_str().unwrap().contains("# Insights from data.csv"), "{shown:#}");
    assert_eq!(
        serde_json::from_str::<Value>(shown["arguments"].as_str().unwrap()).unwrap()["content"],
        INSIGHTS
    );
    assert_eq!(ann.get(&format!("/interrupts?thread={thread}")).await.body["data"], json!([shown]));

    bob.get(&path).await.is_problem(404, "not_found");
    let approve = json!({"answer": {"kind": "approve"}, "approval": shown["approval"]});
    answered(&bob, &interrupt, approve.clone()).await.is_problem(404, "not_found");
    let viewer = server.add_user("eve@example.com", &["--role", "viewer"]);
    let eve = Client { server: &server, key: server.key(&["--user", &viewer]) };
    answered(&eve, &interrupt, approve.clone()).await.is_problem(403, "forbidden");
    let other = json!({"answer": {"kind": "approve"}, "approval": "0".repeat(64)});
    answered(&ann, &interrupt, other).await.is_problem(409, "stale");
    for (body, what) in [
        (json!({"answer": {"kind": "approve"}, "approval": "abc"}), "`abc`"),
        (json!({"answer": {"kind": "deny"}, "grant": {}}), "`grant`"),
        (json!({"answer": {"kind": "maybe"}}), "maybe"),
        (json!({"answer": {"kind": "raise", "to": 7}}), ""),
    ] {
        let refused = answered(&ann, &interrupt, body).await;
        refused.is_problem(422, "invalid");
        assert!(refused.body["detail"].as_str().unwrap().contains(what), "{refused:#?}");
    }
    let done = answered(&admin, &interrupt, approve.clone()).await.is(StatusCode::OK).body;
    assert_eq!((&done["interrupt"], &done["state"]), (&json!(interrupt), &json!("closed")));
    assert_eq!(ann.wait(&run).await["status"], "done");
    answered(&ann, &interrupt, approve).await.is_problem(409, "closed");
    ann.get(&path).await.is_problem(404, "not_found");
    assert_eq!(ids(&ann).await, [""; 0]);
}

#[tokio::test]
async fn a_denial_and_an_edit_reach_the_model_and_the_file() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (_, run, interrupt) = ann.asked().await;
    let deny = json!({"answer": {"kind": "deny", "reason": "not there"}});
    answered(&ann, &interrupt, deny).await.is(StatusCode::OK);
    let ended = ann.wait(&run).await;
    assert!(ended["data"].as_str().unwrap().contains("was not written"), "{ended:#}");
    let (thread, run, interrupt) = ann.asked().await;
    let edit =
        json!({"answer": {"kind": "edit", "arguments": {"file_path": "insights.md", "content": "mine\n"}}});
    answered(&ann, &interrupt, edit).await.is(StatusCode::OK);
    // The preview for the changed call must be approved before it runs.
    let again = ann.wait(&run).await["meta"]["interrupts"][0].clone();
    assert!(again["preview"].as_str().unwrap().contains("mine"), "{again:#}");
    let approve = json!({"answer": {"kind": "approve"}});
    answered(&ann, again["interrupt"].as_str().unwrap(), approve).await.is(StatusCode::OK);
    assert_eq!(ann.wait(&run).await["status"], "done");
    assert_eq!(ann.file(&thread, "insights.md").await, "mine\n");
}

// rows: SK-A10
#[tokio::test]
async fn a_batch_answer_returns_a_result_for_each_thread() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (bob, _) = server.member("bob");
    let (first, run_a, a) = ann.asked().await;
    let (second, run_b, b) = ann.asked().await;
    let (_, _, c) = bob.asked().await;
    assert_eq!(ids(&ann).await.len(), 2);
    assert_eq!(ann.all("/interrupts", 1).await.len(), 2);
    let one = |id: &str, answer: Value| json!({"interrupt": id, "answer": answer});
    let body = json!({"answers": [
        one(&a, json!({"kind": "approve"})),
        one(&c, json!({"kind": "approve"})),
        one(&b, json!({"kind": "raise", "to": 1})),
    ]});
    let results = ann.post("/interrupts/answers", body).await.is(StatusCode::OK).body["results"].clone();
    let results = results.as_array().unwrap();
    let of = |id: &str| results.iter().find(|result| result["interrupts"] == json!([id])).unwrap();
    assert_eq!((&of(&a)["thread"], &of(&a)["answered"][0]["state"]), (&json!(first), &json!("closed")));
    assert_eq!((&of(&b)["thread"], &of(&b)["problem"]["code"]), (&json!(second), &json!("invalid")));
    assert_eq!((&of(&c)["thread"], &of(&c)["problem"]["code"]), (&json!(null), &json!("not_found")));
    assert_eq!(ann.wait(&run_a).await["status"], "done");
    assert_eq!(ann.wait(&run_b).await["status"], "paused");
    ann.post("/interrupts/answers", json!({"answers": []})).await.is_problem(422, "invalid");
}

#[tokio::test]
async fn a_grant_beside_an_approval_lets_the_next_call_run() {
    let server = Server::start(&[]);
    let (ann, id) = server.member("ann");
    let (thread, run, interrupt) = ann.asked().await;
    let body = json!({"answer": {"kind": "approve"}, "grant": {"count": 2}});
    let said = answered(&ann, &interrupt, body).await.is(StatusCode::OK).body;
    assert_eq!((&said["grant"]["user"], &said["grant"]["remaining"]), (&json!(id), &json!(1)));
    assert_eq!(ann.wait(&run).await["status"], "done");
    let again = ann.task(&thread).await;
    assert_eq!((&again["status"], &again["meta"]["toolCalls"]), (&json!("done"), &json!(3)));
    // The grant was limited to two calls.
    assert_eq!(ann.task(&thread).await["status"], "paused");
}

#[tokio::test]
async fn a_grant_is_only_given_by_whom_the_run_works_for_and_administrators() {
    let server = Server::start(&[]);
    let (ann, id) = server.member("ann");
    let admin = server.admin();
    let thread = ann.prepared().await;
    // In Ann's conversation, but for a run of the administrator.
    let paused = admin.task(&thread).await;
    let interrupt = paused["meta"]["interrupts"][0]["interrupt"].as_str().unwrap().to_owned();
    let body = json!({"answer": {"kind": "approve"}, "grant": {}});
    answered(&ann, &interrupt, body.clone()).await.is_problem(403, "forbidden");
    assert_eq!(ids(&ann).await, [&*interrupt]);
    assert_eq!(admin.all("/grants?all=true", 50).await.len(), 0);
    let granted = answered(&admin, &interrupt, body.clone()).await.is(StatusCode::OK).body;
    assert_eq!(granted["grant"]["user"], "local");
    // The administrator may grant on behalf of Ann, and the answer and its grant are atomic.
    let (_, _, interrupt) = ann.asked().await;
    let mut stale = body.clone();
    stale["approval"] = json!("0".repeat(64));
    answered(&admin, &interrupt, stale).await.is_problem(409, "stale");
    assert_eq!(ann.all("/grants", 50).await.len(), 0);
    let granted = answered(&admin, &interrupt, body).await.is(StatusCode::OK).body;
    assert_eq!((&granted["grant"]["user"], &granted["grant"]["by"]), (&json!(id), &json!("local")));
}

/// A server whose policy requires two approvals for a file.
pub fn of_two() -> Server {
    of_two_with("")
}

/// The same server with additional settings.
pub fn of_two_with(settings: &str) -> Server {
    let user = User::new();
    user.configure(settings);
    let directory = user.home().join("config/windlass");
    std::fs::create_dir_all(&directory).unwrap();
    let policy = "[[rule]]\nname = 'two'\ntools = ['Write']\nverdict = 'ask'\nquorum = 2\n\
        approvers = ['role:member', 'role:admin']\n";
    std::fs::write(directory.join("policy.toml"), policy).unwrap();
    Server::start_for(user, &[])
}

#[tokio::test]
async fn an_interrupt_shows_its_owner_and_to_readers_the_title() {
    let server = of_two();
    let (ann, id) = server.member("ann");
    let (bob, _) = server.member("bob");
    let (thread, _, interrupt) = ann.asked().await;
    let path = format!("/threads/{thread}");
    ann.patch(&path, json!({"title": "Accounts of May"})).await.is(StatusCode::OK);
    let setting = async |client: &Client<'_>| {
        let one = client.get(&format!("/interrupts/{interrupt}")).await.is(StatusCode::OK).body;
        let rows = client.all("/interrupts", 50).await;
        let told = |row: &Value| json!([row["title"], row["owner"], row["readable"]]);
        assert_eq!(rows.iter().map(told).collect::<Vec<_>>(), [told(&one)]);
        told(&one)
    };
    let owner = json!({"id": id, "name": "ann@example.com"});
    let known = json!(["Accounts of May", owner, true]);
    assert_eq!(setting(&ann).await, known);
    assert_eq!(setting(&server.admin()).await, known);
    // A rule names Bob, but only Ann can see the conversation until she shares it.
    assert_eq!(setting(&bob).await, json!([null, owner, false]));
    ann.put(&format!("{path}/share"), json!({})).await.is(StatusCode::OK);
    assert_eq!(setting(&bob).await, known);
}

#[tokio::test]
async fn two_people_and_those_whom_a_rule_names_are_asked() {
    let server = of_two();
    let (ann, _) = server.member("ann");
    let (bob, _) = server.member("bob");
    let (_, run, interrupt) = ann.asked().await;
    let open = ann.get(&format!("/interrupts/{interrupt}")).await.is(StatusCode::OK).body;
    let approve = json!({"answer": {"kind": "approve"}, "approval": open["approval"]});
    // Bob sees the interrupt that he may answer, but not the conversation.
    assert_eq!(ids(&bob).await, [&*interrupt]);
    bob.get(&format!("/runs/{run}")).await.is_problem(404, "not_found");
    let first = answered(&ann, &interrupt, approve.clone()).await.is(StatusCode::OK).body;
    assert_eq!(first["state"], "voted");
    let seen = ann.get(&format!("/interrupts/{interrupt}")).await.is(StatusCode::OK).body;
    assert_eq!((&seen["counts"], seen["approved_by"].as_array().unwrap().len()), (&json!(false), 1));
    let twice = answered(&ann, &interrupt, approve.clone()).await;
    assert_eq!(twice.status, 409, "{twice:#?}");
    let wish = json!({"answer": {"kind": "approve"}, "approval": open["approval"], "grant": {}});
    answered(&bob, &interrupt, wish).await.is_problem(403, "forbidden");
    let second = answered(&bob, &interrupt, approve).await.is(StatusCode::OK).body;
    assert_eq!(second["state"], "closed");
    assert_eq!(ann.wait(&run).await["status"], "done");
}

#[tokio::test]
async fn what_a_thread_asks_is_read_from_its_row() {
    let server = Server::start(&[]);
    let (ann, _) = server.member("ann");
    let (thread, _, interrupt) = ann.asked().await;
    let one = format!("/interrupts/{interrupt}");
    let shown = ann.get(&one).await.is(StatusCode::OK).body;
    let key = ann.key.clone();
    let user = server.kill();
    // No fold gets past this journal.
    crate::fault::newer::execute(&user.store(), "UPDATE events SET checksum = NULL, body = '{'");
    let server = Server::start_for(user, &[]);
    let ann = Client { server: &server, key };
    assert_eq!(ann.get(&one).await.is(StatusCode::OK).body, shown);
    assert_eq!(ann.get(&format!("/interrupts?thread={thread}")).await.body["data"], json!([shown]));
}
