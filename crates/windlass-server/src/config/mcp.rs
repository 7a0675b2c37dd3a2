//! `[mcp.<name>]`: the MCP servers that provide tools for runs.
//!
//! Secrets appear as references. If a stronger layer redirects a server, the server inherits no secrets from a weaker
//! layer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use windlass::mcp::{Http, McpServer, OAuth, Prefix, Secrets, Stdio, Transport};

use super::file::names_a_secret;
use super::reference::{HeaderValue, Reference};
use crate::policy::Length;
use crate::trouble::Trouble;

/// `[mcp.<name>]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpFile {
    /// Default: true.
    pub enabled: Option<bool>,
    /// Program to start.
    pub command: Option<String>,
    /// Arguments of the program.
    pub args: Option<Vec<String>>,
    /// Environment variables, in addition to `PATH` and similar ones.
    pub env: BTreeMap<String, HeaderValue>,
    /// Working directory of the program.
    pub cwd: Option<PathBuf>,
    /// URL of a remote server, instead of a program.
    pub url: Option<String>,
    /// Transport of a remote server: `http` or `sse`.
    pub transport: Option<TransportWord>,
    /// Headers of each request.
    pub headers: BTreeMap<String, HeaderValue>,
    /// Whether to use only POST requests.
    pub post_only: Option<bool>,
    /// Whether Windlass trusts the annotations of the server's tools.
    pub trusted: Option<bool>,
    /// Whether Windlass refuses to start if the server is unavailable.
    pub required: Option<bool>,
    /// When to prefix the server's name to its tools' names: `on_clash` or `always`.
    pub prefix: Option<PrefixWord>,
    /// Name patterns of the tools to include, with `*`.
    pub include: Option<Vec<String>>,
    /// Name patterns of the tools to exclude, with `*`.
    pub exclude: Option<Vec<String>>,
    /// Maximum time until the connection is established.
    pub connect_timeout: Option<Length>,
    /// Maximum time of a call without progress.
    pub call_timeout: Option<Length>,
    /// Whether the server may request completions from the agent's model.
    pub sampling: Option<bool>,
    /// Settings of the OAuth sign-in. By default, the client discovers them from the server.
    pub oauth: Option<OAuthFile>,
}

/// `[mcp.<name>.oauth]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OAuthFile {
    /// Whether the server uses OAuth.
    pub enabled: Option<bool>,
    /// Client id, if a client was registered manually.
    pub client_id: Option<String>,
    /// Reference to the client's secret.
    pub client_secret: Option<Reference>,
    /// Scopes to request. An empty list means the scopes that the server requests.
    pub scopes: Vec<String>,
}

/// `transport = "http" | "sse"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransportWord {
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE, the transport of the 2024 protocol revision.
    Sse,
}

/// `prefix = "on_clash" | "always"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrefixWord {
    /// The name is prefixed only if another tool has the same name.
    OnClash,
    Always,
}

/// Merges the servers of two layers.
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
        if self.is_elsewhere(&weaker) {
            return self;
        }
        let weaker = if self.starts_otherwise(&weaker) { weaker.lending_nothing() } else { weaker };
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
            sampling: self.sampling.or(weaker.sampling),
            // The stronger layer replaces the table as a whole, because the secret belongs to its client.
            oauth: self.oauth.or(weaker.oauth),
        }
    }

    /// Returns whether this layer changes the arguments, environment or working directory of a weaker layer's program.
    /// Such a change can make the program run other code. (`NODE_OPTIONS`, `LD_PRELOAD` and many arguments name code to
    /// run.)
    fn starts_otherwise(&self, weaker: &Self) -> bool {
        (self.args.is_some() && self.args != weaker.args)
            || (self.cwd.is_some() && self.cwd != weaker.cwd)
            || self.env.iter().any(|(name, value)| weaker.env.get(name) != Some(value))
    }

    /// Removes the secrets and the trust.
    fn lending_nothing(self) -> Self {
        let (env, headers) = (BTreeMap::new(), BTreeMap::new());
        Self { env, headers, oauth: None, trusted: None, sampling: None, ..self }
    }

    /// Returns whether the server uses OAuth: the server has a URL and no `Authorization` header, and OAuth is not
    /// disabled.
    pub fn signs_in(&self) -> bool {
        let wanted = self.oauth.as_ref().is_none_or(|oauth| oauth.enabled.unwrap_or(true));
        let says_who = self.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        self.url.is_some() && wanted && !says_who
    }

    /// Returns the OAuth settings, with `back` as the redirect URI.
    fn oauth(&self, name: &str, back: &str) -> Result<Option<OAuth>, Trouble> {
        if !self.signs_in() {
            return Ok(None);
        }
        let mut oauth = OAuth::new(back);
        // A redirect to this machine identifies a native application; an `https` redirect identifies a web
        // application.
        oauth.application_type = if back.starts_with("https://") { "web" } else { "native" }.into();
        if let Some(file) = &self.oauth {
            let secret = file.client_secret.as_ref().filter(|_| self.enabled.unwrap_or(true));
            let secret = secret.map(|secret| secret.resolve(&format!("mcp.{name}.oauth.client_secret")));
            oauth.client_secret = secret.transpose()?.map(|secret| secret.expose().to_owned());
            (oauth.client_id, oauth.scopes) = (file.client_id.clone(), file.scopes.clone());
        }
        Ok(Some(oauth))
    }

    /// Returns whether this layer sets another program or URL than a weaker layer. The entry then describes another
    /// server.
    pub(super) fn is_elsewhere(&self, weaker: &Self) -> bool {
        (self.command.is_some() || self.url.is_some())
            && (self.command != weaker.command || self.url != weaker.url)
    }

    /// Returns the first key whose value is a literal secret.
    pub(super) fn open_secret(&self) -> Option<String> {
        let headers = self.headers.iter().map(|(name, value)| ("headers", name, value));
        let env = self.env.iter().map(|(name, value)| ("env", name, value));
        let mut all = headers.chain(env);
        let open = all.find(|(_, name, value)| value.is_literal() && names_a_secret(name));
        open.map(|(table, name, _)| format!("{table}.{name}"))
    }

    /// Returns the server without its secrets, for listing. Windlass reads secrets only for servers that it starts.
    pub fn without_secrets(&self, name: &str, back: &str) -> Result<McpServer, Trouble> {
        Self { enabled: Some(false), ..self.clone() }.server(name, back)
    }

    /// Returns the server with its secrets. `back` is the redirect URI of the OAuth sign-in.
    pub fn server(&self, name: &str, back: &str) -> Result<McpServer, Trouble> {
        let key = |rest: &str| format!("mcp.{name}.{rest}");
        let enabled = self.enabled.unwrap_or(true);
        let mut secrets = Secrets::default();
        let mut values = |table: &str, values: &BTreeMap<String, HeaderValue>| {
            // A disabled server needs no secrets.
            let read = values.iter().filter(|_| enabled).map(|(header, value)| {
                let secret = value.resolve(&key(&format!("{table}.{header}")))?;
                let read = (header.clone(), secret.expose().to_owned());
                secrets.0.extend(Some(secret).filter(|_| !value.is_literal()));
                Ok(read)
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
                let http = Http { headers, post_only, oauth: self.oauth(name, back)?, ..Http::new(url) };
                match self.transport.unwrap_or(TransportWord::Http) {
                    TransportWord::Http => Transport::Http(http),
                    TransportWord::Sse => Transport::Sse(http),
                }
            }
            (Some(_), Some(_)) | (None, None) => {
                return Err(Trouble::usage(format!("`mcp.{name}` requires either `command` or `url`"))
                    .hint("`command` starts a program; `url` connects to a remote server"));
            }
        };
        let mut server = McpServer::new(name, transport);
        (server.enabled, server.secrets) = (enabled, secrets);
        server.trusted = self.trusted.unwrap_or_default();
        server.required = self.required.unwrap_or_default();
        server.allow_sampling = self.sampling.unwrap_or_default();
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
        let git = servers["git"].server("git", "http://127.0.0.1:1/back").unwrap();
        let Transport::Stdio(stdio) = &git.transport else { panic!("{git:?}") };
        assert_eq!((stdio.command.as_str(), stdio.args.len(), stdio.env.len()), ("mcp-server-git", 1, 1));
        assert!(git.trusted && !git.required);
        let docs = servers["docs"].server("docs", "http://127.0.0.1:1/back").unwrap();
        assert!(matches!(docs.transport, Transport::Sse(_)) && docs.required && !docs.trusted);
        assert_eq!(docs.timeouts.call_ms, 300_000);
        for (name, wanted) in [("both", "either"), ("neither", "either"), ("bad__name", "1 to 32")] {
            let trouble = servers[name].server(name, "http://127.0.0.1:1/back").unwrap_err().to_string();
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

    #[test]
    fn a_layer_that_starts_a_program_otherwise_gets_no_secrets_of_the_one_below() {
        let below = "[a]\ncommand = 'node'\nargs = ['server.js']\nenv = { TOKEN = 'env:TOKEN' }\ntrusted = true\n\
                     sampling = true\ninclude = ['get_*']";
        for other in [
            "args = ['-e', 'evil()']",
            "env = { NODE_OPTIONS = '--require /tmp/evil.js' }",
            "env = { TOKEN = 'another' }",
            "cwd = '/tmp/evil'",
            "command = 'node'\nargs = ['evil.js']",
        ] {
            let over = &servers_over(read(&format!("[a]\n{other}")), read(below))["a"];
            let lent = over.env.get("TOKEN").is_some_and(|value| !value.is_literal());
            assert!(!lent && over.trusted.is_none() && over.sampling.is_none(), "{other}: {over:?}");
            assert_eq!(over.command.as_deref(), Some("node"), "{other}");
        }
        for same in
            ["enabled = false", "args = ['server.js']", "env = { TOKEN = 'env:TOKEN' }\nexclude = ['set']"]
        {
            let over = &servers_over(read(&format!("[a]\n{same}")), read(below))["a"];
            assert!(over.env.contains_key("TOKEN") && over.trusted == Some(true), "{same}: {over:?}");
        }
    }

    #[test]
    fn a_server_that_is_switched_off_needs_no_secret_and_one_that_is_on_masks_its_own() {
        let servers = read(
            "[off]\ncommand = 'a'\nenabled = false\nenv = { TOKEN = 'env:NOWHERE_SET' }\n\
             [there]\nurl = 'https://a'\nenabled = false\nheaders = { authorization = 'env:NOWHERE_SET' }\n\
             [on]\ncommand = 'a'\nenv = { HOME_OF_IT = 'env:PATH', REGION = 'eu' }",
        );
        let server = |name: &str| servers[name].server(name, "http://127.0.0.1:1/back").unwrap();
        assert!(!server("off").enabled && !server("there").enabled);
        assert_eq!(server("on").secrets.0.len(), 1, "what stands in the file is no secret");
    }

    #[test]
    fn people_sign_in_at_an_address_unless_something_says_who_comes() {
        let servers = read(
            "[plain]\nurl = 'https://a'\n[key]\nurl = 'https://a'\nheaders = { authorization = 'env:TOKEN' }\n\
             [off]\nurl = 'https://a'\noauth = { enabled = false }\n[program]\ncommand = 'a'\n\
             [known]\nurl = 'https://a'\nsampling = true\n[known.oauth]\nclient_id = 'c'\nscopes = ['repo']",
        );
        let signs_in = |name: &str| servers[name].signs_in();
        assert_eq!(["plain", "key", "off", "program"].map(signs_in), [true, false, false, false]);
        let oauth = |name: &str, back: &str| {
            let server = servers[name].server(name, back).unwrap();
            let Transport::Http(http) = server.transport else { panic!("{name}") };
            (http.oauth.unwrap(), server.allow_sampling)
        };
        let (known, samples) = oauth("known", "https://agents.example.com/back");
        let told = (known.client_id.as_deref(), known.scopes.join(" "), known.application_type.as_str());
        assert_eq!((told, samples), ((Some("c"), "repo".into(), "web"), true));
        let (plain, samples) = oauth("plain", "http://127.0.0.1:7719/callback");
        assert_eq!((plain.application_type.as_str(), plain.client_id, samples), ("native", None, false));
    }
}
