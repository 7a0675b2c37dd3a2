//! The page's behavior if the server rejects a request, fails, or does not respond: clear messages and few retries.

use serde_json::{Value, json};

use super::page::Page;
use super::scripted;
use crate::cli::model::Turn;
use crate::http::Server;

/// Answers requests for one path as set in `window.broken`, and counts them. Shortens the waits between retries, and
/// records their original lengths.
const BREAKS: &str = r#"
    window.tries = 0; window.waits = []; window.broken = JSON.parse(sessionStorage.getItem('broken') ?? 'null');
    const [own, wait] = [window.fetch, window.setTimeout];
    window.fetch = (address, options) => {
        const broken = window.broken;
        if (!broken || !String(address).includes(broken.path)) return own(address, options);
        window.tries += 1;
        if (window.tries > (broken.times ?? Infinity)) return own(address, options);
        if (broken.status === 0) return Promise.reject(new TypeError('Failed to fetch'));
        const headers = { 'content-type': broken.type ?? 'text/html' };
        return Promise.resolve(new Response(broken.body ?? '<h1>From somewhere between</h1>', { status: broken.status, headers }));
    };
    window.setTimeout = (what, ms, ...more) => {
        if (window.broken && [1000, 2000, 4000].includes(ms) && window.tries > 0 && window.waits.length < window.tries) { window.waits.push(ms); ms = 1; }
        return wait(what, ms, ...more);
    };
"#;

/// Opens a page of the library with this response. Returns the number of requests, and the waits between them.
async fn tried(page: &Page, broken: Value, sees: &str) -> (u64, Value) {
    page.run("sessionStorage.setItem('broken', arguments[0])", vec![broken.to_string().into()]).await;
    page.go("/library/toolsets").await;
    page.sees(sees).await;
    let found = page.run("return [window.tries, window.waits]", vec![]).await;
    (found[0].as_u64().unwrap(), found[1].clone())
}

async fn breaking(server: &Server) -> Page {
    let page = Page::signed_in(server).await;
    page.devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": BREAKS})).await;
    page
}

fn problem(status: u16, code: &str, detail: &str, hint: &str) -> Value {
    let body = json!({"status": status, "code": code, "detail": detail, "hint": hint}).to_string();
    json!({"path": "/toolsets", "status": status, "body": body, "type": "application/problem+json"})
}

// rows: ZE-X5
#[tokio::test]
async fn what_went_wrong_is_said_in_plain_words() {
    let server = Server::start(&[]);
    let page = breaking(&server).await;
    let bare = |status: u16| json!({"path": "/toolsets", "status": status});
    for (broken, wanted) in [
        (bare(503), ["The server is not ready.", "It may be starting or stopping"]),
        (bare(504), ["The server took too long to respond.", "Recorded work is not lost"]),
        (bare(403), ["You do not have permission to do this.", "Ask an administrator of your workspace"]),
        (
            problem(
                403,
                "insufficient_credit",
                "your credit is used up: 1.00 of 1.00 US dollars",
                "ask for more",
            ),
            ["You have no credit left.", "1.00 of 1.00 US dollars. ask for more"],
        ),
        (
            problem(503, "busy", "too many at once", "come back later"),
            ["too many at once", "come back later"],
        ),
        (json!({"path": "/toolsets", "status": 0}), ["Cannot reach the server.", "windlass serve"]),
    ] {
        tried(&page, broken, wanted[0]).await;
        page.sees(wanted[1]).await;
        assert!(!page.words().await.contains("From somewhere between"));
    }
    page.ends_but_for(&["/api/v1/", "api.js", "notices.js", "Failed to fetch"]).await;
}

// rows: ZE-X5
#[tokio::test]
async fn a_user_whose_session_ended_is_sent_to_the_sign_in() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.go("/library/toolsets").await;
    page.sees("Some tools are included in every request").await;
    page.driver.delete_all_cookies().await.unwrap();
    page.press("Policy").await;
    // The page's content remains below the dialog.
    page.sees("Your session has ended").await;
    page.go("/library/toolsets").await;
    page.sees("Sign in to Windlass").await;
    page.ends_but_for(&["/api/v1/", "notices.js"]).await;
}

// rows: ZE-X11
#[tokio::test]
async fn requests_are_tried_again_where_that_may_help_and_never_where_it_cannot() {
    let server = Server::start(&[]);
    let page = breaking(&server).await;
    let bare = |status: u16| json!({"path": "/toolsets", "status": status});
    let (none, all) = (json!([]), json!([1000, 2000, 4000]));
    for (broken, sees, tries, waits) in [
        (bare(503), "The server is not ready.", 4, &all),
        (bare(0), "Cannot reach the server.", 4, &all),
        (
            json!({"path": "/toolsets", "status": 503, "times": 2}),
            "Some tools are included in every request",
            3,
            &json!([1000, 2000]),
        ),
        (bare(403), "You do not have permission to do this.", 1, &none),
        (problem(403, "insufficient_credit", "used up", ""), "You have no credit left.", 1, &none),
        (problem(404, "not_found", "it is not here", ""), "it is not here", 1, &none),
        // One retry after the session is refreshed, and no more.
        (problem(401, "unauthenticated", "no credential", ""), "Your session has ended", 2, &none),
    ] {
        let said = broken.to_string();
        assert_eq!(tried(&page, broken, sees).await, (tries, waits.clone()), "{said}");
    }
    page.ends_but_for(&["/api/v1/", "api.js", "notices.js"]).await;
}

/// A search for titles that hangs until the page cancels it.
const HANGS: &str = r"
    window.left = 0; window.searched = 0;
    const own = window.fetch;
    window.fetch = (address, options) => {
        if (!/query=ap$/.test(String(address))) return own(address, options);
        window.searched += 1;
        return new Promise((_, reject) => options.signal.addEventListener('abort', () => { window.left += 1; reject(new DOMException('left', 'AbortError')); }));
    };
";

// rows: ZE-X11
#[tokio::test]
async fn an_aborted_request_is_not_an_error_and_not_retried() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": HANGS})).await;
    page.driver.refresh().await.unwrap();
    page.write("[data-key=search]", "ap").await;
    page.until("it is searched", "return window.searched === 1").await;
    page.types("ple").await;
    page.sees("No results for “apple”.").await;
    page.shows("return [window.left, window.searched]", vec![], json!([1, 1])).await;
    assert_eq!(page.number_of(".notice").await, 0);
    page.ends().await;
}

/// Inserts an invalid frame into a stream.
const GARBLES: &str = r#"
    const own = window.fetch;
    window.fetch = async (address, options) => {
        const answer = await own(address, options);
        if (!/\/stream\?/.test(String(address)) || !answer.body) return answer;
        const parts = answer.body.getReader();
        const body = new ReadableStream({
            start: (to) => to.enqueue(new TextEncoder().encode('event: step.replied\ndata: {"type": \n\n')),
            pull: async (to) => { const { done, value } = await parts.read(); if (done) to.close(); else to.enqueue(value); },
        });
        return new Response(body, { status: answer.status, headers: answer.headers });
    };
"#;

// rows: ZE-X11
#[tokio::test]
async fn an_unreadable_frame_is_logged_and_the_stream_continues() {
    let server = scripted(vec![Turn::Say("It is said."), Turn::Say("It is said again.")]);
    let page = Page::signed_in(&server).await;
    page.say("Speak.").await;
    page.sees("It is said.").await;
    page.devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": GARBLES})).await;
    page.driver.refresh().await.unwrap();
    page.sees("It is said.").await;
    page.say("Go on.").await;
    page.sees("It is said again.").await;
    let log = page.driver.browser_log().await.unwrap();
    assert!(log.iter().any(|entry| entry.message.contains("cannot parse")), "{log:?}");
    assert_eq!(page.number_of(".notice").await, 0);
    page.ends().await;
}
