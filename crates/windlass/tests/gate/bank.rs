//! A bank that counts its debits, reachable as a function and over HTTP. It can make its caller die at any point.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use windlass::machine::{Annotations, Condition, EffectClass, Predicate};
use windlass::port::tool::{CallContext, ToolOutput};
use windlass::tool::{Adjustment, FunctionTool, Reconcile, Registry, Source};

use crate::drive::registry;

/// What happens to a caller of the bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The caller survives; the request counts towards the next death.
    None,
    /// The caller dies before the bank has received the request.
    Before,
    /// The caller dies after the bank has processed the request, without a response.
    After,
}

/// The bank's books. Cheap to clone.
#[derive(Clone, Default)]
pub struct Bank(Arc<Books>);

#[derive(Default)]
struct Books {
    debits: Mutex<Vec<String>>,
    /// The response for each key, so that a repeated request gets the same one.
    keys: Mutex<BTreeMap<String, String>>,
    /// The keys as received.
    seen: Mutex<Vec<String>>,
    deaths: Mutex<VecDeque<Death>>,
    died: Notify,
    reads: Mutex<usize>,
}

/// How a tool reaches the bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// In the process.
    Function,
    /// Over HTTP, at this port.
    Http(u16),
}

/// A request: its order, and the key by which the bank deduplicates.
#[derive(Clone, Debug)]
struct Request {
    path: &'static str,
    order: String,
    key: Option<String>,
}

impl Bank {
    /// The number of debits.
    pub fn debits(&self) -> usize {
        self.0.debits.lock().unwrap().len()
    }

    /// The number of reads.
    pub fn reads(&self) -> usize {
        *self.0.reads.lock().unwrap()
    }

    /// The keys received, including repeated ones.
    pub fn keys(&self) -> Vec<String> {
        self.0.seen.lock().unwrap().clone()
    }

    /// Makes the caller of a coming request die. Several deaths are applied in this order.
    pub fn let_die(&self, death: Death) {
        self.0.deaths.lock().unwrap().push_back(death);
    }

    /// Waits until a caller has died.
    pub async fn died(&self) {
        self.0.died.notified().await;
    }

    /// Processes a request. A caller that is to die gets no response.
    async fn serve(&self, request: &Request) -> String {
        let death = self.0.deaths.lock().unwrap().pop_front().unwrap_or(Death::None);
        if death == Death::Before {
            self.die().await;
        }
        let answer = self.book(request);
        if death == Death::After {
            self.die().await;
        }
        answer
    }

    async fn die(&self) {
        self.0.died.notify_one();
        std::future::pending::<()>().await;
    }

    fn book(&self, request: &Request) -> String {
        let order = &request.order;
        if request.path == "balance" {
            *self.0.reads.lock().unwrap() += 1;
            return "100".into();
        }
        if request.path == "find" {
            let found = self.0.debits.lock().unwrap().contains(order);
            return json!({ "found": found, "order": order }).to_string();
        }
        let Some(key) = &request.key else {
            self.0.debits.lock().unwrap().push(order.clone());
            return format!("paid {order}");
        };
        self.0.seen.lock().unwrap().push(key.clone());
        let mut keys = self.0.keys.lock().unwrap();
        let answer = keys.entry(key.clone()).or_insert_with(|| {
            self.0.debits.lock().unwrap().push(order.clone());
            format!("paid {order}")
        });
        answer.clone()
    }

    /// Opens the bank on a port, on a thread that outlives its callers.
    pub fn open(&self) -> u16 {
        let (told, port) = std::sync::mpsc::channel();
        let bank = self.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                told.send(listener.local_addr().unwrap().port()).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let bank = bank.clone();
                    tokio::spawn(async move { bank.answer(stream).await });
                }
            });
        });
        port.recv().unwrap()
    }

    /// Answers one HTTP/1.1 request: `POST /path`, with the order as JSON and the key in its usual header.
    async fn answer(&self, stream: TcpStream) {
        let (reading, mut writing) = stream.into_split();
        let mut lines = BufReader::new(reading);
        let (mut head, mut length, mut key) = (String::new(), 0, None);
        lines.read_line(&mut head).await.unwrap();
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line).await.unwrap() <= 2 {
                break;
            }
            match line.trim().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("idempotency-key", value)) => key = Some(value.to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let path = match head.split(' ').nth(1).unwrap() {
            "/balance" => "balance",
            "/find" => "find",
            _ => "pay",
        };
        let order = body["order"].as_str().unwrap().to_owned();
        let answer = self.serve(&Request { path, order, key }).await;
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
        // The caller may be dead.
        let _ = writing.write_all(answer.as_bytes()).await;
    }

    async fn ask(&self, wire: Wire, request: Request) -> String {
        match wire {
            Wire::Function => self.serve(&request).await,
            Wire::Http(port) => over_http(port, &request).await,
        }
    }
}

async fn over_http(port: u16, request: &Request) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let body = json!({ "order": request.order }).to_string();
    let key = request.key.as_ref().map(|key| format!("idempotency-key: {key}\r\n")).unwrap_or_default();
    let (path, length) = (request.path, body.len());
    let sent = format!("POST /{path} HTTP/1.1\r\nhost: bank\r\ncontent-length: {length}\r\n{key}\r\n{body}");
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    /// What is paid for.
    order: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct KeyedOrder {
    /// What is paid for.
    order: String,
    /// By which a repeat is recognised.
    idempotency_key: String,
}

/// The declared behaviour of the bank's tool `pay`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pays {
    /// Each request debits.
    Once,
    /// Each request debits, and another tool can look up whether it was processed.
    Reconciled,
    /// The bank deduplicates by the engine's key.
    Keyed,
    /// The bank deduplicates by the order itself.
    Idempotent,
    /// It only reads.
    Pure,
}

impl Pays {
    pub const ALL: [Self; 5] = [Self::Once, Self::Reconciled, Self::Keyed, Self::Idempotent, Self::Pure];
}

/// The bank's tools: `pay`, and `find`, which reports whether an order was paid.
pub fn tools(bank: &Bank, wire: Wire, pays: Pays) -> Registry {
    let asked = bank.clone();
    let request = move |path, order: Order, key| {
        let bank = asked.clone();
        async move { ToolOutput::text(bank.ask(wire, Request { path, order: order.order, key }).await) }
    };
    let plain = |name: &str, path: &'static str| {
        let request = request.clone();
        FunctionTool::new(name, "asks the bank", move |_: CallContext, order: Order| {
            request(path, order, None)
        })
    };
    let reads = Annotations { read_only_hint: true, ..Annotations::default() };
    let pay = match pays {
        Pays::Once | Pays::Reconciled => plain("pay", "pay"),
        Pays::Pure => plain("pay", "balance").annotations(reads),
        Pays::Idempotent => {
            let request = request.clone();
            let pay = FunctionTool::new("pay", "asks the bank", move |_: CallContext, order: Order| {
                let key = Some(order.order.clone());
                request("pay", order, key)
            });
            pay.effect_class(EffectClass::Idempotent)
        }
        Pays::Keyed => {
            let request = request.clone();
            FunctionTool::new("pay", "asks the bank", move |_: CallContext, keyed: KeyedOrder| {
                request("pay", Order { order: keyed.order }, Some(keyed.idempotency_key))
            })
        }
    };
    let tools = registry([pay, plain("find", "find").annotations(reads)]);
    if pays != Pays::Reconciled {
        return tools;
    }
    let found = Condition { argument: "/found".into(), is: Predicate::Equals(true.into()) };
    let arguments = [("order".to_owned(), Source::Argument("/order".into()))].into();
    let reconcile = Reconcile { tool: "find".into(), arguments, found: vec![found], wait_ms: 30 };
    tools.adjust("pay", Adjustment { reconcile: Some(reconcile), ..Adjustment::default() })
}
