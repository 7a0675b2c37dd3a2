//! Reads entries of the audit log.

use windlass::port::journal::StoreError;

use super::{AUDIT, Entry, HEAD, Head, key};
use crate::account::Accounts;
use crate::account::record::read;

impl Accounts {
    /// Returns the head of a workspace's chain, or `None` if the chain has no entry.
    pub async fn audit_head(&self, workspace: &str) -> Result<Option<Head>, StoreError> {
        self.records.get(HEAD, workspace).await?.map(read).transpose()
    }

    /// Returns up to `limit` entries after a position, oldest first.
    pub async fn audit_after(
        &self,
        workspace: &str,
        seq: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let after = key(workspace, seq);
        let records = self.records.list(AUDIT, Some(workspace), Some(&after), limit).await?;
        records.into_iter().map(read).collect()
    }

    /// Returns up to `limit` entries before a position, or the last entries, newest first.
    pub async fn audit_before(
        &self,
        workspace: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let end = match before {
            Some(before) => before,
            None => self.audit_head(workspace).await?.map_or(0, |head| head.seq) + 1,
        };
        let first = end.saturating_sub(limit as u64).max(1);
        let wanted = end.saturating_sub(first) as usize;
        if wanted == 0 {
            return Ok(Vec::new());
        }
        let mut entries = self.audit_after(workspace, first - 1, wanted).await?;
        entries.reverse();
        Ok(entries)
    }
}
