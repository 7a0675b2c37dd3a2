//! The target of a redirect, and the parts of the request that are sent to it.
//!
//! The caller decides whether to follow a redirect; the rules must allow its target.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, PROXY_AUTHORIZATION,
};
use http::{HeaderMap, Method, StatusCode};
use reqwest::Url;

/// Decides whether to follow a redirect from one URL to another.
pub type HopCheck = dyn Fn(&Url, &Url) -> bool + Send + Sync;

/// How to handle redirects.
#[derive(Clone, Default)]
pub enum Redirects {
    /// Return redirects as responses.
    #[default]
    Stay,
    /// Follow at most five redirects that the check accepts. The rules check each target like the first URL.
    Follow(Arc<HopCheck>),
}

/// Maximum number of redirects followed. Browsers follow 20; typical chains have two or three.
pub(super) const MAX_REDIRECTS: usize = 5;

/// The state of a request while the client follows redirects.
pub(super) struct Travel {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub credentials: HeaderMap,
    pub body: Option<Bytes>,
}

/// Returns the target of a redirect; `None` for other responses.
pub(super) fn target(from: &Url, status: StatusCode, headers: &HeaderMap) -> Option<Url> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = headers.get(http::header::LOCATION)?;
    let mut to = from.join(std::str::from_utf8(location.as_bytes()).ok()?).ok()?;
    if to.fragment().is_none() {
        to.set_fragment(from.fragment());
    }
    Some(to)
}

impl Travel {
    /// Redirects the request. Credentials are never sent to another origin than the one that they belong to.
    pub(super) fn follow_redirect(&mut self, status: StatusCode, to: Url) {
        let is_post = self.method == Method::POST;
        let becomes_get = match status.as_u16() {
            301 | 302 => is_post,
            303 => self.method != Method::HEAD,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = None;
            for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING] {
                self.headers.remove(name);
            }
        }
        if self.url.origin() != to.origin() {
            self.credentials.clear();
            for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
                self.headers.remove(name);
            }
        }
        self.url = to;
    }
}
