//! Tool calls as cards with their open interrupts, and the rollback of their changes.

use serde_json::json;

use super::page::Page;
use super::{answered_twice, asked, otherwise, scripted, write};
use crate::cli::User;
use crate::cli::model::{Model, Turn};
use crate::http::Server;

/// The displayed state of each card.
const STANDINGS: &str = "return [...document.querySelectorAll('.call')].map((one) => one.querySelector('.standing').innerText.split(',')[0])";

// rows: SK-U4, ZE-H8, SK-A11
#[tokio::test]
async fn a_card_shows_the_call_its_standing_its_approval_and_its_result() {
    let server = scripted(vec![
        Turn::Call(vec![write("a.md"), ("Read", json!({"file_path": "missing.md"}))]),
        Turn::Call(vec![write("b.md")]),
        Turn::Say("All is settled."),
    ]);
    let page = asked(&server).await;
    // The waiting card is open and contains the question and its buttons.
    page.until(
        "it is asked in the card",
        "return all('.call[data-standing=asking][open] .ask').length === 1",
    )
    .await;
    for name in ["Approve", "Deny…", "Edit…"] {
        page.until_of(
            "its buttons",
            "return all('.call .ask button').some((one) => named(one) === arguments[0])",
            vec![name.into()],
        )
        .await;
    }
    page.until("tool, file and standing", "return ['Write', 'a.md', 'needs approval'].every((words) => all('.call summary')[0].innerText.includes(words))").await;
    assert_eq!(page.number_of(".asks .ask").await, 0, "it is asked twice");
    page.press("Approve").await;
    page.until("the next one", "return all('.call[data-standing=asking] .brief')[0]?.innerText === 'b.md'")
        .await;
    page.press("Deny…").await;
    page.press("Deny").await;
    page.sees("All is settled.").await;
    page.shows(STANDINGS, vec![], json!(["done", "failed", "denied"])).await;
    assert_eq!(page.number_of(".call summary time").await, 3, "when each was");
    page.run("document.querySelectorAll('.call').forEach((one) => (one.open = true))", vec![]).await;
    // If a preview was displayed, the arguments are collapsed below it.
    page.until("arguments by name", "document.querySelectorAll('.call details').forEach((one) => (one.open = true)); return [...document.querySelectorAll('.call dl dt')].map((one) => one.innerText).join() === 'file_path,content,file_path,file_path,content'").await;
    page.until("names beside values", "const found = all('.call dl'); return found.length === 3 && found.every((one) => getComputedStyle(one).gridTemplateColumns.split(' ').length === 2)").await;
    page.until("an error is one", "return all('.call[data-standing=failed] h3').some((one) => one.innerText === 'Error') && all('.result[data-error=true]').length === 2").await;
    // Cards that are restored from the journal have the same state.
    page.driver.refresh().await.unwrap();
    page.sees("All is settled.").await;
    page.shows(STANDINGS, vec![], json!(["done", "failed", "denied"])).await;
    page.ends().await;
}

#[tokio::test]
async fn an_approval_outlives_the_server() {
    let model = Model::start(vec![Turn::Call(vec![write("a.md")]), Turn::Say("All is settled.")]);
    let user = User::new();
    let command = model.command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    let server = Server::spawn(user, command);
    let place = server.address.trim_start_matches("http://").to_owned();
    let page = asked(&server).await;
    let user = server.kill();
    page.sees("Connecting…").await;
    let command = model.command(&user, &["serve", "--listen", &place]);
    let _server = Server::spawn(user, command);
    page.misses("Connecting…").await;
    page.press("Approve").await;
    page.sees("All is settled.").await;
    page.ends_but_for(&["net::ERR_"]).await;
}

/// A script that presses a button of a user's message.
fn of_message(number: usize, name: &str) -> String {
    format!(
        "const own = document.querySelectorAll('.entry.user')[{number}]; [...own.querySelectorAll('button')].find((one) => one.innerText === '{name}').click()"
    )
}

// rows: ZE-P9
#[tokio::test]
async fn a_roll_back_dims_what_follows_and_continues_with_the_files_of_then_elsewhere() {
    let server = scripted(vec![
        Turn::Say("First answer."),
        Turn::Call(vec![write("a.md")]),
        Turn::Say("It is written."),
        Turn::Say("Another way."),
    ]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    page.say("Write it.").await;
    page.press("Approve").await;
    page.sees("It is written.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    let thread = page.thread().await;
    let key = server.key(&[]);
    let file = format!("/api/v1/threads/{thread}/files/content?path=a.md");
    assert_eq!(server.get(&file, &key).await.status, 200);
    page.run(&of_message(1, "Roll back"), vec![]).await;
    page.sees("Rolled back to here").await;
    page.sees("Messages below will be left out.").await;
    page.sees("a.md removed").await;
    let dimmed = "return [...document.querySelectorAll('.entry')].map((one) => getComputedStyle(one).filter)";
    page.shows(dimmed, vec![], json!(["none", "none", "grayscale(1)", "grayscale(1)", "grayscale(1)"])).await;
    page.press("Cancel rollback").await;
    page.misses("Rolled back to here").await;
    page.shows(dimmed, vec![], json!(["none", "none", "none", "none", "none"])).await;
    assert_eq!(server.get(&file, &key).await.status, 200, "nothing was done");
    page.run(&of_message(1, "Roll back"), vec![]).await;
    page.sees("Rolled back to here").await;
    page.say("Otherwise.").await;
    let elsewhere = format!(
        "return location.pathname.startsWith('/chat/') && location.pathname !== '/chat/{thread}' && all('.entry.user').length === 2"
    );
    page.until("it continues elsewhere", &elsewhere).await;
    page.sees("First answer.").await;
    let words = page.words().await;
    assert!(!words.contains("It is written."), "{words}");
    let made = format!("/api/v1/threads/{}/files/content?path=a.md", page.thread().await);
    assert_eq!(server.get(&made, &key).await.status, 404, "the file is as it was: not there");
    // The original conversation is unchanged.
    assert_eq!(server.get(&file, &key).await.status, 200);
    page.go(&format!("/chat/{thread}")).await;
    page.sees("It is written.").await;
    page.ends().await;
}

#[tokio::test]
async fn what_is_typed_while_a_roll_back_is_carried_out_stays_and_makes_no_second_one() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = answered_twice(&server).await;
    let thread = page.thread().await;
    page.run(&of_message(1, "Roll back"), vec![]).await;
    page.sees("Rolled back to here").await;
    let held = "if (url.endsWith('/fork')) {
          window.forked = (window.forked ?? 0) + 1;
          if (window.forked === 1) await new Promise((go) => (window.release = go));
        }
        return real()";
    otherwise(&page, held).await;
    page.say("Three.").await;
    page.until("it is being made", "return window.release").await;
    page.say("Four.").await;
    page.run("window.release()", vec![]).await;
    let elsewhere = format!(
        "return location.pathname.startsWith('/chat/') && location.pathname !== '/chat/{thread}' && all('.entry.assistant').length === 2 && all('.stop').length === 0"
    );
    page.until("it is answered elsewhere", &elsewhere).await;
    page.element(&format!("a[href='/chat/{thread}']")).await.click().await.unwrap();
    page.until("it stands where it was typed", "return all('[data-key=composer]')[0].value === 'Four.'")
        .await;
    page.shows("return window.forked", vec![], 1).await;
    let threads = page.asks("/threads?limit=10").await;
    assert_eq!(threads["data"].as_array().unwrap().len(), 2, "{threads:#}");
    page.ends().await;
}
