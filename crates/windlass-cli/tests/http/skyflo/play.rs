//! Golden exchanges: `golden/*.txt`. A line that begins with `> ` is a request, and the following lines are the
//! response.
//!
//! Ids and times are replaced by names. Deltas of a text are joined, because their boundaries depend on timing.
//! `{call}`, `{run}` and `{cursor}` are the newest observed ids. `UPDATE=1` rewrites the responses.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use reqwest::Method;
use serde_json::Value;

use crate::http::{Server, answer};

/// Path of the interface.
pub const API: &str = "/skyflo/api/v1";

/// Fields with times or durations.
const TIMES: &[&str] =
    &["timestamp", "duration", "duration_ms", "durationMs", "ttft_ms", "ttr_ms", "created_at", "updated_at"];

/// Fields whose values change with the offered tools.
const COUNTS: &[&str] = &["tools_available", "prompt_tokens", "total_tokens"];

/// Plays an exchange against a server.
pub async fn check(server: &Server, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/http/skyflo/golden/{name}.txt"));
    let wanted = std::fs::read_to_string(&path).unwrap();
    let mut player = Player { server, keys: HashMap::new(), seen: HashMap::new(), names: Vec::new() };
    let mut played = String::new();
    for line in wanted.lines().filter(|line| line.starts_with("> ") || line.starts_with("# ")) {
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

struct Player<'a> {
    server: &'a Server,
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
        let (method, rest) = line.split_once(' ').unwrap();
        let (path, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (user, body) = match rest.strip_prefix("as ") {
            Some(rest) => rest.split_once(' ').unwrap_or((rest, "")),
            None => ("admin", rest),
        };
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.server.request(method, &format!("{API}{path}"));
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
                writeln!(out, "{} {}", answer.status, answer.headers["content-type"].to_str().unwrap())
                    .unwrap();
                self.stream(&stream, &mut out);
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
        let key = self.keys.entry(user.to_owned()).or_insert_with(|| match user {
            "admin" => server.key(&[]),
            "elsewhere" => {
                let id = server.add_user("e@example.com", &["--role", "admin", "--workspace", "elsewhere"]);
                server.key(&["--user", &id])
            }
            role => {
                let id = server.add_user(&format!("{role}@example.com"), &["--role", role]);
                server.key(&["--user", &id])
            }
        });
        key.clone()
    }

    fn stream(&mut self, stream: &str, out: &mut String) {
        let mut told: Vec<(String, Value)> = Vec::new();
        for frame in stream.split_terminator("\n\n") {
            let (name, data) = frame.split_once('\n').unwrap();
            let name = name.strip_prefix("event: ").unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            match told.last_mut() {
                Some((last, whole)) if last == name && matches!(name, "token" | "thinking") => {
                    let text =
                        format!("{}{}", whole["text"].as_str().unwrap(), data["text"].as_str().unwrap());
                    whole["text"] = text.into();
                }
                _ => told.push((name.to_owned(), data)),
            }
        }
        for (name, mut data) in told {
            self.tidy(&mut data);
            // The number of deltas of a text depends on timing as well.
            if let Some(data) = data.as_object_mut().filter(|data| data.contains_key("tokens_generated")) {
                data.insert("tokens_generated".into(), "N".into());
            }
            writeln!(out, "{name} {}", self.named(&data.to_string())).unwrap();
        }
    }

    /// Records ids, and removes times.
    fn tidy(&mut self, value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| self.tidy(value)),
            Value::Object(members) => {
                for (name, value) in members {
                    let kind = match name.as_str() {
                        "run_id" => Some(("{run}", "run")),
                        "call_id" => Some(("{call}", "call")),
                        "next_cursor" => Some(("{cursor}", "cursor")),
                        "id" | "conversation_id" => Some(("{id}", "id")),
                        _ => None,
                    };
                    if let (Some((placeholder, kind)), Value::String(id)) = (kind, &*value) {
                        self.seen.insert(placeholder, id.clone());
                        let is_fixed = id.starts_with("7f1b2c3d-");
                        if !is_fixed && !self.names.iter().any(|(known, _)| known == id) {
                            let count = self.names.iter().filter(|(_, name)| name.starts_with(kind)).count();
                            self.names.push((id.clone(), format!("{kind}{}", count + 1)));
                        }
                    } else if TIMES.contains(&name.as_str()) && (value.is_number() || value.is_string()) {
                        *value = "T".into();
                    } else if COUNTS.contains(&name.as_str()) && value.is_u64() {
                        *value = "N".into();
                    } else if name == "duration" {
                        *value = "T".into();
                    } else {
                        self.tidy(value);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn named(&self, text: &str) -> String {
        let mut names: Vec<_> = self.names.iter().collect();
        // A longer id may begin with a shorter one.
        names.sort_by_key(|(id, _)| std::cmp::Reverse(id.len()));
        names.iter().fold(text.to_owned(), |text, (id, name)| text.replace(id, name))
    }
}
