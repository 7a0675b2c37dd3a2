//! Open interrupts, answered in the page.

use serde_json::{Value, json};

use super::page::Page;
use super::{asked, scripted, write};
use crate::cli::User;
use crate::cli::model::{Model, Turn};
use crate::http::Server;

fn writer() -> Server {
    scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("All is settled.")])
}

fn two_writers() -> Server {
    scripted(vec![Turn::Call(vec![write("a.md"), write("b.md")]), Turn::Say("All is settled.")])
}

/// A file of the displayed conversation, from the server.
async fn file(server: &Server, page: &Page, name: &str) -> Value {
    let path = format!("/api/v1/threads/{}/files/content?path={name}", page.thread().await);
    let answer = server.get(&path, &server.key(&[])).await;
    if answer.status == 404 { Value::Null } else { answer.body }
}

#[tokio::test]
async fn a_call_is_shown_whole_and_approved() {
    let server = writer();
    let page = asked(&server).await;
    page.sees("second line").await;
    assert_eq!(file(&server, &page, "a.md").await, Value::Null);
    page.press("Approve").await;
    page.sees("All is settled.").await;
    page.misses("Allow Write to ").await;
    assert_eq!(file(&server, &page, "a.md").await, "first line\nsecond line\n");
    page.ends().await;
}

#[tokio::test]
async fn what_a_call_waits_for_is_asked_once() {
    let server = writer();
    let page = asked(&server).await;
    let thread = page.thread().await;
    // The inbox shows the interrupt before its conversation is loaded.
    page.go("/inbox").await;
    page.sees("Allow Write to ").await;
    page.press("Open conversation").await;
    page.until("the card", "return all('.call .ask').length === 1").await;
    assert_eq!(page.thread().await, thread);
    assert_eq!(page.number_of(".ask").await, 1);
    page.ends().await;
}

/// Approves the open call with another file path.
pub async fn approves_for(page: &Page, path: &str) {
    page.press("Edit…").await;
    page.write("[name='v.file_path']", path).await;
    page.press("Save and review").await;
    // The preview for the edited arguments must be approved first.
    page.sees(&format!("+++ b/{path}")).await;
    page.press("Approve").await;
}

#[tokio::test]
async fn arguments_are_edited_before_the_call_runs() {
    let server = writer();
    let page = asked(&server).await;
    approves_for(&page, "other.md").await;
    page.sees("All is settled.").await;
    assert_eq!(file(&server, &page, "other.md").await, "first line\nsecond line\n");
    assert_eq!(file(&server, &page, "a.md").await, Value::Null);
    page.ends().await;
}

#[tokio::test]
async fn arguments_are_edited_as_json_and_what_is_none_is_refused() {
    let server = writer();
    let page = asked(&server).await;
    page.press("Edit…").await;
    page.press("Edit as JSON").await;
    page.write("[aria-label='Arguments as JSON']", "{\"file_path\": ").await;
    page.press("Save and review").await;
    page.sees("Invalid JSON").await;
    page.write("[aria-label='Arguments as JSON']", r#"{"file_path": "j.md", "content": "by hand"}"#).await;
    page.press("Save and review").await;
    // The preview for the edited arguments must be approved first.
    page.sees("+++ b/j.md").await;
    page.press("Approve").await;
    page.sees("All is settled.").await;
    assert_eq!(file(&server, &page, "j.md").await, "by hand");
    page.ends().await;
}

#[tokio::test]
async fn the_reason_of_a_denied_call_is_sent_to_the_agent() {
    let server = writer();
    let page = asked(&server).await;
    page.press("Deny…").await;
    page.write("[aria-label='Reason']", "the name is taken").await;
    page.press("Deny").await;
    page.sees("All is settled.").await;
    assert_eq!(file(&server, &page, "a.md").await, Value::Null);
    page.element("details.call summary").await.click().await.unwrap();
    page.sees("the name is taken").await;
    page.ends().await;
}

// rows: SK-U5
#[tokio::test]
async fn a_batch_is_approved_with_one_word() {
    let server = two_writers();
    let page = asked(&server).await;
    page.sees("2 calls need approval: Write").await;
    page.press("Approve all").await;
    page.sees("All is settled.").await;
    for name in ["a.md", "b.md"] {
        assert_eq!(file(&server, &page, name).await, "first line\nsecond line\n");
    }
    page.ends().await;
}

#[tokio::test]
async fn a_batch_is_denied_with_one_word() {
    let server = two_writers();
    let page = asked(&server).await;
    page.press("Deny all").await;
    page.sees("All is settled.").await;
    for name in ["a.md", "b.md"] {
        assert_eq!(file(&server, &page, name).await, Value::Null);
    }
    page.ends().await;
}

// rows: WT-H12
#[tokio::test]
async fn a_question_is_a_form_with_its_values_options_and_own_words() {
    let asks = json!({
        "checkpoint": "before-sending", "summary": "Send the invoice?", "params": {"amount": 12, "copy": true},
        "options": ["now", "later"], "allow_free_input": true,
    });
    let server =
        scripted(vec![Turn::Call(vec![("request_human_approval", asks)]), Turn::Say("All is settled.")]);
    let page = Page::signed_in(&server).await;
    page.say("Ask me.").await;
    page.sees("Send the invoice?").await;
    for name in ["now", "later"] {
        page.until_of("an option", "return button(arguments[0])", vec![name.into()]).await;
    }
    page.write("[name='v.amount']", "15").await;
    page.write("[name=own]", "with my regards").await;
    page.press("Answer").await;
    page.sees("All is settled.").await;
    page.element("details.call summary").await.click().await.unwrap();
    page.sees("with my regards").await;
    page.sees("15").await;
    page.ends().await;
}

#[tokio::test]
async fn a_question_is_answered_by_an_option() {
    let asks = json!({"checkpoint": "c", "summary": "Send it?", "options": ["now", "later"]});
    let server =
        scripted(vec![Turn::Call(vec![("request_human_approval", asks)]), Turn::Say("All is settled.")]);
    let page = Page::signed_in(&server).await;
    page.say("Ask me.").await;
    // The card says that it waits for an answer, not for an approval.
    let waits = "return all('.call .standing')[0]?.innerText === 'needs an answer'";
    page.until("what it waits for", waits).await;
    page.driver.refresh().await.unwrap();
    page.until("what it waits for, after a reload", waits).await;
    page.press("later").await;
    page.sees("All is settled.").await;
    let answered = "return all('.call .standing')[0]?.innerText.startsWith('answered: later')";
    page.until("what was chosen", answered).await;
    page.driver.refresh().await.unwrap();
    page.until("what was chosen, after a reload", answered).await;
    page.element("details.call summary").await.click().await.unwrap();
    page.until("the result has the choice", "return all('.result')[0].innerText.includes('later')").await;
    page.ends().await;
}

#[tokio::test]
async fn a_run_continues_after_its_limit_is_raised() {
    let user = User::new();
    let look = || Turn::Call(vec![("Glob", json!({"pattern": "*"}))]);
    let model = Model::start(vec![look(), look(), look(), Turn::Say("All is settled.")]);
    let command = model.command(&user, &["serve", "--listen", "127.0.0.1:0", "--max-steps", "2"]);
    let server = Server::spawn(user, command);
    let page = Page::signed_in(&server).await;
    page.say("Look thrice.").await;
    page.sees("Limit reached: steps per run").await;
    page.sees("Used: 2 of 2.").await;
    page.write("[name=to]", "9").await;
    page.press("Continue").await;
    page.sees("All is settled.").await;
    page.ends().await;
}

#[tokio::test]
async fn a_grant_stands_in_the_settings_until_it_is_taken_back() {
    let server = scripted(vec![
        Turn::Call(vec![write("a.md")]),
        Turn::Call(vec![write("b.md")]),
        Turn::Say("All is settled."),
    ]);
    let page = asked(&server).await;
    page.press("Always allow…").await;
    page.element("[name=which]").await;
    page.run("document.querySelector('[name=which]').value = 'any'", vec![]).await;
    page.write("[name=count]", "7").await;
    page.press("Approve and always allow").await;
    // The grant allows the second call.
    page.sees("All is settled.").await;
    assert_eq!(file(&server, &page, "b.md").await, "first line\nsecond line\n");
    page.go("/settings/grants").await;
    page.sees("Revoke").await;
    page.press("Revoke the grant for Write").await;
    page.sees("No grants").await;
    page.ends().await;
}

#[tokio::test]
async fn the_inbox_has_a_badge_and_is_answered_where_it_stands() {
    let server = writer();
    let page = asked(&server).await;
    page.until("the badge", "return all('.badge')[0].innerText === '1'").await;
    page.press("Inbox 1").await;
    page.sees("Open conversation").await;
    page.press("Approve").await;
    page.sees("Inbox is empty").await;
    page.until("no badge", "return all('.badge').length === 0").await;
    page.ends().await;
}
