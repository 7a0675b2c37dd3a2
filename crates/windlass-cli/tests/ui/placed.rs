//! Positions and sizes of elements on the page.

use serde_json::json;

use super::looks::wear;
use super::page::Page;
use super::scripted;
use crate::cli::model::Turn;
use crate::http::Server;

/// Whether a notice covers a part of the conversation.
const COVERS: &str = "const boxes = (css) => all(css).map((one) => one.getBoundingClientRect());\
    const meet = (one, other) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;\
    return boxes('.notice').some((notice) => boxes('.entry .markdown, .entry .said').some((entry) => meet(notice, entry)))";

#[tokio::test]
async fn a_message_beside_the_page_covers_nothing_of_the_conversation() {
    let server = scripted(vec![Turn::Say(
        "First answer, which fills a whole line of the conversation and somewhat more than that, so that it reaches from one side of it to the other.",
    )]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer").await;
    for (width, height) in [(1440, 900), (1280, 860), (360, 740)] {
        wear(&page, "light", width, height).await;
        let warn = "return module('state/notices.js').then((notices) => notices.warn('a run is active in this thread and may change files; wait for it, or cancel it'))";
        page.run(warn, vec![]).await;
        page.sees("A run is active in this thread").await;
        assert_eq!(page.run(COVERS, vec![]).await, false, "at {width}");
        page.press("Dismiss").await;
        page.misses("A run is active in this thread").await;
    }
    page.ends().await;
}

#[tokio::test]
async fn the_parts_of_the_settings_stand_in_one_row() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/settings").await;
    page.sees("Sign out of this browser").await;
    for (width, height) in [(1440, 900), (360, 740)] {
        wear(&page, "light", width, height).await;
        let rows = "return new Set(all('nav.tabs a').map((one) => one.offsetTop)).size";
        assert_eq!(page.run(rows, vec![]).await, 1, "at {width}");
    }
    wear(&page, "light", 1440, 900).await;
    let whole = "const tabs = all('nav.tabs')[0]; return tabs.scrollWidth <= tabs.clientWidth";
    assert_eq!(page.run(whole, vec![]).await, true, "none is out of sight");
    page.ends().await;
}

#[tokio::test]
async fn code_and_tables_are_set_as_they_are_written() {
    let text = "| city | people |\n|:---:|---:|\n| Rome | 3 |\n\n```text\ncode\n```\n\nThe end.";
    let server = scripted(vec![Turn::Say(text)]);
    let page = Page::signed_in(&server).await;
    page.say("Show me.").await;
    page.sees("The end.").await;
    let sides = "return all('.markdown td').map((cell) => getComputedStyle(cell).textAlign)";
    page.until("a table", "return all('.markdown td').length === 2").await;
    page.shows(sides, vec![], json!(["center", "right"])).await;
    let sizes = "const of = (css) => getComputedStyle(document.querySelector(css)).fontSize; return of('.code pre') === of('.code code')";
    assert_eq!(page.run(sizes, vec![]).await, true, "code in a block has the size of the block");
    page.ends().await;
}

#[tokio::test]
async fn on_a_phone_the_list_of_runs_shows_how_each_stands() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let page = Page::signed_in(&server).await;
    page.say("Speak.").await;
    page.sees("It is said.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    wear(&page, "light", 360, 740).await;
    page.go("/runs").await;
    page.until("its status", "return all('td .state')[0]?.innerText === 'done'").await;
    let seen = "return all('td .state')[0].getBoundingClientRect().right <= 360";
    page.shows(seen, vec![], true).await;
    page.ends().await;
}
