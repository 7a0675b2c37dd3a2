//! What a tool names a kind of itself: HTML, which is shown in a frame, Markdown, code and JSON, each made of the texts
//! that nobody should obey. They are drawn by the part of the page that draws results; how a result comes there from a
//! tool is shown elsewhere.

use serde_json::{Value, json};

use super::{RULES, obeys_nothing, press_all, texts};
use crate::cli::model::Turn;
use crate::ui::page::Page;
use crate::ui::scripted;

const KINDS: &[&str] = &["html", "markdown", "code", "json"];

/// Draws texts as results, and says what stands there and in the frames, once these have loaded it.
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

/// What a frame may not have in it besides: also no picture of anywhere, which would be fetched with somebody's session.
/// Its styles are for the policy, which lets it fetch nothing.
const FRAMES: &str = "
    for (const text of arguments[0]) {
        const page = new DOMParser().parseFromString(text, 'text/html');
        for (const one of page.querySelectorAll('*')) looks(one);
        for (const one of page.querySelectorAll('script, iframe, object, embed, applet, base, link, meta, form, portal, frame, frameset, animate, set, foreignObject, use')) found.push(`a ${one.tagName} of ${text.slice(0, 80)}`);
        for (const one of page.querySelectorAll('[src], [srcset], [poster], [background], image[href]')) for (const { name, value } of one.attributes) if (/^(src|srcset|poster|background|href)$/.test(name) && !value.startsWith('data:image/') && !value.startsWith('#')) found.push(`${name} of ${text.slice(0, 80)}`);
        for (const one of page.querySelectorAll('[target]')) if (one.target !== '_blank') found.push(`a target of ${text.slice(0, 80)}`);
    }
    return found;";

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
    // There is no policy here that keeps a parser from texts.
    page.leaves().await;
    let found = page.run(&format!("{RULES}{FRAMES}"), vec![Value::Array(framed)]).await;
    assert_eq!(found, json!([]), "what could act in a frame");
    // What is left of them, such as styles, the policy refuses once more; nothing was fetched.
    page.ends_but_for(&["about:srcdoc", "vendor/dompurify.js", "chat/frame.js"]).await;
}

#[tokio::test]
async fn html_in_markdown_is_shown_as_it_was_written() {
    let server = scripted(vec![Turn::Say("It begins.")]);
    let page = Page::signed_in(&server).await;
    page.say("Begin.").await;
    page.sees("It begins.").await;
    // Not `<javascript:…>`, which is a link of Markdown.
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
