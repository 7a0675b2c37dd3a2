//! The inbox: the order of interrupts, their owners, and their links.

use reqwest::StatusCode;
use serde_json::json;

use super::access::signed_in_as;
use super::page::Page;
use super::{asked, scripted, scripted_for, write};
use crate::cli::User;
use crate::cli::model::Turn;
use crate::http::Server;
use crate::http::auth::{administrator, member};

/// The conversation of each row in the inbox.
const WHOSE: &str = "return all('.ask .whose').map((one) => one.innerText)";

fn turns() -> Vec<Turn> {
    vec![Turn::Call(vec![write("a.md")]), Turn::Say("All is settled.")]
}

/// Starts another conversation of the key's user, which also requires approval.
async fn another(server: &Server, key: &str, message: &str) {
    let sent = server.post("/api/v1/runs", key, &json!({"message": message})).await.is(StatusCode::CREATED);
    let path = format!("/api/v1/runs/{}/wait?timeout=20", sent.body["run"].as_str().unwrap());
    let asks = server.get(&path, key).await.is(StatusCode::OK);
    assert_eq!(asks.body["status"], "paused", "{asks:#?}");
}

async fn read_again(page: &Page) {
    page.run("return module('state/inbox.js').then((inbox) => inbox.load())", vec![]).await;
}

#[tokio::test]
async fn what_comes_later_stands_below_what_is_being_read() {
    let server = scripted(turns());
    let page = asked(&server).await;
    let key = server.key(&[]);
    page.press("Inbox 1").await;
    page.sees("In “Write it.”").await;
    for message in ["Another.", "A third."] {
        another(&server, &key, message).await;
        read_again(&page).await;
    }
    let rows = json!(["In “Write it.”", "In “Another.”", "In “A third.”"]);
    page.until_of("all of them", "return JSON.stringify(all('.ask .whose').map((one) => one.innerText)) === JSON.stringify(arguments[0])", vec![rows.clone()]).await;
    // Activity in a conversation moves it in the sidebar, but not in the inbox.
    read_again(&page).await;
    page.shows(WHOSE, vec![], rows).await;
    page.run("document.activeElement.blur()", vec![]).await;
    page.types("wja").await;
    page.until(
        "the next has the focus",
        "return all('.ask').length === 2 && document.activeElement === all('.ask')[1]",
    )
    .await;
    page.shows(WHOSE, vec![], json!(["In “Write it.”", "In “A third.”"])).await;
    page.press("Approve").await;
    page.until("the other", "return all('.ask').length === 1 && document.activeElement === all('.ask')[0]")
        .await;
    page.press("Approve").await;
    page.sees("Inbox is empty").await;
    page.until("the name of the page", "return document.activeElement.tagName === 'H1'").await;
    page.ends().await;
}

#[tokio::test]
async fn the_age_of_an_open_interrupt_is_updated_while_visible() {
    let server = scripted(turns());
    let page = asked(&server).await;
    let age = "return all('.ask time')[0]?.innerText === arguments[0]";
    page.until_of("its age", age, vec!["just now".into()]).await;
    page.run("const now = Date.now; Date.now = () => now() + 5 * 60_000", vec![]).await;
    page.until_of("its age, later", age, vec!["5 min ago".into()]).await;
    page.ends().await;
}

// rows: SK-U5
#[tokio::test]
async fn the_calls_of_one_run_are_answered_together_in_the_inbox_too() {
    let server = scripted(vec![
        Turn::Call(vec![write("a.md"), write("b.md"), write("c.md")]),
        Turn::Say("All is settled."),
    ]);
    let page = asked(&server).await;
    page.press("Inbox 3").await;
    page.sees("3 calls need approval: Write").await;
    let files = "return all('.ask').map((one) => /[abc]\\.md/.exec(one.innerText)[0]).join()";
    page.shows(files, vec![], "a.md,b.md,c.md").await;
    page.press("Approve").await;
    page.sees("2 calls need approval: Write").await;
    page.until("how far it is", "return all('.batch')[0].innerText.includes('1/3')").await;
    page.press("Deny all").await;
    page.sees("Inbox is empty").await;
    page.ends().await;
}

#[tokio::test]
async fn whom_a_rule_names_is_led_to_no_conversation_that_is_not_theirs() {
    let user = User::new();
    user.configure("");
    let policy = "[[rule]]\nname = 'two'\ntools = ['Write']\nverdict = 'ask'\napprovers = ['role:member', 'role:admin']\n";
    std::fs::write(user.home().join("config/windlass/policy.toml"), policy).unwrap();
    let server = scripted_for(user, turns());
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    let own = asked(&server).await;
    let me = own.asks("/auth/me").await;
    let name = [&me["name"], &me["id"]]
        .into_iter()
        .find_map(|one| one.as_str().filter(|one| !one.is_empty()))
        .unwrap();
    let thread = own.thread().await;
    own.go("/inbox").await;
    own.sees("In “Write it.”").await;

    let page = signed_in_as(&server, "ann@example.com").await;
    page.sees("What would you like to do").await;
    page.press("Inbox 1").await;
    page.sees(&format!("In a conversation of {name} that you cannot open")).await;
    assert_eq!(page.number_of(".ask a").await, 0);
    let share = format!(
        "return fetch('/api/v1/threads/{thread}/share', {{ method: 'PUT', headers: {{ 'content-type': 'application/json' }}, body: '{{}}' }}).then((answer) => answer.ok)"
    );
    assert_eq!(own.run(&share, vec![]).await, true);
    read_again(&page).await;
    page.sees(&format!("In “Write it.”, of {name}")).await;
    page.press("Open conversation").await;
    page.sees("Shared by").await;
    own.press("Approve").await;
    own.sees("Inbox is empty").await;
    own.ends().await;
    page.ends_but_for(&["401"]).await;
}

#[tokio::test]
async fn how_much_waits_stands_on_the_button_of_a_closed_sidebar() {
    let server = scripted(turns());
    let page = asked(&server).await;
    let badge = "const own = document.querySelector('.brand button'); const by = document.getElementById(own.getAttribute('aria-describedby'));\
        return [own.innerText.trim(), by?.getAttribute('aria-label') ?? '', all('.badge').length]";
    page.shows(badge, vec![], json!(["", "", 1])).await;
    page.press("Show or hide the sidebar").await;
    page.until("it is closed", "return document.querySelector('.shell').dataset.sidebar === 'closed'").await;
    page.shows(badge, vec![], json!(["1", "1 request needs your input", 1])).await;
    super::feel::narrow(&page).await;
    page.shows(badge, vec![], json!(["1", "1 request needs your input", 1])).await;
    page.press("Approve").await;
    page.sees("All is settled.").await;
    page.until("no badge", "return all('.badge').length === 0").await;
    page.shows(badge, vec![], json!(["", "", 0])).await;
    page.ends().await;
}
