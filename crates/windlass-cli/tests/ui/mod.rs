//! The web UI as people use it: the real server, a scripted model, and a real browser.
//!
//! Other tests cover the responses of the API. These tests only use what a person can see, press and type.

mod access;
mod account;
mod again;
mod answers;
mod asks;
mod barriers;
mod calls;
mod cards;
mod choice;
mod dialogs;
mod doubt;
mod drawn;
mod editing;
mod feel;
mod filled;
mod first;
mod forks;
mod forms;
mod header;
mod history;
mod hostile;
mod images;
mod inbox;
mod inspector;
mod integrations;
mod kept;
mod keyboard;
mod keys;
mod library;
mod lists;
mod loaded;
mod looks;
mod menus;
mod modules;
mod notify;
mod page;
mod pictures;
mod placed;
mod places;
mod policy;
mod refused;
mod results;
mod retry;
mod retrying;
mod sending;
mod settings;
mod share;
mod sign_in;
mod steady;
mod steer;
mod stops;
mod talk;
mod typing;
mod usage;
mod waits;
mod ways;
mod weight;

use serde_json::{Value, json};

use self::page::Page;
use crate::cli::User;
use crate::cli::model::{Model, Turn};
use crate::http::Server;

/// A server with a model that plays these turns in every conversation.
fn scripted(turns: Vec<Turn>) -> Server {
    scripted_for(User::new(), turns)
}

/// A scripted server over a user's store.
fn scripted_for(user: User, turns: Vec<Turn>) -> Server {
    let command = Model::start(turns).command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    Server::spawn(user, command)
}

/// Selects an option in a list. WebDriver cannot press options that are not visible.
async fn choose(page: &Page, css: &str, value: &str) {
    let script = "const field = all(arguments[0])[0]; field.value = arguments[1];\
        field.dispatchEvent(new Event('change', { bubbles: true })); return field.value === arguments[1]";
    page.until_of(&format!("`{css}` has `{value}`"), script, vec![css.into(), value.into()]).await;
}

/// A call that requires approval of a file write.
fn write(path: &str) -> (&'static str, Value) {
    ("Write", json!({"file_path": path, "content": "first line\nsecond line\n"}))
}

/// From now on a script answers the page's requests: `url` and `options` are the request, `real` forwards it to the
/// server.
async fn otherwise(page: &Page, answer: &str) {
    let script = format!(
        "window.through ??= window.fetch;
         window.fetch = async (place, options) => {{ const url = String(place); const real = () => window.through(place, options); {answer}; }};"
    );
    page.run(&script, vec![]).await;
}

/// A conversation with two messages and the replies "First answer." and "Second answer."
async fn answered_twice(server: &Server) -> Page {
    let page = Page::signed_in(server).await;
    for (said, answer) in [("One.", "First answer."), ("Two.", "Second answer.")] {
        page.say(said).await;
        page.sees(answer).await;
        page.until("it is over", "return all('.stop').length === 0").await;
    }
    page
}

/// A conversation with a call that waits for approval.
async fn asked(server: &Server) -> Page {
    let page = Page::signed_in(server).await;
    page.say("Write it.").await;
    page.sees("Allow Write to ").await;
    page
}

/// A conversation of two messages, the second of which is being edited into "Three." Also returns its id.
async fn edited_second(server: &Server) -> (Page, String) {
    let page = answered_twice(server).await;
    let thread = page.thread().await;
    page.run("all('.entry.user')[1].querySelectorAll('button').forEach((one) => named(one) === 'Edit' && one.click())", vec![]).await;
    page.write(".entry.user textarea", "Three.").await;
    (page, thread)
}
