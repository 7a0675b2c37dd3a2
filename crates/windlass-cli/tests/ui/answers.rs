//! Streamed replies: Markdown, reasoning and calls in their order, with times and tokens.

use std::time::Duration;

use serde_json::{Value, json};

use super::page::Page;
use super::scripted;
use crate::cli::model::Turn;

fn paragraphs(number: usize) -> String {
    (0..number).map(|at| format!("Paragraph **{at}** says something about `thing_{at}`.\n\n")).collect()
}

// rows: SK-U2
#[tokio::test]
async fn an_answer_comes_as_markdown_with_its_thoughts_and_calls_in_order() {
    let call = json!({"tool_calls": [{"index": 0, "id": "call_a", "type": "function",
        "function": {"name": "Glob", "arguments": "{\"pattern\": \"*\"}"}}]});
    let deltas = vec![
        json!({"role": "assistant", "content": ""}),
        json!({"reasoning_content": "First a thought."}),
        json!({"content": "Then **words**, and `code`"}),
        json!({"content": ":\n\n- a list"}),
        call,
    ];
    let server = scripted(vec![Turn::Slowly(Duration::from_millis(1_000), deltas), Turn::Say("The end.")]);
    let page = Page::signed_in(&server).await;
    page.say("Begin.").await;
    page.until("something turns until the first word", "return all('.working')[0]").await;
    page.sees("Then words, and code").await;
    page.sees("The end.").await;
    let parts = "return [...document.querySelector('.entry.assistant').children].map((one) => one.className).filter((one) => one !== 'actions')";
    page.shows(parts, vec![], json!(["thought", "markdown", "call"])).await;
    let marks = "return [...document.querySelector('.markdown').querySelectorAll('strong, code, li')].map((one) => one.textContent)";
    page.shows(marks, vec![], json!(["words", "code", "a list"])).await;
    page.ends().await;
}

/// The distance of the viewport from the end, its position, and the total height.
const PLACE: &str = "const own = document.querySelector('.transcript'); return [own.scrollHeight - own.scrollTop - own.clientHeight, own.scrollTop, own.scrollHeight]";

// rows: SK-U2
#[tokio::test]
async fn the_view_follows_new_text_only_at_the_end() {
    let server = scripted(vec![Turn::spoken(Duration::from_millis(8), &paragraphs(600), 16)]);
    let page = Page::signed_in(&server).await;
    page.say("Tell me.").await;
    page.until("more than a window", "return document.querySelector('.transcript').scrollHeight > 1600")
        .await;
    let place = page.run(PLACE, vec![]).await;
    assert!(place[0].as_f64().unwrap() < 40.0, "it does not follow: {place}");
    page.run("document.querySelector('.transcript').scrollTop -= 400", vec![]).await;
    let before = page.run(PLACE, vec![]).await;
    page.until_of(
        "more of it",
        "return document.querySelector('.transcript').scrollHeight > arguments[0]",
        vec![json!(before[2].as_f64().unwrap() + 400.0)],
    )
    .await;
    let after = page.run(PLACE, vec![]).await;
    assert_eq!(before[1], after[1], "the view was moved: {before} {after}");
    page.press("↓ Jump to latest").await;
    page.until("it follows again", AT_END).await;
    page.ends().await;
}

/// Whether the viewport is at the end.
const AT_END: &str = "const own = document.querySelector('.transcript'); return own.scrollHeight - own.scrollTop - own.clientHeight < 40";

// rows: SK-U2
#[tokio::test]
async fn who_sends_a_message_is_taken_to_the_end_and_follows() {
    let long = || Turn::spoken(Duration::from_millis(1), &paragraphs(60), 400);
    let server = scripted(vec![long(), long()]);
    let page = Page::signed_in(&server).await;
    page.say("Tell me.").await;
    page.until("it is over", "return all('.entry.assistant').length === 1 && all('.stop').length === 0")
        .await;
    page.run("document.querySelector('.transcript').scrollTop = 0", vec![]).await;
    page.sees("↓ Jump to latest").await;
    page.say("And more.").await;
    page.until("the end", AT_END).await;
    page.until("it is over", "return all('.entry.user').length === 2 && all('.stop').length === 0").await;
    page.until("the end of what came", AT_END).await;
    page.misses("↓ Jump to latest").await;
    page.ends().await;
}

// rows: SK-U3
#[tokio::test]
async fn a_thought_is_open_while_it_streams_and_then_collapses() {
    let thought =
        |at: usize| json!({"reasoning_content": format!("Thought {at}: {}.\n", "some words ".repeat(30))});
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    deltas.extend((1..=6).map(thought));
    deltas.push(json!({"content": "It is settled."}));
    let server = scripted(vec![Turn::Slowly(Duration::from_millis(1_000), deltas)]);
    let page = Page::signed_in(&server).await;
    page.say("Think.").await;
    page.sees("Thinking…").await;
    page.until("it is open", "const own = document.querySelector('details.thought'); return own.open && all('.thought p')[0].innerText.includes('Thought 2') && own.querySelector('p').clientHeight <= 160").await;
    page.sees("It is settled.").await;
    page.until("it has folded", "const own = document.querySelector('details.thought'); return !own.open && /^Thought for [1-9]\\.\\d s$/.test(own.querySelector('summary').innerText)").await;
    page.element("details.thought summary").await.click().await.unwrap();
    page.until("a part of it", "return all('.thought p')[0].clientHeight === 160").await;
    page.press("Show more").await;
    page.until("all of it", "const own = all('.thought p')[0]; return own.clientHeight > 160 && own.clientHeight <= 480 && own.innerText.includes('Thought 6')").await;
    page.press("Show less").await;
    page.until("a part again", "return all('.thought p')[0].clientHeight === 160").await;
    page.driver.refresh().await.unwrap();
    page.sees("It is settled.").await;
    page.until("still folded, under its time", "const own = document.querySelector('details.thought'); return !own.open && /^Thought for [1-9]\\.\\d s$/.test(own.querySelector('summary').innerText)").await;
    page.ends().await;
}

/// The duration of each reasoning block of an entry, measured live and as recorded. A delta arrives every 100 ms.
const THOUGHTS: &str = "return import('/ui/-/app/state/entry.js').then(({ Entry }) => {
    let now = 1000;
    const clock = Date.now;
    Date.now = () => now;
    const entry = Entry.ofStep({ type: 'step.started', seq: 4, run: 'r', step: 1, at: now });
    for (const [part, type, text] of arguments[0]) {
        entry.grow({ type: `${type}.delta`, part, text });
        now += 100;
    }
    const live = entry.thoughts().map((one) => one.ms);
    const block = ([, type, text]) => ({ kind: type === 'message' ? 'text' : type, text });
    entry.reply({ seq: 5, thoughts_ms: [290, 90, 80], message: { blocks: arguments[1].map(block) } });
    Date.now = clock;
    return [live, entry.thoughts().map((one) => [one.text, one.ms])];
})";

// rows: SK-U3
#[tokio::test]
async fn each_thought_of_an_answer_has_its_own_time() {
    let server = crate::http::Server::start(&[]);
    let page = Page::signed_in(&server).await;
    let heard = json!([
        [0, "reasoning", "long "],
        [0, "reasoning", "and "],
        [0, "reasoning", "long"],
        [1, "message", "first"],
        [2, "reasoning", "short"],
        [3, "message", "then"],
        [4, "reasoning", "last"],
    ]);
    let whole = json!([
        [0, "reasoning", "long and long"],
        [1, "message", "first"],
        [2, "reasoning", "short"],
        [3, "message", "then"],
        [4, "reasoning", "last"],
    ]);
    let times = page.run(THOUGHTS, vec![heard, whole]).await;
    let wanted = json!([[300, 100, 0], [["long and long", 290], ["short", 90], ["last", 80]]]);
    assert_eq!(times, wanted);
    page.ends().await;
}

// rows: SK-U9
#[tokio::test]
async fn tokens_and_times_are_shown_during_an_answer_and_totalled_after_it() {
    let server =
        scripted(vec![Turn::Say("Short."), Turn::spoken(Duration::from_millis(20), &paragraphs(120), 20)]);
    let page = Page::signed_in(&server).await;
    page.say("Tell me.").await;
    page.sees("Short.").await;
    page.until("the sum", "return all('.figures')[0].innerText.includes('10 in · 5 out · 15 total')").await;
    page.say("Tell me more.").await;
    let live = "const own = all('.figures[data-live=true]')[0]?.innerText ?? '';\
        return /time to first token [\\d.]+ m?s/.test(own) && /≈ [\\d,]+ tokens\\/s/.test(own)\
            && /≈ [\\d,]+ tokens so far · for [\\d.]+ s/.test(own)";
    page.until("figures of the running answer", live).await;
    let changes = "const own = document.querySelector('.figures'); let changes = 0;\
        const watch = new MutationObserver(() => (changes += 1));\
        watch.observe(own, { subtree: true, characterData: true, childList: true });\
        return new Promise((resolve) => setTimeout(() => resolve(changes), 1000))";
    let changes = page.run(changes, vec![]).await.as_u64().unwrap();
    assert!((1..=6).contains(&changes), "{changes} in a second");
    let both = "return all('.figures[data-live=false]')[0]?.innerText.includes('20 in · 10 out · 30 total')";
    page.until("both", both).await;
    let took = "return /tokens\\/s · took [\\d.]+ s/.test(all('.figures')[0].innerText)";
    page.until("how long it took", took).await;
    page.driver.refresh().await.unwrap();
    page.until("after a reload", both).await;
    page.until("how long it took, after a reload", took).await;
    page.sees("time to first token").await;
    page.ends().await;
}

// rows: SK-U10
#[tokio::test]
async fn an_answer_is_copied_as_text_and_as_markdown() {
    let server = scripted(vec![
        Turn::Say("Some **words** and `code`."),
        Turn::Say(
            "So:\n\n```python\ndef __init__(self):\n    # no heading\n    x = a**b**c\n```\n\n- *one* `__x__`\n- two",
        ),
    ]);
    let page = Page::signed_in(&server).await;
    page.grant(&["clipboardReadWrite", "clipboardSanitizedWrite"]).await.unwrap();
    page.say("Speak.").await;
    page.sees("Some words and code.").await;
    for (button, copied) in
        [("Copy text", "Some words and code."), ("Copy Markdown", "Some **words** and `code`.")]
    {
        page.run("document.querySelector('.entry.assistant .actions').style.opacity = 1", vec![]).await;
        page.press(button).await;
        page.sees("Copied").await;
        assert_eq!(page.run("return navigator.clipboard.readText()", vec![]).await, copied);
    }
    page.say("Write code.").await;
    page.sees("no heading").await;
    let copy = "const own = [...document.querySelectorAll('.entry.assistant')].at(-1);\
        const copy = [...own.querySelectorAll('.actions button')].find((one) => one.innerText === 'Copy text');\
        if (copy) copy.click(); return Boolean(copy)";
    page.until("it is copied", copy).await;
    let copied = "So:\n\ndef __init__(self):\n    # no heading\n    x = a**b**c\n\n- one __x__\n- two";
    page.until_of(
        "the code as it is",
        "return navigator.clipboard.readText().then((text) => (window.copied = text)) && window.copied === arguments[0]",
        vec![copied.into()],
    )
    .await;
    page.ends().await;
}

#[tokio::test]
async fn code_is_copied_by_its_button_and_lists_and_tasks_are_as_they_were_written() {
    let server = scripted(vec![Turn::Say(
        "```python\nprint(1)\n```\n\n3. three\n4. four\n\n- [x] made\n- [ ] open\n\n| a |\n|---|\n| b |",
    )]);
    let page = Page::signed_in(&server).await;
    page.grant(&["clipboardReadWrite", "clipboardSanitizedWrite"]).await.unwrap();
    page.say("Write.").await;
    page.sees("print(1)").await;
    page.until("it is over", "return all('.stop').length === 0").await;
    page.element(".code-bar button").await.click().await.unwrap();
    page.until("it is copied", "return all('.code-bar button')[0].innerText === 'Copied'").await;
    assert_eq!(page.run("return navigator.clipboard.readText()", vec![]).await, "print(1)");
    let parts = "return [all('.markdown ol')[0].start,\
        all('.markdown li input').map((one) => [one.type, one.checked, one.disabled, one.ariaLabel]),\
        all('.markdown pre, .markdown .table').map((one) => one.tabIndex)]";
    let boxes = json!([["checkbox", true, true, "done"], ["checkbox", false, true, "to do"]]);
    page.shows(parts, vec![], json!([3, boxes, [0, 0]])).await;
    page.ends().await;
}

// rows: ZE-S7
#[tokio::test]
async fn arguments_are_seen_while_the_model_writes_them() {
    let piece = |arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
    let deltas = vec![
        json!({"tool_calls": [{"index": 0, "id": "call_a", "type": "function", "function": {"name": "Write", "arguments": ""}}]}),
        piece("{\"file_path\": \"a.md\", "),
        piece("\"content\": \"the beginning, "),
        piece("the middle, "),
        piece("the end\"}"),
    ];
    let server =
        scripted(vec![Turn::Slowly(Duration::from_millis(1_500), deltas), Turn::Say("It is written.")]);
    let page = Page::signed_in(&server).await;
    page.say("Write it.").await;
    page.element("[data-status=live] .call summary").await.click().await.unwrap();
    page.until("half of it", "const own = all('[data-status=live] .call')[0].innerText; return own.includes('the beginning') && !own.includes('the end')").await;
    page.sees("Allow Write to ").await;
    page.sees("the beginning, the middle, the end").await;
    page.ends().await;
}

/// The parts of a conversation that each update changes, and the states of its calls.
const HEAR: &str = "return import('/ui/-/app/state/conversation.js').then(({ Conversation }) => {
    const own = new Conversation('thr_none');
    own.ask = own.sums.read = () => {};
    const look = () => ({
        title: own.title.value, status: own.status.value, run: own.run.value?.id, queue: own.queue.value.map((one) => one.text),
        entries: own.entries.value.map((one) => `${one.role} ${one.text} ${one.status}`), live: own.live.value?.text,
        figures: own.last.value, calls: [...own.calls.values()].map((one) => [one.tool, one.standing, one.progress]),
    });
    let before = look();
    return arguments[0].map((update) => {
        own.hear(update);
        const now = look();
        const changed = Object.keys(now).filter((name) => JSON.stringify(now[name]) !== JSON.stringify(before[name]));
        before = now;
        return [update.type, changed, [...own.calls.values()].map((one) => one.standing)];
    });
})";

// rows: ZE-P5, SK-A11
#[tokio::test]
async fn each_event_changes_the_state_that_it_concerns_and_no_other() {
    let server = crate::http::Server::start(&[]);
    let page = Page::signed_in(&server).await;
    let lines = include_str!("answers/events.txt").lines().filter(|line| !line.starts_with("## "));
    let cases = lines.map(|line| {
        let [changed, standings, event] = line.splitn(3, '|').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let event: Value = serde_json::from_str(event).unwrap();
        let words = |text: &str| Vec::from_iter(text.split_whitespace().map(str::to_owned));
        let wanted = json!([event["type"], words(changed), words(standings)]);
        (event, wanted)
    });
    let (events, wanted): (Vec<Value>, Vec<Value>) = cases.unzip();
    assert!(events.len() > 20);
    assert_eq!(page.run(HEAR, vec![json!(events)]).await, Value::Array(wanted));
    page.ends().await;
}
