//! Forms for interrupts: built from the tool's schema, with validation messages, and without loss of input.

use serde_json::{Value, json};

use super::page::Page;
use super::{asked, choose, otherwise, scripted, write};
use crate::cli::model::Turn;

/// Alters the interrupt in responses to the page; the submitted answer is in `window.said`.
async fn altered(page: &Page, change: &str) {
    page.go("/inbox").await;
    page.sees("Open conversation").await;
    let answer = format!(
        "if (url.includes('/answer')) {{ window.said = JSON.parse(options.body).answer; return Response.json({{ interrupt: '', state: 'open' }}); }}
         if (url.includes('/tools/')) return window.tool ? Response.json(window.tool) : real();
         if (!url.includes('/interrupts?')) return real();
         const page = await (await real()).json();
         for (const one of page.data) {{ {change} }}
         return Response.json(page)"
    );
    otherwise(page, &answer).await;
    page.run("return module('state/inbox.js').then((inbox) => inbox.load())", vec![]).await;
}

async fn said(page: &Page) -> Value {
    let said = page.until("an answer", "return window.said").await;
    page.run("window.said = undefined", vec![]).await;
    said
}

/// Waits for a call whose tool has this schema, and opens the form for its arguments.
async fn editing(schema: Value, arguments: Value) -> (crate::http::Server, Page) {
    let server = scripted(vec![Turn::Call(vec![write("a.md")])]);
    let page = asked(&server).await;
    altered(&page, &format!("one.preview = null; one.arguments = JSON.stringify({arguments});")).await;
    page.run("window.tool = { input_schema: arguments[0] }", vec![schema]).await;
    page.press("Edit…").await;
    page.sees("Save and review").await;
    (server, page)
}

fn schema() -> Value {
    json!({"type": "object", "required": ["path", "text"], "properties": {
        "path": {"type": "string", "description": "Where it is written."},
        "text": {"type": "string"},
        "speed": {"type": "string", "enum": ["fast", "slow"]},
        "times": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "deep": {"type": "boolean", "default": true},
        "note": {"type": "string"},
        "rows": {"type": "array", "items": {"enum": ["a", "b", "c"]}},
    }})
}

#[tokio::test]
async fn a_call_is_edited_in_a_form_of_the_tools_own_schema() {
    let arguments =
        json!({"path": "a.md", "text": "", "speed": "slow", "note": "of old", "rows": ["a"], "else": 1});
    let (_server, page) = editing(schema(), arguments).await;
    page.sees("Where it is written.").await;
    let looks = "const of = (name) => document.querySelector(`[name='v.${name}']`);\
        return [of('speed').tagName, of('times').max, of('deep').checked, of('text').required, of('else').type]";
    page.shows(looks, vec![], json!(["SELECT", "9", true, false, "number"])).await;
    // Unchanged fields keep their values, and absent fields stay absent.
    page.press("Save and review").await;
    let before =
        json!({"path": "a.md", "text": "", "speed": "slow", "note": "of old", "rows": ["a"], "else": 1});
    assert_eq!(said(&page).await, json!({"kind": "edit", "arguments": before}));
    choose(&page, "[name='v.speed']", "\"fast\"").await;
    page.write("[name='v.times']", "5").await;
    page.element("[name='v.deep']").await.click().await.unwrap();
    page.run("const note = all('[name=\"v.note\"]')[0]; note.value = ''; all('[name=\"v.rows\"] option')[2].selected = true", vec![]).await;
    page.press("Save and review").await;
    let now = json!({"path": "a.md", "text": "", "speed": "fast", "times": 5, "deep": false, "rows": ["a", "c"], "else": 1});
    assert_eq!(said(&page).await, json!({"kind": "edit", "arguments": now}));
    page.write("[name='v.times']", "12").await;
    page.press("Save and review").await;
    page.shows(
        "return [document.querySelector('[name=\"v.times\"]').validity.rangeOverflow, window.said ?? null]",
        vec![],
        json!([true, null]),
    )
    .await;
    page.ends().await;
}

#[tokio::test]
async fn a_call_of_an_unknown_tool_is_edited_by_its_current_arguments() {
    let (_server, page) =
        editing(json!({}), json!({"path": "a.md", "times": 3, "deep": true, "big": [1]})).await;
    page.write("[name='v.times']", "4").await;
    page.press("Save and review").await;
    let now = json!({"path": "a.md", "times": 4, "deep": true, "big": [1]});
    assert_eq!(said(&page).await, json!({"kind": "edit", "arguments": now}));
    page.write("[name='v.times']", "").await;
    page.run("document.querySelector('[name=\"v.times\"]').value = ''", vec![]).await;
    page.press("Save and review").await;
    page.sees("“times” must not be empty.").await;
    page.ends().await;
}

/// A run with an open question, in the inbox.
async fn asking(question: Value, change: &str) -> (crate::http::Server, Page) {
    let server = scripted(vec![Turn::Call(vec![("request_human_approval", question)])]);
    let page = Page::signed_in(&server).await;
    page.say("Ask me.").await;
    page.sees("Shall it be sent?").await;
    altered(&page, change).await;
    (server, page)
}

#[tokio::test]
async fn a_pattern_is_that_of_any_part_and_what_does_not_match_is_said() {
    let question = json!({"checkpoint": "c", "summary": "Shall it be sent?", "options": ["yes"]});
    let change = "one.question = { summary: 'Which order?', schema: { type: 'object', required: ['order'], properties: { order: { type: 'string', pattern: '[0-9]{3}' } } } };";
    let (_server, page) = asking(question, change).await;
    page.write("[name='v.order']", "no number").await;
    page.press("Answer").await;
    page.sees("“order” must match [0-9]{3}").await;
    page.write("[name='v.order']", "order 123 of May").await;
    page.press("Answer").await;
    assert_eq!(said(&page).await, json!({"kind": "reply", "values": {"order": "order 123 of May"}}));
    page.ends().await;
}

#[tokio::test]
async fn an_option_takes_what_was_written_beside_it_along() {
    let question = json!({"checkpoint": "c", "summary": "Shall it be sent?", "params": {"amount": 12},
        "options": ["now", "later"], "allow_free_input": true});
    let (_server, page) = asking(question, "").await;
    page.write("[name='v.amount']", "15").await;
    page.write("[name=own]", "with my regards").await;
    page.press("later").await;
    let wanted =
        json!({"kind": "reply", "selected": "later", "values": {"amount": 15}, "text": "with my regards"});
    assert_eq!(said(&page).await, wanted);
    page.ends().await;
}

#[tokio::test]
async fn a_null_that_stands_there_stays_one() {
    let unit = json!({"type": ["string", "null"], "enum": ["C", "F", null], "default": "F"});
    let schema = json!({"type": "object", "required": ["unit"], "properties": {"unit": unit}});
    let question = json!({"checkpoint": "c", "summary": "Shall it be sent?", "schema": schema, "params": {"unit": null}});
    let (_server, page) = asking(question, "").await;
    page.press("Answer").await;
    assert_eq!(said(&page).await, json!({"kind": "reply", "values": {"unit": null}}));
    page.ends().await;
}

#[tokio::test]
async fn a_limit_of_money_is_asked_in_dollars() {
    let question = json!({"checkpoint": "c", "summary": "Shall it be sent?"});
    let change = "one.kind = 'limit'; one.limit = { limit: 'local/run/run_1/usd', figure: 2500000, used: 2600000, next: 'retry' };";
    let (_server, page) = asking(question, change).await;
    page.sees("Limit reached: money per run").await;
    page.sees("Used: $2.60 of $2.50.").await;
    page.sees("US dollars").await;
    page.until("twice of it", "return document.querySelector('[name=to]').value === '5'").await;
    page.write("[name=to]", "7.25").await;
    page.press("Continue").await;
    assert_eq!(said(&page).await, json!({"kind": "raise", "to": 7_250_000}));
    page.ends().await;
}

#[tokio::test]
async fn a_limit_that_others_raise_is_tried_again() {
    let question = json!({"checkpoint": "c", "summary": "Shall it be sent?"});
    let change = "one.kind = 'limit'; one.counts = false; one.limit = { limit: 'local/user/ann/tokens/2026-11-23', figure: 2000, used: 1990, next: 'retry' };";
    let (_server, page) = asking(question, change).await;
    page.sees("Limit reached: tokens per user on 2026-11-23").await;
    page.sees("Another user must raise this limit.").await;
    page.misses("Raise to").await;
    page.press("Try again").await;
    assert_eq!(said(&page).await, json!({"kind": "retry"}));
    page.ends().await;
}

#[tokio::test]
async fn what_comes_of_silence_is_said() {
    let question = json!({"checkpoint": "c", "summary": "Shall it be sent?"});
    let at = "one.expires_at = 1800000000000;";
    let (_server, page) = asking(question, at).await;
    let until = "return text().includes(`Expires on ${new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' }).format(1800000000000)}; it is then ${arguments[0]} automatically.`)";
    page.until_of("a question", until, vec!["declined".into()]).await;
    altered(&page, &format!("{at} one.kind = 'approval'; one.tool = 'Pay';")).await;
    page.until_of("a call", until, vec!["denied".into()]).await;
    altered(&page, &format!("{at} one.kind = 'approval'; one.terms = {{ on_expiry: 'approve' }};")).await;
    page.until_of("what a rule says", until, vec!["approved".into()]).await;
    page.ends().await;
}
