//! Limits for upload bodies.

use std::time::Duration;

use http::StatusCode;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use super::limiter::places::{Place, Places};
use crate::home::Home;
use crate::http::problem::Problem;

/// Limits on uploads that protect the server's memory and enforce their owners' quotas.
#[derive(Debug)]
pub struct Uploading {
    /// Slots for bodies in memory.
    places: Semaphore,
    /// Slots for bodies in memory, per user.
    users: Places,
    /// Serializes writes, so that two uploads cannot both use the same remaining quota.
    pub(in crate::http) turn: Mutex<()>,
}

/// Maximum number of upload bodies in memory. All bodies together use at most this number times the maximum file size.
const AT_ONCE: usize = 8;
/// Maximum number of concurrent uploads of one user, so that a user with slow connections cannot occupy all slots.
const OF_ONE_USER: usize = 2;
/// Maximum time that an upload waits for a slot.
const PLACE_WITHIN: Duration = Duration::from_secs(30);

impl Default for Uploading {
    fn default() -> Self {
        let (places, users) = (Semaphore::new(AT_ONCE), Places::new(OF_ONE_USER));
        Self { places, users, turn: Mutex::default() }
    }
}

impl Uploading {
    /// Waits for a slot for an upload body of a user.
    pub(in crate::http) async fn place(&self, home: &Home) -> Result<(Place, SemaphorePermit<'_>), Problem> {
        let user = home.recorded();
        // Take the user's own slot first: a request that waits for its user's slot occupies no shared slot.
        let both = async { (self.users.take(&user).await, self.places.acquire().await) };
        let found = tokio::time::timeout(PLACE_WITHIN, both).await.ok();
        // Invariant: the semaphore is never closed.
        found.and_then(|(own, shared)| Some((own, shared.ok()?))).ok_or_else(|| {
            let detail = "too many files are being uploaded";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry_after(5)
        })
    }
}
