//! A conversation of twenty thousand messages, opened and scrolled.
//!
//! The server produces one exchange; all further exchanges are copies of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{PageFigures, Pages, longest, number, signed_in, until};
use crate::conversation::repeat_exchange;
use crate::http::client::Client;
use crate::http::served::Process;

/// Script of an answer that uses every construct of Markdown.
const MODEL: &str = "openai-chat/markdown-100";
/// Number of exchanges, each a message and an answer: 20,000 messages in total.
const EXCHANGES: usize = 10_000;

/// Script that scrolls up for 5 s, 100 pixels per frame.
const SCROLL: &str = "
    const own = document.querySelector('.transcript');
    const tasks = [];
    new PerformanceObserver((list) => list.getEntries().forEach((one) => tasks.push(one.duration)))
        .observe({ type: 'longtask', buffered: false });
    return new Promise((resolve) => {
        const begin = performance.now();
        let [frames, drawn] = [0, 0];
        const next = () => {
            own.scrollTop -= 100;
            frames += 1;
            drawn = Math.max(drawn, document.querySelectorAll('.entry').length);
            const ms = performance.now() - begin;
            if (ms < 5000) requestAnimationFrame(next);
            else resolve({ frames_per_s: (frames * 1000) / ms, drawn, tasks });
        };
        requestAnimationFrame(next);
    });";

/// Script that waits for the newest answers. The page's clock starts with the navigation.
const OPENED: &str =
    "return document.querySelectorAll('.entry.assistant').length > 3 && { at: performance.now() }";

pub(super) async fn measure(pages: &Pages, figures: &mut PageFigures) -> Result<()> {
    let folder = pages.folder.join("long");
    let process = Process::start(&pages.binary, &folder, &pages.base_url, MODEL).await?;
    let client = Client::new(process.address.clone(), process.key.clone());
    let mut connection = client.connect().await?;
    let started = connection.start(MODEL).await?;
    connection.read(&started.run, crate::machine::monotonic_ns()).await?;
    process.end().await?;
    repeat_exchange(&store_below(&folder)?, EXCHANGES).await?;

    let process = Process::start(&pages.binary, &folder, &pages.base_url, MODEL).await?;
    let page = signed_in(&process).await?;
    page.driver.goto(format!("http://{}/chat/{}", process.address, started.thread)).await?;
    figures.opened_ms = number(&until(&page, OPENED).await?, "at")?;
    let scrolled = page.driver.execute(SCROLL, vec![]).await?.json().clone();
    figures.frames_per_s = number(&scrolled, "frames_per_s")?;
    figures.drawn = number(&scrolled, "drawn")?;
    figures.scroll_task_ms = longest(&scrolled);
    page.quit().await?;
    process.end().await
}

/// Returns the folder of the store that a server has created below its data folder.
fn store_below(folder: &Path) -> Result<PathBuf> {
    let mut stores = std::fs::read_dir(folder.join("data/windlass"))?.flatten().map(|entry| entry.path());
    let store = stores.find(|store| store.join("windlass.db").exists());
    store.context("the server has created no store")
}
