//! Cases of [`Journal::claim_due`]: threads that need a driver are found and claimed atomically.
//!
//! Waiting and sleeping threads, and threads held by a live node, are skipped.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_machine::{Input, Principal, Seq, ThreadId};

use super::list::put;
use super::sample::{batch, claimed, texts, view};
use super::subject::JournalSubject;
use crate::port::clock::Clock;
use crate::port::journal::{AppendError, Claim, Due, Journal, ThreadStatus, ThreadView};

/// Claims the due threads other than `except`, releases the claims, and returns the sorted thread ids.
async fn due(journal: &dyn Journal, except: &[&str], limit: usize) -> Vec<String> {
    let except: Vec<ThreadId> = except.iter().map(|id| (*id).into()).collect();
    let claimed = journal.claim_due(&except, limit).await.unwrap();
    for Due { thread, head, .. } in &claimed {
        journal.release(thread, head.epoch).await.unwrap();
    }
    let mut names: Vec<String> = claimed.iter().map(|due| due.thread.to_string()).collect();
    names.sort();
    names
}

pub(super) async fn due_threads_are_claimed(subject: JournalSubject) {
    let journal = &*subject.first;
    put(journal, "idle", view(ThreadStatus::Idle)).await;
    put(journal, "running", view(ThreadStatus::Running)).await;
    put(journal, "waiting", view(ThreadStatus::Waiting)).await;
    let timed = |ms| {
        let deadline = Some(subject.clock.now().plus_ms(ms));
        ThreadView { deadline, ..view(ThreadStatus::Waiting) }
    };
    put(journal, "timed", timed(1_000)).await;
    put(journal, "later", timed(1_001)).await;
    put(journal, "posted", view(ThreadStatus::Waiting)).await;
    let title = Input::Title { title: "t".to_owned(), by: Principal::from("suite") };
    journal.post(&"posted".into(), &"i".into(), &title).await.unwrap();
    assert_eq!(due(journal, &[], 10).await, ["posted", "running"]);
    subject.clock.advance_ms(1_000);
    assert_eq!(due(journal, &[], 10).await, ["posted", "running", "timed"]);
    assert_eq!(due(journal, &[], 2).await.len(), 2);
    assert_eq!(due(journal, &[], 0).await, [""; 0]);
    assert_eq!(due(journal, &["posted", "running"], 2).await, ["timed"]);
    // The threads below have an `updated_at` in the future, as if the clock was set back after the update: their
    // deadlines would be reached too late.
    let ahead = |ms| ThreadView { updated_at: subject.clock.now().plus_ms(ms), ..timed(ms + 1_000) };
    put(journal, "a little ahead", ahead(30_000)).await;
    put(journal, "far ahead", ahead(180_000)).await;
    put(journal, "far ahead and idle", ThreadView { deadline: None, ..ahead(180_000) }).await;
    assert_eq!(due(journal, &[], 10).await, ["far ahead", "posted", "running", "timed"]);
}

pub(super) async fn a_thread_that_is_held_is_not_due(subject: JournalSubject) {
    let running = ThreadId::from("running");
    put(&*subject.first, "running", view(ThreadStatus::Running)).await;
    let head = claimed(&*subject.first, &running).await;
    for journal in [&*subject.first, &*subject.second] {
        assert_eq!(due(journal, &[], 10).await, [""; 0]);
        assert_eq!(journal.holder(&running).await.unwrap().as_deref(), Some(subject.first.node()));
    }
    subject.first.release(&running, head.epoch).await.unwrap();
    assert_eq!(due(&*subject.second, &[], 10).await, ["running"]);
    assert_eq!(subject.second.holder(&"no such thread".into()).await.unwrap(), None);
}

pub(super) async fn what_a_dead_node_held_is_due(subject: JournalSubject) {
    put(&*subject.first, "running", view(ThreadStatus::Running)).await;
    claimed(&*subject.first, &"running".into()).await;
    assert_eq!(due(&*subject.second, &[], 10).await, [""; 0]);
    drop(subject.first);
    (subject.end_first)();
    assert_eq!(due(&*subject.second, &[], 10).await, ["running"]);
}

pub(super) async fn a_due_thread_is_given_to_one_node(subject: JournalSubject) {
    const THREADS: usize = 40;
    for number in 0..THREADS {
        put(&*subject.first, &format!("t{number:02}"), view(ThreadStatus::Running)).await;
    }
    let take = |journal: Arc<dyn Journal>| async move {
        let mut taken = Vec::new();
        loop {
            let due = journal.claim_due(&[], 3).await.unwrap();
            if due.is_empty() {
                return taken;
            }
            taken.extend(due.into_iter().map(|due| due.thread));
            tokio::task::yield_now().await;
        }
    };
    let nodes = [subject.first, subject.second];
    let tasks = nodes.iter().cycle().take(4).map(|node| tokio::spawn(take(Arc::clone(node))));
    let mut taken = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        taken.extend(task.await.unwrap());
    }
    assert_eq!(taken.len(), THREADS);
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), THREADS);
}

pub(super) async fn a_claim_of_a_due_thread_raises_its_epoch(subject: JournalSubject) {
    let running = ThreadId::from("running");
    let stale = claimed(&*subject.first, &running).await;
    let mut first = batch(&running, stale, &["a"]);
    first.thread_view = view(ThreadStatus::Running);
    subject.first.append(first).await.unwrap();
    subject.first.release(&running, stale.epoch).await.unwrap();
    let claimed = subject.second.claim_due(&[], 10).await.unwrap();
    let [Due { thread, head, inbox: false }] = &claimed[..] else { panic!("{claimed:?}") };
    assert_eq!((thread, head.seq, head.epoch.0), (&running, Seq(1), stale.epoch.0 + 1));
    assert!(matches!(subject.first.claim(&running).await.unwrap(), Claim::Held { .. }));
    let late = batch(&running, crate::port::journal::Head { seq: Seq(1), ..stale }, &["x"]);
    let refused = subject.first.append(late).await.unwrap_err();
    assert!(matches!(refused, AppendError::Fenced { .. }), "{refused:?}");
    subject.second.append(batch(&running, *head, &["b"])).await.unwrap();
    assert_eq!(texts(&*subject.second, &running, 0, 10).await, ["a", "b"]);
}
