//! MCP servers that operators have added at run time. The store has them as sealed records, because their headers and
//! clients may contain secrets.
//!
//! Their URLs come from API requests. Internal hosts are only allowed if the settings allow them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use windlass::machine::Timestamp;
use windlass::mcp::{Http, McpServer, OAuth, Prefix, Secrets, Stdio, Transport};
use windlass::outbound::{Reach, Url};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange, Records};
use windlass::secret::Secret;

use crate::account::people::user::DEFAULT_WORKSPACE;
use crate::vault::Vault;

/// Record kind. The key is the server's name.
pub const SERVER: &str = "mcp_server";
/// Maximum number of added servers; each server may keep a connection open. Concurrent additions may exceed the maximum
/// slightly.
pub const MAX: usize = 100;
/// Maximum number of headers, patterns or arguments of one server.
const PARTS_MAX: usize = 64;
/// Maximum length of a text, in characters.
const TEXT_MAX_CHARS: usize = 4_096;

/// An MCP server to add.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// Name: 1 to 32 of A-Z, a-z, 0-9, `_` and `-`, without `__`.
    #[schema(min_length = 1, max_length = 32, pattern = "^[A-Za-z0-9_-]+$")]
    pub name: String,
    /// URL. It must be `https`; `http` is allowed for internal hosts in the settings.
    #[serde(default)]
    pub url: Option<String>,
    /// Local program to start instead, if the settings allow it.
    #[serde(default)]
    pub command: Option<String>,
    /// Arguments of the program.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub args: Vec<String>,
    /// Transport for the URL.
    #[serde(default)]
    pub transport: Wire,
    /// Headers of each request. They are stored sealed and never returned.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Whether the annotations of its tools are trusted.
    #[serde(default)]
    pub trusted: bool,
    /// Whether to always prefix the server's name to its tools' names.
    #[serde(default)]
    pub always_prefix: bool,
    /// Tools to include, with `*`. Empty means all.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub include: Vec<String>,
    /// Tools to exclude.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub exclude: Vec<String>,
    /// OAuth client id, if a client was registered manually.
    #[serde(default)]
    pub client_id: Option<String>,
    /// Secret of that client. It is stored sealed and never returned.
    #[serde(default)]
    pub client_secret: Option<String>,
    /// OAuth scopes to request. Empty means those that the server requests.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub scopes: Vec<String>,
}

/// Transport of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// Streamable HTTP.
    #[default]
    Http,
    /// HTTP+SSE of 2024.
    Sse,
}

/// The stored form of an added server.
#[derive(Serialize, Deserialize)]
pub struct Added {
    pub draft: Draft,
    /// When the server was added.
    pub at: Timestamp,
}

/// An added server, read from the store.
pub struct Kept {
    /// Name of the server.
    pub name: String,
    /// Version of the server's record. Every change gives the record a new version.
    pub version: u64,
    /// `None` if the vault cannot open it.
    pub draft: Option<Draft>,
}

impl Draft {
    /// Validates the draft and builds the server.
    pub fn server(&self, back: &str, reach: &Reach) -> Result<McpServer, String> {
        self.check()?;
        let transport = match (&self.url, &self.command) {
            (Some(url), None) => {
                let is_inside = |url: &Url| url.scheme() == "https" || reach.is_inside(url);
                let Some(parsed) = Url::parse(url).ok().filter(is_inside) else {
                    return Err(
                        "`url` does not use https, and `[outbound] internal_hosts` does not list its host"
                            .into(),
                    );
                };
                // The outbound guard checks the addresses that the host name resolves to at each connection.
                reach
                    .judge(&parsed, None)
                    .map_err(|refusal| format!("calling `url` is not allowed: {refusal}"))?;
                let says_who = self.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
                let oauth = (!says_who).then(|| OAuth {
                    client_id: self.client_id.clone(),
                    client_secret: self.client_secret.clone(),
                    scopes: self.scopes.clone(),
                    application_type: if back.starts_with("https://") { "web" } else { "native" }.into(),
                    ..OAuth::new(back)
                });
                let headers = self.headers.clone().into_iter().collect();
                let http = Http { headers, oauth, named: false, ..Http::new(url) };
                match self.transport {
                    Wire::Http => Transport::Http(http),
                    Wire::Sse => Transport::Sse(http),
                }
            }
            (None, Some(command)) => Transport::Stdio(Stdio::new(command, &self.args)),
            (Some(_), Some(_)) | (None, None) => return Err("either `url` or `command` is required".into()),
        };
        let mut server = McpServer::new(&self.name, transport);
        // All headers are treated as secrets, regardless of their names.
        server.secrets = Secrets(self.headers.values().map(|value| Secret::new(value.as_str())).collect());
        server.trusted = self.trusted;
        server.prefix = if self.always_prefix { Prefix::Always } else { Prefix::OnClash };
        (server.include, server.exclude) = (self.include.clone(), self.exclude.clone());
        server.check().map_err(|error| error.to_string())?;
        Ok(server)
    }

    fn check(&self) -> Result<(), String> {
        let lists =
            [self.args.len(), self.headers.len(), self.include.len(), self.exclude.len(), self.scopes.len()];
        if let Some(many) = lists.into_iter().find(|many| *many > PARTS_MAX) {
            return Err(format!("a list has {many} entries; at most {PARTS_MAX} are allowed"));
        }
        let texts = [&self.url, &self.command, &self.client_id, &self.client_secret].into_iter().flatten();
        let lists = [&self.args, &self.include, &self.exclude, &self.scopes].into_iter().flatten();
        let headers = self.headers.iter().flat_map(|(name, value)| [name, value]);
        let too_long = |text: &&String| text.chars().count() > TEXT_MAX_CHARS;
        match texts.chain(lists).chain(headers).find(too_long) {
            // The text may be a secret, so the error does not contain the text.
            Some(_) => Err(format!("a value is longer than {TEXT_MAX_CHARS} characters")),
            None => Ok(()),
        }
    }
}

/// Reads all added servers. Without a vault, returns only their names and versions.
pub async fn list(records: &dyn Records, vault: Option<&Vault>) -> Result<Vec<Kept>, StoreError> {
    let mut all = Vec::new();
    loop {
        let after = all.last().map(|last: &Kept| last.name.clone());
        let page = records.list(SERVER, None, after.as_deref(), MAX).await?;
        let is_last = page.len() < MAX;
        all.extend(page.into_iter().map(|record| {
            let sealed = record.value.as_str().unwrap_or_default();
            let opened = vault.and_then(|vault| vault.unseal(&sealed_as(&record.key), sealed).ok());
            let added = opened.and_then(|opened| serde_json::from_str::<Added>(opened.expose()).ok());
            Kept { name: record.key, version: record.version, draft: added.map(|added| added.draft) }
        }));
        if is_last {
            return Ok(all);
        }
    }
}

pub async fn is_any(records: &dyn Records) -> Result<bool, StoreError> {
    Ok(!records.list(SERVER, None, None, 1).await?.is_empty())
}

/// Returns the change that stores a new server.
pub fn change(vault: &Vault, added: &Added) -> Result<RecordChange, StoreError> {
    let name = &added.draft.name;
    let text = serde_json::to_string(added)
        .map_err(|error| StoreError::Refused { why: format!("the server `{name}`: {error}") })?;
    let sealed = Value::String(vault.seal(&sealed_as(name), &text));
    Ok(RecordChange::put(SERVER, name, DEFAULT_WORKSPACE, sealed, Expect::Absent))
}

fn sealed_as(name: &str) -> String {
    format!("{SERVER} {name}")
}
