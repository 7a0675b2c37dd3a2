//! Data of sign-ins at MCP servers, as sealed records: tokens, registered clients, and sign-ins in progress. All
//! processes that use the store share the data.
//!
//! The values are opaque to this module; the library defines them. Only the store's vault can open them.

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

/// Record kind of values. The key is the value's name. The owner groups sign-ins in progress by server, for counting.
const SECRET: &str = "mcp_secret";
/// Record kind that stores which user started a sign-in. The key is the key of the sign-in, the owner is the user. A
/// sign-in that a run's call started has no such record.
const FLOW: &str = "mcp_flow";
/// Owner of permanent values.
const KEPT: &str = "kept";

/// Maximum duration of a sign-in, in milliseconds: an hour, because the user may have to find a second device.
const SIGN_IN_MS: u64 = 3_600_000;
/// Maximum number of sign-ins in progress at one server. Each call that requires a sign-in starts one.
const OPEN_MAX: usize = 200;
/// Maximum number of sign-ins in progress of one user. Above the maximum, the oldest sign-in is invalidated.
const FLOWS_MAX: usize = 50;
/// Number of records read and deleted per batch.
const BATCH: usize = 500;

/// Maximum wait for a token refresh by another process, and the interval between checks, in milliseconds.
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
    /// Creates the access to the values in these records, sealed by the vault of the store in `folder`.
    pub fn new(clock: Arc<dyn Clock>, records: Arc<dyn Records>, vault: Vault, folder: &Path) -> Self {
        Self { clock, records, vault, folder: folder.to_owned() }
    }

    /// Returns whether a sign-in at a server with this state is in progress.
    pub async fn has_begun(&self, server: &str, state: &str) -> bool {
        matches!(self.load(&begun(server, state)).await, Ok(Some(_)))
    }

    /// Returns the user who started a sign-in, or `None` if a run's call started it.
    pub async fn begun_by(&self, server: &str, state: &str) -> Result<Option<String>, StoreError> {
        let flow = self.records.get(FLOW, &begun(server, state)).await?;
        Ok(flow.map(|flow| flow.owner))
    }

    /// Records that a user has started a sign-in. Above the maximum, the user's oldest sign-in is deleted.
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

    /// Invalidates a sign-in.
    pub async fn end(&self, server: &str, state: &str) -> Result<(), RecordError> {
        self.used_up(&begun(server, state)).await
    }

    /// Deletes both records in one transaction: any operator could finish a sign-in without a recorded user.
    async fn used_up(&self, key: &str) -> Result<(), RecordError> {
        let kinds = [SECRET, FLOW].map(|kind| RecordChange::delete(kind, key, Expect::Any));
        self.records.apply(kinds.to_vec()).await.map(drop)
    }

    /// Deletes all data of a server.
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

    /// Deletes expired sign-ins, and the oldest sign-in if the maximum is reached.
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

/// Returns the name of a sign-in in progress, as the library defines it.
fn begun(server: &str, state: &str) -> String {
    format!("mcp/{server}/sign-in/{state}")
}

/// Returns the owner of a value's record. Sign-ins in progress belong to the server, so that they can be counted.
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
        let text = String::from_utf8(value).map_err(|_| format!("`{name}` is not valid text"))?;
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
                    return Err(format!(
                        "another process has been refreshing `{name}` for {LOCK_WITHIN_MS} ms"
                    ));
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

        /// Opens the tokens in another process.
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
        // A value is sealed for its name, and cannot be opened under another name.
        let moved = "mcp/evil/tokens";
        world.records.put(SECRET, moved, KEPT, kept.value, Expect::Any).await.unwrap();
        assert!(other.load(moved).await.unwrap_err().contains("cannot be decrypted"));
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
    async fn unfinished_sign_ins_expire_and_their_number_is_bounded() {
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
    async fn the_oldest_sign_in_is_evicted_with_its_owner_record() {
        let world = World::new();
        let tokens = world.process();
        for n in 0..=FLOWS_MAX {
            world.clock.advance_ms(1);
            let state = format!("s{n}");
            tokens.save(&begun("a", &state), b"{}".to_vec()).await.unwrap();
            tokens.begin("a", &state, "ann").await.unwrap();
        }
        // If the sign-in remained without the record of its user, any operator could finish it.
        assert!(!tokens.has_begun("a", "s0").await);
        assert_eq!(tokens.begun_by("a", "s0").await.unwrap(), None);
        assert!(tokens.has_begun("a", "s1").await);
        assert_eq!(tokens.begun_by("a", "s1").await.unwrap().as_deref(), Some("ann"));
        tokens.end("a", "s1").await.unwrap();
        assert!(!tokens.has_begun("a", "s1").await);
    }
}
