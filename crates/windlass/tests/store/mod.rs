//! The store: suites on every implementation, and what only processes and disks can show.

mod suites;

use std::sync::Arc;

use windlass::adapter::clock::ManualClock;
use windlass_machine::Timestamp;

/// A clock at a fixed time. Every node needs ids of its own, hence the seed.
fn clock(seed: u64) -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp(1_700_000_000_000), seed))
}
