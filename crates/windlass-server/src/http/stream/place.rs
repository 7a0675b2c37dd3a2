//! Limits the number of open streams of each user.
//!
//! A handler takes a place before it has any effect, so a rejected request starts, answers and cancels nothing.

use http::StatusCode;

use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::problem::Problem;
use crate::http::state::limiter::places::Place;
use crate::http::state::metrics::OpenStream;

/// The place of one open stream, in any format; released on drop.
pub struct StreamPlace {
    _place: Place,
    _open: OpenStream,
}

impl StreamPlace {
    /// Takes a place. Returns 429 if the caller has the maximum number of open streams.
    pub fn take(app: &Shared, caller: &Caller) -> Result<Self, Problem> {
        let place = app.limits.limiter.streams.try_take(caller.user().as_str()).ok_or_else(|| {
            let detail = format!("`{}` has as many open streams as one may have", caller.user());
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", detail)
                .hint("close some, or have an administrator raise `streams_per_user`")
                .retry_after(5)
        })?;
        Ok(Self { _place: place, _open: app.monitoring.metrics.stream() })
    }
}
