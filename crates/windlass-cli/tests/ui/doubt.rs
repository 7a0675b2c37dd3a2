//! A call whose process was killed: the page shows the evidence, and a person decides.

use std::time::Duration;

use serde_json::{Value, json};

use super::page::Page;
use crate::cli::User;
use crate::cli::model::{Model, Turn};
use crate::http::Server;

fn command(command: &str) -> Turn {
    Turn::Call(vec![("Bash", json!({"command": command}))])
}

/// Starts a call, kills its server, and starts another one at the same address.
async fn lost(page: &Page, server: Server, model: &Model, nth: usize) -> Server {
    let place = server.address.trim_start_matches("http://").to_owned();
    page.say("Begin.").await;
    let running = "return document.querySelectorAll('.call[data-standing=running]').length === 1 && document.querySelectorAll('.entry.user').length === arguments[0]";
    page.until_of("the call has begun", running, vec![json!(nth)]).await;
    // The page shows the call before the command has had an effect.
    let (key, path) = (server.key(&[]), format!("/api/v1/threads/{}/files", page.thread().await));
    let mut files = Value::Null;
    let begun = async {
        while !files.to_string().contains(&format!("\"begun{nth}\"")) {
            files = server.get(&path, &key).await.body;
        }
    };
    let begun = tokio::time::timeout(Duration::from_secs(20), begun).await;
    assert!(begun.is_ok(), "the command does not begin: {files:#}");
    let user = server.kill();
    let command = model.command(&user, &["serve", "--listen", &place]);
    let server = Server::spawn(user, command);
    page.sees("Did Bash complete?").await;
    server
}

#[tokio::test]
async fn a_call_in_doubt_shows_its_evidence_and_takes_three_answers() {
    let user = User::new();
    user.configure("[tools.bash]\nenabled = true\n");
    user.run(&["grants", "add", "Bash"]).exits(0);
    let again = "test -e begun3 && exit 0; touch begun3; sleep 60";
    let model = Model::start(vec![
        command("touch begun1; sleep 60"),
        Turn::Say("It was done then."),
        command("touch begun2; sleep 60"),
        Turn::Say("It failed then."),
        command(again),
        Turn::Say("It is done again."),
    ]);
    let first = model.command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    let page;
    let mut server = Server::spawn(user, first);
    page = Page::signed_in(&server).await;
    server = lost(&page, server, &model, 1).await;
    page.sees("the process that ran it is gone").await;
    let key = server.key(&[]);
    let asks = server.get("/api/v1/interrupts", &key).await.body["data"][0].take();
    let thread = page.thread().await;
    let events = server.get(&format!("/api/v1/threads/{thread}/events"), &key).await.body["data"].take();
    let of = |name: &str| events.as_array().unwrap().iter().find(|event| event["type"] == name).unwrap();
    assert_eq!(asks["reason"], of("tool.in_doubt")["reason"]);
    assert_eq!(asks["effect"], of("tool.in_doubt")["effect"]);
    // The start of the call, not the time of the question.
    assert_eq!(asks["begun_at"], of("tool.started")["at"]);
    assert_ne!(asks["begun_at"], asks["since"]);
    page.sees(asks["effect"].as_str().unwrap()).await;
    let begun = "return all('.ask .facts time')[0].innerText === new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' }).format(arguments[0])";
    page.until_of("when it was begun", begun, vec![asks["begun_at"].clone()]).await;
    page.press("Mark as done…").await;
    page.write("[name=result]", "sixty seconds went by").await;
    page.press("Mark as done").await;
    page.sees("It was done then.").await;

    server = lost(&page, server, &model, 2).await;
    page.press("Mark as failed").await;
    page.sees("It failed then.").await;

    let _server = lost(&page, server, &model, 3).await;
    page.press("Not done: retry").await;
    page.sees("It is done again.").await;
    page.ends_but_for(&["net::ERR_"]).await;
}
