//! Interrupted work: an edit of a message, a message after a rollback, and a picture.

use serde_json::json;

use super::access::signed_in_as;
use super::page::Page;
use super::typing::said;
use super::{answered_twice, asked, otherwise, scripted, write};
use crate::cli::model::Turn;
use crate::http::Server;
use crate::http::auth::{PASSWORD, administrator, member};
use crate::http::pictures::DOT;

const FIELD: &str = "return all('[data-key=composer]')[0].value";

/// A conversation with a queued message, which is being edited into "And then, in short?"
async fn changing() -> (Server, Page) {
    let turns = vec![Turn::Call(vec![write("a.md")]), Turn::Say("It is written."), Turn::Say("Nothing.")];
    let server = scripted(turns);
    let page = asked(&server).await;
    page.say("And then?").await;
    page.sees("1 queued message.").await;
    let edit = "const found = all('.queue button').find((one) => named(one) === 'Edit'); found?.click(); return Boolean(found)";
    page.until("it can be changed", edit).await;
    page.write(".queue textarea", "And then, in short?").await;
    (server, page)
}

#[tokio::test]
async fn a_change_that_is_saved_while_the_run_takes_the_message_does_not_come_back() {
    let (_server, page) = changing().await;
    let late = "const answer = await real(); if (options?.method === 'PATCH') await new Promise((go) => (window.release = go)); return answer";
    otherwise(&page, late).await;
    page.press("Save").await;
    page.until("it is saved", "return window.release").await;
    page.press("Approve").await;
    page.sees("Nothing.").await;
    page.run("window.release()", vec![]).await;
    page.until(
        "it was sent as it was changed",
        "return all('.entry.user .said').at(-1).innerText.trim() === 'And then, in short?'",
    )
    .await;
    page.shows(FIELD, vec![], "").await;
    page.ends().await;
}

#[tokio::test]
async fn a_change_that_was_left_is_changed_on_and_stands_nowhere_else() {
    let (_server, page) = changing().await;
    let thread = page.thread().await;
    let there = "return all('.queue textarea')[0]?.value === 'And then, in short?'";
    page.press("New conversation").await;
    page.sees("What would you like to do").await;
    page.element(&format!("a[href='/chat/{thread}']")).await.click().await.unwrap();
    page.until("it is changed on", there).await;
    page.shows(FIELD, vec![], "").await;
    page.driver.refresh().await.unwrap();
    page.until("it is changed on after a reload", there).await;
    page.press("Save").await;
    page.until("it is saved", "return all('.queue li .clip')[0]?.innerText === 'And then, in short?'").await;
    page.shows("return Object.keys(sessionStorage)", vec![], json!([])).await;
    page.press("Approve").await;
    page.sees("Nothing.").await;
    page.ends().await;
}

#[tokio::test]
async fn what_is_typed_while_a_change_is_saved_is_not_lost_for_it_cannot_be() {
    let (_server, page) = changing().await;
    let held =
        "if (options?.method === 'PATCH') await new Promise((go) => (window.release = go)); return real()";
    otherwise(&page, held).await;
    page.press("Save").await;
    page.until("it is being saved", "return window.release").await;
    page.run("all('.queue textarea')[0].focus()", vec![]).await;
    page.types(" Or not?").await;
    page.shows("return all('.queue textarea')[0].value", vec![], "And then, in short?").await;
    page.run("window.release()", vec![]).await;
    page.until("it is saved", "return all('.queue li .clip')[0]?.innerText === 'And then, in short?'").await;
    page.ends().await;
}

#[tokio::test]
async fn a_change_that_was_left_comes_back_where_the_run_has_taken_the_message_since() {
    let (_server, page) = changing().await;
    let thread = page.thread().await;
    page.element("a[href='/inbox']").await.click().await.unwrap();
    page.press("Approve").await;
    // The user returns only after the message has left the queue.
    let taken = format!(
        "window.asked ??= fetch('/api/v1/threads/{thread}/queue').then((answer) => answer.json()).then((page) => {{
           window.taken = page.data.length === 0; window.asked = undefined;
         }});
         return window.taken"
    );
    page.until("the run has taken it", &taken).await;
    page.element(&format!("a[href='/chat/{thread}']")).await.click().await.unwrap();
    page.sees("The message is no longer in the queue.").await;
    page.until("it stands in the field", &format!("{FIELD} === 'And then, in short?'")).await;
    page.sees("Nothing.").await;
    page.driver.refresh().await.unwrap();
    page.until("and after a reload, once", &format!("{FIELD} === 'And then, in short?'")).await;
    page.ends().await;
}

#[tokio::test]
async fn a_message_after_a_roll_back_that_may_have_arrived_is_carried_out_once() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = answered_twice(&server).await;
    let parent = page.thread().await;
    let back = "[...document.querySelectorAll('.entry.user')][1].querySelectorAll('button').forEach((one) => named(one) === 'Roll back' && one.click())";
    page.run(back, vec![]).await;
    page.sees("Rolled back to here").await;
    otherwise(&page, "const answer = await real(); if (url.endsWith('/messages')) throw new TypeError('cut'); return answer").await;
    page.say("Three.").await;
    let there =
        format!("return location.pathname.startsWith('/chat/') && location.pathname !== '/chat/{parent}'");
    page.until("another conversation", &there).await;
    page.until("it stands in the field", "return all('[data-key=composer]')[0].value === 'Three.'").await;
    otherwise(&page, "return real()").await;
    page.press("Send").await;
    page.until("it is taken", "return all('[data-key=composer]')[0].value === ''").await;
    page.until("it is over", "return all('.stop').length === 0 && all('.entry.assistant').length === 2")
        .await;
    assert_eq!(said(&page).await, 2);
    page.ends_but_for(&["Unreachable"]).await;
}

#[tokio::test]
async fn a_picture_that_failed_in_a_session_that_was_over_comes_back() {
    let server = scripted(vec![Turn::Say("It is red.")]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    let page = signed_in_as(&server, "ann@example.com").await;
    page.element("[data-key=composer]").await;
    page.attach("dot.png", DOT).await;
    page.say("Look.").await;
    page.sees("It is red.").await;
    let whole = "const one = all('img.picture')[0]; return one?.complete && one.naturalWidth === 48 && one.dataset.first !== 'yes'";
    page.until("the picture", whole).await;
    page.driver.delete_all_cookies().await.unwrap();
    page.run("const one = all('img.picture')[0]; one.dataset.first = 'yes'; one.src = '/api/v1/threads/none/pictures/none'", vec![]).await;
    page.sees("Your session has ended").await;
    page.write(".veil [name=password]", PASSWORD).await;
    page.press("Sign in").await;
    page.misses("Your session has ended").await;
    page.until("the picture, once more", whole).await;
    page.ends_but_for(&["401", "404", "the request has no credential"]).await;
}
