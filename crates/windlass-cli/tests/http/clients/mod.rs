//! The unmodified requests of other products' clients, in their order, from the first registration to a finished,
//! approved run. The server's configuration has only the dialects' tables.
//!
//! The tests of each dialect compare complete responses.

mod agui;
mod skillchat;
mod skyflo;
mod zeus;

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::exchange::frames;
use super::{Server, answer};
use crate::cli::User;
use crate::cli::model::{Model, Turn};

/// A server with this configuration and a scripted model.
fn server(configuration: &str, model: &Model) -> Server {
    let user = User::new();
    user.configure(configuration);
    start(user, model)
}

/// A server over an existing store.
fn start(user: User, model: &Model) -> Server {
    let command = model.command(&user, &["serve", "--listen", "127.0.0.1:0"]);
    Server::spawn(user, command)
}

/// A model that writes a file, which requires approval, and then replies.
fn writer() -> Model {
    let write = json!({"file_path": "a.md", "content": "x"});
    Model::start(vec![Turn::Call(vec![("Write", write)]), Turn::Say("It is written.")])
}

/// Sends a request with a streamed response. Returns its events.
async fn stream(request: RequestBuilder) -> Vec<(String, Value)> {
    let answer = answer(request).await.is(StatusCode::OK);
    assert_eq!(answer.headers["content-type"], "text/event-stream; charset=utf-8");
    frames(answer.body.as_str().unwrap_or_default())
}

/// The names of events, in order.
fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

/// The first event with a name.
fn event<'a>(events: &'a [(String, Value)], name: &str) -> &'a Value {
    let found = events.iter().find(|(known, _)| known == name);
    &found.unwrap_or_else(|| panic!("no {name}: {events:#?}")).1
}

/// Whether any file of a store contains a text.
fn is_kept(server: &Server, text: &str) -> bool {
    let mut open = vec![server.user.store()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            // A running server's sockets cannot be read.
            if !path.is_file() {
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                return true;
            }
        }
    }
    false
}
