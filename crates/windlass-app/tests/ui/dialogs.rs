//! Dialogs and forms that open on a page: nothing of them is in anybody's way.

use serde_json::json;
use thirtyfour::Key;

use super::feel::{axe, barriers, narrow, nothing_sticks_out};
use super::page::Page;
use super::{choose, scripted};
use crate::cli::model::Turn;

/// Where each is, what opens it, and words that it shows.
const DIALOGS: &[(&str, &str, &str)] = &[
    ("/chat/", "Share", "Only you and the workspace's administrators"),
    ("/library/tools?tool=Write", "Try a call", "It works on the files that you have uploaded"),
    ("/library/servers", "Add a tool server", "How it is reached"),
    ("/library/integrations", "Connect a system", "Credentials, as JSON"),
    ("/library/policy", "Ask the gate", "It would be asked about."),
    ("/settings/team", "Add somebody with a password", "Tell it to them"),
    ("/settings/team", "Credit of Local administrator", "US dollars, altogether"),
];

/// Opens each dialog in its turn, and does something with it.
async fn each(page: &Page, chat: &str, look: impl AsyncFn(&str)) {
    for (path, opens, words) in DIALOGS {
        page.go(&if *path == "/chat/" { format!("/chat/{chat}") } else { (*path).to_owned() }).await;
        if *path == "/library/policy" {
            choose(page, ".gate [name=tool]", "Write").await;
            page.write(".gate [name='v.file_path']", "a.md").await;
            page.write(".gate [name='v.content']", "x").await;
        }
        page.press(opens).await;
        page.sees(words).await;
        look(&format!("{path} {opens}")).await;
    }
}

async fn talked(page: &Page) -> String {
    page.say("Speak.").await;
    page.sees("It is said.").await;
    page.thread().await
}

#[tokio::test]
async fn no_dialog_has_a_serious_barrier_in_light_or_dark() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let page = Page::signed_in(&server).await;
    let (chat, axe) = (talked(&page).await, axe());
    let found = std::sync::Mutex::new(Vec::new());
    for theme in ["light", "dark"] {
        page.run("localStorage.setItem('windlass.theme', arguments[0])", vec![theme.into()]).await;
        each(&page, &chat, async |what: &str| {
            let new = barriers(&page, &axe).await;
            found.lock().unwrap().extend(new.into_iter().map(|one| format!("{theme} {what}: {one}")));
        })
        .await;
    }
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{found:#?}");
    page.ends().await;
}

#[tokio::test]
async fn dialogs_fit_a_phone_and_close_by_a_key() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let page = Page::signed_in(&server).await;
    let chat = talked(&page).await;
    narrow(&page).await;
    each(&page, &chat, async |what: &str| {
        nothing_sticks_out(&page, what).await;
        if page.number_of("dialog").await == 1 {
            let inside = "return document.activeElement.closest('dialog') !== null";
            assert_eq!(page.run(inside, vec![]).await, json!(true), "{what}: the focus is elsewhere");
            page.types(Key::Escape + "").await;
            page.until("it is closed", "return all('dialog').length === 0").await;
        }
    })
    .await;
    page.ends().await;
}
