//! Sign-in at a tool server through its own page: from the library, and for a waiting run.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::json;

use super::page::Page;
use super::scripted_for;
use crate::cli::model::Turn;
use crate::http::Server;
use crate::http::mcp::far::Far;
use crate::http::mcp::{confirm, guarded, state};

fn caller(far: &Far) -> Server {
    let call = Turn::Call(vec![("once", json!({"text": "x"}))]);
    scripted_for(guarded(far), vec![call, Turn::Say("It is settled.")])
}

/// Opens the far server's page, presses the button with this name there, and returns.
async fn at_the_far_side(page: &Page, far: &Far, name: &str, then: &str) {
    let own = page.driver.window().await.unwrap();
    page.press(&format!("Sign in to 127.0.0.1:{}", far.port)).await;
    let mut other = None;
    for _ in 0..400 {
        let windows = page.windows().await.unwrap();
        other = windows.into_iter().find(|window| *window != own);
        if other.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await; // tidy: sleep the browser opens a window
    }
    page.driver.switch_to_window(other.expect("another window")).await.unwrap();
    page.sees("May Windlass use far?").await;
    page.press(name).await;
    if name == "Allow it" {
        page.sees("for everyone on this server?").await;
        page.press("Yes, sign in").await;
    }
    page.sees(then).await;
    page.driver.close_window().await.unwrap();
    page.driver.switch_to_window(own).await.unwrap();
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_signs_in_to_and_out_of_a_tool_server_in_the_library() {
    let far = Far::guarded().await;
    let server = caller(&far);
    let page = Page::signed_in(&server).await;
    page.go("/library/servers").await;
    page.sees("sign-in required").await;
    page.press("Sign in").await;
    page.sees("This dialog closes after you have signed in").await;
    at_the_far_side(&page, &far, "Refuse it", "access_denied").await;
    // The rejected attempt has no effect; the next one succeeds.
    page.sees("This dialog closes after you have signed in").await;
    page.press("Cancel").await;
    page.press("Sign in").await;
    at_the_far_side(&page, &far, "Allow it", "Signed in").await;
    page.misses("This dialog closes after you have signed in").await;
    page.sees("connected").await;
    page.press("1 tool").await;
    page.press("once").await;
    page.sees("does it").await;

    page.press("New conversation").await;
    page.sees("What would you like to do").await;
    page.say("Do it.").await;
    page.sees("It is settled.").await;
    assert_eq!(far.calls(), ["Bearer SENTINEL-token-1"]);

    page.go("/library/servers").await;
    page.press("Sign out").await;
    page.sees("This deletes its tokens").await;
    page.element("dialog .danger").await.click().await.unwrap();
    page.sees("sign-in required").await;
    page.ends_but_for(&["422"]).await;
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_for_a_sign_in_resumes_automatically() {
    let far = Far::guarded().await;
    let server = caller(&far);
    let boss = server.key(&[]);
    let place = "/api/v1/mcp/servers/guarded/sign-in";
    let begun = server.post(place, &boss, &json!({})).await.is(StatusCode::OK).body;
    confirm(&server, &boss, &far.back(begun["url"].as_str().unwrap())).await.is(StatusCode::OK);
    let page = Page::signed_in(&server).await;
    state(&server, &boss, "guarded", "connected").await;
    far.takes_back();
    page.say("Do it.").await;
    page.sees("Sign in to guarded").await;
    at_the_far_side(&page, &far, "Allow it", "waiting calls resume").await;
    page.sees("It is settled.").await;
    page.misses("Sign in to guarded").await;
    assert_eq!(far.calls(), ["Bearer SENTINEL-token-2"]);
    page.ends().await;
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_names_the_server_of_its_tool_and_is_taken_back() {
    let far = Far::open().await;
    let user = crate::cli::User::new();
    user.configure(&format!("[mcp.far]\nurl = '{}/mcp'\n", far.base));
    let call = || Turn::Call(vec![("once", json!({"text": "x"}))]);
    let server = scripted_for(
        user,
        vec![call(), Turn::Say("Once."), call(), Turn::Say("Twice."), call(), Turn::Say("End.")],
    );
    let page = Page::signed_in(&server).await;
    state(&server, &server.key(&[]), "far", "connected").await;
    page.say("Do it.").await;
    // The card and the inbox name the tool's server.
    page.sees("Allow once (server far) to run?").await;
    page.until("the server, on the card", "return all('.call .tag')[0]?.innerText === 'far'").await;
    let thread = page.thread().await;
    page.go("/inbox").await;
    page.sees("Allow once (server far) to run?").await;
    page.go(&format!("/chat/{thread}")).await;
    page.press("Always allow…").await;
    page.press("Approve and always allow").await;
    page.sees("Once.").await;
    page.say("Again.").await;
    page.sees("Twice.").await;
    let chat = page.thread().await;
    page.go("/settings/grants").await;
    page.sees("server far").await;
    page.press("Revoke the grant for once").await;
    page.sees("No grants").await;
    page.go(&format!("/chat/{chat}")).await;
    page.sees("Twice.").await;
    page.say("Once more.").await;
    page.sees("Allow once (server far) to run?").await;
    page.ends().await;
}
