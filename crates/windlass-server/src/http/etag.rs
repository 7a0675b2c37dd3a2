//! Entity tags: the version of a resource that a client has read. They prevent a client from overwriting changes that
//! the client has not read.
//!
//! `If-Match` is optional: a client that sends no such header overwrites the current version.

use std::convert::Infallible;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request};
use serde::Serialize;
use utoipa::IntoParams;
use windlass::machine::Digest;

use super::problem::Problem;

/// An entity tag, as it appears in the `ETag` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ETag(String);

impl ETag {
    /// Creates a strong tag: equal versions imply a byte-identical response.
    pub fn strong(version: &impl Serialize) -> Self {
        Self(format!("\"{}\"", &Digest::default().chain(version).to_string()[..24]))
    }

    /// Creates a weak tag, for responses that also contain the current time.
    pub fn weak(version: &impl Serialize) -> Self {
        Self(format!("W/{}", Self::strong(version).0))
    }

    fn opaque(&self) -> &str {
        self.0.trim_start_matches("W/")
    }

    /// Adds the tag to a response.
    pub fn on(&self, response: impl IntoResponse) -> Response {
        let mut response = response.into_response();
        // The tag consists of hexadecimal digits, quotes and `W/`, so this never fails.
        if let Ok(value) = HeaderValue::from_str(&self.0) {
            response.headers_mut().insert(header::ETAG, value);
        }
        response
    }

    /// Builds a JSON response with the tag.
    pub fn json(&self, body: impl Serialize) -> Response {
        self.on(Json(body))
    }
}

/// The `If-Match` and `If-None-Match` headers of a request.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    if_match: Option<String>,
    if_none_match: Option<String>,
}

/// Documents the header of a read that may return 304.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it describes a header; `Seen` reads it")]
pub struct IfNoneMatch {
    /// `ETag` of the version that the client has. If it is current, the response is 304.
    #[param(rename = "If-None-Match", example = "\"4f2a9c\"")]
    if_none_match: Option<String>,
}

/// Documents the header of a change that may return 412.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it describes a header; `Seen` reads it")]
pub struct IfMatch {
    /// `ETag` of the version to change. If it is not current, the response is 412.
    #[param(rename = "If-Match", example = "\"4f2a9c\"")]
    if_match: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Seen {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut request::Parts, _: &S) -> Result<Self, Infallible> {
        let all = |name| joined(&parts.headers, &name);
        Ok(Self { if_match: all(header::IF_MATCH), if_none_match: all(header::IF_NONE_MATCH) })
    }
}

/// Joins the values of a header that a client may send in several lines.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Vec<&str> = headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).collect();
    (!lines.is_empty()).then(|| lines.join(","))
}

pub(super) fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

impl Seen {
    /// Returns 412 if `If-Match` names another version than the current one. (RFC 9110, section 13.1.1: weak tags
    /// never match)
    pub fn allows(&self, now: &ETag) -> Result<(), Problem> {
        let Some(wanted) = &self.if_match else { return Ok(()) };
        if names(wanted).any(|name| name == "*" || name == now.0) {
            return Ok(());
        }
        let detail = format!("`If-Match` is {wanted}, but the current version is {}", now.0);
        Err(Problem::new(StatusCode::PRECONDITION_FAILED, "changed", detail)
            .hint("read the resource again, and repeat the change if it still applies"))
    }

    /// Returns 304 if the client has the current version. Otherwise awaits `thing` and returns it with its tag.
    pub async fn answer<T: Serialize>(
        &self,
        now: &ETag,
        thing: impl Future<Output = Result<T, Problem>>,
    ) -> Result<Response, Problem> {
        Ok(if self.knows(now) { now.on(StatusCode::NOT_MODIFIED) } else { now.json(thing.await?) })
    }

    /// Returns whether `If-None-Match` names the current version.
    pub fn knows(&self, now: &ETag) -> bool {
        let Some(known) = &self.if_none_match else { return false };
        names(known).any(|name| name == "*" || name.trim_start_matches("W/") == now.opaque())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(if_match: &str, if_none_match: &str) -> Seen {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Seen { if_match: some(if_match), if_none_match: some(if_none_match) }
    }

    #[test]
    fn only_the_same_version_is_changed() {
        let now = ETag("\"b\"".into());
        for (wanted, allowed) in [
            ("", true),
            ("\"b\"", true),
            ("\"a\", \"b\"", true),
            ("*", true),
            ("\"a\"", false),
            ("W/\"b\"", false),
        ] {
            assert_eq!(seen(wanted, "").allows(&now).is_ok(), allowed, "{wanted}");
        }
    }

    #[test]
    fn the_same_version_is_not_sent_again() {
        for tag in [ETag("\"b\"".into()), ETag("W/\"b\"".into())] {
            for (known, same) in
                [("", false), ("\"a\"", false), ("\"b\"", true), ("W/\"b\"", true), ("*", true)]
            {
                assert_eq!(seen("", known).knows(&tag), same, "{known}");
            }
        }
    }
}
