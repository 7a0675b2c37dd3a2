//! The configuration of a server: transport, trust, tool filters and timeouts.
//!
//! Plain data that is validated once. This module opens no connection. The caller
//! resolves secrets, and `Debug` prints none.

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
    /// The name in rules and in the UI: 1–32 of `[A-Za-z0-9_-]`, without `__`.
    pub name: String,
    /// How to connect to the server.
    pub transport: Transport,
    /// Whether to connect. A disabled server keeps its configuration.
    pub enabled: bool,
    /// Whether the hints of the server's tools affect the gate. Hints of an untrusted server are ignored.
    pub trusted: bool,
    /// Whether startup fails if the server does not connect. (SK-A12)
    pub required: bool,
    /// The naming of the server's tools.
    pub prefix: Prefix,
    /// Whether the server may request completions from a model. (LM-P3)
    pub allow_sampling: bool,
    /// Patterns of the tools to offer, by the server's own names, with `*`. If empty, all tools are offered.
    pub include: Vec<String>,
    /// Patterns of the tools to exclude. Takes precedence over `include`.
    pub exclude: Vec<String>,
    /// Time limits of the server's operations.
    pub timeouts: Timeouts,
    /// Values to redact from the server's output, in addition to headers and variables with secret names.
    /// These values are not sent to the server.
    pub secrets: Secrets,
}

impl McpServer {
    /// Creates a server with default settings: not trusted, not required, no sampling.
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

    /// Validates the settings without connecting to the server.
    pub fn check(&self) -> Result<(), McpError> {
        let invalid = |problem: String| McpError::Config { server: self.name.clone(), problem };
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !(1..=MAX_NAME_LENGTH).contains(&self.name.len())
            || !self.name.bytes().all(letters)
            || self.name.contains("__")
        {
            return Err(invalid(format!(
                "a server's name must have 1 to {MAX_NAME_LENGTH} characters from A-Z, a-z, 0-9, `_` and \
                 `-`, without `__`"
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

    /// Compiles the tool filters.
    pub(super) fn wanted(&self) -> Result<Wanted, McpError> {
        let set = |patterns: &[String]| {
            let mut set = GlobSetBuilder::new();
            for pattern in patterns {
                let glob = Glob::new(pattern).map_err(|error| McpError::Config {
                    server: self.name.clone(),
                    problem: format!("`{pattern}` is not a valid tool name pattern: {}", error.kind()),
                })?;
                set.add(glob);
            }
            set.build().map_err(|error| McpError::Config {
                server: self.name.clone(),
                problem: format!("invalid tool name patterns: {error}"),
            })
        };
        let include = if self.include.is_empty() { None } else { Some(set(&self.include)?) };
        Ok(Wanted { include, exclude: set(&self.exclude)? })
    }
}

/// Maximum length of a server's name. It distinguishes servers, and
/// leaves half of a tool's name for the tool.
const MAX_NAME_LENGTH: usize = 32;

/// Filters of the offered tools.
pub(super) struct Wanted {
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Wanted {
    pub fn takes(&self, tool: &str) -> bool {
        self.include.as_ref().is_none_or(|include| include.is_match(tool)) && !self.exclude.is_match(tool)
    }
}

/// The naming of a server's tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    /// `tool`, or `server__tool` if a tool of the engine or of another server already has the name.
    #[default]
    OnClash,
    /// Always `server__tool`.
    Always,
}

/// The transport to a server. (LM-P1)
#[derive(Clone, Debug)]
pub enum Transport {
    /// A child process, over its standard input and output.
    Stdio(Stdio),
    /// Streamable HTTP.
    Http(Http),
    /// HTTP+SSE, the older transport of protocol 2024-11-05.
    Sse(Http),
}

impl Transport {
    /// Returns the OAuth client, if the transport has one.
    pub(super) fn oauth(&self) -> Option<&OAuth> {
        match self {
            Self::Http(http) | Self::Sse(http) => http.oauth.as_ref(),
            Self::Stdio(_) => None,
        }
    }
}

/// A server that runs as a child process.
#[derive(Clone)]
pub struct Stdio {
    /// The program. It is looked up on `PATH` unless it contains a `/`.
    pub command: String,
    /// Command-line arguments of the program.
    pub args: Vec<String>,
    /// Environment variables in addition to `PATH`, `HOME`, `LANG` and
    /// similar ones. The process inherits no others.
    pub env: Vec<(String, String)>,
    /// The working directory. Default: the directory of this process.
    pub cwd: Option<PathBuf>,
}

impl Stdio {
    /// Creates the settings of a program with arguments and without additional environment variables.
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
        // The arguments are not printed: they may contain secrets,
        // although the documentation advises against it.
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
    /// An `http` or `https` URL.
    pub url: String,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    /// Provides further headers before every request. They override `headers`. (LM-P2)
    pub headers_provider: Option<Arc<dyn HeadersProvider>>,
    /// Whether to use only POST with JSON: no session, no separate stream, no notifications. (LM-P1)
    pub post_only: bool,
    /// The OAuth client for sign-in. Without it, sign-in is not possible.
    pub oauth: Option<OAuth>,
    /// Whether the operator configured the address. If so, its host is added to the allowed and the internal hosts;
    /// otherwise, the program's outbound rules apply unchanged.
    pub named: bool,
}

impl Http {
    /// Creates the settings of a URL without additional headers.
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
        let url = reqwest::Url::parse(&self.url)
            .map_err(|error| format!("`{}` is not a valid URL: {error}", self.url))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{}` must use http or https", self.url));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the URL must not contain credentials; use `headers` with a secret".into());
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

/// Parses headers. The error names the header and not its value.
pub(super) fn headers(
    headers: &[(String, String)],
) -> Result<Vec<(http::HeaderName, http::HeaderValue)>, String> {
    headers
        .iter()
        .map(|(name, value)| {
            let header = name.parse().map_err(|_| format!("`{name}` is not a valid header name"))?;
            let mut value = http::HeaderValue::from_str(value).map_err(|_| {
                format!(
                    "the value of the header `{name}` contains characters that are not allowed in a header"
                )
            })?;
            value.set_sensitive(true);
            Ok((header, value))
        })
        .collect()
}

/// Provides the headers of a request when it is sent, for example a short-lived token. (LM-P2)
#[async_trait]
pub trait HeadersProvider: Send + Sync {
    /// Returns the headers of the next request. The error must contain no secret.
    async fn headers(&self, why: HeadersFor) -> Result<Vec<(String, String)>, String>;
}

/// Why headers are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadersFor {
    /// For a new request.
    Request,
    /// For a retry after the server rejected the previous headers with 401.
    Refused,
}

/// Time limits in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start of a connection to the list of tools. Default 30 s.
    pub connect_ms: u64,
    /// A call without progress. Default 1,800 s (ZE-X7); the run's limit applies as well.
    pub call_ms: u64,
    /// A list, a prompt or a resource. Default 60 s.
    pub request_ms: u64,
    /// An unanswered question that a server asks during a call, in protocol revisions that hold the call open until the
    /// answer. Default 24 h.
    pub question_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_ms: 30_000, call_ms: 1_800_000, request_ms: 60_000, question_ms: 86_400_000 }
    }
}
