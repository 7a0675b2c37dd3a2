//! Clients whose streams are interrupted at random moments, while the server is killed and restarted. Each client ends
//! with the journal's events and texts, and receives nothing twice.
//!
//! Half of the runs are driven by other processes, and the server only relays them. The server drives the others.
//! `WINDLASS_SEED` repeats the interruptions of a failure, as far as timing allows.

use std::collections::HashSet;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::Value;
use tokio::sync::watch;
use windlass_bench::server::ModelServer;

use super::Server;
use super::stream::{Events, Told};
use crate::cli::{User, lines};
use crate::kill::{Dice, Seed, number_of};

/// A text of 200 tokens, streamed for three seconds.
pub const MODEL: &str = "openai-chat/stream-200-delay15ms";

const RUNS: usize = 8;
const CLIENTS_OF_A_RUN: u64 = 8;

/// Minimum number of opened streams.
const STREAMS: u64 = 500;

/// Upper bound of events that a client reads before its stream is interrupted.
const EVENTS_MAX: u64 = 40;

/// Time from each start of the server to the next kill.
const KILLS_AFTER_MS: [u64; 3] = [1_000, 2_000, 1_500];

/// State shared by all clients.
struct Setting {
    client: Client,
    address: watch::Receiver<String>,
    key: String,
    streams: AtomicU64,
    snapshots: AtomicU64,
    whole: AtomicU64,
}

/// The data that one client has received.
#[derive(Default)]
struct Heard {
    ids: HashSet<String>,
    last: Option<String>,
    events: Vec<Value>,
    /// The reply in progress: its number of deltas and its text.
    reply: (u64, String),
    has_ended: bool,
}

fn in_setting(mut command: Command, base_url: &str) -> Command {
    command.env("OPENAI_API_KEY", "none").env("WINDLASS_MODEL", MODEL).env("WINDLASS_BASE_URL", base_url);
    command
}

/// A server whose model streams [`MODEL`].
pub fn serve(user: User, base_url: &str) -> Server {
    let command = in_setting(user.command(&["serve", "--listen", "127.0.0.1:0"]), base_url);
    Server::spawn(user, command)
}

/// The threads, after each of them has an active step.
fn threads(user: &User) -> Vec<String> {
    loop {
        let rows = lines(&user.run(&["threads", "list", "--json"]).exits(0).out);
        let begun = rows.iter().filter(|row| row["head"].as_u64() >= Some(3));
        let begun: Vec<String> = begun.map(|row| row["thread"].as_str().unwrap().to_owned()).collect();
        if begun.len() == RUNS {
            return begun;
        }
    }
}

impl Setting {
    /// Reads a thread through several streams until its run has ended.
    async fn read(&self, thread: &str, mut dice: Dice) -> Vec<Value> {
        let mut heard = Heard::default();
        while !heard.has_ended {
            let address = self.address.borrow().clone();
            let path = format!("{address}/api/v1/threads/{thread}/stream");
            let mut request = self.client.get(path).bearer_auth(&self.key);
            if let Some(last) = &heard.last {
                request = request.header("last-event-id", last);
            }
            let response = match request.send().await {
                Ok(response) => response,
                // The server was killed; the next one is starting.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(20)).await; // tidy: sleep a dead server says nothing; the next one is asked in a moment
                    continue;
                }
            };
            assert_eq!(response.status(), StatusCode::OK);
            self.streams.fetch_add(1, Ordering::Relaxed);
            let mut events = Events::of(response);
            for _ in 0..=dice.below(EVENTS_MAX) {
                let Some(told) = events.next().await else { break };
                self.take(&mut heard, told);
                if heard.has_ended {
                    break;
                }
            }
        }
        heard.events
    }

    fn take(&self, heard: &mut Heard, told: Told) {
        if told.id.is_empty() {
            return;
        }
        assert!(heard.ids.insert(told.id.clone()), "`{}` is sent twice", told.id);
        heard.last = Some(told.id.clone());
        let text = |value: &Value| value["text"].as_str().unwrap_or_default().to_owned();
        let number = told.data["delta"].as_u64();
        match told.name.as_str() {
            "message.delta" => {
                assert_eq!(number, Some(heard.reply.0 + 1), "no fragment is left out: {told:?}");
                heard.reply = (heard.reply.0 + 1, format!("{}{}", heard.reply.1, text(&told.data)));
            }
            "message.snapshot" => {
                self.snapshots.fetch_add(1, Ordering::Relaxed);
                assert!(number > Some(heard.reply.0), "a snapshot has news: {told:?}");
                heard.reply = (number.unwrap(), text(&told.data["parts"][0]));
            }
            name => {
                assert_eq!(told.data["seq"], heard.events.len() as u64 + 1, "no gap and no repeat");
                if name == "step.replied" {
                    let recorded = text(&told.data["message"]["blocks"][0]);
                    assert!(recorded.starts_with(&heard.reply.1), "`{}` of `{recorded}`", heard.reply.1);
                    self.whole.fetch_add(u64::from(recorded == heard.reply.1), Ordering::Relaxed);
                }
                if ["step.started", "step.replied", "step.failed"].contains(&name) {
                    heard.reply = (0, String::new());
                }
                heard.has_ended = name == "run.finished";
                heard.events.push(told.data);
            }
        }
    }
}

/// Kills and restarts the server several times. Returns the last one.
pub async fn kill_and_start(mut server: Server, base_url: String, address: watch::Sender<String>) -> Server {
    for after_ms in KILLS_AFTER_MS {
        tokio::time::sleep(Duration::from_millis(after_ms)).await; // tidy: sleep the kills are to come at some time, not at some event
        let base_url = base_url.clone();
        server = tokio::task::spawn_blocking(move || serve(server.kill(), &base_url)).await.unwrap();
        address.send_replace(server.address.clone());
    }
    server
}

fn leave_to_the_server(runs: &mut [Child]) {
    for run in runs {
        run.kill().unwrap();
        run.wait().unwrap();
    }
}

// rows: WT-X5, ZE-P1, ZE-P2, ZE-P4, ZE-E12, OV-18, SK-P1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_often_a_stream_is_cut_its_client_ends_up_with_the_journal() {
    let seed = Seed(number_of("WINDLASS_SEED").unwrap_or(u64::from(std::process::id()) * 1000));
    let model = ModelServer::start(0).await.unwrap();
    let user = User::new();
    // All clients use one address and one key, and some reconnect immediately.
    user.configure("[server.limits]\nrequests_per_minute = 1000000\n");
    let server = serve(user, &model.base_url());
    let run = || in_setting(server.user.command(&["run", "--yes", "-m", MODEL, "go"]), &model.base_url());
    let mut runs: Vec<Child> = (0..RUNS).map(|_| run().spawn().unwrap()).collect();
    let threads = threads(&server.user);
    leave_to_the_server(&mut runs[..RUNS / 2]);

    let (sender, address) = watch::channel(server.address.clone());
    let setting = Arc::new(Setting {
        client: Client::builder().no_proxy().build().unwrap(),
        address,
        key: server.key(&[]),
        streams: AtomicU64::default(),
        snapshots: AtomicU64::default(),
        whole: AtomicU64::default(),
    });
    let mut clients = Vec::new();
    for (at, thread) in threads.iter().enumerate() {
        for number in 0..CLIENTS_OF_A_RUN {
            let (setting, thread) = (setting.clone(), thread.clone());
            let dice = Dice(seed.0 + at as u64 * CLIENTS_OF_A_RUN + number);
            clients.push((at, tokio::spawn(async move { setting.read(&thread, dice).await })));
        }
    }
    let server = tokio::spawn(kill_and_start(server, model.base_url(), sender)).await.unwrap();
    let mut heard = Vec::new();
    for (at, client) in clients {
        let client = tokio::time::timeout(Duration::from_secs(45), client).await;
        heard.push((at, client.expect("a client hangs").unwrap()));
    }
    for run in &mut runs[RUNS / 2..] {
        assert!(run.wait().unwrap().success());
    }
    let journal = |thread: &String| lines(&server.user.run(&["threads", "export", thread]).exits(0).out);
    let journals: Vec<_> = threads.iter().map(journal).collect();
    for (at, events) in heard {
        assert_eq!(events, journals[at]);
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (streams, whole) = (count(&setting.streams), count(&setting.whole));
    println!("{streams} streams, {} snapshots, {whole} replies in fragments", count(&setting.snapshots));
    assert!(streams >= STREAMS, "only {streams} streams: the clients read too much at a time");
    assert!(whole > 0, "no client ever saw a reply from its first fragment to its last");
}
