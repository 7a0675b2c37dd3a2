//! The definition of a service: its address, authentication and limits.
//!
//! A definition refers to secrets by name and contains none. This module sends no request.

use std::collections::BTreeMap;
use std::fmt;

use http::{HeaderName, HeaderValue, Method};
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_machine::Digest;
use windlass_outbound::{Outbound, Refusal, Url};

use super::headers::is_reserved;
use super::method::METHODS;
use super::openapi::Document;

/// Default limit of a request body, in bytes. Models write far smaller bodies.
pub const MAX_BODY_BYTES: usize = 256 * 1024;
/// Default limit of a response body, in bytes: ten times the size that a result displays.
pub const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// Default time limit of a call, in milliseconds.
pub const TIMEOUT_MS: u64 = 60_000;

/// Maximum configurable size of a body, in bytes. A body is held in memory, and
/// each run makes up to 16 calls in parallel.
const MOST_BYTES: usize = 32 * 1024 * 1024;
/// Maximum configurable time limit, in milliseconds. A run limits each call to 30 minutes.
const MOST_TIMEOUT_MS: u64 = 600_000;
/// Maximum number of services of one run. Their names are part of the tool's
/// schema, which every model call contains.
pub const MAX_SERVICES: usize = 64;

/// The definition of a service. (LM-I4)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The name that a model uses.
    pub name: String,
    /// A description for the model.
    #[serde(default)]
    pub description: Option<String>,
    /// The URL that paths are appended to.
    #[serde(alias = "baseUrl")]
    pub base_url: String,
    /// How calls are authenticated.
    #[serde(default)]
    pub auth: Auth,
    /// Regular expressions; a path must match one of them. If empty, all paths are allowed.
    /// Each expression must be anchored with `^`.
    #[serde(default, alias = "allowedPaths")]
    pub allowed_paths: Vec<String>,
    /// The allowed methods. If empty, all methods are allowed.
    #[serde(default, alias = "allowedMethods")]
    pub allowed_methods: Vec<String>,
    /// Headers of every request. They are not secret.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Maximum size of a request body, in bytes.
    #[serde(default = "max_body_bytes", alias = "maxBodyBytes")]
    pub max_body_bytes: usize,
    /// Maximum size of a response body, in bytes. The rest of a larger body is dropped.
    #[serde(default = "max_response_bytes", alias = "maxResponseBytes")]
    pub max_response_bytes: usize,
    /// Time limit of a call, in milliseconds.
    #[serde(default = "timeout_ms", alias = "timeoutMs")]
    pub timeout_ms: u64,
    /// Whether the service deduplicates requests by `Idempotency-Key`. A call with an unknown outcome may then be
    /// repeated.
    #[serde(default, alias = "idempotencyKeys")]
    pub idempotency_keys: bool,
    /// An OpenAPI 3 description in JSON or YAML. Calls are validated against it, and the model sees its operations.
    #[serde(default)]
    pub openapi: Option<String>,
}

fn max_body_bytes() -> usize {
    MAX_BODY_BYTES
}
fn max_response_bytes() -> usize {
    MAX_RESPONSE_BYTES
}
fn timeout_ms() -> u64 {
    TIMEOUT_MS
}

impl Service {
    /// Creates a service without authentication and with default limits.
    pub fn new(name: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: None,
            base_url: base_url.into(),
            auth: Auth::None,
            allowed_paths: Vec::new(),
            allowed_methods: Vec::new(),
            headers: BTreeMap::new(),
            max_body_bytes: MAX_BODY_BYTES,
            max_response_bytes: MAX_RESPONSE_BYTES,
            timeout_ms: TIMEOUT_MS,
            idempotency_keys: false,
            openapi: None,
        }
    }
}

/// How calls of a service are authenticated, with secrets by reference. (LM-I5)
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Auth {
    /// No authentication.
    #[default]
    None,
    /// `Authorization: Bearer …`.
    Bearer {
        /// Reference to the token.
        #[serde(alias = "tokenRef")]
        token_ref: String,
    },
    /// A header with a secret value.
    Header {
        /// The header's name.
        name: String,
        /// Reference to the header's value.
        #[serde(alias = "valueRef")]
        value_ref: String,
    },
    /// `Authorization: Basic …`.
    Basic {
        /// Reference to the user name.
        #[serde(alias = "userRef")]
        user_ref: String,
        /// Reference to the password.
        #[serde(alias = "passRef")]
        pass_ref: String,
    },
    /// Headers that [`ResolveAuth`](super::ResolveAuth) provides for each call.
    Custom {
        /// Passed to the resolver to select the scheme.
        id: String,
    },
}

/// Why services cannot be offered. Each variant reports an error of the caller, which a retry does not fix.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ApiError {
    /// The definition of a service is invalid.
    #[error("the service `{service}`: {why}")]
    Service {
        /// The service's name.
        service: String,
        /// Describes the error, with the offending value.
        why: String,
    },
    /// There are too many services. The value is their number.
    #[error("{0} services are too many; the limit is {MAX_SERVICES}")]
    TooMany(usize),
}

/// A validated service.
pub(super) struct Ready {
    pub definition: Service,
    pub base: Url,
    pub paths: Vec<Regex>,
    pub methods: Vec<Method>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Headers that the definition sets.
    pub own: Vec<HeaderName>,
    pub document: Option<Document>,
    /// Digest of the target and the identity. An approval of a call is bound to this digest.
    pub digest: Digest,
}

impl Ready {
    pub(super) fn new(definition: Service, outbound: &Outbound) -> Result<Self, ApiError> {
        let service = definition.name.chars().take(80).collect::<String>();
        Self::checked(definition, outbound).map_err(|why| ApiError::Service { service, why })
    }

    fn checked(definition: Service, outbound: &Outbound) -> Result<Self, String> {
        let name = &definition.name;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_plain) {
            return Err("a name must have 1 to 64 characters from A-Z, a-z, 0-9, `_`, `-` and `.`".to_owned());
        }
        let base = base_url(&definition.base_url, outbound)?;
        if base.scheme() == "http" && definition.auth != Auth::None && !outbound.reach().is_inside(&base) {
            return Err(
                "`base_url` would send credentials unencrypted; use https, or add its host to the setting \
                 `internal_hosts`"
                    .to_owned(),
            );
        }
        if definition.max_body_bytes > MOST_BYTES || definition.max_response_bytes > MOST_BYTES {
            return Err(format!("`max_body_bytes` and `max_response_bytes` must not exceed {MOST_BYTES}"));
        }
        if definition.timeout_ms == 0 || definition.timeout_ms > MOST_TIMEOUT_MS {
            let said = definition.timeout_ms;
            return Err(format!("`timeout_ms = {said}` is not between 1 and {MOST_TIMEOUT_MS}"));
        }
        let paths = definition.allowed_paths.iter().map(|text| pattern(text)).collect::<Result<_, _>>()?;
        let methods =
            definition.allowed_methods.iter().map(|text| method(text)).collect::<Result<Vec<_>, _>>()?;
        let methods = if methods.is_empty() { METHODS.to_vec() } else { methods };
        let headers = definition
            .headers
            .iter()
            .map(|(name, value)| header(name, value))
            .collect::<Result<Vec<_>, _>>()?;
        let mut own: Vec<_> = headers.iter().map(|(name, _)| name.clone()).collect();
        if let Auth::Header { name, .. } = &definition.auth {
            own.push(header_name(name)?);
        }
        let document = definition.openapi.as_deref().map(Document::read).transpose()?;
        let decides = (&definition.name, base.as_str(), &definition.auth, &definition.headers);
        let digest = Digest::default().chain(&decides);
        Ok(Self { base, paths, methods, headers, own, document, digest, definition })
    }

    /// Whether a call may use a path.
    pub(super) fn allows_path(&self, path: &str) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|pattern| pattern.is_match(path))
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.definition.fmt(f)
    }
}

fn base_url(text: &str, outbound: &Outbound) -> Result<Url, String> {
    // The error does not display the URL: it may contain a password or a key, also if it cannot be parsed.
    let url = Url::parse(text).map_err(|error| format!("`base_url` is not a valid URL: {error}"))?;
    let judged = outbound.reach().judge(&url, url.port());
    if judged != Err(Refusal::Credentials) && (url.query().is_some() || url.fragment().is_some()) {
        return Err("`base_url` must not have a query or a fragment".to_owned());
    }
    match judged {
        Err(Refusal::Credentials) => {
            Err("`base_url` contains a user name or password; use `auth`".to_owned())
        }
        judged => judged.map(|()| url).map_err(|refusal| format!("`base_url`: {refusal}")),
    }
}

/// Maximum size of a compiled pattern, in bytes. Patterns of paths take some KiB.
const PATTERN_MAX_BYTES: usize = 1024 * 1024;

fn pattern(text: &str) -> Result<Regex, String> {
    let Some(rest) = text.strip_prefix('^') else {
        return Err(format!(
            "the allowed path `{text}` would match in the middle of another path; begin it with `^`"
        ));
    };
    let build = |text: &str| RegexBuilder::new(text).size_limit(PATTERN_MAX_BYTES).build();
    // In `^/a|/b`, the anchor belongs to the first alternative only. The text must first compile without the
    // added group: an unbalanced parenthesis would close the group.
    let built = build(text).and_then(|_| build(&format!("^(?:{rest})")));
    built.map_err(|error| format!("the allowed path `{text}` is not a valid regular expression: {error}"))
}

fn method(text: &str) -> Result<Method, String> {
    let known = METHODS.into_iter().find(|method| method.as_str().eq_ignore_ascii_case(text));
    known.ok_or_else(|| {
        format!("`{text}` is not a supported method; use GET, HEAD, OPTIONS, POST, PUT, PATCH or DELETE")
    })
}

fn header_name(name: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is not a valid header name"))
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let known = header_name(name)?;
    if is_reserved(known.as_str()) {
        return Err(format!("the header `{name}` cannot be set here; put secrets into `auth`"));
    }
    let value =
        HeaderValue::from_str(value).map_err(|_| format!("the header `{name}` has an invalid value"))?;
    Ok((known, value))
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn each_alternative_of_an_allowed_path_begins_where_the_path_does() {
        let either = pattern("^/ok|/admin").unwrap();
        let found = ["/ok/1", "/admin", "/x/admin", "/x/ok"].map(|path| either.is_match(path));
        assert_eq!(found, [true, true, false, false]);
        assert!(pattern(r"^/widgets(/\d+)?$").unwrap().is_match("/widgets/7"));
        let refused = pattern("^/a)|(?:/admin").unwrap_err();
        assert!(refused.contains("is not a valid regular expression"), "{refused}");
        assert!(pattern("/a").unwrap_err().contains("begin it with `^`"));
    }
}
