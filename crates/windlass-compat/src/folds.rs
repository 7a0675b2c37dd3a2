//! Caches folds of journals between requests, so that a request reads only the events since the previous request.
//!
//! A fold is a function of its journal, so evicting a fold loses nothing. The callers check access to the thread.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass::machine::{Event, Seq, ThreadId};
use windlass::port::journal::Recorded;
use windlass::{Engine, EngineError};

use crate::fill::{ROOM_BYTES, fill};

/// Number of events per read.
const PAGE: usize = 512;

/// Maximum size of the events in all cached folds in bytes, with their fetched texts. A fold is
/// at most about as large as its events.
const KEPT_MAX_BYTES: usize = 64 * 1024 * 1024;

/// A dialect's state, which is folded from a journal.
pub trait JournalFold: Clone + Default + Send {
    /// Applies the next event. The caller must fill in its offloaded texts first.
    fn apply(&mut self, seq: Seq, event: &Event);
}

/// Cached folds of the most recently read threads.
#[derive(Default)]
pub struct Folds<F> {
    /// The least recently used fold first.
    kept: Mutex<VecDeque<Kept<F>>>,
}

struct Kept<F> {
    thread: ThreadId,
    fold: F,
    /// The last applied event, as journaled.
    last: Option<Recorded>,
    /// Remaining number of bytes of texts that may be fetched.
    room: u64,
    /// Size of the events as JSON with the fetched texts, in bytes.
    size_bytes: usize,
}

impl<F: JournalFold> Folds<F> {
    /// Folds a thread up to its end.
    pub async fn read(&self, engine: &Engine, thread: &ThreadId) -> Result<F, EngineError> {
        let mut kept = self.take(thread);
        loop {
            // Read the last event again: it differs if the thread was deleted and created again under the same id.
            let after = kept.last.as_ref().map_or(Seq::default(), |last| Seq(last.seq.0.saturating_sub(1)));
            let mut page = engine.thread(thread).events(after, PAGE).await?;
            let is_end = page.len() < PAGE;
            if let Some(last) = &kept.last {
                if page.first() != Some(last) {
                    kept = Kept::new(thread);
                    continue;
                }
                page.remove(0);
            }
            kept.last = page.last().cloned().or(kept.last);
            for Recorded { seq, mut event } in page {
                fill(engine, &mut event, &mut kept.room).await;
                kept.size_bytes += serde_json::to_vec(&event).map_or(0, |json| json.len());
                kept.fold.apply(seq, &event);
            }
            if is_end {
                break;
            }
        }
        let fold = kept.fold.clone();
        self.keep(kept);
        Ok(fold)
    }

    /// Removes a thread's fold from the cache. A concurrent request folds from the beginning.
    fn take(&self, thread: &ThreadId) -> Kept<F> {
        let mut all = self.kept();
        let at = all.iter().position(|kept| kept.thread == *thread);
        at.and_then(|at| all.remove(at)).unwrap_or_else(|| Kept::new(thread))
    }

    fn keep(&self, kept: Kept<F>) {
        let mut all = self.kept();
        all.retain(|other| other.thread != kept.thread);
        all.push_back(kept);
        let mut size_bytes: usize = all.iter().map(|kept| kept.size_bytes).sum();
        while size_bytes > KEPT_MAX_BYTES
            && let Some(oldest) = all.pop_front()
        {
            size_bytes -= oldest.size_bytes;
        }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept<F>>> {
        // No code panics while it holds the lock.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: JournalFold> Kept<F> {
    fn new(thread: &ThreadId) -> Self {
        Self { thread: thread.clone(), fold: F::default(), last: None, room: ROOM_BYTES, size_bytes: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass::memory::MemoryStore;
    use windlass::testing::scripted::{Line, ScriptedModels};
    use windlass::{Task, clock::SystemClock};

    use super::*;

    /// Positions of the applied events.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Positions(Vec<(Seq, String)>);

    impl JournalFold for Positions {
        fn apply(&mut self, seq: Seq, event: &Event) {
            self.0.push((seq, serde_json::to_string(event).unwrap()));
        }
    }

    async fn engine() -> Engine {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
        let models = ScriptedModels::new(|_| Line::Say("hello".into()));
        let builder = windlass::builder().models(Arc::new(models));
        builder.ports(store.clone(), store.clone(), store).build().await.unwrap()
    }

    async fn say(engine: &Engine, text: &str) {
        let task = Task { thread: Some("t".into()), ..Task::new("test/scripted".into(), text) };
        engine.run_task(task).await.unwrap();
    }

    #[tokio::test]
    async fn a_kept_fold_equals_a_fold_from_the_beginning() {
        let (engine, folds, thread) = (engine().await, Folds::<Positions>::default(), ThreadId::from("t"));
        for text in ["one", "two", "three"] {
            say(&engine, text).await;
            let kept = folds.read(&engine, &thread).await.unwrap();
            let whole = Folds::default().read(&engine, &thread).await.unwrap();
            assert_eq!(kept, whole);
            let newest = engine.thread(&thread).events(Seq(0), 10_000).await.unwrap();
            assert_eq!(kept.0.len(), newest.len());
        }
        assert!(folds.kept().iter().all(|kept| kept.last.is_some()), "nothing is kept");
    }

    #[tokio::test]
    async fn a_thread_that_was_deleted_and_created_again_is_folded_again() {
        let (engine, folds, thread) = (engine().await, Folds::<Positions>::default(), ThreadId::from("t"));
        say(&engine, "one").await;
        let first = folds.read(&engine, &thread).await.unwrap();
        engine.thread(&thread).delete().await.unwrap();
        for _ in 0..2 {
            say(&engine, "other").await;
        }
        let second = folds.read(&engine, &thread).await.unwrap();
        assert!(second.0[0] != first.0[0] && second.0.len() > first.0.len(), "{second:?}");
        assert_eq!(second, Folds::default().read(&engine, &thread).await.unwrap());
    }
}
