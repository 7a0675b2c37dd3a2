//! Tavily's search API: `POST /search`, with the key as a bearer token.
//!
//! Tavily's generated answer is not requested: the model itself reads the results.

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_outbound::secret::Secret;
use windlass_outbound::{Request, Url};

use super::{Engine, Found, below, found_in};
use crate::reader::Reader;

/// The public base URL.
pub(super) const BASE: &str = "https://api.tavily.com";

pub(super) struct Tavily;

#[async_trait]
impl Engine for Tavily {
    fn name(&self) -> &'static str {
        "Tavily"
    }

    fn request(
        &self,
        base: &Url,
        query: &str,
        count: usize,
        key: Option<&Secret>,
    ) -> Result<Request, String> {
        let body = json!({"query": query, "max_results": count, "search_depth": "basic"}).to_string();
        let mut request = Request::new(Method::POST, below(base, "/search"));
        request.body = Some(Bytes::from(body));
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = key {
            let value = HeaderValue::from_str(&format!("Bearer {}", key.expose()));
            request.credentials.insert(
                AUTHORIZATION,
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
        let results = value.get("results").ok_or("it has no `results`")?;
        Ok(found_in(Some(results), "content"))
    }

    fn refused(&self, status: u16) -> Option<&'static str> {
        match status {
            432 => Some("the plan's limit is reached"),
            433 => Some("the pay-as-you-go limit is reached"),
            _ => None,
        }
    }
}
