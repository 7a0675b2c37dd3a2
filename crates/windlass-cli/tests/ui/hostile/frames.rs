//! Typed tool results: HTML in a frame, Markdown, code and JSON, each with the hostile texts. The page's module for
//! results draws them directly; other tests cover results of real tools.

use serde_json::{Value, json};

use super::{RULES, obeys_nothing, press_all, texts};
use crate::cli::model::Turn;
use crate::ui::page::Page;
use crate::ui::scripted;

const KINDS: &[&str] = &["html", "markdown", "code", "json"];

/// Draws texts as results. Returns their text and that of the loaded frames.
const DRAW: &str = "
    const texts = arguments[0];
    return Promise.all([module('lib/html.js'), module('chat/result.js')]).then(async ([{ html, render }, { Result }]) => {
        document.getElementById('drawn')?.remove();
        const place = Object.assign(document.createElement('div'), { id: 'drawn', className: 'transcript' });
        document.querySelector('.chat').append(place);
        const blocks = texts.map((text) => ({ kind: 'text', text }));
        render(html`<${Result} thread='thr_none' blocks=${blocks} error=${false} />`, place);
        const frames = [...place.querySelectorAll('iframe.frame')];
        await Promise.all(frames.map((one) => new Promise((done) => one.addEventListener('load', done, { once: true }))));
        return [place.textContent, frames.map((one) => one.srcdoc)];
    });";

/// Additional properties that a frame must not have, including pictures that would be fetched with the user's session.
/// The frame's policy handles styles: it precedes all content and permits no requests.
const FRAMES: &str = r#"
    for (const text of arguments[0]) {
        const page = new DOMParser().parseFromString(text, 'text/html');
        for (const one of page.querySelectorAll('*')) looks(one);
        for (const one of page.querySelectorAll('script, iframe, object, embed, applet, base, link, form, portal, frame, frameset, animate, set, foreignObject, use')) found.push(`a ${one.tagName} of ${text.slice(0, 80)}`);
        for (const one of page.querySelectorAll('*:not(a)')) for (const { name, value } of one.attributes) {
            const may = /href$/.test(name) && one.tagName !== 'image' ? '#' : 'data:image/';
            if (/^(src|srcset|poster|background|(xlink:)?href)$/.test(name) && !value.startsWith(may)) found.push(`${name} of ${text}`);
        }
        const [policy, ...others] = page.querySelectorAll('meta');
        const isFirst = policy === page.head.firstChild && policy.httpEquiv === 'Content-Security-Policy';
        if (!isFirst || policy.content !== "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'" || others.length > 0) found.push(`no policy before ${text}`);
        for (const one of page.querySelectorAll('[target]')) if (one.target !== '_blank') found.push(`a target of ${text.slice(0, 80)}`);
    }
    return found;"#;

/// Pages that send requests to this server with the reader's session. The policy handles requests by styles.
const ASKING: &[&str] = &[
    "<img srcset='#x 1x, /api/v1/threads 2x'>",
    "<picture><source srcset='#x, /api/v1/threads 1x'><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='></picture>",
    "<img src='#a'>",
    "<img src='/api/v1/threads'>",
    "<video poster='#p'></video><video src='#v' preload='auto'></video>",
    "<audio src='#a' preload='auto'></audio>",
    "<input type='image' src='#i'>",
    "<table background='#b'><tr><td background='/api/v1/threads'>x</td></tr></table>",
    "<svg><image href='#i' width='9' height='9'></image><image xlink:href='/api/v1/threads' width='9' height='9'></image></svg>",
    "<svg><filter id='f'><feImage href='/api/v1/threads'></feImage></filter><rect width='9' height='9' filter='url(#f)'></rect></svg>",
    "<svg><rect width='9' height='9' fill='u\\72l(/api/v1/threads)' filter='url(/api/v1/threads#f)' mask='url( /api/v1/threads)'></rect></svg>",
    "<html><!-- --><head><meta http-equiv='Content-Security-Policy' content='img-src *'></head><body background='#b'>x</body></html>",
    "<style>p { background: url(/api/v1/threads) }</style><p>x</p><b style='background: url(/api/v1/runs)'>x</b>",
];

/// The responses to requests of the framed pages, after they are drawn.
const ANSWERED: &str = "
    const drawn = new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const entries = (one) => one.contentWindow.performance.getEntriesByType('resource');
    return drawn.then(() => all('iframe.frame').flatMap(entries).filter((one) => one.responseStatus !== 0).map((one) => one.name));";

#[tokio::test]
async fn a_framed_page_sends_no_requests_with_the_readers_session() {
    let server = scripted(vec![Turn::Say("It begins.")]);
    let page = Page::signed_in(&server).await;
    page.say("Begin.").await;
    page.sees("It begins.").await;
    let typed = |text: &&str| json!({"content": {"type": "html", "data": text}}).to_string();
    let results: Vec<String> = ASKING.iter().map(typed).collect();
    let drawn = page.run(DRAW, vec![json!(results)]).await;
    assert_eq!(page.run(ANSWERED, vec![]).await, json!([]), "what was asked for");
    let framed = drawn[1].as_array().unwrap().clone();
    let (_, rest) = framed.split_last().unwrap();
    let named: Vec<&Value> = rest.iter().filter(|text| text.as_str().unwrap().contains("/api/")).collect();
    assert!(rest.len() + 1 == ASKING.len() && named.is_empty(), "{named:#?}");
    page.leaves().await;
    let found = page.run(&format!("{RULES}{FRAMES}"), vec![Value::Array(framed)]).await;
    assert_eq!(found, json!([]), "what could ask");
    page.ends_but_for(&["about:srcdoc", "vendor/dompurify.js", "chat/frame.js"]).await;
}

#[tokio::test]
async fn what_a_tool_names_a_kind_of_does_nothing_in_a_frame_or_beside_it() {
    let server = scripted(vec![Turn::Say("It begins.")]);
    let page = Page::signed_in(&server).await;
    page.say("Begin.").await;
    page.sees("It begins.").await;
    let texts = texts();
    let mut framed = Vec::new();
    for kind in KINDS {
        let typed =
            |text: &String| json!({"content": {"type": kind, "title": text, "data": text}}).to_string();
        let results: Vec<String> = texts.iter().map(typed).collect();
        let drawn = page.run(DRAW, vec![json!(results)]).await;
        let titles = drawn[0].as_str().unwrap();
        assert!(texts.iter().all(|text| titles.contains(text)), "a title of {kind} is missing: {titles}");
        press_all(&page).await;
        obeys_nothing(&page).await;
        framed.extend(drawn[1].as_array().unwrap().clone());
    }
    let there =
        framed.iter().filter(|text| text.as_str().is_some_and(|text| text.contains("</body>"))).count();
    assert_eq!(
        (framed.len(), there),
        (texts.len(), texts.len()),
        "each HTML is a page in a frame: {framed:#?}"
    );
    // The blank page has no policy that restricts parsing.
    page.leaves().await;
    let found = page.run(&format!("{RULES}{FRAMES}"), vec![Value::Array(framed)]).await;
    assert_eq!(found, json!([]), "what could act in a frame");
    // The policy rejects the remaining parts, such as styles; nothing was fetched.
    page.ends_but_for(&["about:srcdoc", "vendor/dompurify.js", "chat/frame.js"]).await;
}

#[tokio::test]
async fn html_in_markdown_is_shown_as_it_was_written() {
    let server = scripted(vec![Turn::Say("It begins.")]);
    let page = Page::signed_in(&server).await;
    page.say("Begin.").await;
    page.sees("It begins.").await;
    // Excludes `<javascript:…>`, which is a link in Markdown.
    let tags: Vec<String> =
        texts().into_iter().filter(|text| text.starts_with('<') && text.contains("</")).collect();
    let results: Vec<String> =
        tags.iter().map(|text| json!({"type": "markdown", "data": text}).to_string()).collect();
    let drawn = page.run(DRAW, vec![json!(results)]).await;
    let shown = drawn[0].as_str().unwrap();
    let missing: Vec<&String> = tags.iter().filter(|text| !shown.contains(text.as_str())).collect();
    assert!(tags.len() > 20 && missing.is_empty(), "{missing:#?} of {shown}");
    assert_eq!(page.number_of("#drawn .markdown button, #drawn .markdown a").await, 0);
    page.ends().await;
}
