//! A client with an API key: short forms of requests, and the few ways in which tests wait.

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::{Answer, Server, answer};
use crate::cli::TASK;

/// A user's API key.
pub struct Client<'a> {
    pub server: &'a Server,
    pub key: String,
}

impl Server {
    /// A client with a key of the local administrator.
    pub fn admin(&self) -> Client<'_> {
        Client { server: self, key: self.key(&[]) }
    }

    /// A client with a key of a new member, and the member's id.
    pub fn member(&self, name: &str) -> (Client<'_>, String) {
        let id = self.add_user(&format!("{name}@example.com"), &[]);
        (Client { server: self, key: self.key(&["--user", &id]) }, id)
    }
}

impl Client<'_> {
    /// A request builder for a path of the API.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.server.request(method, &format!("/api/v1{path}")).bearer_auth(&self.key)
    }

    pub async fn get(&self, path: &str) -> Answer {
        answer(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        answer(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        answer(self.request(Method::PATCH, path).json(&body)).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        answer(self.request(Method::PUT, path).json(&body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        answer(self.request(Method::DELETE, path)).await
    }

    /// Starts a run with a short reply, and waits for its end. Returns its thread.
    pub async fn small_talk(&self) -> String {
        let sent = self.post("/runs", json!({"message": "hello"})).await.is(StatusCode::CREATED);
        let run = sent.body["run"].as_str().unwrap();
        let done = self.wait(run).await;
        assert_eq!(done["status"], "done", "{done:#}");
        sent.body["thread"].as_str().unwrap().to_owned()
    }

    /// A conversation whose folder has the task's input file.
    pub async fn prepared(&self) -> String {
        let thread = self.small_talk().await;
        let path = format!("/threads/{thread}/files/content?path=data.csv");
        let body = "city,people\nRome,3\nOslo,1\n";
        answer(self.request(Method::PUT, &path).body(body)).await.is(StatusCode::CREATED);
        thread
    }

    /// Starts the task in a conversation, and waits until it is paused or has ended. Returns its outcome.
    pub async fn task(&self, thread: &str) -> Value {
        let body = json!({"message": TASK});
        let sent = self.post(&format!("/threads/{thread}/messages"), body).await.is(StatusCode::CREATED);
        self.wait(sent.body["run"].as_str().unwrap()).await
    }

    /// Starts the task, and waits until it requests approval of its write. Returns thread, run and interrupt.
    pub async fn asked(&self) -> (String, String, String) {
        let thread = self.prepared().await;
        let paused = self.task(&thread).await;
        assert_eq!(paused["status"], "paused", "{paused:#}");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (thread, text(&paused["runId"]), text(&paused["meta"]["interrupts"][0]["interrupt"]))
    }

    /// A file of a conversation's folder.
    pub async fn file(&self, thread: &str, name: &str) -> Value {
        self.get(&format!("/threads/{thread}/files/content?path={name}")).await.is(StatusCode::OK).body
    }

    /// Waits until a run is paused or has ended. Returns its outcome.
    pub async fn wait(&self, run: &str) -> Value {
        self.get(&format!("/runs/{run}/wait")).await.is(StatusCode::OK).body
    }

    /// All rows of a list, page by page.
    pub async fn all(&self, path: &str, limit: usize) -> Vec<Value> {
        let mut rows = Vec::new();
        let mut cursor = String::new();
        loop {
            let sign = if path.contains('?') { '&' } else { '?' };
            let page = self.get(&format!("{path}{sign}limit={limit}{cursor}")).await.is(StatusCode::OK);
            let data = page.body["data"].as_array().unwrap();
            assert!(data.len() <= limit, "{page:#?}");
            rows.extend(data.iter().cloned());
            match page.body["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return rows,
            }
        }
    }
}

/// One field of each row.
pub fn each<'a>(rows: &'a [Value], field: &str) -> Vec<&'a str> {
    rows.iter().map(|row| row[field].as_str().unwrap_or_default()).collect()
}
