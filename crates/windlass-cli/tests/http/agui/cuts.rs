//! Clients whose streams are interrupted at random moments, while the server is killed and restarted. Each client ends
//! with the journal's text. Content that a client already has is not streamed again, and no event id occurs twice.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_bench::server::ModelServer;

use crate::cli::User;
use crate::http::cuts::{kill_and_start, serve};
use crate::kill::{Dice, Seed, number_of};

const RUNS: u64 = 4;
const CLIENTS_OF_A_RUN: u64 = 4;
/// Minimum number of opened streams.
const STREAMS: u64 = 100;
/// Upper bound of frames that a client reads before its stream is interrupted.
const FRAMES_MAX: u64 = 30;

struct Setting {
    client: Client,
    address: watch::Receiver<String>,
    key: String,
    streams: AtomicU64,
}

/// The data that one client has received.
#[derive(Default)]
struct Heard {
    ids: HashSet<String>,
    /// The texts of the messages, by their ids.
    messages: HashMap<String, String>,
    /// Messages that are open in this stream.
    open: HashSet<String>,
    /// Messages in the snapshots of this stream.
    shown: HashSet<String>,
    /// Complete messages. If the server is killed, the received text of the other messages is void.
    whole: HashSet<String>,
    has_ended: bool,
}

impl Heard {
    fn take(&mut self, frame: &str) {
        if let Some(id) = frame.lines().find_map(|line| line.strip_prefix("id: ")) {
            assert!(self.ids.insert(id.to_owned()), "`{id}` is sent twice");
        }
        let Some(data) = frame.lines().find_map(|line| line.strip_prefix("data: ")) else { return };
        let event: Value = serde_json::from_str(data).unwrap();
        let id = event["messageId"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap() {
            "MESSAGES_SNAPSHOT" => {
                let of = |message: &Value| {
                    let text = |member: &str| message[member].as_str().unwrap_or_default().to_owned();
                    (text("id"), text("content"))
                };
                let shown: HashMap<_, _> = event["messages"].as_array().unwrap().iter().map(of).collect();
                for (id, text) in self.messages.iter().filter(|(id, _)| self.whole.contains(*id)) {
                    let now = shown.get(id).unwrap_or_else(|| panic!("`{id}` is lost: {event}"));
                    assert!(now.starts_with(text), "`{text}` is no beginning of `{now}`");
                }
                self.shown = shown.keys().cloned().collect();
                self.messages = shown;
            }
            "TEXT_MESSAGE_START" => {
                let is_new = !self.messages.contains_key(&id);
                assert!(is_new || self.shown.remove(&id), "`{id}` is streamed again");
                self.messages.entry(id.clone()).or_default();
                self.open.insert(id);
            }
            "TEXT_MESSAGE_CONTENT" => {
                assert!(self.open.contains(&id), "`{id}` is not open");
                self.messages.get_mut(&id).unwrap().push_str(event["delta"].as_str().unwrap());
            }
            "TEXT_MESSAGE_END" => {
                assert!(self.open.remove(&id), "`{id}` is not open");
                self.whole.insert(id);
            }
            "RUN_FINISHED" => {
                assert_eq!(event["outcome"], json!({"type": "success"}));
                assert!(self.open.is_empty());
                self.has_ended = true;
            }
            "RUN_ERROR" => panic!("{event}"),
            _ => {}
        }
    }
}

impl Setting {
    /// Reads a run to its end through several streams. The first one starts the run, and the others reconnect in
    /// either way.
    async fn read(&self, number: u64, mut dice: Dice) -> HashMap<String, String> {
        let mut heard = Heard::default();
        let (thread, run) = (format!("t{number}"), format!("r{number}"));
        let message = json!({"id": format!("m{number}"), "role": "user", "content": "go"});
        heard.messages.insert(format!("m{number}"), "go".into());
        heard.whole.insert(format!("m{number}"));
        let input = json!({"threadId": thread, "runId": run, "messages": [message]});
        while !heard.has_ended {
            let address = self.address.borrow().clone();
            let is_first = self.streams.load(Ordering::Relaxed) < RUNS * CLIENTS_OF_A_RUN;
            let request = match is_first || dice.below(2) == 0 {
                true => self.client.post(format!("{address}/agui")).json(&input),
                false => self.client.get(format!("{address}/agui/threads/{thread}")),
            };
            let Ok(mut response) = request.bearer_auth(&self.key).send().await else {
                tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep a dead server says nothing; the next one is asked in a moment
                continue;
            };
            self.streams.fetch_add(1, Ordering::Relaxed);
            assert_eq!(response.status(), StatusCode::OK);
            (heard.open, heard.shown) = (HashSet::new(), HashSet::new());
            let (mut rest, mut left) = (String::new(), 4 + dice.below(FRAMES_MAX));
            while left > 0 && !heard.has_ended {
                let Ok(Some(bytes)) = response.chunk().await else { break };
                rest.push_str(std::str::from_utf8(&bytes).unwrap());
                while let Some((frame, more)) = rest.split_once("\n\n") {
                    heard.take(frame);
                    rest = more.to_owned();
                    left = left.saturating_sub(1);
                }
            }
        }
        heard.messages
    }
}

// rows: OV-15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_often_a_stream_is_cut_its_client_ends_up_with_the_journals_text() {
    let seed = Seed(number_of("WINDLASS_SEED").unwrap_or(u64::from(std::process::id()) * 1000));
    let model = ModelServer::start(0).await.unwrap();
    let user = User::new();
    user.configure("[server.limits]\nrequests_per_minute = 1000000\n");
    let server = serve(user, &model.base_url());
    let (sender, address) = watch::channel(server.address.clone());
    let setting = Arc::new(Setting {
        client: Client::builder().no_proxy().build().unwrap(),
        address,
        key: server.key(&[]),
        streams: AtomicU64::default(),
    });
    let clients: Vec<_> = (0..RUNS * CLIENTS_OF_A_RUN)
        .map(|number| {
            let setting = setting.clone();
            let dice = Dice(seed.0 + number);
            tokio::spawn(async move { setting.read(number % RUNS, dice).await })
        })
        .collect();
    let server = kill_and_start(server, model.base_url(), sender).await;
    let mut texts = Vec::new();
    for client in clients {
        let client = tokio::time::timeout(Duration::from_secs(40), client).await;
        texts.push(client.expect("a client hangs").unwrap());
    }
    for row in crate::cli::lines(&server.user.run(&["threads", "list", "--json"]).exits(0).out) {
        let thread = row["thread"].as_str().unwrap();
        let journal = crate::cli::lines(&server.user.run(&["threads", "export", thread]).exits(0).out);
        let sent = |event: &&Value| event["type"] == "message.received";
        assert_eq!(journal.iter().filter(sent).count(), 1, "{journal:#?}");
        let own = journal.iter().find(sent).unwrap()["id"].as_str().unwrap().to_owned();
        let replied = journal.iter().find(|event| event["type"] == "step.replied").unwrap();
        let whole = replied["message"]["blocks"][0]["text"].as_str().unwrap();
        let ours: Vec<_> = texts.iter().filter(|messages| messages.contains_key(&own)).collect();
        assert_eq!(ours.len() as u64, CLIENTS_OF_A_RUN);
        for messages in ours {
            assert_eq!(messages.len(), 2, "{messages:?}");
            assert!(messages.values().any(|text| text == whole), "{messages:?}\n{whole}");
        }
    }
    let streams = setting.streams.load(Ordering::Relaxed);
    println!("{streams} streams");
    assert!(streams >= STREAMS, "only {streams} streams: the clients read too much at a time");
}
