//! Measures the web UI in a real browser: opening and scrolling a long conversation, and a reply of 2,500 fragments per
//! second.
//!
//! The page measures itself. The time until pixels appear on a screen is not included.

mod long;
mod streamed;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thirtyfour::prelude::*;
use tokio::time::{Duration, sleep};

use crate::browser::BrowserPage;
use crate::http::served::Process;

/// Interval at which a condition is checked in the page.
const POLL: Duration = Duration::from_millis(50);
/// Maximum number of polls before a page is treated as stuck: one minute in total.
const MAX_POLLS: usize = 1_200;

/// The server and its environment.
#[derive(Debug, Args)]
pub struct Pages {
    /// The program `windlass`
    #[arg(long)]
    binary: PathBuf,
    /// URL of the model server, ending in `/v1`
    #[arg(long)]
    base_url: String,
    /// An empty folder for the server's store and settings
    #[arg(long)]
    folder: PathBuf,
}

/// Number of times that the first page is opened. The result is the shortest time, because
/// other load only makes a visit slower.
const VISITS: usize = 3;

/// Figures of the pages.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PageFigures {
    /// Time until the first page shows anything, in milliseconds.
    pub first_paint_ms: f64,
    /// Time from navigation to the newest answer of a conversation of 20,000 messages, in milliseconds.
    pub opened_ms: f64,
    /// Number of frames per second while that conversation is scrolled.
    pub frames_per_s: f64,
    /// Maximum number of the conversation's entries in the page at once.
    pub drawn: f64,
    /// Duration of the page's longest task while scrolling, in milliseconds.
    pub scroll_task_ms: f64,
    /// Number of a reply's fragments that reach the page per second.
    pub fragments_per_s: f64,
    /// Duration of the page's longest task during the reply, in milliseconds.
    pub stream_task_ms: f64,
    /// Number of redraws of the page per frame during the reply.
    pub drawn_per_frame: f64,
}

/// Starts the server and the browser, and measures.
///
/// # Errors
/// If the server or the browser cannot be started, or the page does not reach an expected state within a minute.
pub async fn measure(pages: &Pages) -> Result<PageFigures> {
    let mut figures = PageFigures::default();
    long::measure(pages, &mut figures).await?;
    streamed::measure(pages, &mut figures).await?;
    Ok(figures)
}

/// Opens a browser in which the administrator of a server is signed in.
async fn signed_in(process: &Process) -> Result<BrowserPage> {
    let page = BrowserPage::open().await?;
    page.driver.goto(process.link().await?).await?;
    page.driver.find(By::Tag("button")).await?.click().await?;
    until(&page, "return document.querySelector('[data-key=composer]') !== null").await?;
    Ok(page)
}

/// Opens the first page several times. Returns the shortest time to the first paint, in milliseconds.
async fn first_paint(page: &BrowserPage) -> Result<f64> {
    const PAINTED: &str = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
    let mut shortest = f64::INFINITY;
    for _ in 0..VISITS {
        page.driver.refresh().await?;
        let painted = until(page, PAINTED).await?;
        shortest = shortest.min(painted.as_f64().context("the time of a paint is not a number")?);
    }
    until(page, "return document.querySelector('[data-key=composer]') !== null").await?;
    Ok(shortest)
}

/// Waits until a script in the page returns a truthy value, and returns it.
async fn until(page: &BrowserPage, script: &str) -> Result<Value> {
    for _ in 0..MAX_POLLS {
        let found = page.driver.execute(script, vec![]).await?.json().clone();
        if !matches!(found, Value::Null | Value::Bool(false)) {
            return Ok(found);
        }
        sleep(POLL).await;
    }
    Err(anyhow::anyhow!("the page did not reach this state within a minute: `{script}`"))
}

/// Returns a number from a script's result.
fn number(found: &Value, name: &str) -> Result<f64> {
    found[name].as_f64().with_context(|| format!("the page returned no `{name}`: {found}"))
}

/// Returns the duration of the longest task in a script's result, in milliseconds.
fn longest(found: &Value) -> f64 {
    found["tasks"].as_array().into_iter().flatten().filter_map(Value::as_f64).fold(0.0, f64::max)
}
