//! General usability: on a phone, in dark mode, by keyboard alone, offline, and with a screen reader.

use serde_json::{Value, json};
use thirtyfour::prelude::*;

use super::looks::wear;
use super::page::Page;
use super::{asked, scripted, write};
use crate::cli::model::Turn;
use crate::http::Server;

/// Every page, with a text that shows that it has loaded.
const PAGES: &[(&str, &str)] = &[
    ("/", "What would you like to do"),
    ("/inbox", "Inbox"),
    ("/runs", "Status"),
    ("/library", "load_toolset"),
    ("/library/toolsets", "Some tools are included in every request"),
    ("/library/servers", "No tool servers"),
    ("/library/integrations", "No integrations"),
    ("/library/agents", "Definition"),
    ("/library/policy", "Test a call against the policy"),
    ("/usage", "Approval rate"),
    ("/settings", "Sign out of this browser"),
    ("/settings/asking", "Allow list"),
    ("/settings/grants", "No grants"),
    ("/settings/shared", "Nothing is shared"),
    ("/settings/keys", "Create a key"),
    ("/settings/sessions", "this session"),
    ("/settings/team", "Invite a member"),
    ("/settings/audit", "Download full log"),
    ("/settings/limits", "No limits"),
    ("/settings/look", "Density"),
];

fn writer() -> Server {
    let text = "# A heading\n\nSome `code`, **words** and a [link](https://example.com).\n\n\
        | a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn main() {}\n```\n\n- [x] done\n- open\n\n> said";
    scripted(vec![Turn::Call(vec![write("a.md")]), Turn::Say(text)])
}

/// Emulates a window with the width of a small phone.
pub async fn narrow(page: &Page) {
    // A headless window is at least 500 pixels wide; the emulated viewport can be narrower.
    let size = json!({"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": true});
    page.devtools("Emulation.setDeviceMetricsOverride", size).await;
}

pub async fn nothing_sticks_out(page: &Page, what: &str) {
    let wide = "const main = document.querySelector('main, [role=main]');\
        if (document.documentElement.scrollWidth <= 360 && main.scrollWidth <= 360) return [];\
        return [...main.querySelectorAll('*')].filter((one) => one.getBoundingClientRect().right > 361 && !one.closest('pre, .table'))\
        .map((one) => one.outerHTML.slice(0, 120))";
    let wide = page.run(wide, vec![]).await;
    assert_eq!(wide, json!([]), "{what} is wider than the window");
}

#[tokio::test]
async fn a_phone_shows_every_page_without_scrolling_aside() {
    let server = writer();
    let page = asked(&server).await;
    narrow(&page).await;
    nothing_sticks_out(&page, "an approval").await;
    let thread = page.thread().await;
    page.go(&format!("/chat/{thread}")).await;
    page.sees("Allow Write to ").await;
    page.press("Approve").await;
    page.sees("A heading").await;
    nothing_sticks_out(&page, "a conversation").await;
    for (path, words) in PAGES {
        page.go(path).await;
        page.sees(words).await;
        nothing_sticks_out(&page, path).await;
    }
    page.ends().await;
}

#[tokio::test]
async fn on_a_phone_the_sidebar_closes_after_navigation() {
    let server = writer();
    let page = asked(&server).await;
    narrow(&page).await;
    page.driver.refresh().await.unwrap();
    page.sees("Allow Write to ").await;
    let state = async || page.run("return document.querySelector('.shell').dataset.sidebar", vec![]).await;
    let inside = "const left = document.querySelector('.sidebar .inside'); return all('.sidebar .inside').length > 0 && left.getBoundingClientRect().right > 100";
    if state().await == "closed" {
        page.press("Show or hide the sidebar").await;
    }
    page.until("the sidebar is open", inside).await;
    page.press("Library").await;
    page.sees("Agents and models").await;
    assert_eq!(state().await, "closed");
    page.ends().await;
}

#[tokio::test]
async fn shortcuts_go_focus_answer_and_tell_of_themselves() {
    let server = writer();
    let page = asked(&server).await;
    page.run("document.activeElement.blur()", vec![]).await;
    page.types("?").await;
    page.sees("Approve or deny the focused call").await;
    page.types(Key::Escape + "").await;
    page.misses("Approve or deny the focused call").await;
    page.run("document.activeElement.blur()", vec![]).await;
    page.types("/").await;
    page.until("writing", "return document.activeElement.dataset.key === 'composer'").await;
    page.types("a?").await;
    page.until("typing is no shortcut", "return document.activeElement.value === 'a?'").await;
    page.run("document.activeElement.blur()", vec![]).await;
    page.types("wa").await;
    page.sees("A heading").await;
    page.run("document.activeElement.blur()", vec![]).await;
    page.types("gu").await;
    page.sees("Approval rate").await;
    page.types("gn").await;
    page.sees("What would you like to do").await;
    page.ends().await;
}

#[tokio::test]
async fn everything_is_reached_by_the_tab_key_and_seen_when_it_is() {
    let server = writer();
    let page = asked(&server).await;
    page.run("document.activeElement.blur(); document.body.tabIndex = -1; document.body.focus()", vec![])
        .await;
    let mut names = Vec::new();
    for _ in 0..60 {
        page.types(Key::Tab + "").await;
        let look = "const one = document.activeElement; if (one === document.body) return ['', true, true]; const style = getComputedStyle(one); const box = one.getBoundingClientRect();\
            return [one.dataset.key || named(one).slice(0, 40), style.outlineStyle !== 'none' || style.boxShadow !== 'none' || one.closest('.composer') !== null, box.bottom > 0]";
        let focus = page.run(look, vec![]).await;
        assert_eq!((&focus[1], &focus[2]), (&json!(true), &json!(true)), "no focus can be seen on {focus}");
        names.push(focus[0].as_str().unwrap().to_owned());
    }
    assert_eq!(names[0], "Skip to main content", "{names:?}");
    for wanted in
        ["New conversation", "Usage", "search", "approve", "deny", "Edit…", "composer", "Attach files"]
    {
        assert!(names.iter().any(|name| name == wanted), "no way to `{wanted}`: {names:?}");
    }
    page.ends().await;
}

#[tokio::test]
async fn the_dark_is_dark_and_stays() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    let light = "const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number); return r + g + b";
    let shade = async || page.run(light, vec![]).await.as_f64().unwrap();
    page.go("/settings/look").await;
    page.press("Light").await;
    assert!(shade().await > 600.0, "{}", shade().await);
    page.press("Dark").await;
    assert!(shade().await < 200.0, "{}", shade().await);
    page.driver.refresh().await.unwrap();
    page.sees("Density").await;
    assert!(shade().await < 200.0);
    page.press("System").await;
    page.devtools(
        "Emulation.setEmulatedMedia",
        json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]}),
    )
    .await;
    assert!(shade().await < 200.0);
    page.ends().await;
}

#[tokio::test]
async fn without_the_server_the_page_shows_what_it_has_and_says_so() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let place = server.address.trim_start_matches("http://").to_owned();
    let page = Page::signed_in(&server).await;
    page.say("Speak.").await;
    page.sees("It is said.").await;
    let user = server.kill();
    page.sees("Connection lost").await;
    page.sees("It is said.").await;
    let command = user.command(&["serve", "--listen", &place]);
    let _server = Server::spawn(user, command);
    page.misses("Connection lost").await;
    page.ends_but_for(&["net::ERR_"]).await;
}

#[tokio::test]
async fn a_conversation_that_could_not_be_read_is_shown_once_the_server_is_back() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let place = server.address.trim_start_matches("http://").to_owned();
    let page = Page::signed_in(&server).await;
    page.say("Speak.").await;
    page.sees("It is said.").await;
    page.press("New conversation").await;
    page.sees("What would you like to do").await;
    let user = server.kill();
    page.element(".history .thread a").await.click().await.unwrap();
    page.sees("Cannot load this conversation").await;
    let command = user.command(&["serve", "--listen", &place]);
    let _server = Server::spawn(user, command);
    page.sees("It is said.").await;
    page.misses("Cannot load this conversation").await;
    page.ends_but_for(&["net::ERR_"]).await;
}

/// The source of the accessibility checker.
pub fn axe() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/ui/node_modules/axe-core/axe.min.js");
    std::fs::read_to_string(path).expect("axe-core, which `cargo xtask test` installs")
}

/// The serious accessibility violations on the displayed page.
pub async fn barriers(page: &Page, axe: &str) -> Vec<Value> {
    if page.run("return window.axe === undefined", vec![]).await == true {
        page.driver.execute(axe, vec![]).await.unwrap();
    }
    let look = "return axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations\
        .filter((one) => ['serious', 'critical'].includes(one.impact))\
        .map((one) => [one.id, one.help, one.nodes.slice(0, 4).map((node) => [node.target.join(' '), node.any[0]?.message ?? node.html])]))";
    page.run(look, vec![]).await.as_array().unwrap().clone()
}

#[tokio::test]
async fn no_page_has_a_serious_barrier_in_light_or_dark() {
    let axe = axe();
    let server = writer();
    let page = asked(&server).await;
    let thread = page.thread().await;
    let mut found = Vec::new();
    let mut look = async |what: &str| {
        page.until("it is whole", "return document.querySelectorAll('[aria-busy=true]').length === 0").await;
        // Changes the theme without a reload, which would take half of the time.
        for theme in ["light", "dark"] {
            wear(&page, theme, 1280, 900).await;
            found.extend(barriers(&page, &axe).await.into_iter().map(|one| format!("{theme} {what}: {one}")));
        }
    };
    page.go(&format!("/chat/{thread}")).await;
    page.sees("Allow Write to ").await;
    look("an approval").await;
    page.press("Approve").await;
    page.sees("A heading").await;
    look("an answer").await;
    for (path, words) in PAGES {
        page.go(path).await;
        page.sees(words).await;
        look(path).await;
        // A reply may skip heading levels; the page's own headings must not.
        let heads = "return axe.run(document, { runOnly: ['heading-order'] })\
            .then(({ violations }) => violations.map((one) => one.nodes.map((node) => node.html)))";
        assert_eq!(page.run(heads, vec![]).await, json!([]), "{path}");
    }
    assert!(found.is_empty(), "{found:#?}");
    page.ends().await;
}
