//! Navigation by keys, by links and by the browser's history, with a title for each page.

use serde_json::json;
use thirtyfour::prelude::*;

use super::page::Page;
use super::{asked, otherwise, scripted, write};
use crate::cli::model::Turn;
use crate::http::Server;

/// Whether the heading of the displayed page has the focus.
const ON_NAME: &str = "return document.activeElement.tagName === 'H1' && document.activeElement.innerText === arguments[0] && document.querySelector('main').scrollTop === 0";

#[tokio::test]
async fn the_skip_link_leads_into_the_page() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/usage").await;
    page.sees("Usage").await;
    page.run("document.activeElement.blur(); document.body.tabIndex = -1; document.body.focus()", vec![])
        .await;
    page.types(Key::Tab + "").await;
    page.until("the link", "return named(document.activeElement) === 'Skip to main content'").await;
    page.types(Key::Enter + "").await;
    page.until("the page has the focus", "return document.activeElement.id === 'main'").await;
    page.types(Key::Tab + "").await;
    page.until(
        "what comes next is in it",
        "return document.activeElement.id !== 'main' && document.activeElement.closest('main')",
    )
    .await;
    page.ends().await;
}

#[tokio::test]
async fn escape_in_the_composer_stops_the_run() {
    let deltas = vec![json!({"content": "It begins."}), json!({"content": " It ends."})];
    let server = scripted(vec![Turn::Slowly(std::time::Duration::from_secs(60), deltas)]);
    let page = Page::signed_in(&server).await;
    page.say("Begin.").await;
    page.sees("It begins.").await;
    page.write("[data-key=composer]", "And another thing").await;
    page.types(Key::Escape + "").await;
    page.until("it has stopped", "return all('[data-key=stop]').length === 0").await;
    let kept = "return document.querySelector('[data-key=composer]').value";
    page.shows(kept, vec![], "And another thing").await;
    page.ends().await;
}

#[tokio::test]
async fn escape_never_ends_a_run_that_waits_for_an_answer() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say("All is settled.")]);
    let page = asked(&server).await;
    page.run("document.activeElement.blur()", vec![]).await;
    page.types(Key::Escape + "").await;
    page.element("[data-key=composer]").await.click().await.unwrap();
    page.types(Key::Escape + "").await;
    page.run("document.querySelector('.ask').focus()", vec![]).await;
    page.types(Key::Escape + "").await;
    let stands = page.asks(&format!("/runs?thread={}", page.thread().await)).await;
    assert_eq!(stands["data"][0]["status"], json!(null), "the run continues");
    page.press("Approve").await;
    page.sees("All is settled.").await;
    page.ends().await;
}

#[tokio::test]
async fn escape_closes_a_message_before_it_stops_a_reply() {
    let deltas = vec![json!({"content": "It begins."}), json!({"content": " It ends."})];
    let server = scripted(vec![Turn::Slowly(std::time::Duration::from_secs(60), deltas)]);
    let page = Page::signed_in(&server).await;
    page.say("Begin.").await;
    page.sees("It begins.").await;
    page.run("return module('state/notices.js').then((notices) => notices.warn('look out'))", vec![]).await;
    page.sees("Look out").await;
    page.types(Key::Escape + "").await;
    page.misses("Look out").await;
    assert_eq!(page.number_of("[data-key=stop]").await, 1);
    page.types(Key::Escape + "").await;
    page.until("it has stopped", "return all('[data-key=stop]').length === 0").await;
    page.ends().await;
}

#[tokio::test]
async fn the_search_is_reached_by_its_key_where_the_sidebar_is_closed() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.press("Show or hide the sidebar").await;
    page.until("it is closed", "return all('[data-key=search]').length === 0").await;
    let keys = page.driver.action_chain().key_down(Key::Control).send_keys("k").key_up(Key::Control);
    keys.perform().await.unwrap();
    page.until("the search", "return document.activeElement.dataset.key === 'search'").await;
    page.types("apples").await;
    page.until("what is typed", "return document.activeElement.value === 'apples'").await;
    page.ends().await;
}

#[tokio::test]
async fn each_place_has_a_name_and_begins_at_its_top() {
    let server = scripted(vec![Turn::Call(vec![write("a.md")])]);
    let page = asked(&server).await;
    page.until("a conversation's", "return document.title === '(1) Write it. · Windlass'").await;
    page.press("Library").await;
    page.until_of("its name", ON_NAME, vec!["Library".into()]).await;
    page.until("in the title", "return document.title === '(1) Library · Windlass'").await;
    page.press("Agents and models").await;
    page.sees("Definition").await;
    page.until("the part too", "return document.title === '(1) Library: agents · Windlass'").await;
    let low = json!({"width": 1280, "height": 300, "deviceScaleFactor": 1, "mobile": false});
    page.devtools("Emulation.setDeviceMetricsOverride", low).await;
    let down = "const main = document.querySelector('main'); main.scrollTop = 200; return main.scrollTop > 0";
    page.until("further down", down).await;
    page.run("document.activeElement.blur()", vec![]).await;
    page.types("gu").await;
    page.until_of("another's", ON_NAME, vec!["Usage".into()]).await;
    page.driver.back().await.unwrap();
    page.sees("Definition").await;
    page.until("back", "return document.title === '(1) Library: agents · Windlass'").await;
    // The focus does not leave the message field after the user has started to type.
    page.press("New conversation").await;
    page.until("the field", "return matchMedia('(hover: hover)').matches ? document.activeElement.dataset.key === 'composer' : document.activeElement.tagName === 'H1'").await;
    page.until("its title", "return document.title === '(1) New conversation · Windlass'").await;
    page.ends().await;
}

#[tokio::test]
async fn an_address_that_is_cut_in_the_middle_of_a_sign_is_no_blank_page() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/chat/%E0%A4").await;
    page.sees("Conversation not found").await;
    page.ends_but_for(&["404", "400"]).await;
}

#[tokio::test]
async fn a_mistyped_address_shows_a_not_found_page() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/inbx").await;
    page.sees("Page not found").await;
    page.until("its title", "return document.title === 'Page not found · Windlass'").await;
    page.press("New conversation").await;
    page.sees("What would you like to do").await;
    page.ends_but_for(&["404"]).await;
}

#[tokio::test]
async fn a_page_that_loads_late_does_not_take_the_focus() {
    let server = scripted(vec![Turn::Say("First answer.")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    let late = "if (url.includes('/runs?')) await new Promise((come) => (window.come = come)); return real()";
    otherwise(&page, late).await;
    let goes = async || {
        page.press("Usage").await;
        page.sees("Approval rate").await;
        page.run("window.come = undefined", vec![]).await;
        page.press("Runs").await;
        page.until("it is asked for", "return Boolean(window.come)").await;
    };
    let comes = async || {
        page.run("window.come()", vec![]).await;
        page.sees("Status").await;
    };
    let typed = "return document.activeElement === document.querySelector(arguments[0]) && document.activeElement.value === arguments[1]";
    goes().await;
    comes().await;
    page.until_of("no field has the focus", ON_NAME, vec!["Runs".into()]).await;
    goes().await;
    page.run("document.querySelector('.history .thread .menu [popover]').showPopover()", vec![]).await;
    page.press("Rename").await;
    page.element("form.thread [name=title]").await;
    page.types("App").await;
    comes().await;
    page.types("les").await;
    page.until_of("the title", typed, vec!["form.thread input".into(), "Apples".into()]).await;
    page.types(Key::Escape + "").await;
    goes().await;
    let keys = page.driver.action_chain().key_down(Key::Control).send_keys("k").key_up(Key::Control);
    keys.perform().await.unwrap();
    page.until("the search", "return document.activeElement.dataset.key === 'search'").await;
    page.types("On").await;
    comes().await;
    page.types("e.").await;
    page.until_of("what is searched", typed, vec!["[data-key=search]".into(), "One.".into()]).await;
    page.ends().await;
}

#[tokio::test]
async fn a_composer_that_loads_late_does_not_take_the_focus() {
    let server = scripted(vec![Turn::Say("First answer.")]);
    let page = Page::signed_in(&server).await;
    page.say("One.").await;
    page.sees("First answer.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    let thread = page.thread().await;
    let late =
        "if (url.includes('/messages?')) await new Promise((come) => (window.come = come)); return real()";
    otherwise(&page, late).await;
    let goes = async || {
        page.press("Usage").await;
        page.sees("Approval rate").await;
        page.run("window.come = undefined", vec![]).await;
        page.element(&format!("a[href='/chat/{thread}']")).await.click().await.unwrap();
        page.until("it is asked for", "return Boolean(window.come)").await;
    };
    // The message field has adapted to the height of its text.
    let settled = "return Boolean(all('[data-key=composer]')[0]?.style.height)";
    goes().await;
    page.run("window.come()", vec![]).await;
    page.until("it is there", settled).await;
    page.until(
        "no field has the focus",
        "return !matchMedia('(hover: hover)').matches || document.activeElement.dataset.key === 'composer'",
    )
    .await;
    goes().await;
    let keys = page.driver.action_chain().key_down(Key::Control).send_keys("k").key_up(Key::Control);
    keys.perform().await.unwrap();
    page.until("the search", "return document.activeElement.dataset.key === 'search'").await;
    page.types("On").await;
    page.run("window.come()", vec![]).await;
    page.until("it is there", settled).await;
    page.types("e.").await;
    let typed =
        "return document.activeElement.dataset.key === 'search' && document.activeElement.value === 'One.'";
    page.until("what is searched", typed).await;
    page.ends().await;
}
