//! Settings of a user and of the team, and the automatic refresh of sessions.

use serde_json::{Value, json};
use thirtyfour::prelude::*;

use super::access::signed_in_as;
use super::page::Page;
use super::{choose, otherwise, scripted};
use crate::cli::model::Turn;
use crate::http::Server;
use crate::http::auth::{PASSWORD, administrator, member};

/// The team's members on the server: address, role, and whether they may sign in.
async fn team(page: &Page) -> Value {
    let members = page.asks("/team/members").await;
    let told = |one: &Value| json!([one["email"], one["role"], one["active"]]);
    members["data"].as_array().unwrap().iter().filter(|one| one["email"].is_string()).map(told).collect()
}

// rows: SK-U13
#[tokio::test]
async fn a_member_is_added_given_another_role_and_deactivated() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/settings/team").await;
    page.press("Add a member with a password").await;
    page.write("dialog [name=email]", "ann@example.com").await;
    page.write("dialog [name=name]", "Ann").await;
    choose(&page, "dialog [name=role]", "viewer").await;
    page.write("dialog [name=password]", PASSWORD).await;
    page.press("Add").await;
    page.sees("ann@example.com can now sign in").await;
    assert_eq!(team(&page).await, json!([["ann@example.com", "viewer", true]]));
    let ann = signed_in_as(&server, "ann@example.com").await;
    ann.sees("Your role is view-only").await;

    choose(&page, "[aria-label='Role of Ann']", "member").await;
    let member_now = json!([["ann@example.com", "member", true]]);
    for _ in 0..200 {
        if team(&page).await == member_now {
            break;
        }
    }
    ann.driver.refresh().await.unwrap();
    ann.sees("New conversation").await;
    assert_eq!(team(&page).await, member_now);

    page.press("Credit of Ann").await;
    page.write("dialog [name=credit]", "2.5").await;
    page.press("Save").await;
    page.sees("$2.50").await;

    page.press("Remove").await;
    page.sees("Their sessions and API keys end immediately").await;
    page.element("dialog .danger").await.click().await.unwrap();
    page.sees("(inactive)").await;
    assert_eq!(team(&page).await, json!([["ann@example.com", "member", false]]));
    ann.driver.refresh().await.unwrap();
    ann.sees("Sign in to Windlass").await;
    page.press("Reactivate").await;
    page.misses("(inactive)").await;
    page.ends().await;
    ann.ends_but_for(&["401"]).await;
}

#[tokio::test]
async fn a_member_changes_name_address_and_password() {
    let server = Server::start(&[]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    let page = signed_in_as(&server, "ann@example.com").await;
    page.sees("What would you like to do").await;
    page.go("/settings").await;
    page.write("[name=name]", "Ann Other").await;
    page.press("Save").await;
    page.sees("Saved").await;
    page.until("the name", "return all('.who')[0].innerText === 'Ann Other'").await;
    page.write("[name=email]", "other@example.com").await;
    page.write("[name=password]", PASSWORD).await;
    page.run("document.querySelectorAll('form')[1].requestSubmit()", vec![]).await;
    page.sees("Email changed").await;
    page.sees("other@example.com, member").await;
    page.write("[name=old]", PASSWORD).await;
    page.write("[name=fresh]", "another horse").await;
    page.run("document.querySelectorAll('form')[2].requestSubmit()", vec![]).await;
    page.sees("Password changed").await;
    page.press("Sign out of this browser").await;
    page.sees("Sign in to Windlass").await;
    page.write("[name=email]", "other@example.com").await;
    page.write("[name=password]", "another horse").await;
    page.press("Sign in").await;
    page.sees("What would you like to do, Ann?").await;
    page.ends_but_for(&["401"]).await;
}

/// Shortens waits of more than ten minutes, and records their original lengths.
const SHORT_WAITS: &str = "const own = window.setInterval; window.long = [];\
    window.setInterval = (what, ms, ...more) => { if (ms > 600000) { window.long.push(ms); ms = 1000; } return own(what, ms, ...more); }";

// rows: SK-U14
#[tokio::test]
async fn the_session_is_refreshed_before_anybody_notices() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "ann@example.com", "member").await;
    let page = signed_in_as(&server, "ann@example.com").await;
    page.sees("What would you like to do").await;
    let token = async || page.driver.get_named_cookie("windlass_auth").await.unwrap().value;
    let first = token().await;
    page.devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": SHORT_WAITS})).await;
    page.driver.refresh().await.unwrap();
    let refreshed = "return performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/auth/refresh')).length > 1";
    page.until("it is refreshed again and again", refreshed).await;
    page.shows("return window.long", vec![], json!([14 * 60 * 1000])).await;
    assert_ne!(token().await, first);

    // If the access token has expired, the first rejected request refreshes it.
    page.driver.delete_cookie("windlass_auth").await.unwrap();
    page.say("Speak.").await;
    page.sees("It is said.").await;
    assert!(!page.words().await.contains("Your session has ended"));
    page.go("/settings").await;
    page.press("Sign out of this browser").await;
    page.sees("Sign in to Windlass").await;
    let kept = page.driver.get_all_cookies().await.unwrap();
    assert!(!kept.iter().any(|cookie| cookie.name.starts_with("windlass")), "{kept:?}");
    page.ends_but_for(&["401"]).await;
}

// rows: SK-U15
#[tokio::test]
async fn the_welcome_page_suggests_four_things() {
    let server = scripted(vec![Turn::Say("It is said.")]);
    let page = Page::signed_in(&server).await;
    // A single model offers no choice, but its name is displayed.
    page.until("the model", "return all('.composer .model')[0]?.innerText === 'openai-compatible/scripted'")
        .await;
    assert_eq!(page.number_of(".suggestions button").await, 4);
    // A conversation on a server begins without files.
    page.misses("files in this folder").await;
    page.element(".suggestions button:nth-child(3)").await.click().await.unwrap();
    let written = page.until("it is written", "return all('[data-key=composer]')[0].value").await;
    assert!(written.as_str().unwrap().starts_with("Make a step-by-step plan"), "{written}");
    // A suggestion is a draft, which the user can edit before sending it.
    page.until("it has the focus", "return document.activeElement.dataset.key === 'composer'").await;
    page.types(" Slowly.").await;
    page.types(Key::Enter + "").await;
    page.sees("It is said.").await;
    page.sees("wait for my approval. Slowly.").await;
    page.ends().await;
}

#[tokio::test]
async fn a_meter_of_a_limit_has_its_name() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/settings").await;
    page.sees("Sign out of this browser").await;
    let limit =
        json!({"unit": "tokens", "per": "user", "window": "day", "used": 5, "reserved": 0, "cap": 10});
    let answer = format!("return url.endsWith('/limits') ? Response.json({{ data: [{limit}] }}) : real()");
    otherwise(&page, &answer).await;
    page.press("Limits").await;
    page.until("the name", "return all('meter')[0].ariaLabel === 'tokens per user, daily'").await;
    page.ends().await;
}
