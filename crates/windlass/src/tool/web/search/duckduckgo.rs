//! DuckDuckGo's page for browsers without scripts: `GET /html/?q=`. There is no API and no key.
//!
//! Whoever asks often, or from a data centre, gets a page with a riddle, with status 202: that is said as what it is.

use async_trait::async_trait;
use htmd::Node;
use http::Method;
use http::header::{ACCEPT, ACCEPT_LANGUAGE, HeaderValue};
use tokio_util::sync::CancellationToken;

use super::{Engine, Found, below, is_page};
use crate::outbound::{Request, Url};
use crate::reader::{self, Format, Reader};
use crate::secret::Secret;

/// The usual address.
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
        let read = reader.read(&reader::Request::whole(Format::Results), text.as_bytes(), cancel).await;
        let document = read.map_err(|error| error.to_string())?;
        serde_json::from_str(&document.text).map_err(|error| error.to_string())
    }

    fn refused(&self, status: u16) -> Option<&'static str> {
        (status == 202 || status == 403).then_some(RIDDLE)
    }
}

/// Parses a page of results to a JSON list. The reader process calls it.
pub(crate) fn results(text: &str) -> Result<String, String> {
    let found = parse(text)?;
    serde_json::to_string(&found).map_err(|error| error.to_string())
}

fn parse(text: &str) -> Result<Vec<Found>, String> {
    let root = reader::parse_page(text).ok_or("it is no page of results")?;
    let nodes = reader::walk(&root);
    let has = |fits: &dyn Fn(&Node) -> bool| nodes.iter().any(|node| fits(node));
    let is_riddle = |node: &Node| {
        reader::attribute(node, "class").is_some_and(|class| class.contains("anomaly"))
            || reader::attribute(node, "id").is_some_and(|id| id == "challenge-form")
    };
    if has(&is_riddle) {
        return Err(RIDDLE.to_owned());
    }
    let mut found = Vec::new();
    for result in nodes
        .iter()
        .filter(|node| reader::has_class(node, "result") && !reader::has_class(node, "result--ad"))
    {
        let parts = reader::walk(result);
        let part = |class: &str| parts.iter().find(|node| reader::has_class(node, class));
        let Some(link) = part("result__a") else { continue };
        let Some(url) = reader::attribute(link, "href").map(|href| target(&href)) else { continue };
        let snippet = part("result__snippet").map(reader::text).unwrap_or_default();
        if is_page(&url) {
            found.push(Found { title: reader::text(link), url, snippet });
        }
    }
    let says_none =
        |node: &Node| reader::has_class(node, "no-results") || reader::has_class(node, "result--no-result");
    if found.is_empty() && !has(&says_none) {
        return Err("it is no page of results".to_owned());
    }
    Ok(found)
}

const RIDDLE: &str = "it takes this for a program and refuses to answer for a while; wait, or have another search engine \
configured";

/// Where a result leads: links go by way of a page that counts.
fn target(href: &str) -> String {
    let whole =
        if let Some(rest) = href.strip_prefix("//") { format!("https://{rest}") } else { href.to_owned() };
    let Ok(url) = Url::parse(&whole) else { return whole };
    let is_counter =
        url.host_str().is_some_and(|host| host.ends_with("duckduckgo.com")) && url.path() == "/l/";
    match url.query_pairs().find(|(name, _)| is_counter && name == "uddg") {
        Some((_, to)) => to.into_owned(),
        None => whole,
    }
}
