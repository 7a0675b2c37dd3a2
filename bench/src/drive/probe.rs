//! The measurement's view of a run in progress.
//!
//! The overhead is small and the same for every measured program: one addition per text fragment.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::machine;

/// Counts the text fragments of one run.
#[derive(Debug, Default)]
pub struct RunProbe {
    chunks: AtomicU64,
    first_ns: AtomicU64,
}

impl RunProbe {
    /// Records a fragment that has reached the consumer.
    pub fn text(&self, text: &str) {
        if !text.is_empty() && self.chunks.fetch_add(1, Relaxed) == 0 {
            self.first_ns.store(machine::monotonic_ns(), Relaxed);
        }
    }

    /// Returns the number of fragments.
    pub fn chunks(&self) -> u64 {
        self.chunks.load(Relaxed)
    }

    /// Returns the time of the first fragment, by the monotonic clock.
    pub fn first_ns(&self) -> Option<u64> {
        Some(self.first_ns.load(Relaxed)).filter(|first_ns| *first_ns > 0)
    }
}
