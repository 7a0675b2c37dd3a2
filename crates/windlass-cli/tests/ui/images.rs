//! Pictures in a conversation: from tools and from attachments of the user.

use reqwest::Method;
use serde_json::json;

use super::page::Page;
use super::{otherwise, scripted};
use crate::cli::model::Turn;
use crate::http::pictures::DOT;

/// Whether this many pictures are displayed, each in its original size.
const SHOWN: &str = "const found = all('img.picture'); return found.length === arguments[0] && found.every((one) => one.complete && one.naturalWidth === 48 && one.alt.includes('image/png'))";

// rows: ZE-H15
#[tokio::test]
async fn pictures_that_a_tool_returns_are_shown_and_opened_whole() {
    let server = scripted(vec![
        Turn::Say("Put it there."),
        Turn::Call(vec![("Read", json!({"file_path": "dot.png"}))]),
        Turn::Say("It is red."),
    ]);
    let page = Page::signed_in(&server).await;
    page.say("A picture.").await;
    page.sees("Put it there.").await;
    let thread = page.thread().await;
    let path = format!("/api/v1/threads/{thread}/files/content?path=dot.png");
    let key = server.key(&[]);
    let put = server.request(Method::PUT, &path).bearer_auth(&key).body(DOT).send().await.unwrap();
    assert!(put.status().is_success(), "{put:?}");
    page.say("Look at it.").await;
    page.sees("It is red.").await;
    let open = "document.querySelectorAll('.call').forEach((one) => (one.open = true)); return all('.call[open] .result').length > 0";
    page.until("the call is open", open).await;
    page.until_of("the picture", SHOWN, vec![1.into()]).await;
    page.driver.refresh().await.unwrap();
    page.sees("It is red.").await;
    page.until("the call is open", open).await;
    page.until_of("the picture, after a reload", SHOWN, vec![1.into()]).await;
    let link = page.run("return all('a.pictured')[0].href", vec![]).await;
    let link = link.as_str().unwrap().trim_start_matches(&server.address).to_owned();
    page.go(&link).await;
    page.until("it is whole", "return document.images[0]?.naturalWidth === 48").await;
    // The browser's page for a picture has an inline style, which the picture's policy rejects.
    page.ends_but_for(&["Applying inline style"]).await;
}

// rows: ZE-H15
#[tokio::test]
async fn a_picture_that_a_person_attached_is_shown_in_the_message() {
    let server = scripted(vec![Turn::Say("It is red.")]);
    let page = Page::signed_in(&server).await;
    page.attach("dot.png", DOT).await;
    page.say("Look.").await;
    page.sees("It is red.").await;
    page.until_of("the picture", SHOWN, vec![1.into()]).await;
    page.driver.refresh().await.unwrap();
    page.sees("It is red.").await;
    page.until_of("the picture, after a reload", SHOWN, vec![1.into()]).await;
    // If the picture cannot be loaded, its name is displayed instead.
    otherwise(&page, "return url.includes('/pictures/') ? new Response('', { status: 404 }) : real()").await;
    page.run("all('img.picture')[0].src = '/api/v1/threads/none/pictures/none'", vec![]).await;
    page.sees("Image: image/png").await;
    page.ends_but_for(&["404"]).await;
}
