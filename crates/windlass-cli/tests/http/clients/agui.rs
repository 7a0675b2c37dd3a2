//! AG-UI's own client. The protocol defines no authentication: the client sends a header, here with an API key.

use reqwest::StatusCode;
use serde_json::json;

use super::super::Server;
use super::super::agui::play::script;
use super::super::auth::administrator;
use crate::cli::User;
use crate::cli::model::{Model, Turn};

// rows: OV-14, OV-15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_own_client_goes_from_sign_in_to_an_approved_run() {
    let write = ("Write", json!({"file_path": "plan.md", "content": "learn"}));
    let model = Model::start(vec![Turn::Call(vec![write]), Turn::Say("It is written.")]);
    let user = User::new();
    user.configure("[server.dialect.agui]\nenabled = true\n");
    let command = model.command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    let server = Server::spawn(user, command);
    let mut browser = administrator(&server).await;
    let made = browser.post("/api/v1/keys", json!({"name": "ag-ui", "scopes": ["read", "run", "approve"]}));
    let made = made.await.is(StatusCode::CREATED).body;
    let key = made["secret"].as_str().unwrap_or_else(|| panic!("{made:#}"));
    let told = script(&["talk", &format!("{}/agui", server.address), key, "t1", "Write a plan"]);
    assert_eq!(told["outcomes"], json!(["interrupt", "success"]), "{told:#}");
    let last = told["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["role"], &last["content"]),
        (&json!("assistant"), &json!("It is written.")),
        "{told:#}"
    );
    let events = server.user.events();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((of("interrupt.closed"), of("tool.finished"), of("run.finished")), (1, 1, 1), "{events:#?}");
}
