//! What bounds the bodies of uploads.

use std::time::Duration;

use http::StatusCode;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use super::limiter::places::{Place, Places};
use crate::home::Home;
use crate::http::problem::Problem;

/// What keeps uploads within the server's memory and their owners' room.
#[derive(Debug)]
pub struct Uploading {
    /// Bodies that are held at a time.
    places: Semaphore,
    /// Of those, the ones of each user.
    users: Places,
    /// Files are kept one at a time, so that two of them do not both find the last room.
    pub(in crate::http) turn: Mutex<()>,
}

/// Uploads whose bodies are held at a time: so many times the largest file is what they take of the memory.
const AT_ONCE: usize = 8;
/// Concurrent uploads of one user. A user with a slow connection occupies no more places than these.
const OF_ONE_USER: usize = 2;
/// How long an upload waits for its place.
const PLACE_WITHIN: Duration = Duration::from_secs(30);

impl Default for Uploading {
    fn default() -> Self {
        let (places, users) = (Semaphore::new(AT_ONCE), Places::new(OF_ONE_USER));
        Self { places, users, turn: Mutex::default() }
    }
}

impl Uploading {
    /// Waits for room to hold a body of a user's.
    pub(in crate::http) async fn place(&self, home: &Home) -> Result<(Place, SemaphorePermit<'_>), Problem> {
        let user = home.recorded();
        // The user's first: one that waits for it takes no other's.
        let both = async { (self.users.take(&user).await, self.places.acquire().await) };
        let found = tokio::time::timeout(PLACE_WITHIN, both).await.ok();
        // The semaphore is never closed.
        found.and_then(|(own, shared)| Some((own, shared.ok()?))).ok_or_else(|| {
            let detail = "too many files are being uploaded";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry_after(5)
        })
    }
}
