//! `[mcp.<name>]`: the tool servers that runs may use, over MCP.
//!
//! A secret stands here as a reference; a server that a stronger layer sends elsewhere gets none of a weaker one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use windlass::adapter::mcp::{Http, McpServer, Prefix, Stdio, Transport};

use super::file::names_a_secret;
use super::reference::HeaderValue;
use crate::policy::Length;
use crate::trouble::Trouble;

/// `[mcp.<name>]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpFile {
    /// Whether it is used.
    pub enabled: Option<bool>,
    /// The program that is started.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Option<Vec<String>>,
    /// Its environment, beside `PATH` and the like.
    pub env: BTreeMap<String, HeaderValue>,
    /// The folder that it starts in.
    pub cwd: Option<PathBuf>,
    /// Its address, in place of a program.
    pub url: Option<String>,
    /// How it is spoken with there: `http` or `sse`.
    pub transport: Option<TransportWord>,
    /// Headers of each request.
    pub headers: BTreeMap<String, HeaderValue>,
    /// Whether POST is all that is used.
    pub post_only: Option<bool>,
    /// Whether the hints of its tools are believed.
    pub trusted: Option<bool>,
    /// Whether nothing starts without it.
    pub required: Option<bool>,
    /// When its name stands before its tools' names: `on_clash` or `always`.
    pub prefix: Option<PrefixWord>,
    /// The tools that are taken, `*` allowed.
    pub include: Option<Vec<String>>,
    /// The tools that are left out.
    pub exclude: Option<Vec<String>>,
    /// How long it may take until it answers for the first time.
    pub connect_timeout: Option<Length>,
    /// How long a call may show no progress.
    pub call_timeout: Option<Length>,
}

/// `transport = "http" | "sse"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransportWord {
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of 2024.
    Sse,
}

/// `prefix = "on_clash" | "always"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrefixWord {
    /// Where another tool has the name.
    OnClash,
    /// Always.
    Always,
}

/// The servers of a layer over those of a weaker one.
pub(super) fn servers_over(
    stronger: BTreeMap<String, McpFile>,
    mut weaker: BTreeMap<String, McpFile>,
) -> BTreeMap<String, McpFile> {
    for (name, server) in stronger {
        let below = weaker.remove(&name).unwrap_or_default();
        weaker.insert(name, server.over(below));
    }
    weaker
}

impl McpFile {
    fn over(self, weaker: Self) -> Self {
        // A program or an address of its own makes it another server.
        let names_another = (self.command.is_some() || self.url.is_some())
            && (self.command != weaker.command || self.url != weaker.url);
        if names_another {
            return self;
        }
        let (mut env, mut headers) = (weaker.env, weaker.headers);
        env.extend(self.env);
        headers.extend(self.headers);
        Self {
            enabled: self.enabled.or(weaker.enabled),
            command: self.command.or(weaker.command),
            args: self.args.or(weaker.args),
            env,
            cwd: self.cwd.or(weaker.cwd),
            url: self.url.or(weaker.url),
            transport: self.transport.or(weaker.transport),
            headers,
            post_only: self.post_only.or(weaker.post_only),
            trusted: self.trusted.or(weaker.trusted),
            required: self.required.or(weaker.required),
            prefix: self.prefix.or(weaker.prefix),
            include: self.include.or(weaker.include),
            exclude: self.exclude.or(weaker.exclude),
            connect_timeout: self.connect_timeout.or(weaker.connect_timeout),
            call_timeout: self.call_timeout.or(weaker.call_timeout),
        }
    }

    /// The key with a secret in it that stands in the file as it is.
    pub(super) fn open_secret(&self) -> Option<String> {
        let headers = self.headers.iter().map(|(name, value)| ("headers", name, value));
        let env = self.env.iter().map(|(name, value)| ("env", name, value));
        let mut all = headers.chain(env);
        let open = all.find(|(_, name, value)| value.is_literal() && names_a_secret(name));
        open.map(|(table, name, _)| format!("{table}.{name}"))
    }

    /// The server, with its secrets read.
    pub fn server(&self, name: &str) -> Result<McpServer, Trouble> {
        let key = |rest: &str| format!("mcp.{name}.{rest}");
        let values = |table: &str, values: &BTreeMap<String, HeaderValue>| {
            let read = values.iter().map(|(header, value)| {
                let secret = value.resolve(&key(&format!("{table}.{header}")))?;
                Ok((header.clone(), secret.expose().to_owned()))
            });
            read.collect::<Result<Vec<_>, Trouble>>()
        };
        let transport = match (&self.command, &self.url) {
            (Some(command), None) => Transport::Stdio(Stdio {
                env: values("env", &self.env)?,
                cwd: self.cwd.clone(),
                ..Stdio::new(command, self.args.iter().flatten())
            }),
            (None, Some(url)) => {
                let headers = values("headers", &self.headers)?;
                let post_only = self.post_only.unwrap_or_default();
                let http = Http { headers, post_only, ..Http::new(url) };
                match self.transport.unwrap_or(TransportWord::Http) {
                    TransportWord::Http => Transport::Http(http),
                    TransportWord::Sse => Transport::Sse(http),
                }
            }
            (Some(_), Some(_)) | (None, None) => {
                return Err(Trouble::usage(format!("`mcp.{name}` needs either `command` or `url`"))
                    .hint("`command` starts a program; `url` names a server that runs elsewhere"));
            }
        };
        let mut server = McpServer::new(name, transport);
        server.enabled = self.enabled.unwrap_or(true);
        server.trusted = self.trusted.unwrap_or_default();
        server.required = self.required.unwrap_or_default();
        server.prefix = match self.prefix.unwrap_or(PrefixWord::OnClash) {
            PrefixWord::OnClash => Prefix::OnClash,
            PrefixWord::Always => Prefix::Always,
        };
        server.include = self.include.clone().unwrap_or_default();
        server.exclude = self.exclude.clone().unwrap_or_default();
        let usual = server.timeouts;
        server.timeouts.connect_ms = self.connect_timeout.map_or(usual.connect_ms, |length| length.0);
        server.timeouts.call_ms = self.call_timeout.map_or(usual.call_ms, |length| length.0);
        server.check().map_err(|error| Trouble::usage(error.to_string()))?;
        Ok(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> BTreeMap<String, McpFile> {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_server_is_a_program_or_an_address() {
        let servers = read(
            "[git]\ncommand = 'mcp-server-git'\nargs = ['-v']\nenv = { LANG = 'C' }\ntrusted = true\n\
             [docs]\nurl = 'https://docs.example.com/mcp'\ntransport = 'sse'\nrequired = true\ncall_timeout = '5m'\n\
             [both]\ncommand = 'a'\nurl = 'https://b'\n[neither]\n[bad__name]\ncommand = 'a'",
        );
        let git = servers["git"].server("git").unwrap();
        let Transport::Stdio(stdio) = &git.transport else { panic!("{git:?}") };
        assert_eq!((stdio.command.as_str(), stdio.args.len(), stdio.env.len()), ("mcp-server-git", 1, 1));
        assert!(git.trusted && !git.required);
        let docs = servers["docs"].server("docs").unwrap();
        assert!(matches!(docs.transport, Transport::Sse(_)) && docs.required && !docs.trusted);
        assert_eq!(docs.timeouts.call_ms, 300_000);
        for (name, wanted) in [("both", "either"), ("neither", "either"), ("bad__name", "1 to 32")] {
            let trouble = servers[name].server(name).unwrap_err().to_string();
            assert!(trouble.contains(wanted), "{trouble}");
        }
    }

    #[test]
    fn a_layer_that_names_another_place_gets_no_secrets_of_the_one_below() {
        let below = "[a]\nurl = 'https://a'\nheaders = { authorization = 'env:TOKEN' }\ntrusted = true";
        let same = servers_over(read("[a]\nenabled = false"), read(below));
        assert!(!same["a"].headers.is_empty() && same["a"].enabled == Some(false));
        let other = servers_over(read("[a]\nurl = 'https://evil'"), read(below));
        assert!(other["a"].headers.is_empty() && other["a"].trusted.is_none());
        assert_eq!(
            read("[a]\nurl = 'x'\nheaders = { Authorization = 'Bearer x' }")["a"].open_secret(),
            Some("headers.Authorization".into())
        );
    }
}
