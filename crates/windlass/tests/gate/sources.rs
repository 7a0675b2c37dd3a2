//! The sources of a thread's policy, and how often they are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use windlass::machine::{AutoRun, EffectClass};
use windlass::memory::MemoryStore;
use windlass::port::journal::StoreError;
use windlass::port::records::{Record, RecordChange, RecordError, Records};
use windlass::{GrantDraft, Whose};

use super::{Held, plan, store, task_in};
use crate::drive::{memory, registry};

/// Records that count the listings of an owner's entries.
struct Counted {
    inner: MemoryStore,
    lists: AtomicUsize,
}

#[async_trait]
impl Records for Counted {
    async fn get(&self, kind: &str, key: &str) -> Result<Option<Record>, StoreError> {
        Records::get(&self.inner, kind, key).await
    }

    async fn list(
        &self,
        kind: &str,
        owner: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.lists.fetch_add(usize::from(owner.is_some()), Ordering::Relaxed);
        self.inner.list(kind, owner, after, limit).await
    }

    async fn apply(&self, changes: Vec<RecordChange>) -> Result<Vec<Option<u64>>, RecordError> {
        self.inner.apply(changes).await
    }

    async fn changes(&self, kinds: &[&str]) -> Result<Vec<u64>, StoreError> {
        self.inner.changes(kinds).await
    }

    async fn changes_of(&self, owned: &[(&str, &str)]) -> Result<Vec<u64>, StoreError> {
        self.inner.changes_of(owned).await
    }
}

#[tokio::test]
async fn a_thread_reads_its_policy_again_for_changes_that_concern_it_alone() {
    let store = store();
    let records = Arc::new(Counted { inner: store.clone(), lists: AtomicUsize::new(0) });
    let held = Held::default();
    let tools = registry([held.tool("wait", EffectClass::Pure)]);
    let steps: &[&[(&str, &str)]] = &[&[("wait", "a")], &[("wait", "b")], &[("wait", "c")], &[("wait", "d")]];
    let ports = Arc::new(store);
    let builder = memory(&plan(steps), tools).ports(ports.clone(), ports, records.clone());
    let engine = builder.auto_run(AutoRun::Ask).build().await.unwrap();
    let started = engine.start(task_in("t", "go")).await.unwrap();
    let lists = || records.lists.load(Ordering::Relaxed);

    held.begun.notified().await;
    let first = lists();
    // Grant and auto-run of another user and of another thread.
    engine.policy().grant(draft("bob")).await.unwrap();
    for whose in [Whose::User("bob".into()), Whose::Thread("u".into())] {
        engine.policy().set_auto_run(&whose, Some(AutoRun::Allowlist)).await.unwrap();
    }
    held.go.notify_one();
    held.begun.notified().await;
    assert_eq!((first, lists()), (2, 2));

    engine.policy().grant(draft("local")).await.unwrap();
    held.go.notify_one();
    held.begun.notified().await;
    assert_eq!(lists(), 4);

    engine.policy().set_auto_run(&Whose::Thread("t".into()), Some(AutoRun::Allowlist)).await.unwrap();
    held.go.notify_one();
    held.begun.notified().await;
    assert_eq!(lists(), 6);
    held.go.notify_one();
    engine.run(&started.run).wait().await.unwrap();
}

fn draft(user: &str) -> GrantDraft {
    let (tool, user, by) = ("wait".into(), user.into(), "ann".into());
    GrantDraft { user, tool, arguments: Vec::new(), count: None, expires_at: None, by }
}
