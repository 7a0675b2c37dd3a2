//! The menu of a conversation in the sidebar: one at a time, fully visible, and closed by a click elsewhere.

use serde_json::json;
use thirtyfour::prelude::*;

use super::page::Page;
use super::scripted;
use crate::cli::model::Turn;

/// The titles of the rows whose menus are open.
const OPEN: &str = "return [...document.querySelectorAll(':popover-open')].map((one) => one.closest('.thread').querySelector('.title').innerText)";

#[tokio::test]
async fn one_menu_is_open_at_a_time_and_none_after_a_click_elsewhere() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let page = Page::signed_in(&server).await;
    for message in ["One.", "Two."] {
        page.press("New conversation").await;
        page.sees("What would you like to do").await;
        page.say(message).await;
        page.sees("It is said.").await;
    }
    page.until("both", "return all('.history .thread').length === 2").await;
    let press = async |title: &str| {
        page.run("all('.history .thread').at(-1).scrollIntoView()", vec![]).await;
        page.press(&format!("Actions for {title}")).await;
    };
    // A low window, so that the last row is at its bottom.
    let low = json!({"width": 900, "height": 420, "deviceScaleFactor": 1, "mobile": false});
    page.devtools("Emulation.setDeviceMetricsOverride", low).await;
    press("Two.").await;
    page.until("one", "return document.querySelector(':popover-open')").await;
    press("One.").await;
    page.until_of(
        "the other",
        &format!("return JSON.stringify((() => {{ {OPEN} }})()) === '[\"One.\"]'"),
        vec![],
    )
    .await;
    // All entries can be clicked.
    let whole = "return [...document.querySelectorAll(':popover-open > *')].map((one) => { const box = one.getBoundingClientRect(); const at = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2); return at === one })";
    page.shows(whole, vec![], json!([true, true, true])).await;
    page.element("main h1").await.click().await.unwrap();
    page.until_of("none", "return !document.querySelector(':popover-open')", vec![]).await;
    press("One.").await;
    page.types(Key::Escape + "").await;
    page.until("closed by its key", "return !document.querySelector(':popover-open')").await;
    page.until("the focus is on its button", "return named(document.activeElement) === 'Actions for One.'")
        .await;
    page.types(Key::Enter + "").await;
    page.types(Key::Tab + "").await;
    page.until("its first", "return named(document.activeElement) === 'Rename'").await;
    page.types(Key::Enter + "").await;
    page.until("the field", "return document.activeElement.name === 'title'").await;
    page.types("Uno.").await;
    page.types(Key::Enter + "").await;
    page.until("back at its row", "return document.activeElement.matches('.thread a') && document.activeElement.innerText.includes('Uno.')").await;
    page.ends().await;
}
