//! Approvals through every interface: their audit entries, and that none applies to another call.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::auth::PASSWORD;
use super::client::Client;
use super::interrupts::{of_two, of_two_with};
use super::{Answer, Server, answer};

/// The id of an interrupt's call in Skyflo and Zeus.
fn call_of(interrupt: &str) -> String {
    let parts: Vec<&str> = interrupt.rsplitn(4, '.').collect();
    format!("{}-{}-{}", parts[3], parts[2], parts[1])
}

async fn through_skyflo(client: &Client<'_>, thread: &str, call: &str) -> Answer {
    let path = format!("/skyflo/api/v1/agent/approvals/{call}");
    client.server.post(&path, &client.key, &json!({"approve": true, "conversation_id": thread})).await
}

async fn through_zeus(client: &Client<'_>, thread: &str, call: &str) -> Answer {
    let result = json!({"tool_call_id": call, "tool_name": "Write", "decision": "approved"});
    let body = json!({"session_id": thread, "tool_call_results": [result]});
    client.server.post("/zeus/api/agent/resume", &client.key, &body).await
}

// rows: SK-X9
#[tokio::test]
async fn every_interface_records_who_let_a_call_run() {
    let server = Server::start(&[]);
    let admin = server.admin();
    let interfaces = ["native", "skyflo", "zeus", "skillchat", "agui"];
    let mut asked = Vec::new();
    for interface in interfaces {
        let (thread, run, interrupt) = admin.asked().await;
        let call = call_of(&interrupt);
        let given = match interface {
            "native" => {
                let approve = json!({"answer": {"kind": "approve"}});
                admin.post(&format!("/interrupts/{interrupt}/answer"), approve).await
            }
            "skyflo" => through_skyflo(&admin, &thread, &call).await,
            "zeus" => through_zeus(&admin, &thread, &call).await,
            "skillchat" => {
                let said = json!({"approved": true});
                let body = json!({"session_id": thread, "checkpoint_id": interrupt, "response": said});
                server.post("/skillchat/api/ai/chat/hitl-response", &admin.key, &body).await
            }
            _ => {
                let said = json!({"approved": true});
                let resume = json!([{"interruptId": interrupt, "status": "resolved", "payload": said}]);
                let body = json!({"threadId": thread, "runId": "r1", "messages": [], "resume": resume});
                server.post("/agui", &admin.key, &body).await
            }
        };
        given.is(StatusCode::OK);
        assert_eq!(admin.wait(&run).await["status"], "done", "{interface}");
        asked.push((thread, interrupt));
    }
    let log = admin.all("/audit", 50).await;
    let answers: Vec<&Value> = log.iter().filter(|entry| entry["action"] == "interrupt.answered").collect();
    assert_eq!(answers.len(), interfaces.len(), "{answers:#?}");
    for (entry, (thread, interrupt)) in answers.into_iter().rev().zip(&asked) {
        let details = &entry["details"];
        assert_eq!((&entry["subject"], &details["thread"]), (&json!(interrupt), &json!(thread)));
        assert_eq!(
            (&details["verdict"], &details["tool"]),
            (&json!("approve"), &json!("Write")),
            "{entry:#}"
        );
        assert_eq!(details["approval"].as_str().map(str::len), Some(64), "{entry:#}");
        assert_eq!((&entry["actor"], &entry["from"]), (&json!("local"), &json!("127.0.0.1")));
    }
}

#[tokio::test]
async fn an_approval_of_a_call_that_was_edited_meanwhile_counts_for_nothing() {
    let server = of_two();
    let (ann, _) = server.member("ann");
    let admin = server.admin();
    let (thread, run, interrupt) = ann.asked().await;
    // The id of the call that the administrator sees.
    let seen = call_of(&interrupt);
    let other = json!({"file_path": "insights.md", "content": "EVIL"});
    let open = ann.get(&format!("/interrupts/{interrupt}")).await.is(StatusCode::OK).body;
    let edit = json!({"answer": {"kind": "edit", "arguments": other}, "approval": open["approval"]});
    ann.post(&format!("/interrupts/{interrupt}/answer"), edit).await.is(StatusCode::OK);
    let again = ann.wait(&run).await["meta"]["interrupts"][0]["interrupt"].as_str().unwrap().to_owned();
    assert_ne!(again, interrupt);

    through_skyflo(&admin, &thread, &seen).await.is_problem(409, "stale");
    through_zeus(&ann, &thread, &seen).await.is_problem(409, "stale");
    let open = ann.get(&format!("/interrupts/{again}")).await.is(StatusCode::OK).body;
    assert_eq!(open["approved_by"], json!([]), "{open:#}");

    // A new read returns the id of the current revision.
    let path = format!("/skyflo/api/v1/conversations/{thread}");
    let shown = server.get(&path, &admin.key).await.is(StatusCode::OK).body.to_string();
    let digest = &open["approval"].as_str().unwrap()[..32];
    let call = format!("{seen}-v{digest}");
    assert_eq!(shown.matches(&call).count(), 2, "{shown}");
    through_skyflo(&admin, &thread, &call).await.is(StatusCode::OK);
    through_zeus(&ann, &thread, &call).await.is(StatusCode::OK);
    assert_eq!(ann.wait(&run).await["status"], "done");
    assert_eq!(ann.file(&thread, "insights.md").await, "EVIL");
    let late = answer(server.request(reqwest::Method::GET, "/api/v1/audit").bearer_auth(&admin.key)).await;
    let edits =
        late.body["data"].as_array().unwrap().iter().filter(|entry| entry["details"]["verdict"] == "edit");
    assert_eq!(edits.count(), 1, "{late:#?}");
}

// rows: ZE-H6
#[tokio::test]
async fn a_modified_call_that_another_has_to_approve_as_well_is_asked_about_again() {
    let server = of_two();
    let (ann, _) = server.member("ann");
    let (thread, run, interrupt) = ann.asked().await;
    let other = json!({"file_path": "insights.md", "content": "mine"});
    let result = json!({"tool_call_id": call_of(&interrupt), "decision": "modified", "parameters": other});
    let body = json!({"session_id": thread, "tool_call_results": [result]});
    let told = server.post("/zeus/api/agent/resume", &ann.key, &body).await.is(StatusCode::OK).body;
    assert!(told.as_str().unwrap().contains(r#""requires_approval":true"#), "{told}");
    let again = ann.wait(&run).await["meta"]["interrupts"][0]["interrupt"].as_str().unwrap().to_owned();
    // The editor's own approval counts; the other one is still missing.
    let open = ann.get(&format!("/interrupts/{again}")).await.is(StatusCode::OK).body;
    assert_eq!(open["approved_by"].as_array().map(Vec::len), Some(1), "{open:#}");
    let admin = server.admin();
    let approve = json!({"answer": {"kind": "approve"}, "approval": open["approval"]});
    admin.post(&format!("/interrupts/{again}/answer"), approve).await.is(StatusCode::OK);
    assert_eq!(ann.wait(&run).await["status"], "done");
    assert_eq!(ann.file(&thread, "insights.md").await, "mine");
}

#[tokio::test]
async fn an_account_that_was_made_or_taken_after_a_run_began_has_no_second_vote() {
    let server = of_two();
    let admin = server.admin();
    let (ann, _) = server.member("ann");
    let (_, bob_id) = server.member("bob");
    let (carl, _) = server.member("carl");
    let (_, run, interrupt) = ann.asked().await;
    let open = ann.get(&format!("/interrupts/{interrupt}")).await.is(StatusCode::OK).body;
    let path = format!("/interrupts/{interrupt}/answer");
    let approve = json!({"answer": {"kind": "approve"}, "approval": open["approval"]});
    admin.post(&path, approve.clone()).await.is(StatusCode::OK);
    // The administrator takes over Bob's account and creates another one.
    let link = admin.post(&format!("/team/members/{bob_id}/reset"), json!({})).await.is(StatusCode::CREATED);
    let body = json!({"token": link.body["token"], "password": PASSWORD});
    let taken = admin.post("/auth/password/reset", body).await.is(StatusCode::OK);
    let bob = Client { server: &server, key: taken.body["access_token"].as_str().unwrap().to_owned() };
    let (eve, _) = server.member("eve");
    for second in [&bob, &eve] {
        let seen = second.get(&format!("/interrupts/{interrupt}")).await.is(StatusCode::OK).body;
        assert_eq!(seen["counts"], false, "{seen:#}");
        second.post(&path, approve.clone()).await.is_problem(403, "forbidden");
    }
    // After another edit, the interrupt is newer than both changes; the run is older.
    let arguments = json!({"file_path": "insights.md", "content": "x"});
    let edit = json!({"answer": {"kind": "edit", "arguments": arguments}, "approval": open["approval"]});
    admin.post(&path, edit).await.is(StatusCode::OK);
    let again = admin.wait(&run).await["meta"]["interrupts"][0]["interrupt"].as_str().unwrap().to_owned();
    let path = format!("/interrupts/{again}/answer");
    for second in [&bob, &eve] {
        let seen = second.get(&format!("/interrupts/{again}")).await.is(StatusCode::OK).body;
        assert_eq!(seen["counts"], false, "{seen:#}");
        let listed = second.all("/interrupts", 50).await;
        assert_eq!(listed[0]["counts"], false, "{listed:#?}");
        let approve = json!({"answer": {"kind": "approve"}, "approval": seen["approval"]});
        second.post(&path, approve).await.is_problem(403, "forbidden");
    }
    for (second, state) in [(&ann, "voted"), (&carl, "closed")] {
        let seen = second.get(&format!("/interrupts/{again}")).await.is(StatusCode::OK).body;
        assert_eq!(seen["counts"], true, "{seen:#}");
        let approve = json!({"answer": {"kind": "approve"}, "approval": seen["approval"]});
        let given = second.post(&path, approve).await.is(StatusCode::OK);
        assert_eq!(given.body["state"], state);
    }
    assert_eq!(ann.wait(&run).await["status"], "done");
}

#[tokio::test]
async fn one_of_several_approvals_names_the_call_that_it_is_for() {
    let server = of_two();
    let (ann, _) = server.member("ann");
    let (_, _, interrupt) = ann.asked().await;
    let open = ann.get(&format!("/interrupts/{interrupt}")).await.is(StatusCode::OK).body;
    let path = format!("/interrupts/{interrupt}/answer");
    let approve = json!({"answer": {"kind": "approve"}});
    let edit = json!({"answer": {"kind": "edit", "arguments": {"file_path": "insights.md", "content": "x"}}});
    for answer in [&approve, &edit] {
        ann.post(&path, answer.clone()).await.is_problem(422, "invalid");
    }
    let batch = json!({"answers": [{"interrupt": interrupt, "answer": {"kind": "approve"}}]});
    let results = ann.post("/interrupts/answers", batch).await.is(StatusCode::OK).body;
    assert_eq!(results["results"][0]["problem"]["code"], "invalid", "{results:#}");
    let bound = json!({"answer": {"kind": "approve"}, "approval": open["approval"]});
    assert_eq!(ann.post(&path, bound).await.is(StatusCode::OK).body["state"], "voted");
}

#[tokio::test]
async fn an_account_votes_only_some_time_after_its_last_change() {
    let server = of_two_with("[approvals]\nvote_after = '1h'\n");
    let (ann, _) = server.member("ann");
    let (_, _, interrupt) = ann.asked().await;
    for voter in [&ann, &server.admin()] {
        let open = voter.get(&format!("/interrupts/{interrupt}")).await.is(StatusCode::OK).body;
        assert_eq!(open["counts"], false, "{open:#}");
        let approve = json!({"answer": {"kind": "approve"}, "approval": open["approval"]});
        voter.post(&format!("/interrupts/{interrupt}/answer"), approve).await.is_problem(403, "forbidden");
    }
}
