//! Errors in this dialect's shape: `{detail: {code, message}}`, with codes that its clients know. (WT-E8)

use axum::Json;
use axum::body::to_bytes;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::{Value, json};
use windlass_server::http::problem::{MEDIA_TYPE, Problem};

/// Maximum size of a problem in bytes. A problem contains a code and two sentences.
const PROBLEM_MAX_BYTES: usize = 64 * 1024;

/// Creates the problem for a rejected request, with a code that clients know.
pub fn refused(code: &'static str, words: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, code, words)
}

/// Creates the problem for a question that has expired or never existed. (WT-H10)
pub fn expired() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "invalid_request", "Checkpoint expired or not found.")
}

/// Creates the problem for a feature of the tutor that this server does not have.
pub fn missing() -> Problem {
    Problem::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", "this server does not support this feature")
}

/// Converts a problem to the dialect's shape. Returns other responses unchanged.
pub async fn shaped(response: Response) -> Response {
    let media = response.headers().get(header::CONTENT_TYPE);
    if media.is_none_or(|media| media != MEDIA_TYPE) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let body = to_bytes(body, PROBLEM_MAX_BYTES).await.unwrap_or_default();
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |name: &str| problem[name].as_str().unwrap_or_default();
    let message = match text("hint") {
        "" => text("detail").to_owned(),
        hint => format!("{}; {hint}", text("detail")),
    };
    let detail = json!({"code": code(parts.status, text("code")), "message": message});
    // Clients expect 400 for every invalid request.
    if parts.status == StatusCode::UNPROCESSABLE_ENTITY {
        parts.status = StatusCode::BAD_REQUEST;
    }
    parts.headers.remove(header::CONTENT_TYPE);
    parts.headers.remove(header::CONTENT_LENGTH);
    let mut shaped = (parts.status, Json(json!({"detail": detail}))).into_response();
    // The new body has its own length.
    shaped.headers_mut().extend(parts.headers);
    *shaped.extensions_mut() = parts.extensions;
    shaped
}

/// Returns the code that clients know. Keeps more specific codes.
fn code(status: StatusCode, code: &str) -> &str {
    match (status, code) {
        (_, "bad_request" | "invalid" | "config" | "too_large" | "busy" | "queue_full" | "closed") => {
            "invalid_request"
        }
        (StatusCode::TOO_MANY_REQUESTS, _) => "rate_limited",
        (StatusCode::SERVICE_UNAVAILABLE | StatusCode::INTERNAL_SERVER_ERROR, _) => "service_unavailable",
        (StatusCode::BAD_GATEWAY, _) => "upstream_error",
        (_, code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(problem: Problem) -> (u16, Value) {
        let response = shaped(problem.into_response()).await;
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), PROBLEM_MAX_BYTES).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    // rows: WT-E8, WT-H10
    #[tokio::test]
    async fn a_problem_is_encoded_in_the_shape_of_the_dialect() {
        let detail = |code: &str, message: &str| json!({"detail": {"code": code, "message": message}});
        for (problem, status, wanted) in [
            (refused("message_required", "Please enter a message."), 400, "message_required"),
            (Problem::invalid("x"), 400, "invalid_request"),
            (expired(), 404, "invalid_request"),
            (Problem::not_found("x"), 404, "not_found"),
            (Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_runs", "x"), 429, "rate_limited"),
            (Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopped", "x"), 503, "service_unavailable"),
            (Problem::new(StatusCode::BAD_GATEWAY, "ERR_AUTH", "x"), 502, "upstream_error"),
            (Problem::forbidden("x"), 403, "forbidden"),
        ] {
            let message = problem.detail.clone();
            assert_eq!(told(problem).await, (status, detail(wanted, &message)));
        }
        let hinted = told(Problem::invalid("wrong").hint("do this")).await;
        assert_eq!(hinted, (400, detail("invalid_request", "wrong; do this")));
    }
}
