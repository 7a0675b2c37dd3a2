//! Parses DuckDuckGo's result page into a list.
//!
//! This module sends no request; the search tool does.

use htmd::Node;
use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::tree::{attribute, has_class, parse_page, text, walk};

/// The message for a page that blocks automated clients.
pub(crate) const RIDDLE: &str = "it blocks automated requests for a while; wait, or ask the user to \
configure another search engine";

/// A search result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub title: String,
    pub url: String,
    pub snippet: String,
}

/// Whether a URL uses HTTP or HTTPS.
pub(crate) fn is_page(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// Converts a page of results to a JSON list.
pub(super) fn results(page: &str) -> Result<String, String> {
    let found = parse(page)?;
    serde_json::to_string(&found).map_err(|error| error.to_string())
}

fn parse(page: &str) -> Result<Vec<Found>, String> {
    let root = parse_page(page).ok_or("it is not a results page")?;
    let nodes = walk(&root);
    let has = |fits: &dyn Fn(&Node) -> bool| nodes.iter().any(|node| fits(node));
    let is_riddle = |node: &Node| {
        attribute(node, "class").is_some_and(|class| class.contains("anomaly"))
            || attribute(node, "id").is_some_and(|id| id == "challenge-form")
    };
    if has(&is_riddle) {
        return Err(RIDDLE.to_owned());
    }
    let mut found = Vec::new();
    for result in nodes.iter().filter(|node| has_class(node, "result") && !has_class(node, "result--ad")) {
        let parts = walk(result);
        let part = |class: &str| parts.iter().find(|node| has_class(node, class));
        let Some(link) = part("result__a") else { continue };
        let Some(url) = attribute(link, "href").map(|href| target(&href)) else { continue };
        let snippet = part("result__snippet").map(text).unwrap_or_default();
        if is_page(&url) {
            found.push(Found { title: text(link), url, snippet });
        }
    }
    let says_none = |node: &Node| has_class(node, "no-results") || has_class(node, "result--no-result");
    if found.is_empty() && !has(&says_none) {
        return Err("it is not a results page".to_owned());
    }
    Ok(found)
}

/// Returns the target of a result. The result's link goes through a page that counts clicks.
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
