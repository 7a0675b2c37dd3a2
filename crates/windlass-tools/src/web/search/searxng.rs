//! A SearXNG instance: `GET /search?format=json`.
//!
//! An instance answers 403 if `json` is not among the formats in its `settings.yml`. By default, it is not.

use async_trait::async_trait;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_outbound::secret::Secret;
use windlass_outbound::{Request, Url};

use super::{Engine, Found, below, found_in};
use crate::reader::Reader;

pub(super) struct SearXng;

#[async_trait]
impl Engine for SearXng {
    fn name(&self) -> &'static str {
        "SearXNG"
    }

    fn request(
        &self,
        base: &Url,
        query: &str,
        _count: usize,
        key: Option<&Secret>,
    ) -> Result<Request, String> {
        let mut url = below(base, "/search");
        url.query_pairs_mut().extend_pairs([("q", query), ("format", "json")]);
        let mut request = Request::new(Method::GET, url);
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
        let found = found_in(value.get("results"), "content");
        let silent = value.get("unresponsive_engines").and_then(Value::as_array);
        match silent {
            // The list is empty because no engine responded.
            Some(silent) if found.is_empty() && !silent.is_empty() => {
                let names = silent.iter().filter_map(|one| one.get(0).and_then(Value::as_str));
                let names: Vec<&str> = names.take(10).collect();
                Err(format!("none of its engines responded ({})", names.join(", ")))
            }
            Some(_) | None => Ok(found),
        }
    }

    fn refused(&self, status: u16) -> Option<&'static str> {
        (status == 403).then_some(
            "`json` is missing from `search.formats` in its settings, or it blocks automated requests",
        )
    }
}
