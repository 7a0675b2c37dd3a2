//! Bounded in-memory caches of blobs and tool catalogues.
//!
//! On a miss, the caller reads the store.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use windlass_machine::{Digest, ToolSpec};

/// Maximum size of all cached blobs, in bytes.
const CACHE_MAX_BYTES: usize = 32 * 1024 * 1024;

/// Recently used blobs, so that a step does not read the previous step's blobs from the store.
#[derive(Default)]
pub(crate) struct BlobCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    blobs: HashMap<Digest, Bytes>,
    order: VecDeque<Digest>,
    bytes: usize,
}

impl BlobCache {
    fn lock(&self) -> MutexGuard<'_, Cached> {
        // No code panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<Bytes> {
        self.lock().blobs.get(digest).cloned()
    }

    pub(crate) fn put(&self, digest: Digest, bytes: Bytes) {
        let mut cached = self.lock();
        if bytes.len() > CACHE_MAX_BYTES / 4 || cached.blobs.contains_key(&digest) {
            return;
        }
        cached.bytes += bytes.len();
        cached.blobs.insert(digest, bytes);
        cached.order.push_back(digest);
        while cached.bytes > CACHE_MAX_BYTES {
            let Some(oldest) = cached.order.pop_front() else { break };
            if let Some(gone) = cached.blobs.remove(&oldest) {
                cached.bytes -= gone.len();
            }
        }
    }
}

/// Maximum number of cached catalogues. Few are in use by driven runs, and each takes some 100 KiB.
const CATALOGUES_MAX: usize = 64;

/// The most recently used tool catalogues.
#[derive(Default)]
pub(crate) struct Catalogues(Mutex<VecDeque<(Digest, Arc<[ToolSpec]>)>>);

impl Catalogues {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Digest, Arc<[ToolSpec]>)>> {
        // No code panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<Arc<[ToolSpec]>> {
        let mut kept = self.lock();
        let at = kept.iter().position(|(known, _)| known == digest)?;
        let found = kept.remove(at)?;
        let specs = found.1.clone();
        kept.push_back(found);
        Some(specs)
    }

    pub(super) fn put(&self, digest: Digest, specs: Arc<[ToolSpec]>) {
        let mut kept = self.lock();
        kept.retain(|(known, _)| *known != digest);
        kept.push_back((digest, specs));
        while kept.len() > CATALOGUES_MAX {
            kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogues_that_were_used_long_ago_are_forgotten() {
        let kept = Catalogues::default();
        let digest = |nth: usize| Digest::of(&nth.to_le_bytes());
        for nth in 0..=CATALOGUES_MAX {
            kept.put(digest(nth), Arc::from([]));
            assert!(kept.get(&digest(0)).is_some(), "what is used stays");
        }
        assert!(kept.get(&digest(1)).is_none() && kept.get(&digest(2)).is_some());
        kept.put(digest(2), Arc::from([]));
        assert_eq!(kept.lock().len(), CATALOGUES_MAX);
    }
}
