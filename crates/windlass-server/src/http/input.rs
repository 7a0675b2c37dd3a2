//! Request input, parsed at the edge: JSON bodies, forms, queries and path parameters. Invalid input becomes a
//! [`Problem`].
//!
//! JSON bodies are limited in size and depth and may not repeat a key. The server makes these checks before
//! deserialization.

mod unique;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header, request};
use serde::de::DeserializeOwned;

use self::unique::Unique;
use super::problem::Problem;

/// Maximum size of a JSON body, in bytes. The limit is several times the largest valid request.
pub const BODY_MAX_BYTES: usize = 2 * 1024 * 1024;

#[derive(Clone, Copy, Debug)]
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        parse(&json_bytes(request, state).await?).map(Self)
    }
}

/// Reads the bytes of a JSON body without parsing them; see [`parse`].
pub async fn json_bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    require_json(request.headers())?;
    Bytes::from_request(request, state)
        .await
        .map_err(|rejection| refused(rejection.status(), rejection.body_text()))
}

/// Rejects a request by its headers, before its body is read: wrong content type, or a declared length above the
/// limit.
fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_json = header(header::CONTENT_TYPE).is_some_and(|value| {
        let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        essence == "application/json" || essence.ends_with("+json")
    });
    if !is_json {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "the body must be JSON",
        )
        .hint("send `content-type: application/json`"));
    }
    let length = header(header::CONTENT_LENGTH).and_then(|value| value.parse().ok());
    if length.is_some_and(|length: u64| length > BODY_MAX_BYTES as u64) {
        return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, String::new()));
    }
    Ok(())
}

/// A URL-encoded form.
#[derive(Clone, Copy, Debug)]
pub struct Form<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Form<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let form = axum::Form::from_request(request, state).await;
        form.map(|form| Self(form.0)).map_err(|rejection| refused(rejection.status(), rejection.body_text()))
    }
}

/// Parses a JSON object. The body must be valid UTF-8, at most 128 levels deep, and no object may repeat a key. Parsers
/// differ in the value that they use for a repeated key, so a check and the checked code could read different values.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if let Err(error) = serde_json::from_slice::<Unique>(bytes) {
        return Err(Problem::bad_request(format!("the body is not valid JSON: {error}")));
    }
    // Reject arrays: serde would accept an array as the struct's fields in order.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Problem::invalid("the body must be a JSON object"));
    }
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(value),
        Err(error) if error.is_data() => Err(Problem::invalid(format!("the body is invalid: {error}"))),
        Err(error) => Err(Problem::bad_request(format!("the body is not valid JSON: {error}"))),
    }
}

fn refused(status: StatusCode, said: String) -> Problem {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Problem::new(status, "too_large", format!("the body is larger than {BODY_MAX_BYTES} bytes"))
        }
        StatusCode::UNPROCESSABLE_ENTITY => Problem::invalid(said),
        _ => Problem::new(status, "bad_request", said),
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        refused(rejection.status(), rejection.body_text())
    }
}

/// The query string.
#[derive(Clone, Copy, Debug)]
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, state: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        query.map(|query| Self(query.0)).map_err(|rejection: QueryRejection| {
            Problem::bad_request(format!("the query is invalid: {}", rejection.body_text()))
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|path| Self(path.0)).map_err(|rejection: PathRejection| {
            Problem::new(StatusCode::NOT_FOUND, "not_found", rejection.body_text())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::Value;

    use super::*;

    fn refused(bytes: &[u8]) -> (u16, String) {
        let problem = parse::<Value>(bytes).unwrap_err();
        (problem.status.as_u16(), problem.detail)
    }

    #[test]
    fn bodies_are_bounded_in_depth_and_name_each_key_once() {
        assert_eq!(parse::<Value>(br#"{"a":[{"b":"\u00e4"}]}"#).unwrap()["a"][0]["b"], "ä");
        for hostile in [
            "[".repeat(10_000).into_bytes(),
            (r#"{"a":"#.repeat(10_000) + "1").into_bytes(),
            br#"{"free":{"to":1,"to":2}}"#.to_vec(),
            b"{\"a\":\"\xff\xfe\"}".to_vec(),
            b"\xff".to_vec(),
            br#"{"a":"\ud800"}"#.to_vec(),
            b"{} {}".to_vec(),
            b"".to_vec(),
            b"{\"a\":1e999}".to_vec(),
        ] {
            let (status, detail) = refused(&hostile);
            assert_eq!(status, 400, "{detail}");
            assert!(detail.len() < 300, "{detail}");
        }
        assert!(refused(br#"{"free":{"to":1,"to":2}}"#).1.contains("duplicate key `to`"));
    }

    /// Sends a body in many chunks, with or without a declared length. Returns the status and the number of chunks
    /// that the server read.
    async fn send(told: Option<usize>, parts: usize) -> (u16, usize) {
        const PART: &[u8] = &[b' '; 64 * 1024];
        let read = Arc::new(AtomicUsize::new(0));
        let counted = read.clone();
        let part = move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(Bytes::from_static(PART))
        };
        let body = axum::body::Body::from_stream(futures::stream::iter((0..parts).map(part)));
        let mut request = http::Request::post("/").header("content-type", "application/json");
        if let Some(told) = told {
            request = request.header("content-length", told);
        }
        let body = Body::<Value>::from_request(request.body(body).unwrap(), &()).await;
        (body.unwrap_err().status.as_u16(), read.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_not_read_to_its_end() {
        assert_eq!(send(Some(100_000_000), 1_600).await, (413, 0));
        let (status, parts) = send(None, 1_600).await;
        assert_eq!(status, 413);
        assert!(parts <= 1 + BODY_MAX_BYTES / (64 * 1024), "{parts}");
    }
}
