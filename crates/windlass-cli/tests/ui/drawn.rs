//! Rendering: the page draws only the part of a long conversation near the viewport, and batches fast replies by
//! frame.
//!
//! These tests count changes; the benchmark measures the speed (`windlass-bench pages`).

use std::time::Duration;

use windlass_bench::conversation::repeat_exchange;

use super::page::Page;
use super::{scripted, scripted_for};
use crate::cli::User;
use crate::cli::model::{Model, Turn};

/// Exchanges of a long conversation, each with a message and a reply.
const EXCHANGES: usize = 2_000;
/// Maximum entries in the document, independent of the conversation's length.
const MOST_DRAWN: u64 = 150;

/// Scrolls up frame by frame until the transcript is much higher than the entries that may be drawn.
const SCROLL: &str = "
    const own = document.querySelector('.transcript');
    return new Promise((resolve) => {
        let drawn = 0;
        const next = () => {
            drawn = Math.max(drawn, document.querySelectorAll('.entry').length);
            if (drawn >= arguments[0] || own.scrollHeight > arguments[1]) return resolve({ drawn, height: own.scrollHeight });
            own.scrollTop -= 2000;
            requestAnimationFrame(next);
        };
        requestAnimationFrame(next);
    });";

/// Creates a user with a long conversation and returns its id. The first exchange is real; the others are copies of
/// it.
async fn user_with_long_conversation() -> (User, String) {
    let user = User::new();
    let text = "Some **words** with `code`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- two\n\n```rust\nfn main() {}\n```\n";
    Model::start(vec![Turn::Say(text)]).run(&user, &["run", "Say something."]).exits(0);
    let thread = repeat_exchange(&user.store(), EXCHANGES).await.unwrap().to_string();
    (user, thread)
}

// rows: ZE-S9
#[tokio::test]
async fn a_long_conversation_is_drawn_in_part() {
    let (user, thread) = user_with_long_conversation().await;
    let server = scripted_for(user, vec![]);
    let page = Page::signed_in(&server).await;
    page.go(&format!("/chat/{thread}")).await;
    page.until("the newest answer", "return all('.entry.assistant').length > 3").await;
    let entry = page.run("return document.querySelector('.entry.assistant').offsetHeight", vec![]).await;
    let height = entry.as_u64().unwrap() * 500;
    let scrolled = page.run(SCROLL, vec![MOST_DRAWN.into(), height.into()]).await;
    assert!(scrolled["drawn"].as_u64().unwrap() < MOST_DRAWN, "all of it is drawn at once: {scrolled}");
    page.ends().await;
}

/// Counts frames, and mutations of the page.
const COUNT: &str = "
    Object.assign(window, { frames: 0, drawn: 0 });
    new MutationObserver(() => (window.drawn += 1)).observe(document.body, { subtree: true, childList: true, characterData: true });
    const frame = () => {
        window.frames += 1;
        requestAnimationFrame(frame);
    };
    frame();";

/// Upper bound of mutations per frame. The page also updates counters a few times a second.
const DRAWN_PER_FRAME: f64 = 1.5;

// rows: ZE-S9
#[tokio::test]
async fn a_fast_reply_is_drawn_with_the_frames() {
    let text = "Some **words** with `code`, and a [link](https://example.com).\n\n".repeat(400);
    let server = scripted(vec![Turn::spoken(Duration::from_micros(400), &text, 6)]);
    let page = Page::signed_in(&server).await;
    page.run(COUNT, vec![]).await;
    page.say("Continue.").await;
    let ended = "return all('.entry.assistant[data-status=complete]').length > 0 && { frames: window.frames, drawn: window.drawn }";
    let ended = page.until("the end of the answer", ended).await;
    let number = |name: &str| ended[name].as_f64().unwrap();
    assert!(number("drawn") <= number("frames") * DRAWN_PER_FRAME, "{ended}");
    page.ends().await;
}
