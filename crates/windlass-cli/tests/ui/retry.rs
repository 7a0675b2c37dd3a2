//! Retried messages: after a failure or cancellation in the same conversation, otherwise in a fork.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::page::Page;
use super::{answered_twice, asked, otherwise, scripted, scripted_for, write};
use crate::cli::User;
use crate::cli::model::Turn;
use crate::http::Server;

/// The user's messages, with the number of their files.
async fn said(page: &Page) -> Value {
    let said = "return [...document.querySelectorAll('.entry.user')].map((one) => [one.querySelector('.said').firstChild.textContent.trim(), one.querySelectorAll('.chips li').length])";
    page.run(said, vec![]).await
}

/// Number of buttons to retry, including those that are only visible on hover.
const BUTTONS: &str = "return [...document.querySelectorAll('.entry button, .after-note button')].filter((one) => one.innerText === 'Try again').length";

/// Presses the first button to retry.
const TRY: &str =
    "[...document.querySelectorAll('.entry button')].find((one) => one.innerText === 'Try again').click()";

#[tokio::test]
async fn after_a_failure_the_same_is_said_again_in_the_same_conversation() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Refuse("no such key here")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    page.say("Two.").await;
    page.until("it has failed", "return all('.note[data-tone=error]').length === 1").await;
    page.driver.refresh().await.unwrap();
    page.sees("Two.").await;
    page.press("Try again").await;
    page.until("it fails again", "return all('.note[data-tone=error]').length === 2").await;
    assert_eq!(said(&page).await, json!([["One.", 0], ["Two.", 0], ["Two.", 0]]));
    page.until("the last one alone can be tried", &format!("{BUTTONS} === 1")).await;
    page.ends().await;
}

#[tokio::test]
async fn after_a_stop_the_same_is_said_again_with_its_files() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("It is read.")]);
    let page = Page::signed_in(&server).await;
    page.attach("figures.csv", "a,b\n1,2\n").await;
    page.sees("figures.csv").await;
    page.say("Read it.").await;
    page.sees("Allow Write to ").await;
    page.press("Stop").await;
    page.sees("Stopped.").await;
    page.press("Try again").await;
    page.sees("It is read.").await;
    assert_eq!(said(&page).await, json!([["Read it.", 1], ["Read it.", 1]]));
    page.ends().await;
}

#[tokio::test]
async fn an_answer_is_tried_again_beside_the_first_and_leads_to_its_steps() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = answered_twice(&server).await;
    page.until("the last answer alone can be tried", &format!("{BUTTONS} === 1")).await;
    let parent = page.thread().await;
    page.run(TRY, vec![]).await;
    let there = format!(
        "return location.pathname.startsWith('/chat/') && location.pathname !== '/chat/{parent}' && all('.entry.assistant .markdown').length === 2"
    );
    page.until("another conversation, with its answer", &there).await;
    page.until("it is over", "return all('.stop').length === 0").await;
    assert_eq!(said(&page).await, json!([["One.", 0], ["Two.", 0]]));
    let thread = page.thread().await;
    let own = page.asks(&format!("/runs?thread={thread}")).await["data"][0]["id"].clone();
    let steps = "return [...document.querySelectorAll('.entry.assistant .actions a')].at(-1).pathname";
    page.shows(steps, vec![], format!("/runs/{}", own.as_str().unwrap())).await;
    page.run("[...document.querySelectorAll('.entry.assistant .actions a')].at(-1).click()", vec![]).await;
    page.until("its steps", "return location.pathname.startsWith('/runs/') && text().includes('Step 1')")
        .await;
    page.ends().await;
}

#[tokio::test]
async fn a_retry_includes_every_message_that_its_run_received() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("It is written.")]);
    let page = asked(&server).await;
    let parent = page.thread().await;
    page.attach("figures.csv", "a,b\n1,2\n").await;
    page.sees("figures.csv").await;
    page.element("[data-key=composer]").await.send_keys("With these figures.").await.unwrap();
    page.press("Send now").await;
    page.sees("after the current step").await;
    page.press("Approve").await;
    page.sees("It is written.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    assert_eq!(said(&page).await, json!([["Write it.", 0], ["With these figures.", 1]]));
    page.run(TRY, vec![]).await;
    let there = format!(
        "return location.pathname.startsWith('/chat/') && location.pathname !== '/chat/{parent}' && text().includes('Allow Write to ')"
    );
    page.until("another conversation, that asks too", &there).await;
    assert_eq!(said(&page).await, json!([["Write it.\n\nWith these figures.", 1]]));
    page.ends().await;
}

/// A conversation that wrote a file and then replied.
async fn written(server: &Server) -> Page {
    let page = asked(server).await;
    page.press("Approve").await;
    page.sees("It is written.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    page.say("Show it.").await;
    page.sees("It is shown.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    page
}

// rows: ZE-P9
#[tokio::test]
async fn what_is_tried_again_or_edited_has_the_files_that_its_history_speaks_of() {
    let says = ["It is written.", "It is shown."].map(Turn::Say);
    let server = scripted([Turn::Call(vec![write("a.md")])].into_iter().chain(says).collect());
    let page = written(&server).await;
    let (parent, key) = (page.thread().await, server.key(&[]));
    let has_file = async |thread: &str| {
        let path = format!("/api/v1/threads/{thread}/files/content?path=a.md");
        server.get(&path, &key).await.status == 200
    };
    let elsewhere = |words: &str| {
        format!(
            "return location.pathname.startsWith('/chat/') && location.pathname !== '/chat/{parent}' && all('.entry.user .said').at(-1)?.innerText.trim() === '{words}' && text().includes('It is shown.') && all('.stop').length === 0"
        )
    };
    page.run(TRY, vec![]).await;
    page.until("another conversation", &elsewhere("Show it.")).await;
    assert!(has_file(&page.thread().await).await && has_file(&parent).await);
    page.go(&format!("/chat/{parent}")).await;
    page.sees("It is shown.").await;
    page.run("all('.entry.user')[1].querySelectorAll('button').forEach((one) => named(one) === 'Edit' && one.click())", vec![]).await;
    page.write(".entry.user textarea", "Show it otherwise.").await;
    page.run("all('.entry.user form')[0].requestSubmit()", vec![]).await;
    page.until("another conversation", &elsewhere("Show it otherwise.")).await;
    assert!(has_file(&page.thread().await).await && has_file(&parent).await);
    page.ends().await;
}

// rows: ZE-P9
#[tokio::test]
async fn a_roll_back_is_not_offered_while_a_run_works() {
    let end = Arc::new(OnceLock::new());
    let deltas = vec![json!({"content": "It begins."}), json!({"content": " It ends."})];
    let server = scripted(vec![Turn::Say("First answer."), Turn::Held(end.clone(), deltas)]);
    let page = Page::signed_in(&server).await;
    let offered = "return [...document.querySelectorAll('.entry button')].filter((one) => one.innerText === 'Roll back').length === arguments[0]";
    page.say("One.").await;
    page.sees("First answer.").await;
    page.until_of("it is offered", offered, vec![1.into()]).await;
    page.say("Two.").await;
    page.sees("It begins.").await;
    page.until_of("it is not offered", offered, vec![0.into()]).await;
    end.set(()).unwrap();
    page.sees("It ends.").await;
    page.until_of("it is offered again", offered, vec![2.into()]).await;
    page.ends().await;
}

/// The second message as in a page of messages that has no room for long texts.
const NAMED: &str = "if (!url.includes('/messages?')) return real();
    const page = await (await real()).json();
    for (const one of page.data) for (const block of one.blocks)
      if (block.text === 'Two.') block.text = { digest: '0'.repeat(64), media_type: 'text/plain', size_bytes: 20000, tokens: 5000 };
    return Response.json(page)";

#[tokio::test]
async fn a_text_that_is_only_named_is_neither_changed_nor_said_again() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = answered_twice(&server).await;
    let thread = page.thread().await;
    page.press("New conversation").await;
    page.sees("What would you like to do").await;
    otherwise(&page, NAMED).await;
    page.element(&format!("a[href='/chat/{thread}']")).await.click().await.unwrap();
    page.sees("[long text, not loaded: 20000 bytes]").await;
    let edits = "return [...document.querySelectorAll('.entry.user')].map((one) => [...one.querySelectorAll('button')].some((one) => one.innerText === 'Edit'))";
    page.shows(edits, vec![], json!([true, false])).await;
    page.run(TRY, vec![]).await;
    page.sees("too long to be sent again from here").await;
    assert_eq!(page.thread().await, thread);
    page.ends_but_for(&["The message is too long to be sent again"]).await;
}

/// Rolls the second message back and sends another one instead.
async fn instead(page: &Page, words: &str) {
    let back = "[...document.querySelectorAll('.entry.user')][1].querySelectorAll('button').forEach((one) => named(one) === 'Roll back' && one.click())";
    page.run(back, vec![]).await;
    page.sees("Rolled back to here").await;
    page.say(words).await;
}

#[tokio::test]
async fn a_fork_names_the_files_that_may_not_be_as_they_were() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = answered_twice(&server).await;
    let put = "const [thread] = arguments; return fetch(`/api/v1/threads/${thread}/files/content?path=figures.csv`, { method: 'PUT', body: 'a,b' }).then((answer) => answer.status)";
    assert_eq!(page.run(put, vec![page.thread().await.into()]).await, 201);
    instead(&page, "Three.").await;
    page.sees("1 file may differ from this point").await;
    page.element(".notice summary").await.click().await.unwrap();
    page.sees("figures.csv: a command, an upload or another program changed it after this event").await;
    page.ends().await;
}

#[tokio::test]
async fn a_fork_in_the_same_folder_says_so() {
    let user = User::new();
    user.configure("[files]\nfolder = \"user\"\n");
    let server = scripted_for(user, vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = answered_twice(&server).await;
    instead(&page, "Three.").await;
    page.sees("Both conversations share one folder.").await;
    page.ends().await;
}
