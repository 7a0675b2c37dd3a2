//! DuckDuckGo's page for browsers without scripts: `GET /html/?q=`. There is no API and no key.
//!
//! Whoever asks often, or from a data centre, gets a page with a riddle, with status 202: that is said as what it is.

use htmd::Node;
use http::Method;
use http::header::{ACCEPT, ACCEPT_LANGUAGE, HeaderValue};
use tokio_util::sync::CancellationToken;

use super::super::tree;
use super::{Engine, Found, below, is_page};
use crate::outbound::{Request, Url};
use crate::secret::Secret;

/// The usual address.
pub(super) const BASE: &str = "https://html.duckduckgo.com";

pub(super) struct DuckDuckGo;

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

    fn read(&self, text: &str, stop: &CancellationToken) -> Result<Vec<Found>, String> {
        let (shape, _) = super::super::scan::scan(text);
        if shape.depth > 200 || shape.tags > 40_000 || shape.attributes > 200 {
            return Err("it is no page of results".to_owned());
        }
        let root = tree::parse(text, stop).ok_or("it is no page")?;
        let nodes = tree::walk(&root);
        let has = |fits: &dyn Fn(&Node) -> bool| nodes.iter().any(|node| fits(node));
        let is_riddle = |node: &Node| {
            tree::attribute(node, "class").is_some_and(|class| class.contains("anomaly"))
                || tree::attribute(node, "id").is_some_and(|id| id == "challenge-form")
        };
        if has(&is_riddle) {
            return Err(RIDDLE.to_owned());
        }
        let mut found = Vec::new();
        for result in
            nodes.iter().filter(|node| tree::is_of(node, "result") && !tree::is_of(node, "result--ad"))
        {
            let parts = tree::walk(result);
            let part = |class: &str| parts.iter().find(|node| tree::is_of(node, class));
            let Some(link) = part("result__a") else { continue };
            let Some(url) = tree::attribute(link, "href").map(|href| target(&href)) else { continue };
            let snippet = part("result__snippet").map(tree::text).unwrap_or_default();
            if is_page(&url) {
                found.push(Found { title: tree::text(link), url, snippet });
            }
        }
        let says_none =
            |node: &Node| tree::is_of(node, "no-results") || tree::is_of(node, "result--no-result");
        if found.is_empty() && !has(&says_none) {
            return Err("it is no page of results".to_owned());
        }
        Ok(found)
    }

    fn refused(&self, status: u16) -> Option<&'static str> {
        (status == 202 || status == 403).then_some(RIDDLE)
    }
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
