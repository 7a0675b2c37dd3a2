//! Exports the audit log of a workspace as JSON lines, in chunks, up to its end at the start of the export.

use windlass::port::journal::StoreError;

use super::verify::Trailer;
use super::{GENESIS, Head};
use crate::account::Accounts;

/// Number of entries that one read of the store returns.
const CHUNK: u64 = 500;

/// An export in progress.
#[derive(Debug)]
pub struct Export {
    head: Head,
    written: u64,
    ended: bool,
}

impl Accounts {
    /// Starts an export.
    pub async fn audit_export(&self, workspace: &str) -> Result<Export, StoreError> {
        let empty = || Head { workspace: workspace.to_owned(), seq: 0, hash: GENESIS.to_owned() };
        let head = self.audit_head(workspace).await?.unwrap_or_else(empty);
        Ok(Export { head, written: 0, ended: false })
    }

    /// Returns the next lines, or `None` after the last line. The last line contains the head of the chain.
    pub async fn audit_chunk(&self, export: &mut Export) -> Result<Option<String>, StoreError> {
        let Export { head, written, ended } = export;
        if *ended {
            return Ok(None);
        }
        let mut lines = String::new();
        if *written < head.seq {
            let wanted = CHUNK.min(head.seq - *written) as usize;
            let entries = self.audit_after(&head.workspace, *written, wanted).await?;
            for entry in &entries {
                lines.push_str(&entry.line());
                lines.push('\n');
            }
            match entries.last() {
                Some(last) => *written = last.seq,
                // Entries are missing. The export ends anyway; the verification reports the missing entries.
                None => *written = head.seq,
            }
        } else {
            // Invariant: the trailer has only strings and numbers, so it always serializes.
            lines = serde_json::to_string(&Trailer { head: head.clone() }).unwrap_or_default() + "\n";
            *ended = true;
        }
        Ok(Some(lines))
    }
}
