//! `WebSearch`: each engine's protocol, and the reports of its refusals.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass::port::tool::Tool;
use windlass::secret::Secret;
use windlass::tool::web::{Provider, web_search};

use super::super::{context, reader, shown};
use crate::outbound::{Asked, Far, Reply, inside, way};

const KEY: &str = "key-SENTINEL-1";

/// DuckDuckGo's page without scripts, with an advertisement and a link through its click counter.
const DUCK: &str = r##"<html><body><div id="links" class="results">
<div class="result results_links results_links_deep result--ad"><h2 class="result__title">
<a class="result__a" href="https://duckduckgo.com/y.js?ad_domain=shop.example">Buy</a></h2></div>
<div class="result results_links results_links_deep web-result"><div class="links_main links_deep result__body">
<h2 class="result__title"><a rel="nofollow" class="result__a"
 href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fwww.rust%2Dlang.org%2Flearn%3Fa%3D1&amp;rut=abc">Learn <b>Rust</b></a></h2>
<div class="result__extras"><a class="result__url" href="#">www.rust-lang.org/learn</a></div>
<a class="result__snippet" href="#">Get started &amp; <b>learn</b>.</a></div></div>
<div class="result"><h2><a class="result__a" href="https://doc.rust-lang.org/book/">The Book</a></h2></div>
<div class="result"><h2><a class="result__a" href="javascript:alert(1)">Bad</a></h2></div>
</div></body></html>"##;

fn json_reply(value: Value) -> Reply {
    Reply::ok("application/json; charset=utf-8", value.to_string())
}

fn status(status: u16, body: &str) -> Reply {
    Reply::with(status, &[("content-type", "application/json")], body)
}

/// Simulates every engine; the query selects the behaviour.
fn answer(asked: &Asked) -> Reply {
    let line = asked.line();
    let (_, path) = line.split_once(' ').unwrap();
    let asks = |word: &str| {
        path.contains(&format!("q={word}")) || asked.body.contains(&format!("\"query\":\"{word}"))
    };
    let list = |snippet: &str| {
        json!([
            {"title": "One", "url": "https://one.example/", snippet: "First\n  snippet"},
            {"title": "Bad", "url": "ftp://bad.example/", snippet: "x"},
            {"title": "Two", "url": "https://two.example/"},
            {"title": format!("Echo {KEY}"), "url": "https://three.example/", snippet: "x".repeat(5000)},
            {"title": "x".repeat(190) + KEY, "url": format!("https://four.example/{}{KEY}", "y".repeat(1970)),
             snippet: "z".repeat(590) + KEY},
        ])
    };
    match path.split('?').next().unwrap() {
        "/html/" if asks("none") => Reply::ok("text/html", r#"<div class="no-results">No results.</div>"#),
        "/html/" if asks("riddle") => {
            Reply::with(202, &[("content-type", "text/html")], r#"<div class="anomaly-modal">"#)
        }
        "/html/" if asks("hidden") => Reply::ok("text/html", r#"<form id="challenge-form"></form>"#),
        "/html/" if asks("odd") => Reply::ok("text/html", "<p>Something else"),
        "/html/" if asks("deep") => Reply::ok("text/html", "<div>".repeat(100_000)),
        "/html/" => Reply::ok("text/html; charset=UTF-8", DUCK),
        _ if asks("many") => Reply::with(429, &[("retry-after", "7")], ""),
        _ if asks("rate") => status(429, ""),
        _ if asks("key") => {
            status(401, r#"{"detail": {"error": "Unauthorized: missing or invalid API key."}}"#)
        }
        _ if asks("quota") => status(if path.starts_with("/res") { 402 } else { 432 }, ""),
        _ if asks("formats") => status(403, ""),
        _ if asks("broken") => status(503, ""),
        _ if asks("moved") => Reply::to(302, "http://169.254.169.254/"),
        _ if asks("garbage") => Reply::ok("application/json", "<html>"),
        "/search" if asks("silent") => json_reply(
            json!({"results": [], "unresponsive_engines": [["google", "timeout"], ["bing", "CAPTCHA"]]}),
        ),
        "/search" if asks("none") => json_reply(json!({"results": [], "unresponsive_engines": []})),
        "/res/v1/web/search" if asks("none") => {
            json_reply(json!({"type": "search", "query": {"original": "none"}}))
        }
        "/search" => json_reply(
            json!({"query": "x", "number_of_results": 0, "results": list("content"), "response_time": 0.5}),
        ),
        "/res/v1/web/search" => {
            json_reply(json!({"type": "search", "web": {"type": "search", "results": list("description")}}))
        }
        path => panic!("{path}"),
    }
}

fn provider(name: &str, far: &Far) -> Provider {
    let mut json = json!({"provider": name, "base_url": far.url("")});
    if name != "duckduckgo" {
        json["api_key"] = json!("k");
    }
    serde_json::from_value(json).unwrap()
}

// rows: LM-T8
#[tokio::test]
async fn each_engine_is_asked_in_its_own_words() {
    let far = Far::start(answer).await;
    let secrets = || Box::new(BTreeMap::from([("k".to_owned(), Secret::new(KEY))]));
    let search = async |engine: &str, query: &str, count: u64| {
        let tool =
            web_search(way(inside(&["127.0.0.1"]), &[]), Some(provider(engine, &far)), secrets(), reader())
                .unwrap();
        let output =
            tool.call(context(None, CancellationToken::new()), json!({"query": query, "count": count})).await;
        shown(&output)
    };
    let first = "1. One\n   https://one.example/\n   First snippet\n2. Two\n   https://two.example/\n3. Echo [masked]\n   https://three.example/\n   xxx";
    let rows = [
        (
            "duckduckgo",
            "rust",
            "1. Learn Rust\n   https://www.rust-lang.org/learn?a=1\n   Get started & learn.\n2. The Book\n   https://doc.rust-lang.org/book/\n[end",
        ),
        ("duckduckgo", "none", "ok: DuckDuckGo found nothing for \"none\"; try other words"),
        ("duckduckgo", "riddle", "error: DuckDuckGo returned status 202: it blocks automated requests"),
        ("duckduckgo", "hidden", "it blocks automated requests"),
        ("duckduckgo", "odd", "error: cannot read the response of DuckDuckGo: it is not a results page"),
        ("duckduckgo", "deep", "it is not a results page"),
        ("searxng", "a b&c", first),
        ("searxng", "none", "ok: SearXNG found nothing"),
        ("searxng", "silent", "none of its engines responded (google, bing)"),
        ("searxng", "formats", "`json` is missing from `search.formats`"),
        ("searxng", "garbage", "error: cannot read the response of SearXNG: it is not JSON"),
        ("searxng", "moved", "SearXNG redirects elsewhere"),
        ("searxng", "broken", "SearXNG failed (`503`); retry later"),
        ("brave", "rust", first),
        ("brave", "none", "ok: Brave found nothing"),
        ("brave", "many", "error: Brave rate-limits queries (429); retry after 7 s"),
        ("brave", "rate", "error: Brave rate-limits queries (429); wait"),
        ("brave", "key", "error: Brave rejected the API key"),
        ("brave", "quota", "the subscription's quota is exhausted"),
        ("tavily", "rust", first),
        ("tavily", "many", "retry after 7 s"),
        ("tavily", "key", "Tavily rejected the API key"),
        ("tavily", "quota", "the plan's limit is reached"),
        ("tavily", " ", "error: `query` must have 1 to 400 characters"),
    ];
    for (engine, query, expected) in rows {
        let said = search(engine, query, 5).await;
        assert!(said.contains(expected), "{engine} {query}: {said}");
        assert!(!said.contains("SENT"), "{said}");
    }
    let said = search("brave", "rust", 1).await;
    assert!(said.contains("One") && !said.contains("Two"), "{said}");
    assert!(search("tavily", &"x".repeat(401), 5).await.contains("1 to 400 characters"));
    // The requests on the wire.
    let asked = |part: &str| far.asked().into_iter().find(|asked| asked.head.contains(part)).unwrap();
    let brave = asked("/res/v1/web/search?q=rust&count=5");
    assert_eq!(brave.header("x-subscription-token"), Some(KEY));
    let tavily = far.asked().into_iter().find(|asked| asked.line() == "POST /search").unwrap();
    assert_eq!(tavily.header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!(tavily.body, r#"{"query":"rust","max_results":5,"search_depth":"basic"}"#);
    assert_eq!(
        asked("/search?q=a+b%26c&format=json").header("authorization"),
        tavily.header("authorization")
    );
}

#[test]
fn a_search_needs_no_approval_only_with_a_configured_engine() {
    let secrets = || Box::new(BTreeMap::new());
    let outbound = || way(inside(&["127.0.0.1"]), &[]);
    let usual = web_search(outbound(), None, secrets(), reader()).unwrap();
    assert!(usual.conduct(&json!({"query": "x"})).annotations.open_world_hint);
    let chosen: Provider = serde_json::from_value(json!({"provider": "duckduckgo"})).unwrap();
    let chosen = web_search(outbound(), Some(chosen), secrets(), reader()).unwrap();
    assert!(!chosen.conduct(&json!({"query": "x"})).annotations.open_world_hint);
    for (url, why) in [
        ("http://10.0.0.1/", "internal_hosts"),
        ("searx", "relative URL"),
        ("ftp://a.example", "`ftp`"),
        ("https://u:hunter2@a.example/", "a user name or password"),
        ("https://u:hunter2@a.example:99999/", "invalid port number"),
        ("https://10.0.0.1/?key=hunter2", "`https://10.0.0.1/`"),
        ("u:hunter2@a.example/", "`u` URLs are not allowed"),
    ] {
        let provider: Provider =
            serde_json::from_value(json!({"provider": "searxng", "base_url": url})).unwrap();
        let said = web_search(outbound(), Some(provider), secrets(), reader()).err().unwrap().to_string();
        assert!(said.contains(why), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}
