//! Brave's web search API: `GET /res/v1/web/search`, with the token in a separate header.
//!
//! The module reads only web results, and ignores news, videos and other kinds.

use async_trait::async_trait;
use http::{HeaderValue, Method};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_outbound::secret::Secret;
use windlass_outbound::{Request, Url};

use super::{Engine, Found, below, found_in};
use crate::reader::Reader;

/// The public base URL.
pub(super) const BASE: &str = "https://api.search.brave.com";

pub(super) struct Brave;

#[async_trait]
impl Engine for Brave {
    fn name(&self) -> &'static str {
        "Brave"
    }

    fn request(
        &self,
        base: &Url,
        query: &str,
        count: usize,
        key: Option<&Secret>,
    ) -> Result<Request, String> {
        let mut url = below(base, "/res/v1/web/search");
        let pairs = [
            ("q", query),
            ("count", &count.to_string()),
            ("result_filter", "web"),
            ("text_decorations", "false"),
        ];
        url.query_pairs_mut().extend_pairs(pairs);
        let mut request = Request::new(Method::GET, url);
        request.headers.insert("accept", HeaderValue::from_static("application/json"));
        if let Some(key) = key {
            let value = HeaderValue::from_str(key.expose());
            request.credentials.insert(
                "x-subscription-token",
                value.map_err(|_| "the API key contains characters that are not allowed in a header")?,
            );
        }
        Ok(request)
    }

    async fn read(
        &self,
        text: &str,
        _reader: &Reader,
        _cancel: &CancellationToken,
    ) -> Result<Vec<Found>, String> {
        let value: Value = serde_json::from_str(text).map_err(|_| "it is not JSON".to_owned())?;
        // Without results, `web` is absent.
        Ok(found_in(value.pointer("/web/results"), "description"))
    }

    fn refused(&self, status: u16) -> Option<&'static str> {
        match status {
            402 => Some("the subscription's quota is exhausted"),
            422 => Some("it rejected the token or the query"),
            _ => None,
        }
    }
}
