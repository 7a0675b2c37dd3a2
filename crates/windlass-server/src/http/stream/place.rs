//! Limits the number of open streams of each user.
//!
//! A handler takes a slot before it has any effect, so a rejected request has no effect.

use http::StatusCode;

use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::problem::Problem;
use crate::http::state::limiter::places::Place;
use crate::http::state::metrics::OpenStream;

/// The slot of one open stream, in any format; released on drop.
pub struct StreamPlace {
    _place: Place,
    _open: OpenStream,
}

impl StreamPlace {
    /// Takes a slot. Returns 429 if the caller has the maximum number of open streams.
    pub fn take(app: &Shared, caller: &Caller) -> Result<Self, Problem> {
        let place = app.limits.limiter.streams.try_take(caller.user().as_str()).ok_or_else(|| {
            let detail = format!("`{}` has reached the limit of open streams", caller.user());
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", detail)
                .hint("close a stream, or ask an administrator to raise `streams_per_user`")
                .retry_after(5)
        })?;
        Ok(Self { _place: place, _open: app.monitoring.metrics.stream() })
    }
}
