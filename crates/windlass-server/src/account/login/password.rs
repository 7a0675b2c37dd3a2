//! Password hashing with Argon2id on blocking threads, with limited concurrency. A check without a stored hash takes
//! the same time as one with a hash.

use std::num::NonZero;
use std::ops::RangeInclusive;
use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;
use windlass::port::journal::StoreError;

use crate::account::error::AccountError;

/// Allowed length of a password, in bytes.
pub const LENGTH: RangeInclusive<usize> = 8..=1024;

// Argon2id with 19 MiB, two passes and one lane: OWASP's password storage cheat sheet, 2025.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// Maximum number of concurrent hashes. Each uses a core and 19 MiB.
const AT_ONCE: usize = 4;
/// Maximum number of waiting sign-ins: some seconds of work. Further sign-ins are rejected with a retry delay.
const WAITING: usize = 64;

/// Bounded password hashing.
#[derive(Debug)]
pub struct Hashing {
    running: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Default for Hashing {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self { running: Arc::new(Semaphore::new(cores.min(AT_ONCE))), waiting: Semaphore::new(WAITING) }
    }
}

impl Hashing {
    /// Hashes a password. The result contains the salt and the parameters.
    pub async fn hash(&self, password: String) -> Result<String, AccountError> {
        let hashed = self.work(move || hashed(&password)).await?;
        hashed.map_err(|error| {
            StoreError::Refused { why: format!("the password cannot be hashed: {error}") }.into()
        })
    }

    /// Verifies a password. Without a hash, returns false after the same time, so that the response time does not
    /// reveal whether an account exists.
    pub async fn verify(&self, password: String, kept: Option<String>) -> Result<bool, AccountError> {
        self.work(move || {
            let kept = kept.as_deref().and_then(|kept| PasswordHash::new(kept).ok());
            match kept {
                Some(kept) => argon2().verify_password(password.as_bytes(), &kept).is_ok(),
                None => {
                    let _ = std::hint::black_box(hashed(&password));
                    false
                }
            }
        })
        .await
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AccountError> {
        let _waits = self.waiting.try_acquire().map_err(|_| AccountError::Busy)?;
        // Invariant: the semaphore is never closed.
        let turn = self.running.clone().acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            // Release the permit inside the task, because a client disconnect does not stop the work.
            drop(turn);
            done
        });
        done.await.map_err(|error| {
            StoreError::Unavailable { why: format!("a password could not be checked: {error}") }.into()
        })
    }
}

/// Returns an error for a password that is too short or too long.
pub fn check(password: &str) -> Result<(), AccountError> {
    if LENGTH.contains(&password.len()) {
        return Ok(());
    }
    let (least, most, found) = (LENGTH.start(), LENGTH.end(), password.len());
    Err(AccountError::Invalid(format!("the password has {found} bytes; it must have {least} to {most}")))
}

fn argon2() -> Argon2<'static> {
    // Invariant: the constants are within the algorithm's limits.
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).unwrap_or_default();
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn hashed(password: &str) -> Result<String, argon2::password_hash::Error> {
    argon2().hash_password(password.as_bytes()).map(|hash| hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hash_has_its_parameters_and_knows_its_password() {
        let hashing = Hashing::default();
        let hash = hashing.hash("correct horse".into()).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(hash, hashing.hash("correct horse".into()).await.unwrap());
        assert!(hashing.verify("correct horse".into(), Some(hash.clone())).await.unwrap());
        assert!(!hashing.verify("correct hors".into(), Some(hash)).await.unwrap());
        assert!(!hashing.verify("correct horse".into(), None).await.unwrap());
    }

    #[tokio::test]
    async fn a_flood_is_refused_and_not_queued() {
        let hashing = Arc::new(Hashing::default());
        let tries = (0..WAITING + 20).map(|_| hashing.verify("some password".into(), None));
        let ended = futures::future::join_all(tries).await;
        let refused = ended.iter().filter(|end| matches!(end, Err(AccountError::Busy))).count();
        assert_eq!((refused, ended.len() - refused), (20, WAITING));
    }

    #[test]
    fn lengths_count_in_bytes() {
        assert!(check("1234567").is_err());
        assert!(check("12345678").is_ok());
        assert!(check(&"ä".repeat(512)).is_ok());
        assert!(check(&"ä".repeat(513)).is_err());
    }
}
