//! The list of conversations in the sidebar, grouped by time.

use serde_json::json;

use super::otherwise;
use super::page::Page;
use crate::http::Server;

/// A conversation of each time group, newest first. Midnight is in the reader's time zone.
const OF_EACH_TIME: &str = "if (!url.includes('/threads?')) return real();
    const midnight = new Date().setHours(0, 0, 0, 0);
    const hour = 3600000;
    const times = [['now', Date.now()], ['in the first second of today', midnight], ['late last night', midnight - hour], ['three days ago', midnight - 72 * hour],
        ['four days ago', midnight - 96 * hour], ['twenty days ago', midnight - 480 * hour], ['long ago', Date.parse('2020-01-15T12:00')]];
    const row = ([title, at], number) => ({ id: `thr_${number}`, title, status: 'idle', interrupts: 0, head: 1, owner: 'local', created_at: at, updated_at: at });
    return Response.json({ data: times.map(row), next_cursor: null })";

// rows: SK-U11
#[tokio::test]
async fn conversations_stand_under_the_day_and_month_of_their_last_word() {
    let server = Server::start(&[]);
    let page = Page::signed_in(&server).await;
    page.sees("Your conversations appear here").await;
    otherwise(&page, OF_EACH_TIME).await;
    page.run("return module('state/threads.js').then((threads) => threads.load())", vec![]).await;
    page.sees("long ago").await;
    let shown = "return all('.history h2, .history .title').map((one) => (one.tagName === 'H2' ? `${one.textContent}:` : one.textContent))";
    let list = [
        "Today:",
        "now",
        "in the first second of today",
        "Yesterday:",
        "late last night",
        "Previous 7 days:",
        "three days ago",
        "four days ago",
        "Previous 30 days:",
        "twenty days ago",
        "January 2020:",
        "long ago",
    ];
    page.shows(shown, vec![], json!(list)).await;
    page.ends().await;
}
