//! A client that follows a run through `windlass watch`, while the driver and the client itself are killed.
//!
//! It sees only the lines. From them it rebuilds the events and, between them, the replies.

use std::collections::BTreeMap;
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde_json::Value;

use super::journal::Journal;
use super::trial::{Watched, kill, lines_of};
use crate::cli::User;

/// Time-out without output of a watcher whose run has ended.
const SILENCE: Duration = Duration::from_secs(30);

/// The watcher process, and the state that the client built from its lines.
pub struct Watcher {
    child: Child,
    lines: Receiver<Value>,
    client: Client,
    run: String,
    pub kills: u64,
}

#[derive(Default)]
struct Client {
    events: Vec<Value>,
    /// The `step.started` whose reply is pending.
    step: u64,
    reply: Fragments,
    ended: bool,
    watched: Watched,
}

/// The deltas of one reply so far.
#[derive(Debug, Default)]
struct Fragments {
    /// Number of the newest delta.
    newest: u64,
    /// Whether several deltas arrived merged into a snapshot.
    together: bool,
    /// By block: the text, or a call's name and arguments.
    parts: BTreeMap<u64, (String, String)>,
}

impl Watcher {
    /// Watches a run from its thread's first event.
    pub fn start(user: &User, run: &str) -> Self {
        let mut child = user.start(&["watch", run, "--after", "0", "--stream-json"]);
        let lines = lines_of(&mut child);
        Self { child, lines, client: Client::default(), run: run.to_owned(), kills: 0 }
    }

    /// Kills the watcher and restarts it after the last complete event.
    pub fn kill_and_restart(&mut self, user: &User) {
        kill(&mut self.child);
        self.kills += 1;
        // Lines that were printed before the kill are still read.
        while let Ok(line) = self.lines.recv() {
            self.client.take(line);
        }
        (self.client.reply, self.client.ended) = (Fragments::default(), false);
        let after = self.client.events.len().to_string();
        self.child = user.start(&["watch", &self.run, "--after", &after, "--stream-json"]);
        self.lines = lines_of(&mut self.child);
    }

    /// Waits for the last line, and compares the received data with the journal.
    pub fn end(mut self, journal: &Journal) -> Watched {
        loop {
            match self.lines.recv_timeout(SILENCE) {
                Ok(line) => self.client.take(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the watcher hangs after {}", self.client.events.len())
                }
            }
        }
        let said = crate::cli::said(self.child.wait_with_output().unwrap()).exits(0);
        assert!(self.client.ended, "no outcome was sent: {said:?}");
        assert_eq!(self.client.events, journal.0, "the events are the journal's, each once and in order");
        self.client.watched
    }
}

impl Client {
    fn take(&mut self, line: Value) {
        assert!(!self.ended, "a line after the last one: {line}");
        let kind = line["type"].as_str().unwrap();
        match kind {
            "outcome" => self.ended = true,
            "thread.status" | "tool.progress" | "driver.stopped" => {}
            "message.snapshot" => self.fragments(&line).replace(&line),
            _ if line["delta"].is_u64() => self.fragments(&line).add(&line),
            _ => self.event(line),
        }
    }

    fn fragments(&mut self, line: &Value) -> &mut Fragments {
        assert_eq!(line["seq"], self.step, "a fragment of the step at hand: {line}");
        &mut self.reply
    }

    fn event(&mut self, event: Value) {
        assert_eq!(event["seq"], self.events.len() as u64 + 1, "no gap and no repeat");
        match event["type"].as_str().unwrap() {
            "step.started" => {
                self.step = event["seq"].as_u64().unwrap();
                self.reply = Fragments::default();
            }
            "step.replied" => {
                match self.reply.compare(&event["message"]["blocks"]) {
                    true => self.watched.whole += 1,
                    false => self.watched.supplied += 1,
                }
                self.step = 0;
            }
            "step.failed" => self.step = 0,
            _ => {}
        }
        self.events.push(event);
    }
}

impl Fragments {
    fn add(&mut self, line: &Value) {
        let number = line["delta"].as_u64().unwrap();
        assert_eq!(number, self.newest + 1, "each fragment is sent once, and none left out: {line}");
        self.newest = number;
        self.put(line);
    }

    fn replace(&mut self, line: &Value) {
        let number = line["delta"].as_u64().unwrap();
        assert!(number > self.newest, "a snapshot has news: {line}");
        *self = Self { newest: number, together: true, parts: BTreeMap::new() };
        line["parts"].as_array().unwrap().iter().for_each(|part| self.put(part));
    }

    fn put(&mut self, line: &Value) {
        let (name, text) = self.parts.entry(line["part"].as_u64().unwrap()).or_default();
        name.push_str(line["name"].as_str().unwrap_or_default());
        text.push_str(line["text"].as_str().or(line["arguments"].as_str()).unwrap());
    }

    /// Whether the deltas form the complete reply, each received separately. They must always be a prefix of it.
    fn compare(&self, blocks: &Value) -> bool {
        let blocks = blocks.as_array().unwrap();
        let mut whole = self.parts.len() == blocks.len();
        for ((name, text), block) in self.parts.values().zip(blocks) {
            let recorded = block["text"].as_str().or(block["asked"].as_str()).unwrap();
            assert!(recorded.starts_with(text.as_str()), "`{text}` was sent, `{recorded}` recorded");
            assert_eq!(name, block["name"].as_str().unwrap_or_default());
            whole &= text == recorded;
        }
        whole && !self.together
    }
}
