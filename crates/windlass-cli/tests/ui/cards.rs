//! Cards of calls: while their arguments are streamed, with the changes of an edit, and with unchanged numbers.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::json;

use super::asks::approves_for;
use super::page::Page;
use super::{asked, scripted, scripted_for, write};
use crate::cli::User;
use crate::cli::model::Turn;
use crate::http::auth::{administrator, member};

/// Opens every card.
const OPEN: &str =
    "document.querySelectorAll('details.call:not([open])').forEach((one) => (one.open = true))";

/// The approver, the previewed file, the sent arguments and the reason for asking, from the first card.
const KNOWN: &str = "const own = all('.call')[0]; if (!own.querySelector('[data-key=answered]')) return false;\
    own.querySelectorAll('details').forEach((one) => (one.open = true));\
    return [own.querySelector('[data-key=answered]').innerText.split(',')[0], own.querySelector('.diff [data-kind=file]:nth-of-type(2)').innerText.split(' (')[0],\
        [...own.querySelectorAll('dl')].map((one) => one.querySelector('dd').innerText.trim()), own.innerText.includes('No policy rule matches')]";

#[tokio::test]
async fn a_card_knows_who_approved_what_was_shown_and_what_was_asked() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("It is written.")]);
    let page = asked(&server).await;
    approves_for(&page, "c.md").await;
    for _ in 0..2 {
        page.sees("It is written.").await;
        page.run(OPEN, vec![]).await;
        let known = page.until("what is known", KNOWN).await;
        assert_eq!(known, json!(["Approved by you", "+++ b/c.md", ["c.md", "a.md"], true]));
        page.driver.refresh().await.unwrap();
    }
    page.ends().await;
}

// rows: ZE-S7
#[tokio::test]
async fn a_card_says_that_its_arguments_are_written_and_stays_open_afterwards() {
    let piece = |arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
    let deltas = vec![
        json!({"content": "I look."}),
        json!({"tool_calls": [{"index": 0, "id": "call_a", "type": "function", "function": {"name": "Glob", "arguments": ""}}]}),
        piece("{\"pattern\": \"some"),
        piece("thing/*.none"),
        piece("\"}"),
    ];
    let server = scripted(vec![Turn::Slowly(Duration::from_millis(1_500), deltas), Turn::Say("The end.")]);
    let page = Page::signed_in(&server).await;
    page.say("Look.").await;
    page.element("[data-status=live] .call summary").await.click().await.unwrap();
    let grows = "const [brief, standing] = ['.brief', '.standing'].map((css) => all(`.call ${css}`)[0]?.innerText ?? '');\
        return brief === arguments[0] && standing === arguments[1]";
    for (brief, standing) in
        [("some", "preparing, 17 characters"), ("something/*.none", "preparing, 29 characters")]
    {
        page.until_of("it grows", grows, vec![brief.into(), standing.into()]).await;
    }
    page.sees("The end.").await;
    let done = "const own = document.querySelector('.call'); return own.open && own.dataset.standing === 'done' && own.querySelector('.result')";
    page.until("it is open, with its result", done).await;
    page.ends().await;
}

#[tokio::test]
async fn an_edit_shows_what_goes_and_what_comes_also_after_it_has_run() {
    let user = User::new();
    for tool in ["Write", "Edit"] {
        user.run(&["grants", "add", tool]).exits(0);
    }
    let written = json!({"file_path": "a.md", "content": "one\ntwo\nthree\nfour\n"});
    let edit = json!({"file_path": "a.md", "old_string": "one\ntwo\nthree\n", "new_string": "one\n2\nand more\nthree\n"});
    let server = scripted_for(
        user,
        vec![
            Turn::Call(vec![("Write", written)]),
            Turn::Call(vec![("Read", json!({"file_path": "a.md"}))]),
            Turn::Call(vec![("Edit", edit)]),
            Turn::Say("It is edited."),
        ],
    );
    let page = Page::signed_in(&server).await;
    page.say("Edit it.").await;
    page.sees("It is edited.").await;
    page.run(OPEN, vec![]).await;
    let lines = "const own = all('.call').at(-1); return own.querySelector('.diff') && [...own.querySelectorAll('.inside > .diff > span')].map((one) => [one.dataset.kind, one.innerText.trimEnd()])";
    let shown = page.until("what changes", lines).await;
    let wanted = json!([
        ["same", " one"],
        ["removed", "-two"],
        ["added", "+2"],
        ["added", "+and more"],
        ["same", " three"]
    ]);
    assert_eq!(shown, wanted);
    let others =
        "return [...all('.call').at(-1).querySelectorAll('.arguments dt')].map((one) => one.innerText)";
    page.shows(others, vec![], json!(["file_path"])).await;
    page.ends().await;
}

// rows: ZE-H15
#[tokio::test]
async fn numbers_of_results_are_shown_as_they_are_written() {
    let user = User::new();
    user.configure("[tools.bash]\nenabled = true\n");
    user.run(&["grants", "add", "Bash"]).exits(0);
    let print = |text: &str| ("Bash", json!({"command": format!("printf '%s' '{text}'")}));
    let table = r#"[{"id": 9007199254740993, "part": 1.0}, {"id": 2, "part": 12345678901234567890}]"#;
    let tree = r#"{"id": 9007199254740993, "parts": [1.50]}"#;
    let server =
        scripted_for(user, vec![Turn::Call(vec![print(table), print(tree)]), Turn::Say("All is shown.")]);
    let page = Page::signed_in(&server).await;
    page.say("Show them.").await;
    page.sees("All is shown.").await;
    page.run(OPEN, vec![]).await;
    page.until("both", "return all('.result').length === 2").await;
    let cells = "return all('.result td').map((one) => one.innerText)";
    let wanted = json!(["9007199254740993", "1.0", "2", "12345678901234567890"]);
    page.shows(cells, vec![], wanted).await;
    let leaves = "return all('.result [data-type=number]').map((one) => one.innerText)";
    page.shows(leaves, vec![], json!(["9007199254740993", "1.50"])).await;
    page.ends().await;
}

#[tokio::test]
async fn a_card_names_another_user_who_approved() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("It is written.")]);
    let page = asked(&server).await;
    let mut bob = member(&mut administrator(&server).await, &server, "bob@example.com", "admin").await;
    let open = page.asks("/interrupts").await["data"][0]["id"].as_str().unwrap().to_owned();
    let approve = json!({"answer": {"kind": "approve"}});
    bob.post(&format!("/api/v1/interrupts/{open}/answer"), approve).await.is(StatusCode::OK);
    page.sees("It is written.").await;
    page.run(OPEN, vec![]).await;
    let named = "return all('[data-key=answered]')[0]?.innerText.startsWith('Approved by bob@example.com,')";
    page.until("their name", named).await;
    page.ends().await;
}
