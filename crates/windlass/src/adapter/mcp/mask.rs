//! What a server must not say back: the values of its own headers and of its environment, what a program gives at the
//! moment of a request, and tokens, codes and clients of a sign-in.
//!
//! It is the second line, for what a server echoes. Values that come and go are remembered for a while: what was sent
//! with one request may come back in the answer to a later one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::Url;

use super::config::{McpServer, Transport};
use crate::port::tool::{OutputPart, ToolOutput};
use crate::secret::{Mask, Secret};

/// Values that a server must not say back in what the model reads.
#[derive(Clone, Default)]
pub struct Secrets(pub Vec<Secret>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

/// Takes out of a server's words what it was given.
pub(super) struct Masks {
    /// Every value of the configuration.
    all: Vec<Secret>,
    /// Those that are secret, by their names or by the word of whoever configured the server. A folder or a region is not,
    /// and a result without it may be of no use.
    secret: Vec<Secret>,
    now: Mutex<Now>,
}

/// The masks as they are now.
struct Now {
    /// What was given since the start, the newest last.
    given: VecDeque<Secret>,
    reasons: Mask,
    results: Mask,
}

/// Values that are remembered: some hours of tokens, or the newest signatures of single requests.
const GIVEN_MAX: usize = 64;

/// What the name of a header, a variable or a parameter has in it whose value is secret.
const SECRET_NAMES: [&str; 8] = ["auth", "key", "token", "secret", "cookie", "passw", "credential", "dsn"];

impl Masks {
    pub fn of(server: &McpServer) -> Self {
        let (mut all, mut secret) = (server.secrets.0.clone(), server.secrets.0.clone());
        let named = match &server.transport {
            Transport::Stdio(stdio) => stdio.env.clone(),
            Transport::Http(http) | Transport::Sse(http) => {
                let url = Url::parse(&http.url).ok();
                let query = url.iter().flat_map(|url| url.query_pairs().into_owned());
                http.headers.iter().cloned().chain(query).collect()
            }
        };
        for (name, value) in &named {
            let name = name.to_ascii_lowercase();
            let is_secret = SECRET_NAMES.iter().any(|word| name.contains(word));
            for part in parts(value) {
                let part = Secret::new(part);
                all.push(part.clone());
                secret.extend(is_secret.then_some(part));
            }
        }
        if let Some(oauth) = server.transport.oauth() {
            secret.extend(oauth.client_secret.as_deref().map(Secret::new));
        }
        all.extend(secret.iter().cloned());
        let now = Now { given: VecDeque::new(), reasons: Mask::new(&all), results: Mask::new(&secret) };
        Self { all, secret, now: Mutex::new(now) }
    }

    /// Remembers values that the server, or whoever signs people in there, is about to be given.
    pub fn remember<'a>(&self, values: impl IntoIterator<Item = &'a str>) {
        let mut now = self.now();
        let before = now.given.clone();
        for part in values.into_iter().flat_map(parts) {
            let part = Secret::new(part);
            // One that is sent again and again stays.
            now.given.retain(|known| *known != part);
            now.given.push_back(part);
        }
        let over = now.given.len().saturating_sub(GIVEN_MAX);
        now.given.drain(..over);
        if now.given.iter().any(|given| !before.contains(given)) {
            now.reasons = Mask::new(self.all.iter().chain(&now.given));
            now.results = Mask::new(self.secret.iter().chain(&now.given));
        }
    }

    /// Takes every value out of reasons, and of lines for people.
    pub fn reasons(&self) -> Mask {
        self.now().reasons.clone()
    }

    /// Takes what is secret out of results.
    pub fn results(&self) -> Mask {
        self.now().results.clone()
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        // Each change leaves whole masks.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a model is told, without them.
    pub fn output(&self, mut output: ToolOutput) -> ToolOutput {
        let reasons = self.reasons();
        let mask = if output.error { reasons.clone() } else { self.results() };
        for part in &mut output.parts {
            if let OutputPart::Text(text) = part {
                *text = mask.text(text);
            }
        }
        if let Some(ask) = &mut output.ask {
            // What people are asked; what the server wants back goes to it as it came.
            let masked = serde_json::to_string(&ask.kind).map(|kind| self.results().text(&kind));
            if let Ok(kind) = masked.and_then(|kind| serde_json::from_str(&kind)) {
                ask.kind = kind;
            }
        }
        output.lost = output.lost.map(|why| reasons.text(&why));
        output
    }
}

/// A value, what follows its scheme, and its lines: servers say back what they have read.
fn parts(value: &str) -> impl Iterator<Item = &str> {
    let credentials = value.split_once(' ').map(|(_, rest)| rest);
    [value].into_iter().chain(credentials).chain(value.lines())
}

#[cfg(test)]
mod tests {
    use super::super::config::{Http, Stdio};
    use super::super::oauth::OAuth;
    use super::*;

    #[test]
    fn what_was_given_is_not_said_back_and_what_is_no_secret_stays_in_results() {
        let env = [("API_TOKEN", "SENTINEL-1"), ("ROOT", "/srv/data"), ("PEM_KEY", "line-one\nline-two")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let stdio = Stdio { env, ..Stdio::new("sh", [""; 0]) };
        let server = McpServer::new("sh", Transport::Stdio(stdio));
        let server = McpServer { secrets: Secrets(vec![Secret::new("SENTINEL-2")]), ..server };
        let masks = Masks::of(&server);
        let said = "SENTINEL-1 SENTINEL-2 /srv/data line-two";
        assert_eq!(masks.results().text(said), "[masked] [masked] /srv/data [masked]");
        assert_eq!(masks.reasons().text(said), "[masked] [masked] [masked] [masked]");
        assert!(!format!("{server:?}").contains("SENTINEL"));
        let headers = vec![("Authorization".to_owned(), "Bearer SENTINEL-3".to_owned())];
        let http = Http { headers, ..Http::new("https://a/mcp?api_key=SENTINEL-4&set=default") };
        let masks = Masks::of(&McpServer::new("a", Transport::Http(http)));
        assert_eq!(masks.results().text("SENTINEL-3, SENTINEL-4, default"), "[masked], [masked], default");
    }
    #[test]
    fn what_is_given_at_the_moment_of_a_request_is_not_said_back_while_it_is_remembered() {
        let oauth = OAuth { client_secret: Some("SENTINEL-0".into()), ..OAuth::new("http://127.0.0.1/back") };
        let http = Http { oauth: Some(oauth), ..Http::new("https://a/mcp") };
        let masks = Masks::of(&McpServer::new("a", Transport::Http(http)));
        masks.remember(["Bearer SENTINEL-1"]);
        let said = "SENTINEL-0, SENTINEL-1, Bearer";
        assert_eq!(masks.results().text(said), "[masked], [masked], Bearer");
        assert_eq!(masks.reasons().text(said), "[masked], [masked], Bearer");
        // One that is used on stays, and one that is not goes when there are many newer ones.
        for nth in 0..GIVEN_MAX {
            masks.remember([format!("once-{nth:0>6}").as_str(), "SENTINEL-2"]);
        }
        assert_eq!(
            masks.results().text("SENTINEL-1, SENTINEL-2, once-000063"),
            "SENTINEL-1, [masked], [masked]"
        );
    }
}
