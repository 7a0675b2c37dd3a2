//! What a first visit costs: bytes over the wire, as a browser asks for them.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};

use super::page::Page;
use crate::http::Server;

/// Of the first page, with everything that it loads by itself.
const MOST_BYTES: usize = 250_000;

/// Until something can be seen of it; the best of a few visits counts, since a busy machine makes none of them faster.
const LONGEST_PAINT_MS: f64 = 300.0;
const VISITS: usize = 3;

#[tokio::test]
async fn the_first_page_is_seen_at_once() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    let mut seen = Vec::new();
    for _ in 0..VISITS {
        page.go("/").await;
        page.sees("What shall be done").await;
        let paint = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
        seen.push(page.until("something is painted", paint).await.as_f64().unwrap());
    }
    println!("first painted after {seen:?} ms");
    assert!(seen.iter().any(|ms| *ms < LONGEST_PAINT_MS), "{seen:?}");
    page.ends().await;
}

#[tokio::test]
async fn the_first_page_is_light() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.sees("What shall be done").await;
    let list =
        "return ['/', ...performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname)]";
    let list = page.run(list, vec![]).await;
    let paths: BTreeSet<&str> = list.as_array().unwrap().iter().filter_map(|path| path.as_str()).collect();
    let files = paths.iter().filter(|path| !path.starts_with("/api/"));
    let mut all = Vec::new();
    for path in files {
        let answer =
            server.request(Method::GET, path).header("accept-encoding", "gzip").send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        assert_eq!(answer.headers()["content-encoding"], "gzip", "{path}");
        // Whoever shares an address with many others still sees the page.
        assert!(!path.starts_with("/ui/") || !answer.headers().contains_key("ratelimit"), "{path}");
        all.push((answer.bytes().await.unwrap().len(), *path));
    }
    let sum: usize = all.iter().map(|(size, _)| size).sum();
    println!("{sum} bytes in {} files", all.len());
    assert!(all.len() > 10 && sum < MOST_BYTES, "{sum} bytes: {all:#?}");
    // What only some pages need comes with them.
    for later in ["uplot.js", "highlight.js", "/pages/settings.js"] {
        assert!(!paths.iter().any(|path| path.ends_with(later)), "{paths:#?}");
    }
    page.ends().await;
}
