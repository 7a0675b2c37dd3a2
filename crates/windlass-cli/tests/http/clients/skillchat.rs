//! The skills chat's page: it sends no credential, keeps a guest's cookie, and sends its usual requests.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::super::Server;
use super::super::browser::Browser;
use super::super::exchange::frames;
use crate::cli::User;
use crate::cli::model::{Model, Turn};

const API: &str = "/skillchat/api";

async fn answer_to(page: &mut Browser<'_>, asked: &Value, response: Value) -> Value {
    let said = json!({
        "session_id": asked["session_id"], "checkpoint_id": asked["checkpoint_id"], "response": response,
    });
    page.post(&format!("{API}/ai/chat/hitl-response"), said).await.is(StatusCode::OK).body
}

// rows: WT-E2, WT-E3, WT-E5, WT-E6, WT-E7, WT-H5, WT-H6
#[tokio::test]
async fn its_page_goes_from_the_first_visit_to_an_approved_run() {
    let ask = json!({"checkpoint": "plan", "summary": "Make this plan?", "params": {"days": 3}});
    let write = ("Write", json!({"file_path": "plan.md", "content": "learn"}));
    let calls = Turn::Call(vec![("request_human_approval", ask), write]);
    let model = Model::start(vec![calls, Turn::Say("Your plan is written.")]);
    let user = User::new();
    user.configure("[server.dialect.skillchat]\nguest = true\n");
    let command = model.command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    let server = Server::spawn(user, command);
    let mut page = Browser::new(&server);

    page.get("/skillchat/health").await.is(StatusCode::OK);
    let greeting = page.post(&format!("{API}/ai/initial-greeting"), json!({"session_id": null})).await;
    assert_eq!(greeting.is(StatusCode::OK).body, json!({"message": null, "session_id": null}));
    let message = json!({"message": "Plan my week", "history": [], "doc_id": null, "session_id": null});
    let stream = page.post(&format!("{API}/ai/chat/stream"), message).await.is(StatusCode::OK);
    let told = frames(stream.body.as_str().unwrap_or_else(|| panic!("{stream:#?}")));
    let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["hitl_checkpoint", "done"], "{told:#?}");
    let (asked, done) = (&told[0].1, &told[1].1);
    assert_eq!((&asked["summary"], &done["hitl"]), (&json!("Make this plan?"), &json!(true)));
    let session = done["session_id"].as_str().unwrap();
    let due = page.get(&format!("{API}/ai/reminders?session_id={session}")).await;
    assert_eq!(due.is(StatusCode::OK).body, json!([]));

    let next = answer_to(&mut page, asked, json!({"approved": true, "overrides": {"days": 2}})).await;
    assert_eq!(next["hitl"]["params"]["file_path"], "plan.md", "{next:#}");
    let last = answer_to(&mut page, &next["hitl"], json!({"approved": true})).await;
    assert_eq!(last["message"]["content"], "Your plan is written.", "{last:#}");

    let sessions = page.get(&format!("{API}/sessions")).await.is(StatusCode::OK).body;
    assert_eq!(sessions["sessions"][0]["id"], session, "{sessions:#}");
    let said = page.get(&format!("{API}/sessions/{session}")).await.is(StatusCode::OK).body;
    assert_eq!(said["messages"].as_array().unwrap().len(), 2, "{said:#}");
    page.send(Method::POST, &format!("{API}/sessions/{session}/commit"), None).await.is(StatusCode::OK);
    assert_eq!(page.cookies.len(), 1, "one guest: {:?}", page.cookies);
}
