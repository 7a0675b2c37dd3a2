//! Concurrency limits per user, so that one user cannot occupy all of a shared resource.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limited number of slots for each user.
#[derive(Clone, Debug)]
pub struct Places {
    each: usize,
    users: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
}

/// A slot of a user; released on drop.
#[derive(Debug)]
pub struct Place {
    permit: Option<OwnedSemaphorePermit>,
    user: String,
    places: Places,
}

impl Places {
    /// Creates slots, `each` per user; 0 means no limit.
    pub fn new(each: usize) -> Self {
        Self { each, users: Arc::default() }
    }

    pub async fn take(&self, user: &str) -> Place {
        let permit = match self.of(user) {
            // Invariant: the semaphores are never closed.
            Some(semaphore) => semaphore.acquire_owned().await.ok(),
            None => None,
        };
        self.place(user, permit)
    }

    /// Takes a slot. Returns `None` if the user occupies the maximum number of slots.
    pub fn try_take(&self, user: &str) -> Option<Place> {
        let permit = match self.of(user) {
            Some(semaphore) => Some(semaphore.try_acquire_owned().ok()?),
            None => None,
        };
        Some(self.place(user, permit))
    }

    fn of(&self, user: &str) -> Option<Arc<Semaphore>> {
        if self.each == 0 {
            return None;
        }
        let mut users = self.users();
        Some(users.entry(user.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.each))).clone())
    }

    fn place(&self, user: &str, permit: Option<OwnedSemaphorePermit>) -> Place {
        Place { permit, user: user.to_owned(), places: self.clone() }
    }

    fn users(&self) -> MutexGuard<'_, HashMap<String, Arc<Semaphore>>> {
        // Invariant: each change of the map is a single operation, so a poisoned lock guards a consistent map.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut users = self.places.users();
        // The map has the only reference: no request of this user has or awaits a slot.
        if users.get(&self.user).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            users.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn each_user_has_so_many_and_is_forgotten_afterwards() {
        let places = Places::new(2);
        let taken = [places.try_take("ann").unwrap(), places.take("ann").await];
        assert!(places.try_take("ann").is_none());
        let mut waits = Box::pin(places.take("ann"));
        assert!(waits.as_mut().now_or_never().is_none());
        let bob = places.try_take("bob").unwrap();
        drop(taken);
        let third = waits.await;
        drop((third, bob));
        assert!(places.users().is_empty());
    }

    #[tokio::test]
    async fn none_named_is_any_number() {
        let places = Places::new(0);
        let taken: Vec<_> = (0..1_000).map(|_| places.try_take("ann").unwrap()).collect();
        assert_eq!((taken.len(), places.users().len()), (1_000, 0));
    }
}
