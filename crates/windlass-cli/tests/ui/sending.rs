//! Parts of a message: files, which are uploaded before it, and the sender's time zone. Also sending by touch.

use serde_json::{Value, json};

use super::page::Page;
use super::{otherwise, scripted};
use crate::cli::model::Turn;

/// Drops files with these names on the page.
async fn drop_files(page: &Page, names: &[&str]) {
    let script = "const data = new DataTransfer();
         for (const name of arguments[0]) data.items.add(new File([name], name, { type: 'text/plain' }));
         for (const name of ['dragover', 'drop']) document.body.dispatchEvent(new DragEvent(name, { bubbles: true, cancelable: true, dataTransfer: data }))";
    page.run(script, vec![json!(names)]).await;
    let there = "return all('.composer .chips li').length === arguments[0]";
    page.until_of("they are attached", there, vec![names.len().into()]).await;
}

/// Holds each upload until the test releases it.
const HOLD: &str = "if (options?.method === 'PUT' && url.includes('/files/')) await new Promise((go) => (window.release = go)); return real()";

/// Releases the next upload.
async fn release(page: &Page) {
    let go = "const go = window.release; window.release = null; go?.(); return Boolean(go)";
    page.until("an upload that waits", go).await;
}

#[tokio::test]
async fn a_message_is_shown_while_its_files_go_up_and_nothing_of_them_is_left_over() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = Page::signed_in(&server).await;
    otherwise(&page, HOLD).await;
    drop_files(&page, &["a.txt", "b.txt"]).await;
    page.say("One.").await;
    let shown = "return all('.entry.user[data-status=sending]').map((one) => one.innerText.replace(/\\s+/g, ' ').trim()).join() === arguments[0]";
    for words in ["One. Uploading 1 of 2…", "One. Uploading 2 of 2…"] {
        page.until_of(words, shown, vec![words.into()]).await;
        release(&page).await;
    }
    page.sees("First answer.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    drop_files(&page, &["c.txt"]).await;
    page.say("Two.").await;
    page.until_of("the second", shown, vec!["Two. Uploading…".into()]).await;
    release(&page).await;
    page.sees("Second answer.").await;
    let files = "return [...document.querySelectorAll('.entry.user')].map((one) => one.querySelectorAll('.chips li').length)";
    page.shows(files, vec![], json!([2, 1])).await;
    let left = "if (window.looking) return window.left === 0; window.looking = true;\
        fetch('/api/v1/files').then((answer) => answer.json()).then((page) => { window.left = page.data.length; window.looking = window.left === 0; }); return false";
    page.until("the uploads are gone", left).await;
    page.ends().await;
}

/// Drops a file as soon as the document has a message field.
const EARLY: &str = "new MutationObserver((_, observer) => {
    if (!document.querySelector('[data-key=composer]')) return;
    observer.disconnect();
    const data = new DataTransfer();
    data.items.add(new File(['early'], 'early.txt', { type: 'text/plain' }));
    document.body.dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: data }));
    window.dropped = true;
}).observe(document, { childList: true, subtree: true })";

#[tokio::test]
async fn a_file_that_is_dropped_as_soon_as_the_field_is_visible_is_attached() {
    let server = scripted(vec![]);
    let page = Page::signed_in(&server).await;
    page.devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": EARLY})).await;
    page.driver.refresh().await.unwrap();
    page.until("it is dropped", "return window.dropped").await;
    page.until("it is attached", "return all('.composer .chips li').length === 1").await;
    page.ends().await;
}

#[tokio::test]
async fn files_that_were_chosen_are_there_after_a_look_elsewhere() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    let thread = page.thread().await;
    drop_files(&page, &["a.txt"]).await;
    page.press("New conversation").await;
    page.sees("What would you like to do").await;
    assert_eq!(page.number_of(".composer .chips li").await, 0);
    page.element(&format!("a[href='/chat/{thread}']")).await.click().await.unwrap();
    page.sees("First answer.").await;
    page.sees("a.txt").await;
    page.say("Two.").await;
    page.sees("Second answer.").await;
    assert_eq!(page.number_of(".composer .chips li").await, 0);
    page.until("it went along", "return all('.entry.user')[1].querySelectorAll('.chips li').length === 1")
        .await;
    page.ends().await;
}

#[tokio::test]
async fn a_message_contains_the_senders_time_zone() {
    let server = scripted(vec![Turn::Say("First answer."), Turn::Say("Second answer.")]);
    let page = Page::signed_in(&server).await;
    page.devtools("Emulation.setTimezoneOverride", json!({"timezoneId": "Asia/Tokyo"})).await;
    otherwise(
        &page,
        "if (options?.method === 'POST' && /\\/(runs|messages)$/.test(url)) (window.sent ??= []).push(JSON.parse(options.body).timezone); return real()",
    )
    .await;
    page.say("One.").await;
    page.sees("First answer.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    page.say("Two.").await;
    page.sees("Second answer.").await;
    page.shows("return window.sent", vec![], json!(["Asia/Tokyo", "Asia/Tokyo"])).await;
    page.ends().await;
}

#[tokio::test]
async fn the_return_key_of_a_touch_screen_breaks_the_line_and_the_button_sends() {
    let server = scripted(vec![Turn::Say("First answer.")]);
    let page = Page::signed_in(&server).await;
    page.devtools("Emulation.setTouchEmulationEnabled", json!({"enabled": true})).await;
    page.until("it is a touch screen", "return matchMedia('(pointer: coarse)').matches").await;
    page.say("One.").await;
    page.say("Two").await;
    let typed: Value = page.run("return all('[data-key=composer]')[0].value", vec![]).await;
    assert_eq!(typed, "One.\nTwo\n");
    page.press("Send").await;
    page.sees("First answer.").await;
    page.ends().await;
}
