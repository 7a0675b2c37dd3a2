//! The disk's time for a durable append, which is the lower limit for any engine.
//!
//! The measurement uses the folder of the stores, because a temporary folder may be in memory.

use std::fs::{File, remove_file};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use super::samples::median;
use crate::machine;

/// Number of appends: enough for a stable median, and less than a second on a slow disk.
const APPENDS: usize = 101;
const APPEND_BYTES: usize = 4096;

/// Returns the median time of an append of 4 KiB with its `fdatasync`, in milliseconds.
pub(super) fn sync_ms(folder: &Path) -> Result<f64> {
    let path = folder.join(format!("sync-{}", std::process::id()));
    let mut file = File::create(&path).with_context(|| format!("cannot write to {}", path.display()))?;
    let mut took_ms = Vec::new();
    for _ in 0..APPENDS {
        let start_ns = machine::monotonic_ns();
        file.write_all(&[b'x'; APPEND_BYTES])?;
        file.sync_data()?;
        took_ms.push((machine::monotonic_ns() - start_ns) as f64 / 1e6);
    }
    remove_file(&path)?;
    Ok(median(took_ms).unwrap_or_default())
}
