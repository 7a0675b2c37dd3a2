//! Dialogs and forms that open on a page: each passes the accessibility check.

use reqwest::StatusCode;
use serde_json::json;
use thirtyfour::Key;

use super::looks::Looks;
use super::page::Page;
use super::{choose, scripted_for};
use crate::cli::User;
use crate::cli::model::Turn;
use crate::http::Server;
use crate::http::auth::{administrator, member};
use crate::http::mcp::far::Far;
use crate::http::mcp::{confirm, state};

/// The path, the buttons to press in order, and a text of the opened dialog.
const DIALOGS: &[(&str, &[&str], &str)] = &[
    ("/chat/", &["Share"], "Only you and the workspace's administrators"),
    ("/chat/", &["Files"], "No files yet"),
    ("/inbox", &["Keyboard shortcuts"], "Show keyboard shortcuts"),
    ("/inbox", &["Actions for Speak.", "Delete"], "You cannot undo this"),
    ("/library/tools?tool=Write", &["Test call"], "The call uses your uploaded files"),
    ("/library/servers", &["Add a tool server"], "Remote server (URL)"),
    ("/library/servers", &["Log"], "Log of"),
    ("/library/servers", &["Sign in"], "This dialog closes after you have signed in"),
    ("/library/servers", &["Sign out"], "This deletes its tokens"),
    ("/library/servers", &["Remove"], "Its tools become unavailable immediately"),
    ("/library/integrations", &["Add integration"], "Credentials (JSON)"),
    ("/library/integrations", &["Delete"], "This deletes its credentials"),
    ("/library/policy", &["Evaluate"], "This call would need approval."),
    ("/settings/keys", &["Create key"], "Copy the key now. It cannot be shown again."),
    ("/settings/team", &["Add a member with a password"], "Send them the password"),
    ("/settings/team", &["Credit of Local administrator"], "Total credit (US dollars)"),
    ("/settings/team", &["Reset password"], "It can be used once"),
    ("/settings/team", &["Remove"], "Their sessions and API keys end immediately"),
];

/// A server with a row in each list: signed-in, signed-out and added tool servers, an integration and a colleague.
async fn furnished(far: &Far) -> Server {
    let place = format!("{}/mcp", far.base);
    let user = User::new();
    user.configure(&format!(
        "[outbound]\ninternal_hosts = ['127.0.0.1']\nports = [443, {}]\n\n\
         [mcp.guarded]\nurl = '{place}'\n\n[mcp.known]\nurl = '{place}'\n",
        far.port
    ));
    let server = scripted_for(user, vec![Turn::Say("It is said.")]);
    let key = server.key(&[]);
    state(&server, &key, "known", "needs_sign_in").await;
    let begun =
        server.post("/api/v1/mcp/servers/known/sign-in", &key, &json!({})).await.is(StatusCode::OK).body;
    confirm(&server, &key, &far.back(begun["url"].as_str().unwrap())).await.is(StatusCode::OK);
    state(&server, &key, "known", "connected").await;
    let jenkins = json!({"provider": "jenkins", "name": "Ours", "metadata": {"api_url": "https://example.com"},
        "credentials": {"username": "u", "api_token": "t"}});
    let rows =
        [("/api/v1/mcp/servers", json!({"name": "added", "url": place})), ("/api/v1/integrations", jenkins)];
    for (path, row) in rows {
        let made = server.post(path, &key, &row).await;
        assert!((200..300).contains(&made.status), "{made:#?}");
    }
    member(&mut administrator(&server).await, &server, "bob@example.com", "member").await;
    server
}

/// Fills in the fields that a form requires.
async fn fill(page: &Page, opens: &str) {
    match opens {
        "Evaluate" => {
            choose(page, ".gate [name=tool]", "Write").await;
            page.write(".gate [name='v.file_path']", "a.md").await;
            page.write(".gate [name='v.content']", "x").await;
        }
        "Create key" => page.write("[name=name]", "nightly").await,
        _ => {}
    }
}

// The test blocks on commands while the far server handles their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_dialog_keeps_anybody_out_and_each_fits_a_phone_and_closes_by_a_key() {
    let far = Far::guarded().await;
    let server = furnished(&far).await;
    let page = Page::signed_in(&server).await;
    page.say("Speak.").await;
    page.sees("It is said.").await;
    let chat = format!("/chat/{}", page.thread().await);
    let looks = Looks::named("dialog");
    for (path, opens, words) in DIALOGS {
        page.go(if *path == "/chat/" { chat.as_str() } else { path }).await;
        for name in *opens {
            fill(&page, name).await;
            page.press(name).await;
        }
        page.sees(words).await;
        let what = format!("{path} {}", opens.last().unwrap());
        looks.judge(&page, &what).await;
        if page.number_of("dialog").await == 1 {
            let inside = "return document.activeElement.closest('dialog') !== null";
            page.shows(inside, vec![], json!(true)).await;
            page.types(Key::Escape + "").await;
            page.until("it is closed", "return all('dialog').length === 0").await;
        }
    }
    looks.end();
    page.ends().await;
}
