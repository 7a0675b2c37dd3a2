//! Deletes obsolete records periodically: used-up and expired grants, and auto-run choices of deleted threads.
//!
//! The time of the deletion has no effect: an obsolete grant allows no calls before its deletion either.

use std::sync::Arc;

use windlass_machine::{Grant, ThreadId, Timestamp};

use super::service::{AUTO_RUN, GRANT, all_records, thread_of_auto_run};
use crate::drive::catalog::ToolCatalog;
use crate::drive::contents::Contents;
use crate::port::clock::Clock;
use crate::port::journal::{Journal, StoreError};
use crate::port::records::{Expect, Record, RecordChange, RecordError, Records};

/// Interval of the cleanup in milliseconds.
const PRUNE_EVERY_MS: u64 = 3_600_000;

/// Milliseconds for which a used-up grant, or a choice for a missing thread, is kept.
/// The call that used the grant may still wait and needs the grant to start; after this
/// time the gate asks again. A choice may be made before its thread starts.
const KEPT_MS: u64 = 86_400_000;

/// Deletes obsolete records.
pub(crate) struct Pruner {
    journal: Arc<dyn Journal>,
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    contents: Arc<Contents>,
    catalog: Arc<ToolCatalog>,
}

impl Pruner {
    pub(crate) fn new(
        journal: &Arc<dyn Journal>,
        records: &Arc<dyn Records>,
        clock: &Arc<dyn Clock>,
        contents: &Arc<Contents>,
        catalog: &Arc<ToolCatalog>,
    ) -> Self {
        Self {
            journal: journal.clone(),
            records: records.clone(),
            clock: clock.clone(),
            contents: contents.clone(),
            catalog: catalog.clone(),
        }
    }

    /// Deletes obsolete records, unless the last deletion was less than an hour ago.
    pub(in crate::drive) async fn prune_now_and_then(&self, pruned_ms: &mut Option<u64>) {
        let now_ms = self.clock.monotonic_ms();
        if pruned_ms.is_some_and(|at| now_ms.saturating_sub(at) < PRUNE_EVERY_MS) {
            return;
        }
        *pruned_ms = Some(now_ms);
        if let Err(error) = self.prune().await {
            tracing::warn!(%error, "records that count for nothing could not be deleted");
        }
    }

    async fn prune(&self) -> Result<(), StoreError> {
        self.contents.collect().await?;
        self.catalog.prune().await?;
        let now = self.clock.now();
        for record in all_records(&*self.records, GRANT, None).await? {
            if counts_for_nothing(&record, now) {
                self.forget(&record).await?;
            }
        }
        for record in all_records(&*self.records, AUTO_RUN, None).await? {
            if let Some(thread) = thread_of_auto_run(&record.key).map(ThreadId::from)
                && now.since(record.updated_at) >= KEPT_MS
                && self.journal.head(&thread).await?.is_none()
            {
                self.forget(&record).await?;
            }
        }
        Ok(())
    }

    /// Deletes a record unless it has changed since it was read.
    async fn forget(&self, record: &Record) -> Result<(), StoreError> {
        let delete = RecordChange::delete(&record.kind, &record.key, Expect::Version(record.version));
        match self.records.apply(vec![delete]).await {
            Ok(_) | Err(RecordError::Conflict { .. }) => Ok(()),
            Err(RecordError::Store(error)) => Err(error),
        }
    }
}

fn counts_for_nothing(record: &Record, now: Timestamp) -> bool {
    // A record that this build cannot decode may be from a newer build.
    let Ok(grant) = serde_json::from_value::<Grant>(record.value.clone()) else { return false };
    let is_expired = grant.expires_at.is_some_and(|expires_at| expires_at <= now);
    is_expired || grant.remaining == Some(0) && now.since(record.updated_at) >= KEPT_MS
}
