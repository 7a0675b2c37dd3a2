//! Cases of claims with leases, which end unless they are renewed.
//!
//! The cases apply to stores that cannot detect the end of a process.

use windlass_machine::{Seq, ThreadId};

use super::list::put;
use super::sample::{batch, claimed, head, texts, view};
use super::subject::JournalSubject;
use crate::port::journal::{AppendError, Batch, Claim, Epoch, Journal, ThreadStatus};

fn thread() -> ThreadId {
    ThreadId::from("thread-1")
}

async fn is_held(journal: &dyn Journal) -> bool {
    matches!(journal.claim(&thread()).await.unwrap(), Claim::Held { .. })
}

pub(super) async fn a_claim_ends_unless_it_is_renewed(subject: JournalSubject) {
    let lease_ms = subject.first.lease_ms().expect("claims with a lease");
    let start = claimed(&*subject.first, &thread()).await;
    for _ in 0..3 {
        subject.clock.advance_ms(lease_ms - 1);
        assert!(is_held(&*subject.second).await);
        assert_eq!(subject.first.renew(&[(thread(), start.epoch)]).await.unwrap(), []);
    }
    subject.clock.advance_ms(lease_ms - 1);
    assert!(is_held(&*subject.second).await);
    // The holder may continue until another node claims the thread.
    subject.clock.advance_ms(1);
    assert_eq!(subject.first.append(batch(&thread(), start, &["a"])).await.unwrap(), Seq(1));
    assert!(!is_held(&*subject.second).await);
    let refused = subject.first.append(batch(&thread(), head(1, start.epoch.0), &["x"])).await.unwrap_err();
    assert!(matches!(refused, AppendError::Fenced { .. }), "{refused:?}");
    assert_eq!(texts(&*subject.second, &thread(), 0, 10).await, ["a"]);
}

pub(super) async fn a_lapsed_claim_is_due(subject: JournalSubject) {
    let lease_ms = subject.first.lease_ms().expect("claims with a lease");
    put(&*subject.first, "thread-1", view(ThreadStatus::Running)).await;
    claimed(&*subject.first, &thread()).await;
    subject.clock.advance_ms(lease_ms - 1);
    assert_eq!(subject.second.claim_due(&[], 10).await.unwrap(), []);
    subject.clock.advance_ms(1);
    let due = subject.second.claim_due(&[], 10).await.unwrap();
    assert!(matches!(&due[..], [due] if due.thread == thread()), "{due:?}");
}

pub(super) async fn a_claim_that_was_lost_is_not_renewed(subject: JournalSubject) {
    let lease_ms = subject.first.lease_ms().expect("claims with a lease");
    let (lost, kept) = (thread(), ThreadId::from("kept"));
    let stale = claimed(&*subject.first, &lost).await;
    let held = claimed(&*subject.first, &kept).await;
    subject.clock.advance_ms(lease_ms);
    let taken = claimed(&*subject.second, &lost).await;
    let claims = [(lost.clone(), stale.epoch), (kept, held.epoch), ("nowhere".into(), Epoch(1))];
    let mut gone = subject.first.renew(&claims).await.unwrap();
    gone.sort();
    assert_eq!(gone, ["nowhere".into(), lost.clone()]);
    // A renewal by the former holder does not affect the new holder's claim.
    assert_eq!(subject.second.renew(&[(lost.clone(), taken.epoch)]).await.unwrap(), []);
    subject.second.release(&lost, taken.epoch).await.unwrap();
    assert_eq!(subject.second.renew(&[(lost.clone(), taken.epoch)]).await.unwrap(), [lost]);
}

pub(super) async fn a_first_append_holds_its_thread_for_a_lease(subject: JournalSubject) {
    let lease_ms = subject.first.lease_ms().expect("claims with a lease");
    let first = Batch { is_new: true, ..batch(&thread(), head(0, 1), &["a"]) };
    subject.first.append(first).await.unwrap();
    subject.clock.advance_ms(lease_ms - 1);
    assert!(is_held(&*subject.second).await);
    subject.clock.advance_ms(1);
    assert!(!is_held(&*subject.second).await);
}
