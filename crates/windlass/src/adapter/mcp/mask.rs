//! What a server must not say back: the values of its own headers and of its environment.
//!
//! It is the second line, for what a server echoes. It does not find values that somebody gives at the moment of a
//! request, nor tokens of a sign-in.

use std::fmt;

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
    /// Out of reasons, and of lines for people: every value.
    pub reasons: Mask,
    /// Out of results: values that are secret, by their names or by the word of whoever configured the server. A folder or
    /// a region is not, and a result without it may be of no use.
    pub results: Mask,
}

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
        Self { reasons: Mask::new(&all), results: Mask::new(&secret) }
    }

    /// What a model is told, without them.
    pub fn output(&self, mut output: ToolOutput) -> ToolOutput {
        let mask = if output.error { &self.reasons } else { &self.results };
        for part in &mut output.parts {
            if let OutputPart::Text(text) = part {
                *text = mask.text(text);
            }
        }
        output.lost = output.lost.map(|why| self.reasons.text(&why));
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
        assert_eq!(masks.results.text(said), "[masked] [masked] /srv/data [masked]");
        assert_eq!(masks.reasons.text(said), "[masked] [masked] [masked] [masked]");
        assert!(!format!("{server:?}").contains("SENTINEL"));
        let headers = vec![("Authorization".to_owned(), "Bearer SENTINEL-3".to_owned())];
        let http = Http { headers, ..Http::new("https://a/mcp?api_key=SENTINEL-4&set=default") };
        let masks = Masks::of(&McpServer::new("a", Transport::Http(http)));
        assert_eq!(masks.results.text("SENTINEL-3, SENTINEL-4, default"), "[masked], [masked], default");
    }
}
