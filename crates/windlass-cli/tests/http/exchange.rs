//! Golden exchanges of a dialect: `DIALECT/golden/*.txt`. A line that begins with `> ` is a request, and the following
//! lines are the response.
//!
//! Ids and times are replaced by names. Deltas of a text are joined, because their boundaries depend on timing.
//! `{call}` is the newest observed call id, and `{call1}` the call with that name; the same holds for sessions and
//! checkpoints. `UPDATE=1` rewrites the responses.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use reqwest::Method;
use serde_json::Value;

use super::{Server, answer};

/// Fields with times.
const TIMES: &[&str] = &["created_at", "updated_at", "last_message_at", "committed_at"];

/// Fields with ids, their placeholder for the newest id in a request, and their prefix in responses.
const IDS: &[(&str, &str, &str)] = &[
    ("tool_call_id", "{call}", "call"),
    ("checkpoint_id", "{checkpoint}", "checkpoint"),
    ("session_id", "{session}", "session"),
    ("stream_id", "{stream}", "stream"),
    ("user_id", "{user}", "user"),
    ("id", "{id}", "id"),
];

/// Events with deltas, and the field with the delta.
const FRAGMENTS: &[(&str, &str)] =
    &[("text", "content"), ("message_chunk", "content"), ("token", "token"), ("tool_call_chunk", "args")];

/// Plays an exchange against a server.
pub async fn check(server: &Server, dialect: &str, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/http/{dialect}/golden/{name}.txt"));
    let wanted = std::fs::read_to_string(&path).unwrap();
    let script: Vec<&str> =
        wanted.lines().filter(|line| line.starts_with("> ") || line.starts_with("# ")).collect();
    let mut player = Player {
        server,
        script: script.join("\n"),
        keys: HashMap::new(),
        seen: HashMap::new(),
        names: Vec::new(),
    };
    let mut played = String::new();
    for line in script {
        writeln!(played, "{line}").unwrap();
        if let Some(request) = line.strip_prefix("> ") {
            played.push_str(&player.request(request).await);
        }
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, played).unwrap();
    } else {
        assert_eq!(played, wanted);
    }
}

/// The frames of a stream, as names and data, with deltas joined.
pub fn frames(stream: &str) -> Vec<(String, Value)> {
    let mut told: Vec<(String, Value)> = Vec::new();
    for frame in stream.split_terminator("\n\n").filter(|frame| !frame.starts_with(':')) {
        let (name, data) = frame.split_once('\n').unwrap();
        let name = name.strip_prefix("event: ").unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        let cut = FRAGMENTS.iter().find(|(fragment, _)| *fragment == name);
        match (told.last_mut(), cut) {
            (Some((last, whole)), Some((_, member)))
                if last == name && whole["tool_call_id"] == data["tool_call_id"] =>
            {
                let text = format!("{}{}", whole[*member].as_str().unwrap(), data[*member].as_str().unwrap());
                whole[*member] = text.into();
            }
            _ => told.push((name.to_owned(), data)),
        }
    }
    // Previews are computed for all calls concurrently, so their requests for approval arrive in any order.
    for beside in told.chunk_by_mut(|(one, _), (other, _)| one == "tool_call" && other == "tool_call") {
        beside.sort_by_key(|(_, data)| data["tool_call_id"].to_string());
    }
    told
}

struct Player<'a> {
    server: &'a Server,
    script: String,
    keys: HashMap<String, String>,
    /// The newest value of each placeholder.
    seen: HashMap<&'static str, String>,
    /// Ids in the order of their first occurrence.
    names: Vec<(String, String)>,
}

impl Player<'_> {
    /// Sends `METHOD PATH [as USER] [BODY]`.
    async fn request(&mut self, line: &str) -> String {
        let mut line = line.to_owned();
        for (name, value) in &self.seen {
            line = line.replace(name, value);
        }
        for (id, name) in &self.names {
            line = line.replace(&format!("{{{name}}}"), id);
        }
        let (method, rest) = line.split_once(' ').unwrap();
        let (path, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (user, body) = match rest.strip_prefix("as ") {
            Some(rest) => rest.split_once(' ').unwrap_or((rest, "")),
            None => ("member", rest),
        };
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.server.request(method, path);
        if user != "nobody" {
            request = request.bearer_auth(self.key(user));
        }
        if !body.is_empty() {
            request = request.header("content-type", "application/json").body(body.to_owned());
        }
        let answer = answer(request).await;
        let mut out = String::new();
        match answer.body {
            Value::String(stream) => {
                let media = answer.headers["content-type"].to_str().unwrap();
                writeln!(out, "{} {media}", answer.status).unwrap();
                // Deltas of calls are live only, and a fast reply is recorded before they are sent.
                for (name, mut data) in
                    frames(&stream).into_iter().filter(|(name, _)| name != "tool_call_chunk")
                {
                    self.tidy(&mut data);
                    writeln!(out, "{name} {}", self.named(&data.to_string())).unwrap();
                }
            }
            Value::Null => writeln!(out, "{}", answer.status).unwrap(),
            mut body => {
                self.tidy(&mut body);
                writeln!(out, "{} {}", answer.status, self.named(&body.to_string())).unwrap();
            }
        }
        out
    }

    fn key(&mut self, user: &str) -> String {
        let server = self.server;
        let key = self.keys.entry(user.to_owned()).or_insert_with(|| {
            let role = if user == "viewer" { "viewer" } else { "member" };
            let id = server.add_user(&format!("{user}@example.com"), &["--role", role]);
            server.key(&["--user", &id])
        });
        key.clone()
    }

    /// Records ids, and removes times.
    fn tidy(&mut self, value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| self.tidy(value)),
            Value::Object(members) => {
                for (name, value) in members {
                    let known = IDS.iter().find(|(member, ..)| member == name);
                    match (known, &*value) {
                        (Some((_, placeholder, kind)), Value::String(id)) => {
                            self.seen.insert(placeholder, id.clone());
                            self.name(id.clone(), kind);
                        }
                        _ if TIMES.contains(&name.as_str()) && value.is_string() => *value = "T".into(),
                        _ => self.tidy(value),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Assigns a name to an id, unless the script itself contains the id.
    fn name(&mut self, id: String, kind: &str) {
        let is_chosen = self.script.contains(&format!("\"{id}\""));
        if !is_chosen && !self.names.iter().any(|(known, _)| *known == id) {
            let count = self.names.iter().filter(|(_, name)| name.starts_with(kind)).count();
            self.names.push((id, format!("{kind}{}", count + 1)));
        }
    }

    fn named(&self, text: &str) -> String {
        let mut names: Vec<_> = self.names.iter().collect();
        // A longer id may begin with a shorter one.
        names.sort_by_key(|(id, _)| std::cmp::Reverse(id.len()));
        names.iter().fold(text.to_owned(), |text, (id, name)| text.replace(id, name))
    }
}
