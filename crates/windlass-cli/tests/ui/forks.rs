//! Runs inspected while they are active, forks compared with their parents, and the files of runs.

use std::sync::{Arc, OnceLock};

use serde_json::json;
use thirtyfour::prelude::*;

use super::feel::{narrow, nothing_sticks_out};
use super::page::Page;
use super::{otherwise, scripted, write};
use crate::cli::model::Turn;

/// Creates a conversation with two replies, and a fork after the first one. Returns both ids.
async fn forked(page: &Page) -> (String, String) {
    page.say("One.").await;
    page.sees("First answer.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    let parent = page.thread().await;
    page.say("Two.").await;
    page.sees("Second answer.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    let fork = "const events = await (await fetch(`/api/v1/threads/${arguments[0]}/events`)).json();\
        const at = events.data.find((event) => event.type === 'run.finished').seq;\
        const made = await fetch(`/api/v1/threads/${arguments[0]}/fork`, { method: 'POST', headers: { 'content-type': 'application/json', 'idempotency-key': 'k' }, body: JSON.stringify({ at }) });\
        return (await made.json()).id";
    let fork = format!(
        "const given = arguments; return (async () => {{ {} }})()",
        fork.replace("arguments", "given")
    );
    let fork = page.run(&fork, vec![parent.clone().into()]).await.as_str().unwrap().to_owned();
    (parent, fork)
}

#[tokio::test]
async fn a_fork_is_compared_with_its_parent() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = Page::signed_in(&server).await;
    let (parent, fork) = forked(&page).await;
    let told = page.asks(&format!("/threads/{fork}")).await;
    assert_eq!(told["forked_from"]["thread"], parent, "{told}");
    assert_eq!(page.asks(&format!("/threads/{parent}")).await["forked_from"], json!(null));
    page.go(&format!("/compare?fork={fork}")).await;
    page.sees("The fork has no new runs yet").await;
    page.go(&format!("/chat/{fork}")).await;
    page.sees("First answer.").await;
    page.say("Otherwise.").await;
    page.sees("Second answer.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    page.driver.find(By::Css("a[href^='/runs?thread=']")).await.unwrap().click().await.unwrap();
    page.press("Compare with parent").await;
    page.sees("Fork and parent").await;
    let shown = page.run("return all('thead a').map((one) => one.pathname.slice(6))", vec![]).await;
    let newest = async |thread: &str| {
        page.asks(&format!("/runs?thread={thread}&limit=1")).await["data"][0]["id"].clone()
    };
    assert_eq!(shown, json!([newest(&parent).await, newest(&fork).await]));
    // The list of runs shows the titles of conversations.
    page.go("/runs").await;
    page.until("the names", "return all('td a[href^=\"/chat/\"]').some((one) => one.innerText === 'One.')")
        .await;
    page.ends().await;
}

#[tokio::test]
async fn a_fork_says_that_its_parent_is_gone() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = Page::signed_in(&server).await;
    let (parent, fork) = forked(&page).await;
    let delete = "return fetch(`/api/v1/threads/${arguments[0]}`, { method: 'DELETE' }).then((answer) => answer.status)";
    assert_eq!(page.run(delete, vec![parent.into()]).await, 204);
    page.go(&format!("/compare?fork={fork}")).await;
    page.sees("The parent conversation was deleted").await;
    let ways = "return all('.empty a').map((one) => [named(one), one.pathname])";
    page.shows(ways, vec![], json!([["Open fork", format!("/chat/{fork}")]])).await;
    page.ends_but_for(&["404"]).await;
}

/// A reply that ends when the test releases it.
fn held() -> (Arc<OnceLock<()>>, Turn) {
    let end = Arc::new(OnceLock::new());
    let deltas = vec![json!({"content": "It begins."}), json!({"content": " It ends."})];
    (end.clone(), Turn::Held(end, deltas))
}

#[tokio::test]
async fn a_running_run_is_followed_from_its_first_event() {
    let (end, answer) = held();
    let server = scripted(vec![
        Turn::Say("First answer."),
        Turn::Call(vec![("Glob", json!({"pattern": "*"}))]),
        answer,
    ]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    page.run("window.asked = []", vec![]).await;
    otherwise(&page, "window.asked.push(url); return real()").await;
    page.say("Two.").await;
    page.sees("It begins.").await;
    page.driver.find(By::Css("a[href^='/runs?thread=']")).await.unwrap().click().await.unwrap();
    page.element("table.list a[href^='/runs/']").await.click().await.unwrap();
    page.until("it is running", IS_RUNNING).await;
    let first =
        page.run("return window.asked.filter((url) => url.includes('/events?')).at(-1)", vec![]).await;
    assert!(!first.as_str().unwrap().contains("after=0"), "the journal is read from its beginning: {first}");
    end.set(()).unwrap();
    // The page updates without user input.
    page.until("it has ended", "return all('h1 + .state')[0]?.innerText === 'done'").await;
    page.press("Steps").await;
    page.until("its second step", "return all('.timeline h2').at(-1)?.innerText === 'Step 2' && all('.timeline .quiet').at(-1).innerText.startsWith('replied')").await;
    let pressed = "return all('.tabs [aria-pressed=true]').map(named).join()";
    page.shows(pressed, vec![], "Steps").await;
    page.ends().await;
}

/// The status of the displayed run, from the server, unaffected by altered responses.
const STANDS: &str = "const stands = async () => (await (await window.through(`/api/v1/runs/${location.pathname.slice(6)}`)).json()).status;";

/// Whether the run is displayed as active.
const IS_RUNNING: &str = "return all('h1 + .state')[0]?.innerText === 'running'";

/// Opens an active run, with the page's requests answered by a script.
async fn looked_into(page: &Page, answer: &str) {
    page.say("One.").await;
    page.sees("It begins.").await;
    otherwise(page, answer).await;
    page.driver.find(By::Css("a[href^='/runs?thread=']")).await.unwrap().click().await.unwrap();
    page.element("table.list a[href^='/runs/']").await.click().await.unwrap();
}

/// Waits until the run is displayed as finished.
async fn shown_to_its_end(page: &Page) {
    page.until("it has ended", "return all('h1 + .state')[0]?.innerText === 'done'").await;
    let cards = "return all('.cards dd').slice(1, 3).map((one) => one.innerText)";
    page.shows(cards, vec![], json!(["1", "0"])).await;
    page.sees("replied").await;
}

#[tokio::test]
async fn a_run_that_ends_while_its_page_is_read_has_ended_there() {
    let (end, answer) = held();
    let server = scripted(vec![answer]);
    let page = Page::signed_in(&server).await;
    let late = "const isRun = location.pathname.startsWith('/runs/'); \
        while (isRun && url.includes('/events?') && (await stands()) === 'running') await new Promise((then) => ((window.held = true), setTimeout(then, 50))); \
        return real()";
    looked_into(&page, &format!("{STANDS} {late}")).await;
    page.until("its events are not read before it has ended", "return window.held").await;
    end.set(()).unwrap();
    shown_to_its_end(&page).await;
    page.ends().await;
}

#[tokio::test]
async fn the_end_of_a_run_is_read_again_where_that_fails() {
    let (end, answer) = held();
    let server = scripted(vec![answer]);
    let page = Page::signed_in(&server).await;
    // Requests after the end fail until the page has received all events.
    let fails = "if (url.includes('/stream?')) { \
            const answer = await real(); \
            const text = new TextDecoder(); \
            const look = new TransformStream({ transform(piece, onwards) { \
                window.told = (window.told ?? '') + text.decode(piece, { stream: true }); \
                onwards.enqueue(piece); \
            } }); \
            return new Response(answer.body.pipeThrough(look), answer); \
        } \
        if (!url.includes('/events?') || window.works || (await stands()) !== 'done') return real(); \
        window.failed = true; \
        return new Response('{}', { status: 500, headers: { 'content-type': 'application/problem+json' } })";
    looked_into(&page, &format!("{STANDS} {fails}")).await;
    page.until("it is running", IS_RUNNING).await;
    end.set(()).unwrap();
    page.until("its end is announced", "return window.failed && window.told.includes('run.finished')").await;
    page.run("window.works = true", vec![]).await;
    shown_to_its_end(&page).await;
    page.ends().await;
}

#[tokio::test]
async fn files_are_listed_entered_and_downloaded_by_keys_and_on_a_phone() {
    let server = scripted(vec![
        Turn::Say("First answer."),
        Turn::Call(vec![write("deep/in/a.md"), write("b.md")]),
        Turn::Say("All is settled."),
    ]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    page.press("Files").await;
    page.sees("No files yet").await;
    page.types(Key::Escape + "").await;
    page.misses("No files yet").await;
    page.say("Write it.").await;
    page.press("Approve all").await;
    page.sees("All is settled.").await;
    narrow(&page).await;
    page.press("Files").await;
    page.sees("deep/").await;
    page.until(
        "both, folders first",
        "return all('.files li').map((one) => one.innerText.split('\\n')[0].trim()).join() === 'deep/,b.md'",
    )
    .await;
    nothing_sticks_out(&page, "the list of files").await;
    let inside = "const box = all('dialog')[0].getBoundingClientRect(); return box.left >= 0 && box.right <= 360 && all('dialog')[0].scrollWidth <= box.width";
    assert_eq!(page.run(inside, vec![]).await, true);
    let focused = "return named(document.activeElement) === arguments[0]";
    let back = async |next: &str| {
        let keys = page.driver.action_chain().key_down(Key::Shift).send_keys(Key::Tab).key_up(Key::Shift);
        keys.perform().await.unwrap();
        page.until_of(next, focused, vec![next.into()]).await;
    };
    page.until_of("the button", focused, vec!["Close".into()]).await;
    back("b.md").await;
    back("deep/").await;
    for next in ["in/", "a.md"] {
        page.types(Key::Enter + "").await;
        page.until_of("what is in it", focused, vec![next.into()]).await;
    }
    let file = page
        .run("const one = all('.files a')[0]; return [one.download, one.pathname + one.search]", vec![])
        .await;
    assert_eq!(file[0], "a.md");
    let text =
        page.run("return fetch(arguments[0]).then((answer) => answer.text())", vec![file[1].clone()]).await;
    assert_eq!(text, "first line\nsecond line\n");
    back("deep").await;
    back("Folder").await;
    page.types(Key::Enter + "").await;
    page.until_of("the first of it", focused, vec!["deep/".into()]).await;
    page.types(Key::Tab + "").await;
    page.until_of("the next", focused, vec!["b.md".into()]).await;
    page.press("Close").await;
    page.until("it is closed", "return all('dialog').length === 0").await;
    page.ends_but_for(&["404"]).await;
}

// rows: SK-U12
#[tokio::test]
async fn a_range_of_ones_own_is_in_utc_and_kept() {
    let server = scripted(vec![Turn::Say("First answer.")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    page.devtools("Emulation.setTimezoneOverride", json!({"timezoneId": "Asia/Tokyo"})).await;
    page.go("/usage").await;
    page.press("custom").await;
    page.sees("Choose a start and a later end").await;
    page.run("window.asked = []", vec![]).await;
    otherwise(&page, "window.asked.push(url); return real()").await;
    for (name, value) in [("from", "2026-01-02T03:04"), ("until", "2036-01-02T03:04")] {
        super::choose(&page, &format!("[name={name}]"), value).await;
    }
    page.sees("Approval rate").await;
    let asked = page.run("return window.asked.filter((url) => url.includes('/usage?')).at(-1)", vec![]).await;
    let from = 1_767_323_040_000_u64;
    assert!(asked.as_str().unwrap().contains(&format!("from={from}&")), "{asked}");
    page.driver.refresh().await.unwrap();
    page.sees("Approval rate").await;
    let kept = "return ['from', 'until'].map((name) => document.querySelector(`[name=${name}]`).value)";
    page.shows(kept, vec![], json!(["2026-01-02T03:04", "2036-01-02T03:04"])).await;
    // Administrators see the owner of each run.
    page.sees("By user").await;
    page.sees("Local administrator").await;
    page.ends().await;
}
