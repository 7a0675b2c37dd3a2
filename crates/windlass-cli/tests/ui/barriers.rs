//! Rare pages, or pages that take several steps to reach: each passes the accessibility check, fits on a phone, and
//! gets a screenshot.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::access::sign_in;
use super::looks::Looks;
use super::page::Page;
use super::scripted_for;
use crate::cli::User;
use crate::cli::model::Turn;
use crate::http::Server;
use crate::http::auth::{PASSWORD, administrator, member, token};
use crate::http::mcp::far::Far;
use crate::http::mcp::{guarded, state};

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_rendered_pages_are_accessible() {
    let far = Far::guarded().await;
    let server = Server::start_for(guarded(&far), &[]);
    let key = server.key(&[]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "bob@example.com", "member").await;
    let invite = admin.post("/api/v1/team/invites", json!({"role": "member"})).await.body;
    let members = admin.get("/api/v1/team/members").await.body["data"].as_array().unwrap().clone();
    let bob = members.iter().find(|one| one["email"] == "bob@example.com").unwrap()["id"].as_str().unwrap();
    let reset = admin.post(&format!("/api/v1/team/members/{bob}/reset"), json!({})).await.body;
    let own = server.user.run(&["admin", "link", "--address", &server.address]).exits(0).out;
    state(&server, &key, "guarded", "needs_sign_in").await;
    let begun =
        server.post("/api/v1/mcp/servers/guarded/sign-in", &key, &json!({})).await.is(StatusCode::OK).body;
    let back = far.back(begun["url"].as_str().unwrap());
    let page = Page::signed_in(&server).await;
    let looks = Looks::named("server");
    let link = |token: &str| format!("/auth/link?token={token}");
    let made = |link: &Value| link["token"].as_str().unwrap().to_owned();
    for (what, path, words) in [
        ("a link to sign in", link(token(&own)), "Sign in to Windlass"),
        ("an invitation", link(&made(&invite)), "Create a Windlass account"),
        ("a new password", link(&made(&reset)), "Choose a new password"),
        ("an invalid link", link("unknown"), "a new one"),
        ("back from a sign-in", format!("/api/v1/mcp/callback?{back}"), "for everyone on this server?"),
        ("the description of the API", "/api/docs".to_owned(), "/api/v1/threads"),
    ] {
        page.go(&path).await;
        page.sees(words).await;
        looks.judge(&page, what).await;
    }
    looks.end();
    page.ends_but_for(&["410"]).await;
}

#[tokio::test]
async fn pages_for_new_users_and_viewers_are_accessible() {
    let user = User::new();
    user.configure("[server]\nregistration = 'open'\n");
    let server = scripted_for(user, vec![Turn::Say("It is said.")]);
    let mut admin = administrator(&server).await;
    member(&mut admin, &server, "vic@example.com", "viewer").await;
    let own = Page::signed_in(&server).await;
    own.say("Speak.").await;
    own.sees("It is said.").await;
    let chat = format!("/chat/{}", own.thread().await);
    own.press("Share").await;
    own.press("Create link").await;
    own.sees("Revoke link").await;

    let looks = Looks::named("new");
    let page = Page::open(&server).await;
    page.go("/login").await;
    page.sees("Sign in to Windlass").await;
    looks.judge(&page, "signing in where all may register").await;
    sign_in(&page, "vic@example.com", "not the word").await;
    page.until("it is refused", "return all('[role=alert]').length === 1").await;
    looks.judge(&page, "a wrong password").await;
    page.press("Create account").await;
    page.sees("Create a Windlass account").await;
    looks.judge(&page, "registering").await;
    page.press("Sign in instead").await;
    page.sees("Sign in to Windlass").await;
    sign_in(&page, "vic@example.com", PASSWORD).await;
    page.sees("Your role is view-only").await;
    looks.judge(&page, "a viewer begins").await;
    for (what, path, words) in [
        ("reading along", chat.as_str(), "Shared by"),
        ("a conversation that is not here", "/chat/thr_none", "Conversation not found"),
        ("no such page", "/nowhere", "Page not found"),
    ] {
        page.go(path).await;
        page.sees(words).await;
        looks.judge(&page, what).await;
    }
    looks.end();
    own.ends().await;
    page.ends_but_for(&["401", "404"]).await;
}

const RULES: &str = "[[rule]]\nname = 'no secrets'\ntools = ['Read']\nverdict = 'deny'\n\
    when = [{ argument = '/file_path', matches = '[.]env$' }]\n";

/// Tool results, one for each kind of display.
fn results() -> Vec<(&'static str, Value)> {
    let typed = |kind: &str, data: &str| {
        json!({"message": "It is done.", "content": {"type": kind, "title": "A title", "language": "rust", "data": data}})
            .to_string()
    };
    let texts = [
        json!([{"city": "Rome", "people": 3}, {"city": "Oslo", "people": 1}]).to_string(),
        json!({"name": "Rome", "parts": {"north": [1, 2], "none": null, "old": true}}).to_string(),
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new".to_owned(),
        typed("html", "<h1>A report</h1><p>All is well.</p>"),
        typed("markdown", "Some **weight**, `code` and a [link](https://example.com)"),
        typed("code", "fn main() {\n    // Says it.\n    println!(\"it\");\n}"),
        typed("error", "It broke."),
        typed("image", "https://example.com/elsewhere.png"),
        "plain words, ".repeat(400),
    ];
    let call =
        |text: String| ("Bash", json!({"command": format!("cat <<'END-OF-TEXT'\n{text}\nEND-OF-TEXT")}));
    texts.into_iter().map(call).collect()
}

/// A server with every optional feature configured, whose model reasons and calls tools.
fn set_up(far: &Far) -> Server {
    let user = User::new();
    user.configure(&format!(
        "[tools.bash]\nenabled = true\n\n[mcp.far]\nurl = '{}/mcp'\n\n\
         [[budget]]\nper = 'user'\nwindow = 'day'\nunit = 'steps'\ncap = 200\n",
        far.base
    ));
    std::fs::write(user.home().join("config/windlass/policy.toml"), RULES).unwrap();
    user.run(&["grants", "add", "Bash"]).exits(0);
    let thought = json!({"reasoning_content": "The file is small, so that it is read whole; then its rows are compared. "});
    let mut deltas = vec![thought; 6];
    deltas.push(json!({"content": "It is thought through."}));
    let turns = vec![
        Turn::Slowly(Duration::from_millis(100), deltas),
        Turn::Call(results()),
        Turn::Say("All is shown."),
    ];
    scripted_for(user, turns)
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_with_content_are_accessible() {
    let far = Far::open().await;
    let server = set_up(&far);
    let page = Page::signed_in(&server).await;
    let looks = Looks::named("work");
    page.say("Think.").await;
    page.sees("It is thought through.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    page.run("all('details.thought:not([open]) summary')[0].click()", vec![]).await;
    page.press("Show more").await;
    page.sees("Show less").await;
    looks.judge(&page, "an open thought").await;
    page.say("Show them.").await;
    page.sees("All is shown.").await;
    let open = "document.querySelectorAll('details.call:not([open])').forEach((one) => (one.open = true));\
        return document.querySelectorAll('.call .result').length === arguments[0]";
    page.until_of("every result", open, vec![results().len().into()]).await;
    page.until("code is coloured", "return document.querySelector('.call code [class^=hljs]') !== null")
        .await;
    looks.judge(&page, "results of each kind").await;
    let back = "all('.entry.user')[1].querySelectorAll('button').forEach((one) => named(one) === 'Roll back' && one.click())";
    page.run(back, vec![]).await;
    page.sees("Rolled back to here").await;
    looks.judge(&page, "a roll back").await;

    let run = page.asks("/runs").await["data"][0]["id"].as_str().unwrap().to_owned();
    page.go(&format!("/runs/{run}")).await;
    page.sees("Step 1").await;
    page.run("document.querySelectorAll('details.span').forEach((one) => (one.open = true))", vec![]).await;
    page.press("Show prompt").await;
    page.sees("tokens, estimated").await;
    page.run("document.querySelectorAll('.prompt details').forEach((one) => (one.open = true))", vec![])
        .await;
    looks.judge(&page, "a run with its spans open").await;
    page.run("all('.tabs [aria-pressed]')[1].click()", vec![]).await;
    page.sees("run.finished").await;
    page.run("document.querySelectorAll('.raw details').forEach((one, at) => (one.open = at < 3))", vec![])
        .await;
    looks.judge(&page, "the events of a run").await;

    state(&server, &server.key(&[]), "far", "connected").await;
    page.go("/library/servers").await;
    page.press("1 tool").await;
    page.sees("Just once").await;
    looks.judge(&page, "a tool server").await;
    page.go("/library/policy").await;
    page.sees("no secrets").await;
    looks.judge(&page, "rules").await;
    let wrong = format!("{RULES}\n[[rule]]\nverdict = 'deny'\ntool = 'Read'\n");
    let edit = "const field = all('[name=policy]')[0]; field.value = arguments[0]; field.dispatchEvent(new Event('input', { bubbles: true }))";
    page.run(edit, vec![wrong.into()]).await;
    page.press("Check").await;
    page.sees("The policy has errors and cannot be used.").await;
    looks.judge(&page, "findings about rules").await;
    page.go("/settings/limits").await;
    page.until("a budget", "return all('meter').length > 0").await;
    looks.judge(&page, "a budget").await;
    page.go("/usage").await;
    page.press("custom").await;
    page.sees("Choose a start and a later end").await;
    looks.judge(&page, "usage of a range to choose").await;
    let long_ago = "for (const [name, day] of [['from', '2020-01-01T00:00'], ['until', '2020-01-02T00:00']]) {\
        const field = all(`[name=${name}]`)[0]; field.value = day; field.dispatchEvent(new Event('change', { bubbles: true })) }";
    page.run(long_ago, vec![]).await;
    page.sees("No runs in this range").await;
    looks.judge(&page, "usage of a time in which nothing ran").await;
    looks.end();
    page.ends_but_for(&["about:srcdoc", "vendor/dompurify.js"]).await;
}
