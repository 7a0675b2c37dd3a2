//! HTTP for sign-ins. The client records facts from responses that the library does not expose.
//!
//! The client makes no decision and stores no response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::header::AUTHORIZATION;
use rmcp::transport::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use serde_json::Value;
use windlass_outbound::{End, Outbound, Redirects, Request, Url};

/// Facts that an authorization server has reported about the client.
#[derive(Default)]
pub(super) struct Noticed {
    /// Whether the server does not know the client.
    is_unknown: AtomicBool,
    /// When the client's secret expires, in seconds since 1970; 0 if it never expires.
    secret_ends_s: AtomicU64,
}

impl Noticed {
    fn notice(&self, body: &[u8]) {
        let Ok(answer) = serde_json::from_slice::<Value>(body) else { return };
        if answer.get("error").and_then(Value::as_str) == Some("invalid_client") {
            self.is_unknown.store(true, Ordering::Relaxed);
        }
        if let Some(ends_s) = answer.get("client_secret_expires_at").and_then(Value::as_u64) {
            self.secret_ends_s.store(ends_s, Ordering::Relaxed);
        }
    }

    /// Whether the client was reported as unknown since the last call.
    pub fn was_unknown(&self) -> bool {
        self.is_unknown.swap(false, Ordering::Relaxed)
    }

    /// Returns when the newest client's secret expires, in seconds since 1970.
    pub fn secret_ends_s(&self) -> Option<u64> {
        Some(self.secret_ends_s.swap(0, Ordering::Relaxed)).filter(|ends_s| *ends_s > 0)
    }
}

/// The HTTP client of sign-ins. Its rules also apply to the URLs that the server names.
pub(super) struct OAuthHttp {
    pub way: Arc<Outbound>,
    pub own: Url,
    pub noticed: Arc<Noticed>,
}

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let (head, body) = request.request.into_parts();
            let mut sent = Request::new(head.method, Url::parse(&head.uri.to_string())?);
            sent.headers = head.headers;
            if let Some(credentials) = sent.headers.remove(AUTHORIZATION) {
                sent.credentials.insert(AUTHORIZATION, credentials);
            }
            sent.body = (!body.is_empty()).then(|| body.into());
            sent.named_port = self.own.port();
            if let Some(within) = request.timeout {
                sent.limits.within = within;
            }
            if matches!(request.redirect_policy, OAuthHttpRedirectPolicy::Follow) {
                // A document may have moved within its host. Redirects to another host are not trusted.
                sent.redirects = Redirects::Follow(Arc::new(|from, to| from.origin() == to.origin()));
            }
            let answer =
                self.way.send(sent).await.map_err(|error| Box::new(error) as OAuthHttpClientError)?;
            if !matches!(answer.body.end, End::Whole) {
                return Err(format!("the response of {} is incomplete", self.own).into());
            }
            self.noticed.notice(&answer.body.bytes);
            let mut response = http::Response::builder().status(answer.status);
            for (name, value) in &answer.headers {
                response = response.header(name, value);
            }
            Ok(response.body(answer.body.bytes)?)
        })
    }
}
