//! Usage: a run with known tokens, in every card, chart and table, and the selectable ranges.

use axum::routing::post;
use http::header;
use serde_json::{Value, json};

use super::page::Page;
use crate::cli::User;
use crate::http::Server;

/// A model that writes a file and then replies. It reports its usage, including cached tokens.
async fn counted() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let reply = |delta: Value, reason: &str, usage: Value| {
        let chunk = |choice: Value, usage: Value| {
            let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "large",
                "choices": [choice], "usage": usage});
            format!("data: {chunk}\n\n")
        };
        let said = chunk(json!({"index": 0, "delta": delta, "finish_reason": null}), Value::Null);
        let end = chunk(json!({"index": 0, "delta": {}, "finish_reason": reason}), usage);
        format!("{said}{end}data: [DONE]\n\n")
    };
    let function =
        json!({"name": "Write", "arguments": json!({"file_path": "a.md", "content": "x\n"}).to_string()});
    let call = json!({"index": 0, "id": "call_0", "type": "function", "function": function});
    let calls = reply(
        json!({"role": "assistant", "tool_calls": [call]}),
        "tool_calls",
        json!({"prompt_tokens": 1000, "completion_tokens": 150, "total_tokens": 1150}),
    );
    let says = reply(
        json!({"role": "assistant", "content": "It is written."}),
        "stop",
        json!({"prompt_tokens": 3000, "completion_tokens": 50, "total_tokens": 3050,
            "prompt_tokens_details": {"cached_tokens": 1000}}),
    );
    let answer = post(move |asked: String| async move {
        let text = if asked.contains("\"tool_call_id\"") { says } else { calls };
        ([(header::CONTENT_TYPE, "text/event-stream")], text)
    });
    let router = axum::Router::new().route("/v1/chat/completions", answer);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

/// A server after one run of two steps, in which a user approved a call.
async fn used() -> (Server, Page) {
    let user = User::new();
    user.configure(&format!(
        "[agent]\nmodels = ['house/large']\n[providers.house]\nbase_url = '{}'\n[providers.house.models.large]\n\
         tool_calls = true\nprice = {{ input = 100, output = 200, cached = 10 }}\n",
        counted().await
    ));
    let server = Server::start_for(user, &[]);
    let page = Page::signed_in(&server).await;
    page.say("Write it.").await;
    page.press("Approve").await;
    page.sees("It is written.").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    (server, page)
}

// rows: SK-U12
// The server calls the model of this test while the test waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_known_tokens_is_in_every_card_chart_and_table() {
    let (_server, page) = used().await;
    page.press("Usage").await;
    page.sees("Approval rate").await;
    let cards = "return all('.cards > div').map((one) => [one.querySelector('dt').innerText,\
        one.querySelector('dd').firstChild.textContent, one.querySelector('small').innerText])";
    let cards = page.run(cards, vec![]).await;
    let took = cards[5][1].as_str().unwrap();
    assert!(took.ends_with(" ms") || took.ends_with(" s"), "{cards:#}");
    assert_eq!(
        cards,
        json!([
            ["Conversations", "1", "1 run"],
            // 3000 tokens at 100, 1000 cached ones at 10, and 200 at 200 dollars per million.
            ["Cost", "$0.350", "at list prices"],
            ["Tokens", "4.2K", "1K cached"],
            ["Approval rate", "100 %", "1 approved, 0 denied"],
            ["Cost per conversation", "$0.350", "on average"],
            ["Time to first token", took, "on average"],
        ])
    );
    // No row has a single card.
    let rows = "const rows = Map.groupBy(all('.cards > div'), (one) => one.getBoundingClientRect().top); return new Set([...rows.values()].map((row) => row.length)).size";
    page.shows(rows, vec![], 1).await;
    page.until("the charts", "return document.querySelectorAll('.chart canvas').length === 4").await;
    let charts = "return all('.chart [role=img]').slice(0, 2).map((one) => one.getAttribute('aria-label'))";
    page.shows(
        charts,
        vec![],
        json!(["Tokens. in: 4K, out: 200, cached: 1K", "Cost (US dollars). cost: $0.350"]),
    )
    .await;
    let gauge = "const one = all('.gauge meter')[0]; return [one.value, all('.gauge strong')[0].innerText]";
    page.shows(gauge, vec![], json!([0.25, "25 %"])).await;
    let tables = "return all('main h2').map((head) => [head.innerText,\
        [...head.nextElementSibling.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))])";
    let row = |name: &str| json!([[name, "1", "4K", "200", "$0.350"]]);
    page.shows(
        tables,
        vec![],
        json!([
            ["By model", row("house/large")],
            ["By agent", row("default")],
            ["By user", row("Local administrator")],
        ]),
    )
    .await;
    page.ends().await;
}

// rows: SK-U12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_range_asks_for_its_own_time_in_its_own_steps_and_stays_over_a_reload() {
    const MINUTE_MS: u64 = 60_000;
    const HOUR_MS: u64 = 60 * MINUTE_MS;
    let (_server, page) = used().await;
    page.run("window.asked = []", vec![]).await;
    super::otherwise(&page, "if (url.includes('/usage?')) window.asked.push(url); return real()").await;
    page.press("Usage").await;
    page.sees("Approval rate").await;
    let pressed = "return all('[aria-label=Range] [aria-pressed=true]').map(named).join()";
    page.shows(pressed, vec![], "24h").await;
    // The length and step of a requested range.
    let asked = "const told = (url) => { const query = new URL(url, location.href).searchParams;\
        return [query.get('until') - query.get('from'), Number(query.get('step_ms'))]; };";
    let last =
        format!("{asked} return window.asked.length === arguments[0] ? told(window.asked.at(-1)) : null");
    let ranges = [
        ("24h", 24 * HOUR_MS, HOUR_MS),
        ("15m", HOUR_MS / 4, MINUTE_MS),
        ("1h", HOUR_MS, 5 * MINUTE_MS),
        ("6h", 6 * HOUR_MS, 15 * MINUTE_MS),
        ("30d", 30 * 24 * HOUR_MS, 24 * HOUR_MS),
        ("7d", 7 * 24 * HOUR_MS, 6 * HOUR_MS),
    ];
    for (at, (range, span, step)) in ranges.into_iter().enumerate() {
        page.press(range).await;
        let told = page.until_of("it is asked for", &last, vec![json!(at + 1)]).await;
        assert_eq!(told, json!([span, step]), "{range}");
    }
    page.driver.refresh().await.unwrap();
    page.sees("Approval rate").await;
    page.shows(pressed, vec![], "7d").await;
    let reloaded = format!(
        "{asked} return performance.getEntriesByType('resource').map((one) => one.name).filter((name) => name.includes('/usage?')).map(told)"
    );
    page.shows(&reloaded, vec![], json!([[7 * 24 * HOUR_MS, 6 * HOUR_MS]])).await;
    page.ends().await;
}

// rows: SK-U9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sum_of_a_conversation_that_could_not_be_read_is_read_again() {
    let (_server, page) = used().await;
    let thread = page.thread().await;
    page.press("New conversation").await;
    page.sees("What would you like to do").await;
    let fails_once = "if (!url.includes('/usage?') || window.failed) return real(); window.failed = true;
        return Response.json({ status: 500, detail: 'something broke' }, { status: 500, headers: { 'content-type': 'application/problem+json' } })";
    super::otherwise(&page, fails_once).await;
    page.element(&format!("a[href='/chat/{thread}']")).await.click().await.unwrap();
    page.sees("It is written.").await;
    let sum =
        "return window.failed && all('.figures')[0].innerText.includes('4,000 in (1,000 cached) · 200 out')";
    page.until("the sum", sum).await;
    page.ends().await;
}
