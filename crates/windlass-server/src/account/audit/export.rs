//! The whole audit log of a workspace as lines of JSON, some hundred entries at a time, up to where it ended when the
//! export began.

use windlass::port::journal::StoreError;

use super::verify::Trailer;
use super::{GENESIS, Head};
use crate::account::Accounts;

/// Entries read at a time.
const CHUNK: u64 = 500;

/// An export under way.
#[derive(Debug)]
pub struct Export {
    head: Head,
    written: u64,
    ended: bool,
}

impl Accounts {
    /// Begins an export.
    pub async fn audit_export(&self, workspace: &str) -> Result<Export, StoreError> {
        let empty = || Head { workspace: workspace.to_owned(), seq: 0, hash: GENESIS.to_owned() };
        let head = self.audit_head(workspace).await?.unwrap_or_else(empty);
        Ok(Export { head, written: 0, ended: false })
    }

    /// The next lines; `None` after the last one, which says where the chain ends.
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
                // Entries are gone. The export ends all the same, and whoever checks it sees so.
                None => *written = head.seq,
            }
        } else {
            // Strings and numbers, which are always JSON.
            lines = serde_json::to_string(&Trailer { head: head.clone() }).unwrap_or_default() + "\n";
            *ended = true;
        }
        Ok(Some(lines))
    }
}
