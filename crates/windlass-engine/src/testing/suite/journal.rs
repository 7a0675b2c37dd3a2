//! Cases of threads, appends, ownership, snapshots and deletion.
//!
//! A rejected append leaves no trace, and a stale owner is always rejected.

use bytes::Bytes;
use windlass_machine::{BlobRef, Digest, InputId, Seq, ThreadId};

use super::sample::{batch, claimed, head, texts, view};
use super::subject::JournalSubject;
use crate::port::journal::{
    Accepted, AppendError, Batch, BatchId, Claim, Epoch, Head, InboxOutcome, StoreError, StoredSnapshot,
    ThreadStatus,
};

fn thread() -> ThreadId {
    ThreadId::from("thread-1")
}

pub(super) async fn a_new_thread_starts_empty(subject: JournalSubject) {
    let journal = subject.first;
    assert_eq!(journal.head(&thread()).await.unwrap(), None);
    assert_eq!(claimed(&*journal, &thread()).await, head(0, 1));
    assert_eq!(journal.head(&thread()).await.unwrap(), Some(head(0, 1)));
    assert_eq!(journal.read(&thread(), Seq(0), 10).await.unwrap(), vec![]);
    assert_eq!(journal.read(&"no such thread".into(), Seq(0), 10).await.unwrap(), vec![]);
}

pub(super) async fn events_come_back_in_order(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    assert_eq!(journal.append(batch(&thread(), start, &["a", "b"])).await.unwrap(), Seq(2));
    assert_eq!(journal.append(batch(&thread(), head(2, 1), &["c"])).await.unwrap(), Seq(3));
    assert_eq!(journal.head(&thread()).await.unwrap(), Some(head(3, 1)));
    assert_eq!(texts(&*journal, &thread(), 0, 10).await, ["a", "b", "c"]);
    assert_eq!(texts(&*subject.second, &thread(), 0, 10).await, ["a", "b", "c"]);
}

pub(super) async fn reading_pages(subject: JournalSubject) {
    let journal = subject.first;
    let other = ThreadId::from("thread-2");
    for id in [&thread(), &other] {
        let start = claimed(&*journal, id).await;
        journal.append(batch(id, start, &["a", "b", "c", "d", "e"])).await.unwrap();
    }
    assert_eq!(texts(&*journal, &thread(), 0, 2).await, ["a", "b"]);
    assert_eq!(texts(&*journal, &thread(), 2, 2).await, ["c", "d"]);
    assert_eq!(texts(&*journal, &thread(), 4, 2).await, ["e"]);
    assert_eq!(journal.read(&thread(), Seq(5), 2).await.unwrap(), vec![]);
    let last = journal.read(&thread(), Seq(4), 2).await.unwrap();
    assert_eq!(last.iter().map(|recorded| recorded.seq).collect::<Vec<_>>(), [Seq(5)]);
}

pub(super) async fn reading_back_pages(subject: JournalSubject) {
    let journal = &*subject.first;
    let thread = ThreadId::from("thread-1");
    let at = claimed(journal, &thread).await;
    journal.append(batch(&thread, at, &["a", "b", "c", "d", "e"])).await.unwrap();
    // Events of other threads are not returned.
    for other in ["thread-0", "thread-2"] {
        let at = claimed(journal, &other.into()).await;
        journal.append(batch(&other.into(), at, &["x", "y"])).await.unwrap();
    }
    let back = async |before, limit| {
        let events = journal.read_back(&thread, Seq(before), limit).await.unwrap();
        let seqs: Vec<u64> = events.iter().map(|recorded| recorded.seq.0).collect();
        let forward = journal.read(&thread, Seq(seqs.first().map_or(0, |seq| seq - 1)), seqs.len()).await;
        assert_eq!(events, forward.unwrap());
        seqs
    };
    for (before, limit, wanted) in [
        (u64::MAX, 2, vec![4, 5]),
        (4, 2, vec![2, 3]),
        (2, 2, vec![1]),
        (1, 2, vec![]),
        (0, 2, vec![]),
        (6, 5, vec![1, 2, 3, 4, 5]),
        (9, 3, vec![3, 4, 5]),
        (u64::MAX, 100, vec![1, 2, 3, 4, 5]),
        (u64::MAX, 0, vec![]),
    ] {
        assert_eq!(back(before, limit).await, wanted, "before {before}, {limit}");
    }
    assert_eq!(journal.read_back(&"nowhere".into(), Seq(u64::MAX), 5).await.unwrap(), []);
}

pub(super) async fn a_wrong_position_is_a_conflict(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    journal.append(batch(&thread(), start, &["a"])).await.unwrap();
    for expected in [0, 2] {
        let refused = journal.append(batch(&thread(), head(expected, 1), &["x"])).await.unwrap_err();
        assert!(matches!(refused, AppendError::Conflict { head: Seq(1) }), "{refused:?}");
    }
    assert_eq!(texts(&*journal, &thread(), 0, 10).await, ["a"]);
}

pub(super) async fn a_stale_epoch_is_fenced(subject: JournalSubject) {
    let journal = subject.first;
    let stale = claimed(&*journal, &thread()).await;
    let fresh = claimed(&*journal, &thread()).await;
    assert_eq!((stale.epoch, fresh.epoch), (Epoch(1), Epoch(2)));
    let refused = journal.append(batch(&thread(), stale, &["x"])).await.unwrap_err();
    assert!(matches!(refused, AppendError::Fenced { current: Epoch(2) }), "{refused:?}");
    journal.append(batch(&thread(), fresh, &["a"])).await.unwrap();
    assert_eq!(texts(&*journal, &thread(), 0, 10).await, ["a"]);
}

pub(super) async fn an_append_after_release_is_fenced(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    journal.release(&thread(), start.epoch).await.unwrap();
    let refused = journal.append(batch(&thread(), start, &["x"])).await.unwrap_err();
    assert!(matches!(refused, AppendError::Fenced { .. }), "{refused:?}");
    assert_eq!(journal.read(&thread(), Seq(0), 10).await.unwrap(), vec![]);
}

pub(super) async fn a_refused_append_leaves_nothing(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let mut refused = batch(&thread(), start, &["x"]);
    let bytes = Bytes::from_static(b"blob");
    let blob =
        BlobRef { digest: Digest::of(&bytes), media_type: "text/plain".to_owned(), size_bytes: 4, tokens: 1 };
    refused.blobs.push((blob, bytes));
    refused.consumed.push((
        InputId::from("not posted"),
        InboxOutcome::Accepted(Box::new(Accepted { seq: Seq(1), ..Accepted::default() })),
    ));
    refused.thread_view = view(ThreadStatus::Running);
    let error = journal.append(refused).await.unwrap_err();
    assert!(matches!(error, AppendError::Failed(StoreError::NotFound { .. })), "{error:?}");
    assert_eq!(journal.head(&thread()).await.unwrap(), Some(head(0, 1)));
    assert_eq!(journal.read(&thread(), Seq(0), 10).await.unwrap(), vec![]);
    let row = journal.thread(&thread()).await.unwrap().expect("the claimed thread");
    assert_eq!(row.view.status, ThreadStatus::Idle);
    assert_eq!(journal.append(batch(&thread(), start, &["a"])).await.unwrap(), Seq(1));
}

pub(super) async fn an_empty_batch_moves_only_the_batch_id(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let mut empty = batch(&thread(), start, &[]);
    empty.id = BatchId(u64::MAX);
    assert_eq!(journal.append(empty).await.unwrap(), Seq(0));
    let found = journal.head(&thread()).await.unwrap().expect("the thread");
    assert_eq!((found.seq, found.batch), (Seq(0), BatchId(u64::MAX)));
}

pub(super) async fn a_held_thread_is_not_taken(subject: JournalSubject) {
    let start = claimed(&*subject.first, &thread()).await;
    let refused = subject.second.claim(&thread()).await.unwrap();
    assert!(matches!(refused, Claim::Held { .. }), "{refused:?}");
    assert_eq!(subject.first.append(batch(&thread(), start, &["a"])).await.unwrap(), Seq(1));
    let foreign = subject.second.append(batch(&thread(), head(1, 1), &["x"])).await.unwrap_err();
    assert!(matches!(foreign, AppendError::Fenced { .. }), "{foreign:?}");
}

pub(super) async fn a_thread_is_made_by_its_first_append(subject: JournalSubject) {
    let first = Batch { is_new: true, ..batch(&thread(), head(0, 1), &["a"]) };
    assert_eq!(subject.first.append(first.clone()).await.unwrap(), Seq(1));
    assert!(matches!(subject.second.claim(&thread()).await.unwrap(), Claim::Held { .. }));
    assert_eq!(subject.first.append(batch(&thread(), head(1, 1), &["b"])).await.unwrap(), Seq(2));
    // An append that claims a new thread cannot take over an existing thread.
    for other in [subject.first, subject.second] {
        let refused = other.append(first.clone()).await.unwrap_err();
        assert!(matches!(refused, AppendError::Fenced { current: Epoch(1) }), "{refused:?}");
        assert_eq!(texts(&*other, &thread(), 0, 10).await, ["a", "b"]);
    }
}

pub(super) async fn a_released_thread_is_taken(subject: JournalSubject) {
    let start = claimed(&*subject.first, &thread()).await;
    // A release with an older epoch, or by another node, has no effect.
    subject.first.release(&thread(), Epoch(0)).await.unwrap();
    subject.second.release(&thread(), start.epoch).await.unwrap();
    assert!(matches!(subject.second.claim(&thread()).await.unwrap(), Claim::Held { .. }));
    subject.first.release(&thread(), start.epoch).await.unwrap();
    assert_eq!(claimed(&*subject.second, &thread()).await.epoch, Epoch(2));
}

pub(super) async fn a_dead_nodes_thread_is_taken_at_once(subject: JournalSubject) {
    let start = claimed(&*subject.first, &thread()).await;
    subject.first.append(batch(&thread(), start, &["a"])).await.unwrap();
    drop(subject.first);
    (subject.end_first)();
    assert_eq!(claimed(&*subject.second, &thread()).await, head(1, 2));
    subject.second.append(batch(&thread(), head(1, 2), &["b"])).await.unwrap();
    assert_eq!(texts(&*subject.second, &thread(), 0, 10).await, ["a", "b"]);
}

pub(super) async fn the_newest_snapshot_stays(subject: JournalSubject) {
    let journal = subject.first;
    let snapshot =
        |seq: u64| StoredSnapshot { fold: 3, seq: Seq(seq), bytes: Bytes::from(format!("state {seq}")) };
    let missing = journal.put_snapshot(&thread(), Epoch(1), snapshot(1)).await.unwrap_err();
    assert!(matches!(missing, StoreError::NotFound { .. }), "{missing:?}");
    let Head { epoch, .. } = claimed(&*journal, &thread()).await;
    assert_eq!(journal.snapshot(&thread()).await.unwrap(), None);
    for seq in [1, 2] {
        journal.put_snapshot(&thread(), epoch, snapshot(seq)).await.unwrap();
        assert_eq!(journal.snapshot(&thread()).await.unwrap(), Some(snapshot(seq)));
    }
}

pub(super) async fn a_late_snapshot_of_a_deleted_thread_is_ignored(subject: JournalSubject) {
    let journal = subject.first;
    let late = StoredSnapshot { fold: 3, seq: Seq(1), bytes: Bytes::from("state of the deleted thread") };
    let before = claimed(&*journal, &thread()).await;
    journal.append(batch(&thread(), before, &["a"])).await.unwrap();
    journal.delete(&thread()).await.unwrap();
    let after = claimed(&*journal, &thread()).await;
    journal.append(batch(&thread(), after, &["b"])).await.unwrap();
    journal.put_snapshot(&thread(), before.epoch, late.clone()).await.unwrap();
    assert_eq!(journal.snapshot(&thread()).await.unwrap(), None);
    journal.put_snapshot(&thread(), after.epoch, late.clone()).await.unwrap();
    assert_eq!(journal.snapshot(&thread()).await.unwrap(), Some(late));
}

pub(super) async fn an_active_thread_is_not_deleted(subject: JournalSubject) {
    let journal = subject.first;
    let mut at = claimed(&*journal, &thread()).await;
    for status in [ThreadStatus::Running, ThreadStatus::Waiting] {
        let mut active = batch(&thread(), at, &["a"]);
        active.thread_view = view(status);
        at.seq = journal.append(active).await.unwrap();
        let refused = journal.delete(&thread()).await.unwrap_err();
        assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    }
    assert_eq!(texts(&*journal, &thread(), 0, 10).await, ["a", "a"]);
}

pub(super) async fn a_deleted_thread_is_gone_and_its_owner_fenced(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    journal.append(batch(&thread(), start, &["a"])).await.unwrap();
    journal.delete(&thread()).await.unwrap();
    assert_eq!(journal.head(&thread()).await.unwrap(), None);
    assert_eq!(journal.thread(&thread()).await.unwrap(), None);
    assert_eq!(journal.read(&thread(), Seq(0), 10).await.unwrap(), vec![]);
    let twice = journal.delete(&thread()).await.unwrap_err();
    assert!(matches!(twice, StoreError::NotFound { .. }), "{twice:?}");
    let late = journal.append(batch(&thread(), head(1, 1), &["x"])).await.unwrap_err();
    assert!(matches!(late, AppendError::Failed(StoreError::NotFound { .. })), "{late:?}");
    // A new thread with the same id starts empty, but its epoch continues, so that the old owner stays fenced.
    let again = claimed(&*journal, &thread()).await;
    assert!(again.epoch > start.epoch, "{again:?}");
    assert_eq!(again.seq, Seq(0));
    let late = journal.append(batch(&thread(), start, &["x"])).await.unwrap_err();
    assert!(matches!(late, AppendError::Fenced { .. }), "{late:?}");
}

pub(super) async fn the_check_passes(subject: JournalSubject) {
    let said = subject.first.check().await.unwrap();
    assert!(!said.is_empty());
}
