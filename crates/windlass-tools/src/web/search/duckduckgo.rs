//! DuckDuckGo's page for browsers without scripts: `GET /html/?q=`. DuckDuckGo has no API and no key.
//!
//! Frequent clients and data centres get a captcha page with status 202, which is reported as a refusal.

use async_trait::async_trait;
use http::Method;
use http::header::{ACCEPT, ACCEPT_LANGUAGE, HeaderValue};
use tokio_util::sync::CancellationToken;
use windlass_outbound::secret::Secret;
use windlass_outbound::{Request, Url};

use super::{Engine, below};
use crate::reader::{Format, Found, RIDDLE, Reader, Request as Reading};

/// The public base URL.
pub(super) const BASE: &str = "https://html.duckduckgo.com";

pub(super) struct DuckDuckGo;

#[async_trait]
impl Engine for DuckDuckGo {
    fn name(&self) -> &'static str {
        "DuckDuckGo"
    }

    fn request(
        &self,
        base: &Url,
        query: &str,
        _count: usize,
        _key: Option<&Secret>,
    ) -> Result<Request, String> {
        let mut url = below(base, "/html/");
        url.query_pairs_mut().append_pair("q", query);
        let mut request = Request::new(Method::GET, url);
        request.headers.insert(ACCEPT, HeaderValue::from_static("text/html"));
        request.headers.insert(ACCEPT_LANGUAGE, HeaderValue::from_static("en;q=0.8, *;q=0.5"));
        Ok(request)
    }

    async fn read(
        &self,
        text: &str,
        reader: &Reader,
        cancel: &CancellationToken,
    ) -> Result<Vec<Found>, String> {
        let read = reader.read(&Reading::whole(Format::Results), text.as_bytes(), cancel).await;
        let document = read.map_err(|error| error.to_string())?;
        serde_json::from_str(&document.text).map_err(|error| error.to_string())
    }

    fn refused(&self, status: u16) -> Option<&'static str> {
        (status == 202 || status == 403).then_some(RIDDLE)
    }
}
