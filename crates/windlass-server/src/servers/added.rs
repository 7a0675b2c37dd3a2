//! Tool servers that administrators have added while the server runs: kept in the store's records, sealed as a whole,
//! since their headers and clients may hold secrets.
//!
//! Their addresses come over the network: they may be inside only where the settings' rules let everybody call them.

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

/// The kind of the records, whose key is the server's name.
pub const SERVER: &str = "mcp_server";
/// Added servers at most: each may hold a connection open. Processes that add at once may pass it by a few.
pub const MAX: usize = 100;
/// Headers, patterns and arguments of one at most.
const PARTS_MAX: usize = 64;
/// Characters of one text of it at most.
const TEXT_MAX_CHARS: usize = 4_096;

/// A tool server that is added.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// Its name: 1 to 32 of A-Z, a-z, 0-9, `_` and `-`, without `__`.
    #[schema(min_length = 1, max_length = 32, pattern = "^[A-Za-z0-9_-]+$")]
    pub name: String,
    /// Its address, https; http where the settings name its host as inside.
    #[serde(default)]
    pub url: Option<String>,
    /// The program that is started instead, where the settings allow it.
    #[serde(default)]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub args: Vec<String>,
    /// How it is spoken with at its address.
    #[serde(default)]
    pub transport: Wire,
    /// Headers of each request; they are kept sealed and never told.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Whether the hints of its tools are believed.
    #[serde(default)]
    pub trusted: bool,
    /// Whether its name always stands before its tools' names.
    #[serde(default)]
    pub always_prefix: bool,
    /// The tools that are taken, `*` allowed; none named: all.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub include: Vec<String>,
    /// The tools that are left out.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub exclude: Vec<String>,
    /// The client at its sign-in, where one was registered by hand.
    #[serde(default)]
    pub client_id: Option<String>,
    /// That client's secret; it is kept sealed and never told.
    #[serde(default)]
    pub client_secret: Option<String>,
    /// What is asked for at its sign-in; none named: what the server wants.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub scopes: Vec<String>,
}

/// How a server is spoken with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// Streamable HTTP.
    #[default]
    Http,
    /// HTTP+SSE of 2024.
    Sse,
}

/// A server as it is kept.
#[derive(Serialize, Deserialize)]
pub struct Added {
    /// What it is.
    pub draft: Draft,
    /// When it was added.
    pub at: Timestamp,
}

/// A server as it was read.
pub struct Kept {
    /// Its name.
    pub name: String,
    /// Which version of it: no two are the same.
    pub version: u64,
    /// What it is; `None` where the vault no longer opens it.
    pub draft: Option<Draft>,
}

impl Draft {
    /// The server. The error says what is wrong with it.
    pub fn server(&self, back: &str, reach: &Reach) -> Result<McpServer, String> {
        self.check()?;
        let transport = match (&self.url, &self.command) {
            (Some(url), None) => {
                let is_inside = |url: &Url| url.scheme() == "https" || reach.is_inside(url);
                let Some(parsed) = Url::parse(url).ok().filter(is_inside) else {
                    return Err(
                        "`url` is no https address, and `[outbound] internal_hosts` does not name its host"
                            .into(),
                    );
                };
                // What its name resolves to is judged at each connection.
                reach
                    .judge(&parsed, None)
                    .map_err(|refusal| format!("`url` may not be called: {refusal}"))?;
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
            (Some(_), Some(_)) | (None, None) => return Err("it needs either `url` or `command`".into()),
        };
        let mut server = McpServer::new(&self.name, transport);
        // They are kept sealed, whatever their names.
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
            return Err(format!("a list of it has {many} entries; {PARTS_MAX} are allowed"));
        }
        let texts = [&self.url, &self.command, &self.client_id, &self.client_secret].into_iter().flatten();
        let lists = [&self.args, &self.include, &self.exclude, &self.scopes].into_iter().flatten();
        let headers = self.headers.iter().flat_map(|(name, value)| [name, value]);
        let too_long = |text: &&String| text.chars().count() > TEXT_MAX_CHARS;
        match texts.chain(lists).chain(headers).find(too_long) {
            // It may be a secret: it is not repeated.
            Some(_) => Err(format!("a text of it is longer than {TEXT_MAX_CHARS} characters")),
            None => Ok(()),
        }
    }
}

/// Reads the added servers, all of them; without a vault, their names.
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

/// Whether any server was added.
pub async fn is_any(records: &dyn Records) -> Result<bool, StoreError> {
    Ok(!records.list(SERVER, None, None, 1).await?.is_empty())
}

/// The change that keeps a server which is not there yet.
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
