//! The server as clients use it: the real binary on a free port, over HTTP.

mod agui;
mod approvals;
mod audit;
pub mod auth;
mod backup;
pub mod browser;
mod client;
mod clients;
#[cfg(target_os = "linux")]
mod commands;
mod cuts;
mod docs;
mod exchange;
mod files;
mod fork;
mod gate;
mod hostile;
mod idempotency;
mod integrations;
mod interrupts;
mod journal;
mod keys;
mod matrix;
pub mod mcp;
mod metrics;
#[cfg(feature = "openid")]
mod oidc;
mod operate;
pub mod pictures;
mod policy;
mod queue;
mod raw;
mod runs;
mod schemathesis;
mod sentinel;
mod share;
mod skillchat;
mod skyflo;
mod start;
mod stream;
mod team;
mod threads;
mod titles;
mod tls;
mod tools;
#[cfg(feature = "otel")]
mod traces;
mod usage;
mod zeus;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;

use crate::cli::User;

/// A running server with a temporary store. Dropping it kills the process.
pub struct Server {
    pub user: User,
    process: Child,
    /// `http://127.0.0.1:PORT`.
    pub address: String,
    client: reqwest::Client,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl Server {
    /// Starts a server with the demo model, or with the model named in the arguments.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_for(User::new(), arguments)
    }

    /// Starts a server over a user's store.
    pub fn start_for(user: User, arguments: &[&str]) -> Self {
        let mut command = user.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(arguments);
        Self::spawn(user, command)
    }

    /// Starts a server with the given command.
    pub fn spawn(user: User, mut command: Command) -> Self {
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.ok()?;
            line.split_whitespace().find(|word| word.starts_with("http")).map(str::to_owned)
        });
        // A reader must consume the remaining output.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let Some(address) = address else {
            let said = crate::cli::said(process.wait_with_output().unwrap());
            panic!("the server did not start: {said:#?}");
        };
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        Self { user, process, address, client }
    }

    /// Creates an API key of the local administrator.
    pub fn key(&self, arguments: &[&str]) -> String {
        let mut all = vec!["admin", "add-key", "test"];
        all.extend(arguments);
        self.user.run(&all).exits(0).out.trim().to_owned()
    }

    /// Adds a user. Returns its id.
    pub fn add_user(&self, email: &str, arguments: &[&str]) -> String {
        let mut all = vec!["admin", "add-user", email];
        all.extend(arguments);
        self.user.run(&all).exits(0).out.trim().to_owned()
    }

    /// A request to a path.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.address))
    }

    /// Gets a path with a key.
    pub async fn get(&self, path: &str, key: &str) -> Answer {
        answer(self.request(Method::GET, path).bearer_auth(key)).await
    }

    /// Posts a JSON body to a path with a key.
    pub async fn post(&self, path: &str, key: &str, body: &Value) -> Answer {
        answer(self.request(Method::POST, path).bearer_auth(key).json(body)).await
    }

    /// Starts a server with TLS over a user's store.
    pub fn start_tls(user: User) -> Self {
        let server = Self::start_for(user, &[]);
        assert!(server.address.starts_with("https://"), "{}", server.address);
        server
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal and waits for the process to end. Returns the user and the exit code.
    pub fn end(self, number: i32) -> (User, Option<i32>) {
        operate::signal(self.id(), number);
        self.wait()
    }

    /// Waits for the process to end. Returns the user and the exit code.
    pub fn wait(mut self) -> (User, Option<i32>) {
        let code = self.process.wait().unwrap().code();
        (std::mem::replace(&mut self.user, User::new()), code)
    }

    /// Kills the server, as a crash does. Returns the user.
    pub fn kill(mut self) -> User {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        std::mem::replace(&mut self.user, User::new())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a request and reads the complete response.
pub async fn answer(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.bytes().await.unwrap();
    let body = match body.is_empty() {
        true => Value::Null,
        false => serde_json::from_slice(&body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned())),
    };
    Answer { status, headers, body }
}

impl Answer {
    /// Asserts the status. A failure prints the whole response.
    pub fn is(self, status: StatusCode) -> Self {
        assert_eq!(self.status, status.as_u16(), "{self:#?}");
        self
    }

    /// Asserts that the response is a problem with this status and code.
    pub fn is_problem(&self, status: u16, code: &str) {
        let found = (self.status, self.body["code"].as_str(), self.body["status"].as_u64());
        assert_eq!(found, (status, Some(code), Some(status.into())), "{self:#?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
    }
}
