//! Golden exchanges: `golden/*.txt`. A line that begins with `> ` is a request, and the following lines are the
//! response.
//!
//! Ids are replaced by names. Deltas of a text are joined, because their boundaries depend on timing. `{interrupt}` is
//! the newest observed interrupt. `UPDATE=1` rewrites the responses. AG-UI's own schemas also validate every stream.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::Value;

use crate::http::{Server, answer};

/// The events of a stream.
pub fn events(stream: &str) -> Vec<Value> {
    assert!(!stream.contains('\r'), "lines end with a line feed");
    let frames = stream.split_terminator("\n\n").filter(|frame| *frame != ":");
    let data = frames.map(|frame| frame.lines().find_map(|line| line.strip_prefix("data: ")).unwrap());
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// Runs the script with AG-UI's packages. Returns its output.
pub fn script(arguments: &[&str]) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let packages = root.join("target/ag-ui");
    assert!(packages.exists(), "`{}` is absent: `cargo xtask test` installs it", packages.display());
    let script: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/agui/check.js");
    let output = Command::new("node")
        .arg(script)
        .args(arguments)
        .env("AG_UI", packages)
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Validates streams with AG-UI's schemas and its order check. Returns the event types that occurred.
pub fn check_schemas(streams: &[Vec<Value>]) -> Vec<String> {
    if streams.is_empty() {
        return Vec::new();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("streams");
    let lines: Vec<String> = streams.iter().map(|events| Value::from(events.clone()).to_string()).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    serde_json::from_value(script(&["schemas", file.to_str().unwrap()])).unwrap()
}

/// Plays an exchange against a server.
pub async fn check(server: &Server, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/http/agui/golden/{name}.txt"));
    let wanted = std::fs::read_to_string(&path).unwrap();
    let mut player = Player { server, keys: HashMap::new(), interrupt: String::new(), names: Vec::new() };
    let (mut played, mut streams) = (String::new(), Vec::new());
    for line in wanted.lines().filter(|line| line.starts_with("> ") || line.starts_with("# ")) {
        writeln!(played, "{line}").unwrap();
        if let Some(request) = line.strip_prefix("> ") {
            played.push_str(&player.request(request, &mut streams).await);
        }
    }
    check_schemas(&streams);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, played).unwrap();
    } else {
        assert_eq!(played, wanted);
    }
}

struct Player<'a> {
    server: &'a Server,
    keys: HashMap<String, String>,
    interrupt: String,
    /// Ids in the order of their first occurrence.
    names: Vec<(String, String)>,
}

impl Player<'_> {
    /// Sends `METHOD PATH as USER [BODY]`.
    async fn request(&mut self, line: &str, streams: &mut Vec<Vec<Value>>) -> String {
        let line = line.replace("{interrupt}", &self.interrupt);
        let mut words = line.splitn(5, ' ');
        let mut next = || words.next().unwrap_or_default().to_owned();
        let (method, path, _, user, body) = (next(), next(), next(), next(), next());
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.server.request(method, &path).bearer_auth(self.key(&user));
        let answer = answer(request.header("content-type", "application/json").body(body)).await;
        let mut out = format!("{}\n", answer.status);
        match &answer.body {
            Value::String(stream) => {
                assert_eq!(answer.headers["content-type"], "text/event-stream");
                let told = events(stream);
                for event in joined(&told) {
                    writeln!(out, "{}", self.named(event)).unwrap();
                }
                streams.push(told);
            }
            body => {
                let said = self.with_names(format!("{} {}", body["code"], body["detail"]));
                writeln!(out, "{said}").unwrap();
            }
        }
        out
    }

    fn key(&mut self, user: &str) -> String {
        let server = self.server;
        let key = self.keys.entry(user.to_owned()).or_insert_with(|| {
            if user == "admin" {
                return server.key(&[]);
            }
            let role = if user == "viewer" { "viewer" } else { "member" };
            let id = server.add_user(&format!("{user}@example.com"), &["--role", role]);
            server.key(&["--user", &id])
        });
        key.clone()
    }

    /// An event with its ids replaced by names, and without times.
    fn named(&mut self, mut event: Value) -> String {
        for interrupt in
            event.pointer_mut("/outcome/interrupts").and_then(Value::as_array_mut).into_iter().flatten()
        {
            self.interrupt = interrupt["id"].as_str().unwrap().to_owned();
            interrupt["metadata"]["since"] = "T".into();
            if let Some(approval) = interrupt.pointer_mut("/metadata/approval") {
                *approval = "DIGEST".into();
            }
        }
        self.with_names(event.to_string())
    }

    fn with_names(&mut self, mut text: String) -> String {
        while let Some(at) = text.find("run_") {
            // A run's id, or a reply's id with its position in the journal.
            let digits = |rest: &str| rest.bytes().take_while(u8::is_ascii_digit).count();
            let place = text[at + 20..].strip_prefix('-').map_or(0, |rest| 1 + digits(rest));
            let id = text[at..at + 20 + place].to_owned();
            let kind = if place > 1 { "REPLY" } else { "RUN" };
            if !self.names.iter().any(|(known, _)| *known == id) {
                let count = self.names.iter().filter(|(_, name)| name.starts_with(kind)).count();
                self.names.push((id.clone(), format!("{kind}{}", count + 1)));
            }
            let name = self.names.iter().find(|(known, _)| *known == id).unwrap().1.clone();
            text.replace_range(at..at + id.len(), &name);
        }
        text
    }
}

/// Joins consecutive deltas of a text into one event.
fn joined(events: &[Value]) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for event in events {
        match joined.last_mut() {
            Some(last) if last["type"] == event["type"] && event["delta"].is_string() => {
                let delta = last["delta"].as_str().unwrap().to_owned() + event["delta"].as_str().unwrap();
                last["delta"] = delta.into();
            }
            _ => joined.push(event.clone()),
        }
    }
    joined
}
