//! What a request brings, parsed at the edge: JSON bodies, queries and path parts, each refused as a problem.
//!
//! Bodies are bounded in bytes, depth and key repetition before anything looks at them.

mod unique;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::{StatusCode, header, request};
use serde::de::DeserializeOwned;

use self::unique::Unique;
use super::problem::Problem;

/// Largest JSON body, in bytes: a message of 32,768 characters with a hundred more around it, several times over.
pub const BODY_MAX_BYTES: usize = 2 * 1024 * 1024;

/// A JSON body.
#[derive(Clone, Copy, Debug)]
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let is_json =
            request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(
                |value| {
                    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
                    essence == "application/json" || essence.ends_with("+json")
                },
            );
        if !is_json {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "the body must be JSON",
            )
            .hint("send `content-type: application/json`"));
        }
        // Where the length is told, nothing of the body is read.
        let told =
            request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if told.is_some_and(|told: u64| told > BODY_MAX_BYTES as u64) {
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, String::new()));
        }
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| refused(rejection.status(), rejection.body_text()))?;
        parse(&bytes).map(Self)
    }
}

/// Reads JSON: valid UTF-8, no deeper than 128 levels, no key twice in one object. Which of two values of a key counts,
/// every reader decides for itself, so that what was checked might not be what is used.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if let Err(error) = serde_json::from_slice::<Unique>(bytes) {
        return Err(Problem::bad_request(format!("the body is no JSON that is read here: {error}")));
    }
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(value),
        Err(error) if error.is_data() => Err(Problem::invalid(format!("the body does not fit: {error}"))),
        Err(error) => Err(Problem::bad_request(format!("the body is no JSON: {error}"))),
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

/// The query of a request.
#[derive(Clone, Copy, Debug)]
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, state: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        query.map(|query| Self(query.0)).map_err(|rejection: QueryRejection| {
            Problem::bad_request(format!("the query does not fit: {}", rejection.body_text()))
        })
    }
}

/// Parts of the path.
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
