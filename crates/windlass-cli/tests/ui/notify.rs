//! Browser notifications: permission, display while the page is hidden, and their links.

use serde_json::{Value, json};

use super::page::Page;
use super::{scripted, write};
use crate::cli::model::Turn;
use crate::http::Server;

/// A fake notification API that records notifications; `window.away` sets whether the page is hidden.
const FAKE: &str = "window.told = [];
    window.Notification = class {
        static permission = 'default';
        static async requestPermission() { return (Notification.permission = 'granted'); }
        constructor(title, options) { Object.assign(this, { title, ...options }); window.told.push(this); }
        close() { this.closed = true; }
    };
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => window.away ?? false })";

async fn told(page: &Page) -> Value {
    page.run("return window.told.map((one) => [one.title, one.body])", vec![]).await
}

/// An inbox page with notifications enabled.
async fn wanting(server: &Server) -> Page {
    let page = Page::signed_in(server).await;
    page.run(FAKE, vec![]).await;
    page.press("Inbox").await;
    page.press("Turn on notifications").await;
    page.until(
        "it is asked once",
        "return Notification.permission === 'granted' && !button('Turn on notifications')",
    )
    .await;
    page
}

/// Starts a run over the API, and waits until the page knows that it is active or waiting. Returns its thread.
async fn begun(server: &Server, page: &Page, message: &str) -> String {
    let sent = server.post("/api/v1/runs", &server.key(&[]), &json!({"message": message})).await;
    let thread = sent.body["thread"].as_str().unwrap().to_owned();
    let heard = "Promise.all([module('state/inbox.js'), module('state/threads.js')]).then(([inbox, { refresh, threads }]) => {
            window.heard = threads.value.find((one) => one.id === arguments[0])?.status ?? 'idle';
            if (window.heard === 'idle') return Promise.all([inbox.load(), refresh()]);
        });
        return (window.heard ?? 'idle') !== 'idle'";
    page.run("window.heard = undefined", vec![]).await;
    page.until_of("it is heard of", heard, vec![thread.clone().into()]).await;
    thread
}

#[tokio::test]
async fn a_hidden_page_notifies_about_interrupts_and_finished_runs() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("All is settled.")]);
    let page = wanting(&server).await;
    // A visible page needs no notification.
    begun(&server, &page, "The first.").await;
    let read =
        "module('state/inbox.js').then((inbox) => inbox.load()); return text().includes('In “The first.”')";
    page.until("it is shown", read).await;
    assert_eq!(told(&page).await, json!([]));
    page.run("window.away = true", vec![]).await;
    let thread = begun(&server, &page, "The second.").await;
    let read = "module('state/inbox.js').then((inbox) => inbox.load()); return window.told.length > 0";
    page.until("a notification is shown", read).await;
    assert_eq!(
        told(&page).await,
        json!([["Windlass needs your input", "Allow Write to create a.md? (The second.)"]])
    );
    page.run("window.told[0].onclick()", vec![]).await;
    page.sees("Allow Write to ").await;
    assert_eq!(page.thread().await, thread);
    page.until("its call", "return all('.call .ask').length === 1 && all('.ask').length === 1").await;
    page.shows("return window.told[0].closed", vec![], true).await;
    page.press("Approve").await;
    page.sees("All is settled.").await;
    page.until("a notification is shown", "return window.told.length === 2").await;
    assert_eq!(told(&page).await[1], json!(["The second.", "The run is done."]));
    page.press("Inbox 1").await;
    page.sees("In “The first.”").await;
    page.run("window.told[1].onclick()", vec![]).await;
    page.sees("All is settled.").await;
    assert_eq!(page.thread().await, thread);
    // If the user may answer but not read a conversation, the link leads to the inbox.
    let other = "return module('state/inbox.js').then((inbox) => inbox.replace('thr_other', inbox.inbox.value.slice(0, 1).map((one) => ({ ...one, id: 'other', thread: 'thr_other', readable: false }))))";
    page.run(other, vec![]).await;
    page.run("window.told[2].onclick()", vec![]).await;
    page.until("the inbox", "return location.pathname === '/inbox'").await;
    page.ends().await;
}

#[tokio::test]
async fn a_hidden_page_notifies_about_a_failed_run() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Refuse("no credit is left")]);
    let page = wanting(&server).await;
    let thread = begun(&server, &page, "Do it.").await;
    page.go(&format!("/chat/{thread}")).await;
    page.sees("Allow Write to ").await;
    page.element(".history .thread .asks").await;
    page.run(FAKE, vec![]).await;
    page.run("Notification.permission = 'granted'", vec![]).await;
    page.run("window.away = true", vec![]).await;
    page.press("Approve").await;
    page.until("a notification is shown", "return window.told.length === 1").await;
    assert_eq!(told(&page).await, json!([["Do it.", "The run failed."]]));
    page.ends().await;
}

#[tokio::test]
async fn what_was_asked_before_the_page_opened_is_not_told_as_new() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")])]);
    let page = wanting(&server).await;
    begun(&server, &page, "Do it.").await;
    let read =
        "module('state/inbox.js').then((inbox) => inbox.load()); return text().includes('In “Do it.”')";
    page.until("it is shown", read).await;
    // Simulates a page that opens a conversation, whose interrupts arrive before the inbox.
    let opened = "window.away = true;
        return module('state/inbox.js?anew').then(async (inbox) => {
            inbox.replace('thr_other', []);
            await inbox.load();
            const old = window.told.length;
            inbox.replace('thr_other', inbox.inbox.value.map((one) => ({ ...one, id: 'new', thread: 'thr_other' })));
            return [inbox.inbox.value.length, old, window.told.length];
        })";
    assert_eq!(page.run(opened, vec![]).await, json!([2, 0, 1]));
    page.ends().await;
}
