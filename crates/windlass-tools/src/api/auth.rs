//! Authentication of service calls: secrets become headers just before a request is
//! sent, and a mask that redacts the response.
//!
//! This module keeps no state between calls.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use windlass_outbound::secret::{Mask, Secret, SecretSource};

use super::service::Auth;

/// Provides the headers of services with a custom scheme: refreshed tokens, signatures. (LM-I5)
#[async_trait]
pub trait ResolveAuth: Send + Sync {
    /// Returns the headers of one call. The model reads the error, so the error must contain no secret.
    async fn resolve(&self, id: &str, call: &AuthCall<'_>) -> Result<Vec<(String, Secret)>, String>;
}

/// A call that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct AuthCall<'a> {
    /// The service's name.
    pub service: &'a str,
    /// The HTTP method in upper case.
    pub method: &'a str,
    /// The path after the service's base URL, without the query.
    pub path: &'a str,
    /// The body as it will be sent.
    pub body: &'a [u8],
}

/// The authentication headers, and the mask for the response.
pub(super) struct Signed {
    pub headers: HeaderMap,
    pub mask: Mask,
}

/// Authenticates a call. The model reads the error.
pub(super) async fn sign(
    auth: &Auth,
    secrets: &dyn SecretSource,
    resolver: Option<&dyn ResolveAuth>,
    call: &AuthCall<'_>,
) -> Result<Signed, String> {
    // The error is not masked: it names the reference and never a value.
    let read = |reference: &str| {
        let why = |why: String| format!("the service `{}` cannot be called: {why}", call.service);
        secrets.secret(reference).map_err(why)
    };
    let (headers, known): (Vec<(HeaderName, String)>, Vec<Secret>) = match auth {
        Auth::None => (Vec::new(), Vec::new()),
        Auth::Bearer { token_ref } => {
            let token = read(token_ref)?;
            (vec![(AUTHORIZATION, format!("Bearer {}", token.expose()))], vec![token])
        }
        Auth::Header { name, value_ref } => {
            let value = read(value_ref)?;
            let known = [vec![value.clone()], pieces(&value)].concat();
            (vec![(named(name)?, value.expose().to_owned())], known)
        }
        Auth::Basic { user_ref, pass_ref } => {
            let (user, pass) = (read(user_ref)?, read(pass_ref)?);
            let pair = Secret::new(format!("{}:{}", user.expose(), pass.expose()));
            let value = format!("Basic {}", STANDARD.encode(pair.expose()));
            (vec![(AUTHORIZATION, value)], vec![user, pass, pair])
        }
        Auth::Custom { id } => {
            let resolver =
                resolver.ok_or_else(|| format!("no resolver is configured for the scheme `{id}`"))?;
            let (mut headers, mut known) = (Vec::new(), Vec::new());
            for (name, value) in resolver.resolve(id, call).await? {
                headers.push((named(&name)?, value.expose().to_owned()));
                known.extend(pieces(&value));
                known.push(value);
            }
            (headers, known)
        }
    };
    let mut signed = Signed { headers: HeaderMap::new(), mask: Mask::new(&known) };
    for (name, value) in headers {
        let value = HeaderValue::from_str(&value).map_err(|_| {
            format!("the credentials of `{}` contain characters that headers do not allow", call.service)
        })?;
        signed.headers.insert(name, value);
    }
    Ok(signed)
}

fn named(name: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is not a valid header name"))
}

/// Returns the parts of a value that a response may echo: the value
/// after its scheme, and each of its parameters.
fn pieces(value: &Secret) -> Vec<Secret> {
    let text = value.expose().trim();
    let (scheme, rest) = text.split_once(' ').map_or(("", text), |(scheme, rest)| (scheme, rest.trim()));
    if scheme.eq_ignore_ascii_case("basic")
        && let Ok(pair) = STANDARD.decode(rest)
        && let Ok(pair) = String::from_utf8(pair)
    {
        return pair.split(':').chain([pair.as_str()]).map(Secret::new).collect();
    }
    let mut pieces: Vec<&str> = Vec::new();
    if !scheme.is_empty() {
        pieces.push(rest);
    }
    // Single words of a passphrase are not masked, because they occur in ordinary texts; parameters do not.
    let parts = || rest.split([' ', ',']).filter(|part| !part.is_empty());
    if rest.contains(',') && parts().nth(1).is_some() {
        pieces.extend(parts());
    }
    pieces.into_iter().map(Secret::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_no_secret() {
        for (value, wanted) in [
            ("sk-whole-key", vec![]),
            ("Bearer sk-token", vec!["sk-token"]),
            ("ApiKey sk-token", vec!["sk-token"]),
            ("GenieKey sk-token", vec!["sk-token"]),
            ("Api-Token  sk-token ", vec!["sk-token"]),
            // ann:pass-word
            ("basic YW5uOnBhc3Mtd29yZA==", vec!["ann", "pass-word", "ann:pass-word"]),
            ("Basic no!base64", vec!["no!base64"]),
            (
                "Digest username=\"ann\", response=\"0123456789\"",
                vec![
                    "username=\"ann\", response=\"0123456789\"",
                    "username=\"ann\"",
                    "response=\"0123456789\"",
                ],
            ),
            ("correct horse battery", vec!["horse battery"]),
            ("one,two", vec!["one", "two"]),
        ] {
            let pieces: Vec<String> =
                pieces(&Secret::new(value)).iter().map(|piece| piece.expose().to_owned()).collect();
            assert_eq!(pieces, wanted, "{value}");
        }
    }
}
