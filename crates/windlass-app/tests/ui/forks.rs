//! Runs looked into while they go on, forks beside their parents, and the files that runs leave.

use std::time::Duration;

use serde_json::json;
use thirtyfour::prelude::*;

use super::feel::{narrow, nothing_sticks_out};
use super::page::Page;
use super::{otherwise, scripted, write};
use crate::cli::model::Turn;

/// Two answers, and another conversation that begins after the first of them.
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
    page.sees("The fork has not gone on yet").await;
    page.go(&format!("/chat/{fork}")).await;
    page.sees("First answer.").await;
    page.say("Otherwise.").await;
    page.sees("Second answer.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    page.driver.find(By::Css("a[href^='/runs?thread=']")).await.unwrap().click().await.unwrap();
    page.press("Compare with the parent").await;
    page.sees("A fork and its parent").await;
    let shown = page.run("return all('thead a').map((one) => one.pathname.slice(6))", vec![]).await;
    let newest = async |thread: &str| {
        page.asks(&format!("/runs?thread={thread}&limit=1")).await["data"][0]["id"].clone()
    };
    assert_eq!(shown, json!([newest(&parent).await, newest(&fork).await]));
    // Runs name their conversations.
    page.go("/runs").await;
    page.until("the names", "return all('td a[href^=\"/chat/\"]').some((one) => one.innerText === 'One.')")
        .await;
    page.ends().await;
}

#[tokio::test]
async fn a_run_that_goes_on_is_followed_from_where_it_begins() {
    let deltas = vec![json!({"content": "It begins."}), json!({"content": " It ends."})];
    let server = scripted(vec![
        Turn::Say("First answer."),
        Turn::Call(vec![("Glob", json!({"pattern": "*"}))]),
        Turn::Slowly(Duration::from_secs(4), deltas),
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
    page.until("it goes on", "return all('h1 + .state')[0]?.innerText === 'running'").await;
    let first =
        page.run("return window.asked.filter((url) => url.includes('/events?')).at(-1)", vec![]).await;
    assert!(!first.as_str().unwrap().contains("after=0"), "the journal is read from its beginning: {first}");
    // Nobody presses anything.
    page.until("it has ended", "return all('h1 + .state')[0]?.innerText === 'done'").await;
    page.press("Steps").await;
    page.until("its second step", "return all('.timeline h2').at(-1)?.innerText === 'Step 2' && all('.timeline .quiet').at(-1).innerText.startsWith('replied')").await;
    let pressed = "return all('.tabs [aria-pressed=true]').map(named).join()";
    assert_eq!(page.run(pressed, vec![]).await, "Steps");
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
    for (name, next) in [("deep/", "in/"), ("in/", "a.md")] {
        let focused = "const one = all('.files button').find((one) => named(one) === arguments[0]); one.focus(); return true";
        page.until_of("the folder", focused, vec![name.into()]).await;
        page.types(Key::Enter + "").await;
        let there = "return all('.files li').some((one) => one.innerText.trim().startsWith(arguments[0]))";
        page.until_of("what is in it", there, vec![next.into()]).await;
    }
    let file = page
        .run("const one = all('.files a')[0]; return [one.download, one.pathname + one.search]", vec![])
        .await;
    assert_eq!(file[0], "a.md");
    let text =
        page.run("return fetch(arguments[0]).then((answer) => answer.text())", vec![file[1].clone()]).await;
    assert_eq!(text, "first line\nsecond line\n");
    page.press("The folder").await;
    page.sees("b.md").await;
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
    page.sees("Choose when it begins").await;
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
    assert_eq!(page.run(kept, vec![]).await, json!(["2026-01-02T03:04", "2036-01-02T03:04"]));
    // Administrators see whose runs they are.
    page.sees("By person").await;
    page.sees("Local administrator").await;
    page.ends().await;
}
