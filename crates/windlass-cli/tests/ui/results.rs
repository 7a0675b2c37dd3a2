//! Tool results, displayed by their kind.

use serde_json::{Value, json};
use thirtyfour::prelude::*;

use super::page::Page;
use super::scripted_for;
use crate::cli::User;
use crate::cli::model::Turn;
use crate::http::Server;

/// A picture of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A page that tries to take over its surroundings.
const HOSTILE: &str = "<!doctype html><html><head><meta http-equiv=refresh content='0;url=https://evil.example/'></head>\
    <body onload='parent.__pwned=1'><script>parent.__pwned=1; top.location='https://evil.example/'</script>\
    <img src=https://evil.example/seen.png onerror='parent.__pwned=1'><p>A report.</p>\
    <a id=top target=_top href=https://evil.example/>top</a> <a id=own href=https://evil.example/>own</a>\
    <a id=new target=_blank href=https://evil.example/>new</a> <a id=code href='javascript:parent.__pwned=1'>code</a>\
    <form action=https://evil.example/ target=_top><button id=send>send</button></form></body></html>";

/// A page with styles that refer to external resources.
const DRESSED: &str = "<!doctype html><html><head><style>@import url(ELSEWHERE/sheet.css); p { color: rgb(1, 2, 3); background: url(ELSEWHERE/style.png) }\
    @font-face { font-family: far; src: url(ELSEWHERE/font) }</style></head><body><p>A report.</p>\
    <p class=far style='margin-left: 33px; font-family: far; background-image: url(ELSEWHERE/own.png)' onclick='parent.__pwned=1'>A part.</p>\
    <img src=ELSEWHERE/seen.png onerror='parent.__pwned=1'><div style='height: 3000px'>Much.</div></body></html>";

/// A page with layout attributes and an inline picture.
const LAID_OUT: &str = "<!doctype html><html lang=ar><head><style media=print>p { color: red }</style></head><body>\
    <table dir=rtl><tr><td id=wide colspan=2 align=right>wide<tr><td>one<td>two</table><ol start=3><li>three</ol>\
    <svg width=100 height=50 viewBox='0 0 10 5'><linearGradient id=g><stop stop-color=red /></linearGradient>\
    <path id=drawn d='M0 0H5V5H0Z' fill='rgb(1, 2, 3)' stroke='url(#g)' /></svg></body></html>";

/// A conversation with a tool result for each text, all expanded.
async fn returned(texts: &[String]) -> (Server, Page) {
    let user = User::new();
    user.configure("[tools.bash]\nenabled = true\n");
    user.run(&["grants", "add", "Bash"]).exits(0);
    let call =
        |text: &String| ("Bash", json!({"command": format!("cat <<'END-OF-TEXT'\n{text}\nEND-OF-TEXT")}));
    let server =
        scripted_for(user, vec![Turn::Call(texts.iter().map(call).collect()), Turn::Say("All is shown.")]);
    let page = Page::signed_in(&server).await;
    page.say("Show them.").await;
    page.sees("All is shown.").await;
    let all = "document.querySelectorAll('details.call:not([open])').forEach((one) => (one.open = true));\
        return document.querySelectorAll('.call .result').length === arguments[0]";
    page.until_of("every result", all, vec![texts.len().into()]).await;
    (server, page)
}

// rows: ZE-H15
#[tokio::test]
async fn each_kind_of_result_is_shown_as_what_it_is() {
    let table = json!([{"city": "Rome", "people": 3}, {"city": "Oslo", "people": 1}]);
    let typed = |kind: &str, data: Value, more: Value| {
        let mut content = json!({"type": kind, "data": data});
        content.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"success": true, "message": format!("A {kind}."), "content": content}).to_string()
    };
    let cases: Vec<(String, &str)> = vec![
        ("plain words".into(), "pre:nth-child(1)"),
        (json!({"name": "Rome", "parts": {"north": [1, 2]}}).to_string(), "details.tree .key"),
        // JSON inside of a JSON string.
        (json!({"payload": json!({"city": "Rome"}).to_string()}).to_string(), ".branch [data-type=string]"),
        (table.to_string(), ".table tbody tr:nth-child(2) td"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new".into(), ".diff [data-kind=added]"),
        ("<!doctype html><p>A page</p>".into(), "iframe[sandbox='allow-same-origin']"),
        (typed("html", "<p>A part</p>".into(), json!({})), "iframe[sandbox='allow-same-origin']"),
        (typed("markdown", "Some **weight**".into(), json!({"title": "A title"})), ".markdown strong"),
        (typed("code", "let a = `b`;\n```".into(), json!({"language": "js"})), "code.language-js"),
        (typed("json", json!({"deep": {"er": 1}}), json!({})), "details.tree .key"),
        (typed("image", PIXEL.into(), json!({"title": "One pixel"})), "img.picture[alt='One pixel']"),
        (typed("image", "https://evil.example/seen.png".into(), json!({})), "p.quiet"),
        (typed("error", "It broke".into(), json!({})), ".note[data-tone=error]"),
        (json!({"type": "text", "data": "bare"}).to_string(), "pre"),
    ];
    let texts: Vec<String> = cases.iter().map(|(text, _)| text.clone()).collect();
    let (_server, page) = returned(&texts).await;
    let shown = "return [...document.querySelectorAll('.call .result')].map((one, at) => one.querySelector(arguments[0][at])?.outerHTML ?? `nothing of ${arguments[0][at]}: ${one.innerHTML.slice(0, 300)}`)";
    let wanted: Vec<&str> = cases.iter().map(|(_, css)| *css).collect();
    let shown = page.run(shown, vec![json!(wanted)]).await;
    let missing: Vec<&Value> = shown
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one.as_str().unwrap().starts_with("nothing of"))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
    page.until("the picture is drawn", "return document.querySelector('img.picture').naturalWidth === 1")
        .await;
    page.until("code is coloured", "return document.querySelector('code.language-js [class^=hljs]')").await;
    page.ends().await;
}

#[tokio::test]
async fn a_page_that_a_tool_returned_is_displayed_without_active_content() {
    let (server, page) = returned(&[HOSTILE.to_owned()]).await;
    let frame = page.element("iframe.frame").await;
    let tokens = page.run("const { sandbox, allow } = document.querySelector('iframe.frame'); return [sandbox.value, allow]", vec![]).await;
    assert_eq!(tokens, json!(["allow-same-origin", ""]), "no scripts, no windows, no navigation");
    frame.enter_frame().await.unwrap();
    assert_eq!(page.driver.find(By::Tag("p")).await.unwrap().text().await.unwrap(), "A report.");
    for id in ["top", "new", "code", "send", "own"] {
        // A link that navigates the frame leaves no further elements to press.
        if let Ok(element) = page.driver.find(By::Id(id)).await {
            let _ = element.click().await;
        }
    }
    page.driver.enter_default_frame().await.unwrap();
    assert_eq!(page.windows().await.unwrap().len(), 1, "a window was opened");
    assert!(page.driver.current_url().await.unwrap().as_str().starts_with(&server.address));
    let harm = "const origins = performance.getEntriesByType('resource').map((one) => new URL(one.name).origin);\
        return [window.__pwned ?? null, origins.filter((one) => one !== location.origin)]";
    page.shows(harm, vec![], json!([null, []])).await;
    page.sees("All is shown.").await;
    page.ends_but_for(&["about:srcdoc", "vendor/dompurify.js", "chat/frame.js", "sandbox"]).await;
}

#[tokio::test]
async fn a_page_that_a_tool_returned_has_its_styles_and_sends_no_requests() {
    let elsewhere = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let place = format!("http://{}", elsewhere.local_addr().unwrap());
    let text = DRESSED.replace("ELSEWHERE", &place);
    let (server, page) = returned(&[text]).await;
    // Resources of this server would be fetched with the reader's session.
    let own = page.run("return module('lib/markdown.js').then(({ framed }) => String(framed(arguments[0])))", vec![
        format!("<p>A part.</p><img src='{}/api/v1/threads'><svg><image href='/api/v1/threads'></image></svg>", server.address).into(),
    ]).await;
    assert!(!own.as_str().unwrap().contains("/api/"), "{own}");
    let looks = "const frame = all('iframe.frame')[0]; const page = frame.contentDocument;\
        const style = (css) => frame.contentWindow.getComputedStyle(page.querySelector(css));\
        return page.adoptedStyleSheets.length === 1 && [style('p').color, style('.far').marginLeft, page.adoptedStyleSheets[0].cssRules.length, page.querySelector('meta').content.startsWith(\"default-src 'none'; img-src data:;\")]";
    let wanted = json!(["rgb(1, 2, 3)", "33px", 2, true]);
    assert_eq!(page.until("it is dressed", looks).await, wanted);
    let height = "return all('iframe.frame')[0].clientHeight / innerHeight";
    let share = page.run(height, vec![]).await.as_f64().unwrap();
    assert!((0.55..=0.61).contains(&share), "it takes {share} of the window");
    page.press("Expand").await;
    page.until("it is shown whole", "return all('iframe.frame')[0].clientHeight > 3000").await;
    page.press("Expand").await;
    page.until("it is as before", "return all('iframe.frame')[0].clientHeight < innerHeight").await;
    // The visible content keeps its position, even near the end.
    let moved = "const own = all('.transcript')[0]; own.scrollTop = own.scrollHeight - own.clientHeight - 60;\
        const top = () => all('iframe.frame')[0].getBoundingClientRect().top;\
        const before = top(); button('Expand').click(); return [own.scrollTop > 0, top() - before]";
    assert_eq!(page.run(moved, vec![]).await, json!([true, 0]));
    let asked = elsewhere.accept().map(|(_, from)| from).map_err(|error| error.kind());
    assert_eq!(asked, Err(std::io::ErrorKind::WouldBlock), "a request was sent");
    page.shows("return window.__pwned ?? null", vec![], Value::Null).await;
    page.ends_but_for(&["about:srcdoc", "vendor/dompurify.js", "chat/frame.js"]).await;
}

#[tokio::test]
async fn a_page_that_a_tool_returned_is_laid_out_as_it_says() {
    let (_server, page) = returned(&[LAID_OUT.to_owned()]).await;
    let looks = "const frame = all('iframe.frame')[0]; const page = frame.contentDocument;\
        const [wide, list, drawn] = ['#wide', 'ol', '#drawn'].map((css) => page.querySelector(css));\
        return page.adoptedStyleSheets.length === 1 && {\
            lang: page.documentElement.lang, dir: wide.closest('table').dir, wide: [wide.colSpan, wide.align], start: list.start,\
            drawn: [drawn.getBBox().width, drawn.getBoundingClientRect().width, frame.contentWindow.getComputedStyle(drawn).fill, drawn.getAttribute('stroke')],\
            media: page.adoptedStyleSheets[0].media.mediaText }";
    let wanted = json!({
        "lang": "ar", "dir": "rtl", "wide": [2, "right"], "start": 3,
        "drawn": [5, 50, "rgb(1, 2, 3)", "url(#g)"], "media": "print",
    });
    assert_eq!(page.until("it is dressed", looks).await, wanted);
    page.ends_but_for(&["about:srcdoc", "vendor/dompurify.js", "chat/frame.js"]).await;
}
