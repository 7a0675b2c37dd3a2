//! A simulated browser: it keeps cookies, sends the `Origin` header, and follows no redirects.

use std::collections::BTreeMap;

use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use super::{Answer, Server, answer};

/// A browser on a page of the server.
#[derive(Clone)]
pub struct Browser<'s> {
    server: &'s Server,
    pub cookies: BTreeMap<String, String>,
}

impl<'s> Browser<'s> {
    pub fn new(server: &'s Server) -> Self {
        Self { server, cookies: BTreeMap::new() }
    }

    /// A request with the cookies but without an origin.
    pub fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = self.server.request(method, path);
        if cookies.is_empty() { request } else { request.header("cookie", cookies.join("; ")) }
    }

    /// Sends a request from one of the server's pages.
    pub async fn send(&mut self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let mut request = self.bare(method, path).header("origin", &self.server.address);
        if let Some(body) = body {
            request = request.json(&body);
        }
        self.keep(answer(request).await)
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        let request = self.bare(Method::GET, path);
        self.keep(answer(request).await)
    }

    pub async fn post(&mut self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Submits the form of a one-time link.
    pub async fn submit(&mut self, fields: &str) -> Answer {
        let request = self.bare(Method::POST, "/auth/link").header("origin", &self.server.address);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        self.keep(answer(request.body(fields.to_owned())).await)
    }

    fn keep(&mut self, answer: Answer) -> Answer {
        for line in answer.headers.get_all("set-cookie") {
            let line = line.to_str().unwrap();
            let (pair, rest) = line.split_once(';').unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            assert!(rest.contains("HttpOnly") && rest.contains("SameSite=Lax"), "{line}");
            match rest.contains("Max-Age=0") {
                true => self.cookies.remove(name),
                false => self.cookies.insert(name.to_owned(), value.to_owned()),
            };
        }
        answer
    }
}
