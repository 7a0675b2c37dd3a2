//! What one run shows to the measurement while it goes on.
//!
//! Cheap enough to be charged to every program alike: an addition for each piece of text.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::machine;

/// The pieces of text of one run, counted.
#[derive(Debug, Default)]
pub struct RunProbe {
    chunks: AtomicU64,
    first_ns: AtomicU64,
}

impl RunProbe {
    /// A piece of text has reached the consumer.
    pub fn text(&self, text: &str) {
        if !text.is_empty() && self.chunks.fetch_add(1, Relaxed) == 0 {
            self.first_ns.store(machine::monotonic_ns(), Relaxed);
        }
    }

    /// How many pieces came.
    pub fn chunks(&self) -> u64 {
        self.chunks.load(Relaxed)
    }

    /// When the first came, by the monotonic clock.
    pub fn first_ns(&self) -> Option<u64> {
        Some(self.first_ns.load(Relaxed)).filter(|first_ns| *first_ns > 0)
    }
}
