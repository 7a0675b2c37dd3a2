//! Streams of live updates of a thread or a run. Clients can disconnect and resume without loss.
//!
//! `feed.rs` produces the items, `frame.rs` encodes them, `live.rs` and `poll.rs` are the routes, and `place.rs`
//! limits the open streams. No stream drives a run or delays one. `connection/wire.rs` drops clients that stop
//! reading.

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

/// Header with the last position that a client has received.
const LAST_EVENT_ID: &str = "last-event-id";

pub fn routes() -> ApiRouter {
    ApiRouter::new().merge(live::routes()).merge(poll::routes())
}

/// Returns the position to start from: the position in the header, which a reconnecting client sends, or else the
/// position in the query. `head` is the thread's last event.
fn position(headers: &HeaderMap, after: Option<&str>, head: Seq) -> Result<Option<Position>, Problem> {
    let came_back = headers.get(LAST_EVENT_ID).map(|value| {
        value.to_str().map_err(|_| Problem::bad_request(format!("`{LAST_EVENT_ID}` is not valid text")))
    });
    let Some(text) = came_back.transpose()?.or(after) else { return Ok(None) };
    let position: Position = text.parse().map_err(|error: windlass::NoPosition| {
        Problem::bad_request(error.to_string()).hint("send the `id` of the last update that you received")
    })?;
    if position.seq > head {
        let what = format!("the thread ends at event {head}, but `{text}` is after it");
        return Err(Problem::invalid(what).hint("send the `id` of the last update that you received"));
    }
    Ok(Some(position))
}
