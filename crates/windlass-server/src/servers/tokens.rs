//! What sign-ins at tool servers leave behind, sealed in the store's records: tokens, registered clients, and sign-ins
//! that have begun. Every process on the store sees the same.
//!
//! The values are the library's and are not looked into; only the vault of the store opens them.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass::machine::Digest;
use windlass::mcp::{TokenLock, TokenStore};
use windlass::port::clock::Clock;
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, Record, RecordChange, RecordError, Records};

use crate::vault::Vault;

/// The kind of the records, whose key is the value's name and whose owner is what begun sign-ins are counted by.
const SECRET: &str = "mcp_secret";
/// The kind of the records that say which person has begun a sign-in: the key is that of the sign-in itself, the owner
/// the person. One that a run's call has begun has none.
const FLOW: &str = "mcp_flow";
/// Whose the values are that stay.
const KEPT: &str = "kept";

/// How long a sign-in may take: whoever signs in may have to find a second device.
const SIGN_IN_MS: u64 = 3_600_000;
/// Sign-ins at one server that may be open: each call that finds nobody signed in begins one.
const OPEN_MAX: usize = 200;
/// Begun sign-ins of one person that are remembered: beyond it the oldest counts no more.
const FLOWS_MAX: usize = 50;
/// Records that are looked through and deleted at a time.
const BATCH: usize = 500;

/// How long a process waits for another one's refresh, and how often it looks.
const LOCK_WITHIN_MS: u64 = 60_000;
const LOCK_LOOK_MS: u64 = 20;

/// The sealed values of a store.
pub struct SealedTokens {
    clock: Arc<dyn Clock>,
    records: Arc<dyn Records>,
    vault: Vault,
    folder: PathBuf,
}

impl SealedTokens {
    /// Values in these records, sealed by the vault of the store in a folder.
    pub fn new(clock: Arc<dyn Clock>, records: Arc<dyn Records>, vault: Vault, folder: &Path) -> Self {
        Self { clock, records, vault, folder: folder.to_owned() }
    }

    /// Whether a sign-in at a server has begun under this state, and has not ended.
    pub async fn has_begun(&self, server: &str, state: &str) -> bool {
        matches!(self.load(&begun(server, state)).await, Ok(Some(_)))
    }

    /// The person who has begun a sign-in; `None` where a run's call has.
    pub async fn begun_by(&self, server: &str, state: &str) -> Result<Option<String>, StoreError> {
        let flow = self.records.get(FLOW, &begun(server, state)).await?;
        Ok(flow.map(|flow| flow.owner))
    }

    /// Remembers that a person has begun a sign-in. Of too many the oldest goes, and with it what could end it.
    pub async fn begin(&self, server: &str, state: &str, by: &str) -> Result<(), RecordError> {
        let mut open = self.records.list(FLOW, Some(by), None, FLOWS_MAX * 2).await?;
        open.sort_by_key(|record| record.updated_at);
        let surplus = (open.len() + 1).saturating_sub(FLOWS_MAX);
        for (index, record) in open.iter().enumerate() {
            if index < surplus || self.is_over(record) {
                self.used_up(&record.key).await?;
            }
        }
        self.records.put(FLOW, &begun(server, state), by, true.into(), Expect::Any).await.map(drop)
    }

    /// Has a sign-in count no more.
    pub async fn end(&self, server: &str, state: &str) -> Result<(), RecordError> {
        self.used_up(&begun(server, state)).await
    }

    /// Together: a sign-in that nobody is known to have begun may be ended by more people.
    async fn used_up(&self, key: &str) -> Result<(), RecordError> {
        let kinds = [SECRET, FLOW].map(|kind| RecordChange::delete(kind, key, Expect::Any));
        self.records.apply(kinds.to_vec()).await.map(drop)
    }

    /// Forgets everything that belongs to a server.
    pub async fn forget(&self, server: &str) -> Result<(), RecordError> {
        let below = format!("mcp/{server}/");
        for kind in [SECRET, FLOW] {
            loop {
                let found = self.records.list(kind, None, Some(&below), BATCH).await?;
                let its = found.iter().take_while(|record| record.key.starts_with(&below));
                let changes: Vec<_> =
                    its.map(|record| RecordChange::delete(kind, &record.key, Expect::Any)).collect();
                let is_last = changes.len() < BATCH;
                if !changes.is_empty() {
                    self.records.apply(changes).await?;
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Makes room for a sign-in: those whose time is over go, and of too many the oldest.
    async fn make_room(&self, owner: &str) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        let mut open =
            self.records.list(SECRET, Some(owner), None, OPEN_MAX * 2).await.map_err(|e| failed(&e))?;
        open.sort_by_key(|record| record.updated_at);
        let surplus = (open.len() + 1).saturating_sub(OPEN_MAX);
        for (index, record) in open.iter().enumerate() {
            if index < surplus || self.is_over(record) {
                self.records.delete(SECRET, &record.key, Expect::Any).await.map_err(|e| failed(&e))?;
            }
        }
        Ok(())
    }

    fn is_over(&self, record: &Record) -> bool {
        record.owner != KEPT && self.clock.now().0.saturating_sub(record.updated_at.0) > SIGN_IN_MS
    }
}

/// The name of a begun sign-in, as the library has it.
fn begun(server: &str, state: &str) -> String {
    format!("mcp/{server}/sign-in/{state}")
}

/// Whose a value is: begun sign-ins are the server's, so that they can be counted.
fn owner(name: &str) -> &str {
    name.split_once("/sign-in/").map_or(KEPT, |(server, _)| server)
}

#[async_trait]
impl TokenStore for SealedTokens {
    async fn load(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let record = self.records.get(SECRET, name).await.map_err(|error| error.to_string())?;
        let Some(record) = record.filter(|record| !self.is_over(record)) else { return Ok(None) };
        let sealed = record.value.as_str().unwrap_or_default();
        let opened = self.vault.unseal(name, sealed).map_err(|closed| closed.to_string())?;
        Ok(Some(opened.expose().as_bytes().to_vec()))
    }

    async fn save(&self, name: &str, value: Vec<u8>) -> Result<(), String> {
        let text = String::from_utf8(value).map_err(|_| format!("`{name}` is no text"))?;
        let owner = owner(name);
        if owner != KEPT {
            self.make_room(owner).await?;
        }
        let sealed = Value::String(self.vault.seal(name, &text));
        let put = self.records.put(SECRET, name, owner, sealed, Expect::Any).await;
        put.map(drop).map_err(|error| error.to_string())
    }

    async fn remove(&self, name: &str) -> Result<(), String> {
        self.records.delete(SECRET, name, Expect::Any).await.map_err(|error| error.to_string())
    }

    async fn lock(&self, name: &str) -> Result<Option<TokenLock>, String> {
        let digest = Digest::of(name.as_bytes()).to_string();
        let path = self.folder.join(format!("refresh-{}.lock", &digest[..16]));
        let failed = |error: std::io::Error| format!("`{}` cannot be locked: {error}", path.display());
        let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
        let until = self.clock.monotonic_ms() + LOCK_WITHIN_MS;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(TokenLock::holding(file))),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) if self.clock.monotonic_ms() >= until => {
                    return Err(format!("another process has refreshed `{name}` for {LOCK_WITHIN_MS} ms"));
                }
                Err(TryLockError::WouldBlock) => self.clock.sleep_ms(LOCK_LOOK_MS).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass::clock::ManualClock;
    use windlass::machine::Timestamp;
    use windlass::memory::MemoryStore;

    use super::*;

    struct World {
        clock: Arc<ManualClock>,
        records: Arc<MemoryStore>,
        folder: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
            let records = Arc::new(MemoryStore::new(clock.clone()));
            Self { clock, records, folder: tempfile::tempdir().unwrap() }
        }

        /// The tokens as one more process sees them.
        fn process(&self) -> SealedTokens {
            let vault = Vault::open(self.folder.path()).unwrap();
            SealedTokens::new(self.clock.clone(), self.records.clone(), vault, self.folder.path())
        }
    }

    #[tokio::test]
    async fn a_token_is_sealed_and_the_same_for_every_process() {
        let world = World::new();
        let (one, other) = (world.process(), world.process());
        let name = "mcp/github/tokens";
        one.save(name, b"{\"access_token\":\"SENTINEL\"}".to_vec()).await.unwrap();
        assert_eq!(other.load(name).await.unwrap().unwrap(), b"{\"access_token\":\"SENTINEL\"}");
        let kept = world.records.get(SECRET, name).await.unwrap().unwrap();
        assert!(!kept.value.to_string().contains("SENTINEL"));
        // Sealed for its name: it opens under no other.
        let moved = "mcp/evil/tokens";
        world.records.put(SECRET, moved, KEPT, kept.value, Expect::Any).await.unwrap();
        assert!(other.load(moved).await.unwrap_err().contains("cannot be opened"));
        other.remove(name).await.unwrap();
        assert_eq!(one.load(name).await.unwrap(), None);
    }

    #[tokio::test]
    async fn one_process_refreshes_at_a_time() {
        let world = World::new();
        let (one, other) = (world.process(), world.process());
        let held = one.lock("mcp/a/tokens").await.unwrap();
        assert!(other.lock("mcp/b/tokens").await.unwrap().is_some(), "another server's is another lock");
        let mut waits = std::pin::pin!(other.lock("mcp/a/tokens"));
        tokio::select! {
            biased;
            _ = &mut waits => panic!("two hold it"),
            () = tokio::task::yield_now() => {}
        }
        drop(held);
        let (taken, ()) = tokio::join!(waits, async { world.clock.advance_ms(LOCK_LOOK_MS) });
        assert!(taken.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_sign_in_that_nobody_ends_goes_and_others_stay_within_bounds() {
        let world = World::new();
        let tokens = world.process();
        tokens.save("mcp/a/tokens", b"{}".to_vec()).await.unwrap();
        for n in 0..OPEN_MAX + 5 {
            world.clock.advance_ms(1);
            tokens.save(&begun("a", &format!("s{n}")), b"{}".to_vec()).await.unwrap();
        }
        assert!(!tokens.has_begun("a", "s0").await && tokens.has_begun("a", "s204").await);
        let open = world.records.list(SECRET, Some("mcp/a"), None, 1_000).await.unwrap();
        assert_eq!(open.len(), OPEN_MAX);
        world.clock.advance_ms(SIGN_IN_MS + 1);
        assert!(!tokens.has_begun("a", "s204").await);
        tokens.save(&begun("a", "new"), b"{}".to_vec()).await.unwrap();
        let open = world.records.list(SECRET, Some("mcp/a"), None, 1_000).await.unwrap();
        assert_eq!((open.len(), tokens.load("mcp/a/tokens").await.unwrap().is_some()), (1, true));
    }

    #[tokio::test]
    async fn the_oldest_sign_in_of_too_many_ends_and_is_nobody_elses() {
        let world = World::new();
        let tokens = world.process();
        for n in 0..=FLOWS_MAX {
            world.clock.advance_ms(1);
            let state = format!("s{n}");
            tokens.save(&begun("a", &state), b"{}".to_vec()).await.unwrap();
            tokens.begin("a", &state, "ann").await.unwrap();
        }
        // Without both, whoever may sign in at all might end it.
        assert!(!tokens.has_begun("a", "s0").await);
        assert_eq!(tokens.begun_by("a", "s0").await.unwrap(), None);
        assert!(tokens.has_begun("a", "s1").await);
        assert_eq!(tokens.begun_by("a", "s1").await.unwrap().as_deref(), Some("ann"));
        tokens.end("a", "s1").await.unwrap();
        assert!(!tokens.has_begun("a", "s1").await);
    }
}
