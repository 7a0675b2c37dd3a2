//! Checks `Host` and `Origin`: the host names of this server, and the web origins that may call it from a browser.
//!
//! The check covers every route, streams included. It blocks pages of other sites, and host names that an attacker
//! points at this machine (DNS rebinding).

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, header};

use crate::http::Shared;
use crate::http::problem::Problem;
use crate::http::state::origins::{Origins, host};

/// Rejects requests with an unknown host, and requests from pages of an origin that is not allowed.
pub async fn check(State(app): State<Shared>, request: Request, next: Next) -> Response {
    match judge(&app.origins, &request) {
        Ok(Pass::Plain) => next.run(request).await,
        Ok(Pass::Listed(origin)) if is_preflight(&request) => {
            allow(StatusCode::NO_CONTENT.into_response(), &origin)
        }
        Ok(Pass::Listed(origin)) => allow(next.run(request).await, &origin),
        Err(problem) => problem.into_response(),
    }
}

enum Pass {
    Plain,
    /// The request comes from a page of another origin that `[server] cors` lists.
    Listed(http::HeaderValue),
}

fn judge(origins: &Origins, request: &Request) -> Result<Pass, Problem> {
    let host = host(request.uri(), request.headers());
    let host = host.ok_or_else(|| Problem::bad_request("the request has no host"))?;
    if !origins.knows_host(&host) {
        let detail = format!("this server does not accept the host `{host}`");
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", detail)
            .hint("an administrator can add the address with `--public-url` or `[server] public_urls`"));
    }
    let Some(value) = request.headers().get(header::ORIGIN) else { return Ok(Pass::Plain) };
    let origin = value.to_str().unwrap_or_default();
    if origins.is_own(origin) {
        return Ok(Pass::Plain);
    }
    if origins.is_listed(origin) {
        return Ok(Pass::Listed(value.clone()));
    }
    Err(Problem::forbidden(format!("the origin `{origin}` is not allowed to use this server"))
        .hint("an administrator can add the origin to `[server] cors`"))
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Adds the CORS headers that let a page of another origin read the response.
fn allow(mut response: Response, origin: &http::HeaderValue) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    let fixed = [
        (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, PATCH, DELETE"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            // The Skyflo Command Center sends `cache-control` with each message and answer. (SK-R13)
            "authorization, cache-control, content-type, idempotency-key, if-match, if-none-match, last-event-id, \
             x-request-id, x-user-timezone",
        ),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, "etag, location, retry-after, x-request-id"),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
        (header::VARY, "origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, http::HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn origins() -> Origins {
        let public = ["https://agents.example.com".parse().unwrap()];
        Origins::new(
            "http",
            "127.0.0.1:7717".parse().unwrap(),
            &public,
            &["https://desk.example.com/".to_owned()],
        )
    }

    fn verdict(host: &str, origin: Option<&str>) -> Result<(), u16> {
        let mut request = Request::builder().uri("/").header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        judge(&origins(), &request.body(Body::empty()).unwrap()).map(drop).map_err(|no| no.status.as_u16())
    }

    #[test]
    fn only_our_own_names_and_pages_pass() {
        assert_eq!(verdict("127.0.0.1:7717", None), Ok(()));
        assert_eq!(verdict("LOCALHOST:7717", Some("http://localhost:7717")), Ok(()));
        assert_eq!(verdict("agents.example.com", Some("https://agents.example.com")), Ok(()));
        assert_eq!(verdict("agents.example.com", Some("https://desk.example.com")), Ok(()));
        assert_eq!(verdict("evil.example.com:7717", None), Err(421));
        assert_eq!(verdict("127.0.0.1:80", None), Err(421));
        assert_eq!(verdict("127.0.0.1:7717", Some("https://evil.example.com")), Err(403));
        assert_eq!(verdict("127.0.0.1:7717", Some("null")), Err(403));
        assert_eq!(verdict("a b", None), Err(400));
    }

    #[test]
    fn two_hosts_are_none() {
        let request = Request::builder().uri("/").header("host", "localhost:7717").header("host", "evil");
        let refused = judge(&origins(), &request.body(Body::empty()).unwrap());
        assert_eq!(refused.map(drop).map_err(|no| no.status.as_u16()), Err(400));
    }

    #[test]
    fn the_host_of_an_absolute_address_counts() {
        let status = |uri: &str, host: &str| {
            let request = Request::builder().uri(uri).header("host", host).body(Body::empty()).unwrap();
            judge(&origins(), &request).map(drop).map_err(|no| no.status.as_u16())
        };
        assert_eq!(status("http://localhost:7717/x", "Localhost:7717"), Ok(()));
        assert_eq!(status("http://evil/x", "localhost:7717"), Err(400));
        assert_eq!(status("http://localhost:7717/x", "evil"), Err(400));
        assert_eq!(status("http://evil/x", "evil"), Err(421));
    }
}
