//! A conversation of twenty thousand messages, opened and scrolled.
//!
//! One exchange is had through the server; the others are copies of its rows.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use sqlx::{Connection, SqliteConnection};

use super::{PageFigures, Pages, longest, number, signed_in, until};
use crate::http::client::Client;
use crate::http::served::Process;

/// An answer with what Markdown has.
const MODEL: &str = "openai-chat/markdown-100";
/// Half are a person's, half the model's.
const MESSAGES: i64 = 20_000;

/// Scrolls up for some seconds, a hundred pixels with each frame.
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

/// When the newest answers are there, by the page's own clock, which begins with its address.
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
    repeat(&folder.join("data/windlass/windlass.db")).await?;

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

/// Repeats the one exchange of a store.
async fn repeat(path: &Path) -> Result<()> {
    let mut store = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await?;
    let (number, head): (i64, i64) =
        sqlx::query_as("SELECT number, head FROM threads").fetch_one(&mut store).await?;
    let bodies: Vec<String> =
        sqlx::query_scalar("SELECT body FROM events ORDER BY position").fetch_all(&mut store).await?;
    let events = bodies.iter().map(|body| serde_json::from_str(body)).collect::<Result<Vec<Value>, _>>()?;
    let id = |kind: &str, field: &str| {
        let event = events.iter().find(|event| event["type"] == kind);
        event.and_then(|event| event[field].as_str()).with_context(|| format!("no `{kind}` has `{field}`"))
    };
    let (run, message) = (id("run.started", "run")?, id("message.received", "id")?);
    // The thread's own events are not repeated.
    let own = |event: &Value| event["type"].as_str().is_some_and(|kind| kind.starts_with("thread."));
    let exchange: Vec<&String> =
        bodies.iter().zip(&events).filter(|(_, event)| !own(event)).map(|(body, _)| body).collect();
    let mut changes = store.begin().await?;
    let mut seq = head;
    for copy in 1..MESSAGES / 2 {
        for body in &exchange {
            seq += 1;
            let body =
                body.replace(run, &format!("{run}-{copy}")).replace(message, &format!("{message}-{copy}"));
            let insert = sqlx::query("INSERT INTO events (position, body) VALUES (?1 << 32 | ?2, ?3)");
            insert.bind(number).bind(seq).bind(body).execute(&mut *changes).await?;
        }
    }
    sqlx::query("UPDATE threads SET head = ?1").bind(seq).execute(&mut *changes).await?;
    sqlx::query("DELETE FROM snapshots").execute(&mut *changes).await?;
    Ok(changes.commit().await?)
}
