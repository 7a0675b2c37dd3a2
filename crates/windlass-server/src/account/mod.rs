//! Accounts of users and programs: identities, permissions and credentials.
//!
//! Accounts are records in the engine's store. This module does not know HTTP.

pub mod audit;
mod cache;
pub mod error;
mod identity;
pub mod key;
pub mod link;
pub mod login;
#[cfg(feature = "openid")]
pub mod oidc;
pub mod people;
mod record;
pub mod secret;
pub mod sessions;
pub mod share;

use std::sync::Arc;

use windlass::port::clock::Clock;
use windlass::port::journal::StoreError;
use windlass::port::records::{Record, RecordChange, RecordError, Records};

use self::audit::Note;
use self::audit::log::AuditLog;
use self::cache::RecordCache;
pub use self::identity::{Credential, Identity, Registration, Role, Scope, Unknown};
use self::record::PAGE;
use crate::account::key::ApiKey;
use crate::account::login::attempts::Attempts;
use crate::account::login::failed::{Failures, Whose};
use crate::account::login::password::Hashing;
use crate::account::people::user::People;
use crate::account::sessions::session::Session;
use crate::account::sessions::token::SignerCache;
use crate::vault::Vault;

#[derive(Clone)]
pub struct Accounts {
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    people: Arc<People>,
    log: Arc<AuditLog>,
    memory: Arc<Memory>,
}

/// Process-local state: caches and counters.
struct Memory {
    signer: SignerCache,
    vault: Vault,
    sessions: RecordCache<Session>,
    keys: RecordCache<ApiKey>,
    hashing: Hashing,
    attempts: Attempts,
    failures: Failures,
    #[cfg(feature = "openid")]
    providers: oidc::ProviderCache,
}

impl Accounts {
    /// Creates the accounts with the given records. The engine's policy looks up roles in `people`. The `vault` seals
    /// the signing key.
    pub fn new(records: Arc<dyn Records>, clock: Arc<dyn Clock>, people: Arc<People>, vault: Vault) -> Self {
        let memory = Memory {
            signer: SignerCache::default(),
            vault,
            sessions: RecordCache::default(),
            keys: RecordCache::default(),
            hashing: Hashing::default(),
            attempts: Attempts::default(),
            failures: Failures::default(),
            #[cfg(feature = "openid")]
            providers: oidc::ProviderCache::default(),
        };
        let log = Arc::new(AuditLog::new(records.clone(), clock.clone()));
        Self { records, clock, people, log, memory: Arc::new(memory) }
    }

    /// Writes an audit entry without a change.
    pub async fn record(&self, note: Note) -> Result<(), RecordError> {
        self.log.record(note).await
    }

    /// Applies changes and writes the audit entry in one transaction. Returns the versions of the changes.
    pub async fn commit(
        &self,
        changes: Vec<RecordChange>,
        note: Note,
    ) -> Result<Vec<Option<u64>>, RecordError> {
        self.log.commit(changes, note).await
    }

    /// Writes a failed sign-in into the audit log, subject to a rate limit.
    async fn record_failure(&self, whose: Whose, note: Note) -> Result<(), RecordError> {
        match self.memory.failures.admit(whose, self.clock.monotonic_ms()) {
            Some(0) => self.record(note).await,
            Some(untold) => self.record(note.with("unrecorded_before", untold)).await,
            None => Ok(()),
        }
    }

    /// Reads all records of a kind, of one owner or of all. Use it only for kinds with a bounded number of records.
    async fn every(&self, kind: &str, owner: Option<&str>) -> Result<Vec<Record>, StoreError> {
        let mut all: Vec<Record> = Vec::new();
        loop {
            let after = all.last().map(|record| record.key.clone());
            let page = self.records.list(kind, owner, after.as_deref(), PAGE).await?;
            let last = page.len() < PAGE;
            all.extend(page);
            if last {
                return Ok(all);
            }
        }
    }
}
