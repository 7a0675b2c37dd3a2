//! Typed and sent text: it stays where it was typed, and arrives once, despite errors.

use serde_json::{Value, json};

use super::page::Page;
use super::{asked, otherwise, scripted, write};
use crate::cli::model::Turn;
use crate::http::Server;

#[tokio::test]
async fn answers_that_are_being_typed_outlive_a_look_at_the_inbox() {
    let asks = json!({
        "checkpoint": "c", "summary": "Send the invoice?", "params": {"amount": 12, "copy": true},
        "allow_free_input": true,
    });
    let server =
        scripted(vec![Turn::Call(vec![("request_human_approval", asks)]), Turn::Say("All is settled.")]);
    let page = Page::signed_in(&server).await;
    page.say("Ask me.").await;
    page.sees("Send the invoice?").await;
    page.write("[name='v.amount']", "15").await;
    page.element("[name='v.copy']").await.click().await.unwrap();
    page.write("[name=own]", "with my regards").await;
    // Each poll returns a changed row, so that the form is redrawn.
    let older = "if (!url.includes('/interrupts?')) return real();
        const page = await (await real()).json();
        for (const one of page.data) one.since -= 60000 * (window.looks = (window.looks ?? 0) + 1);
        return Response.json(page)";
    otherwise(&page, older).await;
    page.until("two looks", "return window.looks >= 2 && /min/.test(all('.ask time')[0].innerText)").await;
    let typed = "return [all('[name=\"v.amount\"]')[0].value, all('[name=\"v.copy\"]')[0].checked, all('[name=own]')[0].value]";
    page.shows(typed, vec![], json!(["15", false, "with my regards"])).await;
    page.press("Answer").await;
    page.sees("All is settled.").await;
    page.element("details.call summary").await.click().await.unwrap();
    page.sees("with my regards").await;
    page.ends().await;
}

/// The text of the message field.
async fn draft(page: &Page) -> Value {
    page.run("return all('[data-key=composer]')[0].value", vec![]).await
}

/// A permanent rejection, generated in the page.
const REFUSED: &str = "Response.json({ status: 409, code: 'busy', detail: 'not at this moment' }, { status: 409, headers: { 'content-type': 'application/problem+json' } })";

#[tokio::test]
async fn an_edited_message_is_kept_until_a_conversation_has_it() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let (page, parent) = super::edited_second(&server).await;
    otherwise(&page, &format!("return url.endsWith('/fork') ? {REFUSED} : real()")).await;
    let send = "all('.entry.user form')[0].requestSubmit()";
    page.run(send, vec![]).await;
    page.sees("Not at this moment").await;
    page.shows("return all('.entry.user textarea')[0]?.value", vec![], "Three.").await;
    // The conversation is created, but its message is rejected. The text waits in the message field there.
    otherwise(&page, &format!("return url.endsWith('/messages') ? {REFUSED} : real()")).await;
    page.until("it can be sent", "return button('Send')").await;
    page.run(send, vec![]).await;
    let there =
        format!("return location.pathname.startsWith('/chat/') && location.pathname !== '/chat/{parent}'");
    page.until("another conversation", &there).await;
    page.until("the text", "return all('[data-key=composer]')[0].value === 'Three.'").await;
    page.ends_but_for(&["Problem"]).await;
}

/// A conversation whose second message the server has accepted, while the connection broke before the page knew.
pub async fn cut_off(server: &Server) -> Page {
    let page = Page::signed_in(server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    otherwise(&page, "const answer = await real(); if (url.endsWith('/messages')) throw new TypeError('cut'); return answer").await;
    page.say("Two.").await;
    page.sees("Cannot reach the server").await;
    page
}

/// The number of user messages in the displayed conversation, from the server.
pub async fn said(page: &Page) -> usize {
    let path = format!("/threads/{}/messages?limit=50", page.thread().await);
    let messages = page.asks(&path).await;
    messages["data"].as_array().unwrap().iter().filter(|row| row["role"] == "user").count()
}

#[tokio::test]
async fn a_message_that_is_sent_again_is_carried_out_once() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = cut_off(&server).await;
    assert_eq!(draft(&page).await, "Two.");
    otherwise(&page, "return real()").await;
    page.press("Send").await;
    page.until("it is taken", "return all('[data-key=composer]')[0].value === ''").await;
    assert_eq!(said(&page).await, 2);
    page.ends_but_for(&["Unreachable"]).await;
}

/// The displayed user messages.
const SAID: &str = "return all('.entry.user .said').map((one) => one.innerText.trim())";

#[tokio::test]
async fn what_follows_a_message_that_may_have_arrived_goes_after_it_and_each_is_carried_out_once() {
    let server =
        scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer."), Turn::Say("Third answer.")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    let cut = "if (!url.endsWith('/messages')) return real();
        (window.sent ??= []).push(JSON.parse(options.body).message);
        const answer = await real(); if (!window.healed) throw new TypeError('cut'); return answer";
    otherwise(&page, cut).await;
    page.say("Two.").await;
    page.say("Three.").await;
    page.sees("Cannot reach the server").await;
    page.until("both are back", "return all('[data-key=composer]')[0].value === 'Two.\\nThree.'").await;
    page.shows("return [...new Set(window.sent)]", vec![], json!(["Two."])).await;
    page.run("window.healed = true", vec![]).await;
    page.press("Send").await;
    page.sees("Third answer.").await;
    page.shows(SAID, vec![], json!(["One.", "Two.", "Three."])).await;
    assert_eq!((draft(&page).await, said(&page).await), (json!(""), 3));
    page.ends_but_for(&["Unreachable"]).await;
}

#[tokio::test]
async fn what_is_typed_while_a_message_is_sent_stays_and_what_was_sent_does_not() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    otherwise(
        &page,
        "if (url.endsWith('/messages')) await new Promise((go) => (window.release = go)); return real()",
    )
    .await;
    page.say("Two.").await;
    page.until("it is sent", "return window.release").await;
    page.types("And more").await;
    page.run("window.release()", vec![]).await;
    page.sees("Second answer.").await;
    assert_eq!(draft(&page).await, "And more");
    page.press("New conversation").await;
    page.sees("What would you like to do").await;
    assert_eq!(draft(&page).await, "");
    page.ends().await;
}

#[tokio::test]
async fn two_files_of_one_name_are_two_files() {
    let server = scripted(vec![Turn::Say("Both are read.")]);
    let page = Page::signed_in(&server).await;
    for text in ["1", "2"] {
        page.attach("figures.csv", text).await;
    }
    page.sees("figures (2).csv").await;
    page.say("Read them.").await;
    page.sees("Both are read.").await;
    page.until("both are named", "const said = all('.entry.user')[0].innerText; return ['figures.csv', 'figures (2).csv'].every((name) => said.includes(name))").await;
    page.ends().await;
}

#[tokio::test]
async fn an_emptied_argument_is_sent_empty_and_edits_are_carried_over() {
    let server = scripted(vec![
        Turn::Call(vec![("Write", json!({"file_path": "a.md", "content": "one\r\ntwo\r\n"}))]),
        Turn::Call(vec![write("b.md")]),
        Turn::Say("All is settled."),
    ]);
    let page = asked(&server).await;
    page.press("Edit…").await;
    page.write("[name='v.file_path']", "c.md").await;
    page.press("Edit as JSON").await;
    let text = page.run("return all('[name=text]')[0].value", vec![]).await;
    let arguments: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"file_path": "c.md", "content": "one\r\ntwo\r\n"}));
    page.press("Edit as form").await;
    page.until("the edit", "return all('[name=\"v.file_path\"]')[0].value === 'c.md'").await;
    page.press("Save and review").await;
    page.sees("+++ b/c.md").await;
    page.press("Approve").await;
    page.sees("b.md").await;
    page.until("the next call", "return button('Edit…')").await;
    page.press("Edit…").await;
    page.element("[name='v.content']").await.clear().await.unwrap();
    page.press("Save and review").await;
    page.until("it asks again", "return button('Approve')").await;
    page.press("Approve").await;
    page.sees("All is settled.").await;
    let key = server.key(&[]);
    // The response for an empty file has no body.
    for (name, content) in [("c.md", json!("one\r\ntwo\r\n")), ("b.md", Value::Null)] {
        let path = format!("/api/v1/threads/{}/files/content?path={name}", page.thread().await);
        let answer = server.get(&path, &key).await;
        assert_eq!((answer.status, answer.body), (200, content), "{name}");
    }
    page.ends().await;
}

#[tokio::test]
async fn arguments_are_shown_and_sent_as_they_are_written() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("All is settled.")]);
    let page = Page::signed_in(&server).await;
    let other = r#"
        if (url.endsWith('/answer')) { window.sent = options.body; return real(); }
        if (!url.includes('/interrupts?')) return real();
        const page = await (await real()).json();
        for (const one of page.data) {
          one.preview = null;
          one.arguments = '{"id": 9007199254740993, "name": "user\u202egnp.exe", "bell": "\\u0007"}';
        }
        return Response.json(page)"#;
    otherwise(&page, other).await;
    page.say("Write it.").await;
    page.sees("Allow Write to ").await;
    page.sees("9007199254740993").await;
    page.sees(r"user\u202egnp.exe").await;
    page.sees(r"\u0007").await;
    page.press("Edit…").await;
    page.press("Save and review").await;
    let sent = page.until("it is sent", "return window.sent").await;
    let sent: Value = serde_json::from_str(sent.as_str().unwrap()).unwrap();
    let arguments = json!({"id": 9_007_199_254_740_993_u64, "name": "user\u{202e}gnp.exe", "bell": "\u{7}"});
    assert_eq!(sent["answer"], json!({"kind": "edit", "arguments": arguments}));
    page.ends_but_for(&["409", "422", "400", "Problem"]).await;
}
