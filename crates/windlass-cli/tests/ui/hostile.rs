//! Text of a model or a tool is displayed without effect: no script runs, nothing is fetched, and no link executes
//! code.
//!
//! The texts are in `hostile/`, one per line, in which `\n` is a line break. Each text is used as a reply of a model
//! and as a tool result.

mod frames;
mod policy;

use serde_json::{Value, json};

use super::page::Page;
use super::scripted_for;
use crate::cli::User;
use crate::cli::model::Turn;

const TEXTS: &str = include_str!("hostile/texts.txt");

/// The hostile texts. An effective one sets a mark; the server that they name does not exist.
fn texts() -> Vec<String> {
    let lines = TEXTS.lines().filter(|line| !line.is_empty() && !line.starts_with("## "));
    lines.map(|line| line.replace("\\n", "\n")).collect()
}

/// Properties that no displayed text may have. Each rule adds violations to `found`.
const RULES: &str = r"
    const found = [];
    const looks = (one) => {
      for (const { name, value } of one.attributes) {
        if (/^(on|ping$)/i.test(name)) found.push(`${one.tagName} has ${name}`);
        const isPicture = one.tagName === 'IMG' && /^data:image\//i.test(value);
        if (/^(href|src|action|formaction|xlink:href|data|poster|srcset|cite|background)$/i.test(name) && !/^(https?:|mailto:|#|\/)/i.test(value) && !isPicture) found.push(`${name} is ${value}`);
      }
    };";

/// Additional properties that the page must not have.
const PAGE: &str = r"
    const said = [...document.querySelectorAll('.transcript, .ask')];
    const inside = (css) => said.flatMap((one) => [...one.querySelectorAll(css)]);
    if (window.__pwned !== undefined || ({}).pwned !== undefined || document.documentElement.dataset.pwned) found.push('a script ran');
    for (const one of inside('*')) {
      looks(one);
      for (const { name, value } of one.attributes) {
        if (name === 'style' && /url|expression|position/i.test(value)) found.push(`style is ${value}`);
        if (name === 'id' && /^(app|main|attributes|body)$/.test(value)) found.push(`id is ${value}`);
      }
    }
    for (const one of inside('script, style, link, meta, base, object, embed, applet, img, video, audio, source, picture, math, form:not(form.said), dialog, template, portal, frame, frameset')) found.push(`a ${one.tagName}`);
    for (const one of inside('svg')) if (one.querySelector('script, animate, set, foreignObject, use, a, image')) found.push('an SVG that does something');
    for (const one of inside('iframe')) if (one.getAttribute('sandbox') !== 'allow-same-origin' || one.src) found.push(`a frame: ${one.outerHTML.slice(0, 80)}`);
    for (const one of inside('a[target]')) if (!one.rel.includes('noopener')) found.push('a link that is followed back');
    for (const one of performance.getEntriesByType('resource')) if (new URL(one.name).origin !== location.origin && !one.name.startsWith('data:')) found.push(`fetched ${one.name}`);
    if (!document.getElementById('app') || location.pathname.split('/')[1] !== 'chat') found.push('the page is another');
    return found;";

async fn obeys_nothing(page: &Page) {
    let found = page.run(&format!("{RULES}{PAGE}"), vec![]).await;
    assert_eq!(found, json!([]), "what was obeyed");
    assert_eq!(page.windows().await.unwrap().len(), 1, "a window was opened");
}

/// Presses every link and code button in a reply. Links to other servers are not followed, but links that would run a
/// script are. Replaces the clipboard's API, because the browser rejects writes after synthetic clicks.
async fn press_all(page: &Page) {
    let press = "navigator.clipboard.writeText = () => Promise.resolve();\
        for (const one of document.querySelectorAll('.markdown a, .markdown button, .result a')) {\
        if (/^https?:$/.test(one.protocol)) one.addEventListener('click', (event) => event.preventDefault(), { once: true });\
        one.click(); one.dispatchEvent(new MouseEvent('mouseover', { bubbles: true })); one.focus(); }\
        return new Promise((done) => setTimeout(() => done(true)))";
    assert_eq!(page.run(press, vec![]).await, Value::Bool(true));
}

#[test]
fn there_are_enough_of_them() {
    let texts = texts();
    let kinds = std::collections::BTreeSet::from_iter(&texts);
    assert!(kinds.len() >= 60 && kinds.len() == texts.len(), "{} of {}", kinds.len(), texts.len());
}

/// Replies of a conversation that are all drawn at once, however small the window is.
const TOGETHER: usize = 9;

#[tokio::test]
async fn what_a_model_says_does_nothing() {
    let mut in_use: Option<Page> = None;
    for some in texts().chunks(TOGETHER) {
        // Each text is a separate reply, so that the next one reveals a text that escapes its container.
        let turns = some.iter().map(|text| Turn::Say(text.clone().leak())).collect();
        let server = scripted_for(User::new(), turns);
        // All texts share one browser, because starting one takes longer than reading the texts.
        let mut page = match in_use.take() {
            Some(page) => page,
            None => Page::open(&server).await,
        };
        page.signs_in(&server).await;
        page.say("Begin.").await;
        page.thread().await;
        for number in 1..=some.len() {
            let answers = "return document.querySelectorAll('.entry.assistant:not([data-status=live]) .markdown').length === arguments[0]";
            page.until_of("an answer", answers, vec![number.into()]).await;
            page.until("it is done", "return all('.stop').length === 0").await;
            if number < some.len() {
                page.say("More.").await;
            }
        }
        press_all(&page).await;
        obeys_nothing(&page).await;
        // Restored from the journal.
        page.driver.refresh().await.unwrap();
        let all = "return document.querySelectorAll('.entry.assistant').length === arguments[0]";
        page.until_of("every answer", all, vec![some.len().into()]).await;
        press_all(&page).await;
        obeys_nothing(&page).await;
        page.leaves().await;
        in_use = Some(page);
    }
    in_use.unwrap().ends().await;
}

#[tokio::test]
async fn what_a_tool_returns_does_nothing() {
    let texts = texts();
    let user = User::new();
    user.configure("[tools.bash]\nenabled = true\n");
    user.run(&["grants", "add", "Bash"]).exits(0);
    let mut calls: Vec<(&'static str, Value)> = Vec::new();
    for text in &texts {
        let command = format!("cat <<'END-OF-TEXT'\n{text}\nEND-OF-TEXT");
        calls.push(("Bash", json!({"command": command})));
    }
    let turns: Vec<Turn> = calls.chunks(16).map(|some| Turn::Call(some.to_vec())).collect();
    let server = scripted_for(user, turns);
    let page = Page::signed_in(&server).await;
    page.say("Begin.").await;
    page.sees("Done.").await;
    let number = texts.len();
    let open = "document.querySelectorAll('details.call').forEach((one) => (one.open = true)); return document.querySelectorAll('.call .result').length >= arguments[0]";
    page.until_of("every result", open, vec![number.into()]).await;
    press_all(&page).await;
    obeys_nothing(&page).await;
    // The text of a frame is in its attribute.
    let shown = "return [...document.querySelectorAll('.result')].filter((one) => one.outerHTML.includes('__pwned')).length";
    let shown = page.run(shown, vec![]).await;
    assert!(shown.as_u64() > Some(50), "the texts are not there: {shown}");
    // The sanitizer parses a page in a separate document, whose policy rejects handlers again. It also rejects requests
    // from styles of frames.
    page.ends_but_for(&["about:srcdoc", "vendor/dompurify.js", "chat/frame.js"]).await;
}
