//! The size of a first visit: bytes transferred by a browser.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};

use super::page::Page;
use crate::http::Server;

/// Maximum bytes of the first page with all resources and requests that it loads by itself.
const MOST_BYTES: u64 = 250_000;

/// The paths of the modules that the page preloads, and of those that it loaded.
const MODULES: &str = "
    const path = (address) => new URL(address).pathname;
    const links = [...document.querySelectorAll('link[rel=modulepreload]')].map((one) => path(one.href));
    const main = path(document.querySelector('script[type=module]').src);
    const loaded = performance.getEntriesByType('resource').map((one) => path(one.name)).filter((one) => one.endsWith('.js') && one !== main);
    return [[...new Set(links)].sort(), [...new Set(loaded)].sort(), links.length]";

#[tokio::test]
async fn the_page_names_the_modules_that_it_loads_at_once_and_no_others() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/").await;
    page.sees("What would you like to do").await;
    let found = page.run(MODULES, vec![]).await;
    assert_eq!(found[0], found[1], "named, and loaded");
    assert_eq!(found[2].as_u64().unwrap() as usize, found[0].as_array().unwrap().len(), "each once");
    assert!(found[2].as_u64().unwrap() > 50, "{found}");
    page.ends().await;
}

/// The browser's own counts: paths, and the transferred bytes of each, including headers.
const COUNTED: &str = "
    const entries = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    const asked = ['/api/v1/auth/me', '/api/v1/threads', '/api/v1/interrupts'];
    return asked.every((path) => entries.some((one) => one.name.includes(path) && one.responseEnd > 0))
        && entries.map((one) => [new URL(one.name).pathname, one.transferSize]);";

#[tokio::test]
async fn the_first_page_is_light() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.sees("What would you like to do").await;
    let list = page.until("what it asks for is there", COUNTED).await;
    let all: Vec<(&str, u64)> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one[0].as_str().unwrap(), one[1].as_u64().unwrap()))
        .collect();
    let sum: u64 = all.iter().map(|(_, size)| size).sum();
    println!("{sum} bytes in {} answers", all.len());
    assert!(all.iter().all(|(_, size)| *size > 0), "some came from a cache: {all:#?}");
    assert!(all.len() > 15 && sum < MOST_BYTES, "{sum} bytes: {all:#?}");
    let paths: BTreeSet<&str> = all.iter().map(|(path, _)| *path).collect();
    for path in paths.iter().filter(|path| !path.starts_with("/api/")) {
        let answer =
            server.request(Method::GET, path).header("accept-encoding", "gzip").send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        assert_eq!(answer.headers()["content-encoding"], "gzip", "{path}");
        // Users behind a shared address can still load the page.
        assert!(!path.starts_with("/ui/") || !answer.headers().contains_key("ratelimit"), "{path}");
    }
    // Modules of other pages are loaded with those pages.
    for later in ["uplot.js", "highlight.js", "/pages/settings.js"] {
        assert!(!paths.iter().any(|path| path.ends_with(later)), "{paths:#?}");
    }
    page.ends().await;
}
