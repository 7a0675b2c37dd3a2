//! Streams: what happens in a thread or a run, as it happens, to clients that come, go and come back.
//!
//! `feed.rs` says what a client is to be told, `frame.rs` writes it, `live.rs` and `poll.rs` are the routes, `place.rs`
//! counts the open streams. None of them drives a run, or holds one up. A client that does not read is dropped where its
//! socket is (`wire.rs`).

pub mod feed;
pub mod frame;
pub mod json;
mod live;
pub mod place;
mod poll;

use http::HeaderMap;
use windlass::Position;
use windlass::machine::Seq;

use super::api::ApiRouter;
use super::problem::Problem;

/// The header by which a client says what it has.
const LAST_EVENT_ID: &str = "last-event-id";

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().merge(live::routes()).merge(poll::routes())
}

/// Where a client stands: what the header says, which a client sends by itself when it comes back, or else what it
/// asked for at first. `head` is the thread's last event.
fn position(headers: &HeaderMap, after: Option<&str>, head: Seq) -> Result<Option<Position>, Problem> {
    let came_back = headers.get(LAST_EVENT_ID).map(|value| {
        value.to_str().map_err(|_| Problem::bad_request(format!("`{LAST_EVENT_ID}` is no text")))
    });
    let Some(text) = came_back.transpose()?.or(after) else { return Ok(None) };
    let position: Position = text.parse().map_err(|error: windlass::NoPosition| {
        Problem::bad_request(error.to_string()).hint("send the `id` of the last update that you have")
    })?;
    if position.seq > head {
        let what = format!("the thread ends at event {head}, and `{text}` is after it");
        return Err(Problem::invalid(what).hint("send the `id` of the last update that you have"));
    }
    Ok(Some(position))
}
