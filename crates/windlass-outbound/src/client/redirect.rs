//! Where an answer sends a request on to, and what of the request goes along.
//!
//! Whether a redirect is followed, whoever sends the request says; whether it may be, the rules do.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, PROXY_AUTHORIZATION,
};
use http::{HeaderMap, Method, StatusCode};
use reqwest::Url;

/// Says of a redirect, from one address to another, whether it is followed.
pub type HopCheck = dyn Fn(&Url, &Url) -> bool + Send + Sync;

/// What is done about redirects.
#[derive(Clone, Default)]
pub enum Redirects {
    /// They are answers like others.
    #[default]
    Stay,
    /// At most five are followed where the check says so. Each is judged by the rules as the first address was.
    Follow(Arc<HopCheck>),
}

/// Redirects that are followed at most: browsers go to 20, and honest chains have two or three.
pub(super) const MAX_REDIRECTS: usize = 5;

/// What travels along a chain of redirects.
pub(super) struct Travel {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub credentials: HeaderMap,
    pub body: Option<Bytes>,
}

/// Where an answer leads to, if anywhere.
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
    /// Goes on to another address. Nothing that says who asks leaves the origin that it was given for.
    pub(super) fn go_on(&mut self, status: StatusCode, to: Url) {
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
