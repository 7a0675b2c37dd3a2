//! What a server is: how it is reached, what is believed of it, how long things may take.
//!
//! Plain data, checked once; it opens nothing. Secrets come in resolved, and `Debug` shows none of them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use globset::{Glob, GlobSet, GlobSetBuilder};

use super::client::{OAuth, Secrets};
use super::error::McpError;

/// A server of tools, resources and prompts.
#[derive(Clone, Debug)]
pub struct McpServer {
    /// The name people and rules know it by: 1–32 of `[A-Za-z0-9_-]`, without `__`.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
    /// Whether it is to be used at all.
    pub enabled: bool,
    /// Whether the hints of its tools are believed.
    pub trusted: bool,
    /// Whether a start without it is refused. (SK-A12)
    pub required: bool,
    /// How its tools are named.
    pub prefix: Prefix,
    /// Whether it may ask for completions of a model. (LM-P3)
    pub allow_sampling: bool,
    /// The tools that are taken, by the server's own names, `*` allowed; empty: all.
    pub include: Vec<String>,
    /// The tools that are left out; this wins.
    pub exclude: Vec<String>,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// What it must not say back to a model, beside the headers and variables whose names say that they are secret. It is
    /// for what the server echoes, and gives it nothing.
    pub secrets: Secrets,
}

impl McpServer {
    /// A server with the usual settings: not trusted, not required, no sampling.
    pub fn new(name: impl Into<String>, transport: Transport) -> Self {
        Self {
            name: name.into(),
            transport,
            enabled: true,
            trusted: false,
            required: false,
            prefix: Prefix::default(),
            allow_sampling: false,
            include: Vec::new(),
            exclude: Vec::new(),
            timeouts: Timeouts::default(),
            secrets: Secrets::default(),
        }
    }

    /// Checks what can be checked without reaching the server.
    pub fn check(&self) -> Result<(), McpError> {
        let invalid = |problem: String| McpError::Config { server: self.name.clone(), problem };
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !(1..=MAX_NAME_LENGTH).contains(&self.name.len())
            || !self.name.bytes().all(letters)
            || self.name.contains("__")
        {
            return Err(invalid(format!(
                "a server's name is 1 to {MAX_NAME_LENGTH} of A-Z, a-z, 0-9, `_` and `-`, without `__`"
            )));
        }
        self.wanted()?;
        match &self.transport {
            Transport::Stdio(stdio) if stdio.command.trim().is_empty() => {
                Err(invalid("`command` is empty".into()))
            }
            Transport::Stdio(_) => Ok(()),
            Transport::Http(http) | Transport::Sse(http) => http.check().map_err(invalid),
        }
    }

    /// Which tools are taken.
    pub(super) fn wanted(&self) -> Result<Wanted, McpError> {
        let set = |patterns: &[String]| {
            let mut set = GlobSetBuilder::new();
            for pattern in patterns {
                let glob = Glob::new(pattern).map_err(|error| McpError::Config {
                    server: self.name.clone(),
                    problem: format!("`{pattern}` is no pattern of tool names: {}", error.kind()),
                })?;
                set.add(glob);
            }
            set.build().map_err(|error| McpError::Config {
                server: self.name.clone(),
                problem: format!("its patterns of tool names cannot be used: {error}"),
            })
        };
        let include = if self.include.is_empty() { None } else { Some(set(&self.include)?) };
        Ok(Wanted { include, exclude: set(&self.exclude)? })
    }
}

/// Long enough to tell servers apart, short enough to leave half of a tool's name to the tool.
const MAX_NAME_LENGTH: usize = 32;

/// Which tools of a server are taken.
pub(super) struct Wanted {
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Wanted {
    pub fn takes(&self, tool: &str) -> bool {
        self.include.as_ref().is_none_or(|include| include.is_match(tool)) && !self.exclude.is_match(tool)
    }
}

/// How a server's tools are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    /// `tool`, and `server__tool` where the engine or another server has `tool` already.
    #[default]
    OnClash,
    /// Always `server__tool`.
    Always,
}

/// How a server is reached. (LM-P1)
#[derive(Clone, Debug)]
pub enum Transport {
    /// A process of its own, over its standard input and output.
    Stdio(Stdio),
    /// Streamable HTTP.
    Http(Http),
    /// The older HTTP+SSE of protocol 2024-11-05.
    Sse(Http),
}

impl Transport {
    /// How people sign in there.
    pub(super) fn oauth(&self) -> Option<&OAuth> {
        match self {
            Self::Http(http) | Self::Sse(http) => http.oauth.as_ref(),
            Self::Stdio(_) => None,
        }
    }
}

/// A server that is started as a process.
#[derive(Clone)]
pub struct Stdio {
    /// The program, looked up on `PATH` unless it has a `/`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment beside `PATH`, `HOME`, `LANG` and the like; nothing else is handed down.
    pub env: Vec<(String, String)>,
    /// The folder that it starts in; `None`: this process's own.
    pub cwd: Option<PathBuf>,
}

impl Stdio {
    /// A program with arguments, without further environment.
    pub fn new(command: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
        }
    }
}

impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments may hold secrets too, whatever the advice.
        let env: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Stdio")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &env)
            .field("cwd", &self.cwd)
            .finish()
    }
}

/// A server that is reached over HTTP.
#[derive(Clone)]
pub struct Http {
    /// Its address, `http` or `https`.
    pub url: String,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    /// Further headers, asked for before every request; they win. (LM-P2)
    pub headers_provider: Option<Arc<dyn HeadersProvider>>,
    /// Nothing but POST with JSON: no session, no stream of its own, no notifications. (LM-P1)
    pub post_only: bool,
    /// How people sign in there; `None`: they do not.
    pub oauth: Option<OAuth>,
    /// Whether whoever runs the program has written the address down: it may then be inside. An address that comes from
    /// elsewhere is called only where the program's rules let everybody call it.
    pub named: bool,
}

impl Http {
    /// An address without further headers.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            headers_provider: None,
            post_only: false,
            oauth: None,
            named: true,
        }
    }

    fn check(&self) -> Result<(), String> {
        let url =
            reqwest::Url::parse(&self.url).map_err(|error| format!("`{}` is no URL: {error}", self.url))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{}` is neither http nor https", self.url));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a URL holds no credentials; use `headers` with a secret".into());
        }
        headers(&self.headers).map(drop)
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Http")
            .field("url", &self.url)
            .field("headers", &names)
            .field("headers_provider", &self.headers_provider.is_some())
            .field("post_only", &self.post_only)
            .field("oauth", &self.oauth)
            .finish()
    }
}

/// Reads names and values of headers; the error names a wrong header and no value.
pub(super) fn headers(
    headers: &[(String, String)],
) -> Result<Vec<(http::HeaderName, http::HeaderValue)>, String> {
    headers
        .iter()
        .map(|(name, value)| {
            let header = name.parse().map_err(|_| format!("`{name}` is no header name"))?;
            let mut value = http::HeaderValue::from_str(value).map_err(|_| {
                format!("the value of the header `{name}` holds characters that none may have")
            })?;
            value.set_sensitive(true);
            Ok((header, value))
        })
        .collect()
}

/// Gives the headers of a request at the moment that it is sent: a token that is short-lived, for example. (LM-P2)
#[async_trait]
pub trait HeadersProvider: Send + Sync {
    /// The headers of the next request. The error says why there are none, without secrets.
    async fn headers(&self, why: HeadersFor) -> Result<Vec<(String, String)>, String>;
}

/// What headers are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadersFor {
    /// A request.
    Request,
    /// The same request again: the server answered 401 to the headers before.
    Refused,
}

/// How long things may take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start to the list of tools. Default 30 s.
    pub connect_ms: u64,
    /// A call that shows no progress. Default 1,800 s (ZE-X7); the run's own limit counts as well.
    pub call_ms: u64,
    /// A list, a prompt, a resource. Default 60 s.
    pub request_ms: u64,
    /// A question of the server in the middle of a call, in revisions that keep the call open. Default 24 h.
    pub question_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_ms: 30_000, call_ms: 1_800_000, request_ms: 60_000, question_ms: 86_400_000 }
    }
}
