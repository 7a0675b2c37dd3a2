//! Cases of budgets: no append uses more than the available amount, and a retried append books once.
//!
//! A rejected reservation leaves no trace of its batch.

use std::sync::Arc;

use windlass_machine::{RunStatus, Seq, ThreadId, Timestamp, Totals};

use super::sample::{batch, claimed, draws, head, settle, texts};
use super::subject::JournalSubject;
use crate::port::budget::{AMOUNT_MAX, BUDGETS_MAX, DAY_KEPT_MS, NAME_MAX_BYTES, Reserve, Settle};
use crate::port::journal::{AppendError, Batch, BatchId, Head, Journal, RunView, StoreError};

fn thread() -> ThreadId {
    ThreadId::from("thread-1")
}

/// A batch without events that settles and reserves; its id is arbitrary.
fn booking(thread: &ThreadId, at: Head, settle: Vec<Settle>, reserve: Vec<Reserve>) -> Batch {
    Batch { settle, reserve, id: BatchId(7), ..batch(thread, at, &[]) }
}

/// Returns used and reserved amounts of each budget.
async fn standings(journal: &dyn Journal) -> Vec<(String, u64, u64)> {
    let rows = journal.budgets("").await.unwrap();
    rows.into_iter().map(|row| (row.budget, row.used, row.reserved)).collect()
}

fn standing(budget: &str, used: u64, reserved: u64) -> (String, u64, u64) {
    (budget.to_owned(), used, reserved)
}

/// Returns budget, cap, taken and wanted from a limit error.
fn limit(error: AppendError) -> (String, u64, u64, u64) {
    match error {
        AppendError::Limit { budget, cap, taken, wanted } => (budget, cap, taken, wanted),
        other => panic!("not a limit: {other:?}"),
    }
}

pub(super) async fn what_is_reserved_and_used_is_counted(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let mut first = batch(&thread(), start, &["a"]);
    first.reserve =
        vec![draws("one", &[("usd", 100, 30), ("calls", 5, 1)]), draws("two", &[("usd", 100, 70)])];
    journal.append(first).await.unwrap();
    assert_eq!(standings(&*journal).await, [standing("calls", 0, 1), standing("usd", 0, 100)]);
    let open = [
        ("one".to_owned(), vec![("usd".to_owned(), 30), ("calls".to_owned(), 1)]),
        ("two".to_owned(), vec![("usd".to_owned(), 70)]),
    ];
    assert_eq!(subject.second.open_reservations(&thread()).await.unwrap(), open);
    assert_eq!(journal.open_reservations(&"another".into()).await.unwrap(), []);
    subject.clock.advance_ms(5);
    let mut second = batch(&thread(), head(1, 1), &["b"]);
    // The settlement exceeds one reservation, omits another, and includes a budget without a reservation.
    second.settle = vec![settle("one", &[("usd", 45), ("tokens", 9)])];
    journal.append(second).await.unwrap();
    let wanted = [standing("calls", 0, 0), standing("tokens", 9, 0), standing("usd", 45, 70)];
    assert_eq!(standings(&*subject.second).await, wanted);
    assert_eq!(journal.open_reservations(&thread()).await.unwrap(), open[1..]);
    let rows = journal.budgets("usd").await.unwrap();
    let began = Timestamp(1_700_000_000_000);
    assert_eq!(rows.iter().map(|row| row.updated_at).collect::<Vec<_>>(), [began.plus_ms(5)]);
}

pub(super) async fn a_refused_reserve_writes_nothing(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let mut first = batch(&thread(), start, &["a"]);
    first.reserve = vec![draws("one", &[("usd", 100, 60)])];
    journal.append(first).await.unwrap();
    let mut refused = batch(&thread(), head(1, 1), &["x"]);
    refused.settle = vec![settle("unknown", &[("usd", 1)])];
    refused.reserve =
        vec![draws("two", &[("calls", 9, 1)]), draws("three", &[("calls", 9, 1), ("usd", 100, 40)])];
    let said = limit(journal.append(refused.clone()).await.unwrap_err());
    assert_eq!(said, ("usd".to_owned(), 100, 61, 40));
    assert_eq!(journal.head(&thread()).await.unwrap(), Some(head(1, 1)));
    assert_eq!(texts(&*journal, &thread(), 0, 10).await, ["a"]);
    assert_eq!(standings(&*journal).await, [standing("usd", 0, 60)]);
    assert_eq!(journal.open_reservations(&thread()).await.unwrap().len(), 1);
    // An amount that fits exactly is accepted; a cap of 0 accepts nothing.
    refused.reserve = vec![draws("two", &[("usd", 100, 39)])];
    assert_eq!(journal.append(refused).await.unwrap(), Seq(2));
    let none = booking(&thread(), head(2, 1), vec![], vec![draws("none", &[("tokens", 0, 1)])]);
    assert_eq!(limit(journal.append(none).await.unwrap_err()), ("tokens".to_owned(), 0, 0, 1));
    assert_eq!(standings(&*journal).await, [standing("usd", 1, 99)]);
}

pub(super) async fn a_refused_first_append_makes_no_thread(subject: JournalSubject) {
    let mut first = Batch { is_new: true, ..batch(&thread(), head(0, 1), &["a"]) };
    first.reserve = vec![draws("one", &[("usd", 1, 2)])];
    limit(subject.first.append(first.clone()).await.unwrap_err());
    assert_eq!(subject.first.head(&thread()).await.unwrap(), None);
    first.reserve = vec![draws("one", &[("usd", 2, 2)])];
    assert_eq!(subject.first.append(first).await.unwrap(), Seq(1));
}

pub(super) async fn many_at_once_never_take_more_than_the_cap(subject: JournalSubject) {
    const TASKS: u64 = 16;
    const TRIES: u64 = 10;
    const CAP: u64 = 500;
    const AMOUNT: u64 = 7;
    let drive = |journal: Arc<dyn Journal>, number: u64| async move {
        let thread = ThreadId::from(format!("thread-{number}"));
        let mut at = claimed(&*journal, &thread).await;
        let mut granted = 0;
        for attempt in 0..TRIES {
            let mut trying = batch(&thread, at, &[&format!("{attempt}")]);
            trying.reserve = vec![draws(&format!("{attempt}"), &[("usd", CAP, AMOUNT)])];
            match journal.append(trying).await {
                Ok(seq) => {
                    at.seq = seq;
                    granted += 1;
                }
                Err(error) => {
                    let (_, cap, taken, wanted) = limit(error);
                    assert!(
                        taken <= cap && taken + wanted > cap,
                        "{wanted} did not fit beside {taken} of {cap}"
                    );
                }
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(at.seq, Seq(granted));
        assert_eq!(texts(&*journal, &thread, 0, 100).await.len() as u64, granted);
        assert_eq!(journal.open_reservations(&thread).await.unwrap().len() as u64, granted);
        granted
    };
    let nodes = [&subject.first, &subject.second];
    let tasks: Vec<_> = (0..TASKS)
        .zip(nodes.into_iter().cycle())
        .map(|(number, journal)| tokio::spawn(drive(Arc::clone(journal), number)))
        .collect();
    let mut granted = 0;
    for task in tasks {
        granted += task.await.unwrap();
    }
    assert_eq!(granted, CAP / AMOUNT);
    assert_eq!(standings(&*subject.first).await, [standing("usd", 0, granted * AMOUNT)]);
}

pub(super) async fn the_same_append_reserves_once(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let mut first = batch(&thread(), start, &["a"]);
    first.reserve = vec![draws("one", &[("usd", 10, 6)])];
    journal.append(first.clone()).await.unwrap();
    // This repetition occurs after a lost response: the position shows that the batch was written.
    let again = journal.append(first).await.unwrap_err();
    assert!(matches!(again, AppendError::Conflict { head: Seq(1) }), "{again:?}");
    assert_eq!(standings(&*journal).await, [standing("usd", 0, 6)]);
    // A batch without events does not move the head, so it is recognised by its key.
    for _ in 0..2 {
        let reserve = vec![draws("one", &[("usd", 10, 6)]), draws("two", &[("usd", 10, 3)])];
        journal.append(booking(&thread(), head(1, 1), vec![], reserve)).await.unwrap();
        assert_eq!(standings(&*journal).await, [standing("usd", 0, 9)]);
    }
    for _ in 0..2 {
        let settles = vec![settle("one", &[("usd", 5)])];
        journal.append(booking(&thread(), head(1, 1), settles, vec![])).await.unwrap();
        assert_eq!(standings(&*journal).await, [standing("usd", 5, 3)]);
    }
}

pub(super) async fn a_settled_key_stays_settled(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let reserve = || vec![draws("one", &[("usd", 10, 6)])];
    journal.append(booking(&thread(), start, vec![], reserve())).await.unwrap();
    journal.append(booking(&thread(), start, vec![settle("one", &[("usd", 4)])], vec![])).await.unwrap();
    // A second reservation or settlement of a key has no effect, not even in the same batch.
    let settles = vec![settle("one", &[("usd", 3)]), settle("two", &[]), settle("two", &[("usd", 1)])];
    let reserves = [reserve(), vec![draws("two", &[("usd", 10, 1)])]].concat();
    journal.append(booking(&thread(), start, settles, reserves)).await.unwrap();
    assert_eq!(standings(&*journal).await, [standing("usd", 4, 0)]);
    assert_eq!(journal.open_reservations(&thread()).await.unwrap(), []);
    // The same key in another thread is another reservation.
    let other = ThreadId::from("thread-2");
    let at = claimed(&*subject.second, &other).await;
    subject.second.append(booking(&other, at, vec![], reserve())).await.unwrap();
    assert_eq!(standings(&*journal).await, [standing("usd", 4, 6)]);
}

pub(super) async fn a_key_reserves_one_set_of_amounts(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let reserve = |cap, amount| vec![draws("one", &[("usd", cap, amount)])];
    journal.append(booking(&thread(), start, vec![], reserve(10, 6))).await.unwrap();
    // A later change of the cap does not affect an existing reservation.
    journal.append(booking(&thread(), start, vec![], reserve(3, 6))).await.unwrap();
    let refused = journal.append(booking(&thread(), start, vec![], reserve(10, 7))).await.unwrap_err();
    let AppendError::Failed(StoreError::Refused { why }) = refused else { panic!("{refused:?}") };
    assert!(why.contains("`one`"), "{why}");
    assert_eq!(standings(&*journal).await, [standing("usd", 0, 6)]);
}

pub(super) async fn an_unknown_key_books_what_was_used(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    for _ in 0..2 {
        let settles = vec![settle("never written", &[("usd", 8), ("usd", 2)])];
        journal.append(booking(&thread(), start, settles, vec![])).await.unwrap();
        assert_eq!(standings(&*journal).await, [standing("usd", 10, 0)]);
    }
}

pub(super) async fn settles_come_before_reserves(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let first = vec![draws("one", &[("usd", 10, 10)])];
    journal.append(booking(&thread(), start, vec![], first)).await.unwrap();
    // The second reservation only fits because the first used less than its reserved amount.
    let (settles, reserves) = (vec![settle("one", &[("usd", 4)])], vec![draws("two", &[("usd", 10, 6)])]);
    journal.append(booking(&thread(), start, settles, reserves)).await.unwrap();
    assert_eq!(standings(&*journal).await, [standing("usd", 4, 6)]);
}

pub(super) async fn amounts_saturate(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let all = vec![draws("one", &[("usd", u64::MAX, u64::MAX)]), draws("two", &[("usd", u64::MAX, 1)])];
    journal.append(booking(&thread(), start, vec![], all)).await.unwrap();
    assert_eq!(standings(&*journal).await, [standing("usd", 0, AMOUNT_MAX)]);
    let used = vec![settle("one", &[("usd", u64::MAX)]), settle("three", &[("usd", u64::MAX)])];
    journal.append(booking(&thread(), start, used, vec![])).await.unwrap();
    assert_eq!(standings(&*journal).await, [standing("usd", AMOUNT_MAX, 0)]);
    let more = booking(&thread(), start, vec![], vec![draws("four", &[("usd", 100, 1)])]);
    assert_eq!(limit(journal.append(more).await.unwrap_err()), ("usd".to_owned(), 100, AMOUNT_MAX, 1));
}

pub(super) async fn names_are_bounded(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let (longest, long) = ("x".repeat(NAME_MAX_BYTES), "x".repeat(NAME_MAX_BYTES + 1));
    for name in ["", &long] {
        let batches = [
            booking(&thread(), start, vec![settle(name, &[])], vec![]),
            booking(&thread(), start, vec![settle("one", &[(name, 1)])], vec![]),
            booking(&thread(), start, vec![], vec![draws(name, &[])]),
            booking(&thread(), start, vec![], vec![draws("one", &[(name, 9, 1)])]),
        ];
        for batch in batches {
            let refused = journal.append(batch).await.unwrap_err();
            let AppendError::Failed(StoreError::Refused { why }) = refused else { panic!("{refused:?}") };
            assert!(why.contains(&format!("{} bytes", name.len())), "{why}");
        }
    }
    let fits = booking(&thread(), start, vec![], vec![draws(&longest, &[(&longest, 9, 1)])]);
    journal.append(fits).await.unwrap();
    assert_eq!(standings(&*journal).await, [standing(&longest, 0, 1)]);
}

pub(super) async fn budgets_are_found_by_how_they_begin(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let names = ["user/Alice/usd", "user/alice/calls", "user/alice/usd", "user/alice_", "user/b%/usd"];
    let used: Vec<_> = names.iter().map(|name| (*name, 1)).collect();
    journal.append(booking(&thread(), start, vec![settle("one", &used)], vec![])).await.unwrap();
    let found = async |prefix: &str| {
        let rows = journal.budgets(prefix).await.unwrap();
        rows.into_iter().map(|row| row.budget).collect::<Vec<_>>()
    };
    assert_eq!(found("user/alice/").await, ["user/alice/calls", "user/alice/usd"]);
    assert_eq!(found("user/b%").await, ["user/b%/usd"]);
    assert_eq!(found("").await, names);
    assert_eq!(found("%").await, [""; 0]);
    let many: Vec<_> = (0..=BUDGETS_MAX).map(|number| (format!("many/{number:05}"), 1)).collect();
    let many = Settle { key: "two".to_owned(), used: many };
    journal.append(booking(&thread(), start, vec![many], vec![])).await.unwrap();
    let listed = found("many/").await;
    assert_eq!((listed.len(), listed[0].as_str()), (BUDGETS_MAX, "many/00000"));
}

pub(super) async fn a_deleted_thread_frees_what_it_reserved(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let reserves = vec![
        draws("one", &[("usd", 100, 10), ("calls", 9, 1)]),
        draws("two", &[("usd", 100, 20)]),
        draws("three", &[("usd", 100, 30)]),
    ];
    journal.append(booking(&thread(), start, vec![], reserves)).await.unwrap();
    journal.append(booking(&thread(), start, vec![settle("three", &[("usd", 5)])], vec![])).await.unwrap();
    let other = ThreadId::from("thread-2");
    let at = claimed(&*journal, &other).await;
    journal.append(booking(&other, at, vec![], vec![draws("one", &[("usd", 100, 7)])])).await.unwrap();
    journal.delete(&thread()).await.unwrap();
    assert_eq!(standings(&*journal).await, [standing("calls", 0, 0), standing("usd", 5, 7)]);
    assert_eq!(journal.open_reservations(&thread()).await.unwrap(), []);
    assert_eq!(journal.open_reservations(&other).await.unwrap().len(), 1);
    // A new thread with the same id starts without the old thread's keys.
    let again = claimed(&*journal, &thread()).await;
    journal
        .append(booking(&thread(), again, vec![], vec![draws("three", &[("usd", 100, 2)])]))
        .await
        .unwrap();
    assert_eq!(standings(&*journal).await, [standing("calls", 0, 0), standing("usd", 5, 9)]);
}

pub(super) async fn own_budgets_go_with_their_run_and_thread(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let budgets =
        ["w/run/r%2F1/usd", "w/run/r%2F10/usd", "w/thread/thread-1/usd/2026-11-21", "w/user/r%2F1/usd"];
    let used: Vec<_> = budgets.iter().map(|name| (*name, 5)).collect();
    let mut ends = booking(&thread(), start, vec![settle("one", &used)], vec![]);
    ends.thread_view.workspace = "w".to_owned();
    let run = RunView {
        run: "r/1".into(),
        agent: "a".to_owned(),
        model: "m".into(),
        queued: None,
        status: None,
        from: Seq(1),
        started_at: Timestamp(1),
        finished_at: None,
        totals: Totals::default(),
    };
    ends.runs = vec![run.clone()];
    journal.append(ends.clone()).await.unwrap();
    assert_eq!(standings(&*journal).await.len(), 4, "the run is active");
    (ends.settle, ends.id) = (Vec::new(), BatchId(8));
    ends.runs = vec![RunView { status: Some(RunStatus::Done), ..run }];
    journal.append(ends).await.unwrap();
    let left = |names: &[&str]| names.iter().map(|name| standing(name, 5, 0)).collect::<Vec<_>>();
    assert_eq!(standings(&*journal).await, left(&budgets[1..]));
    journal.delete(&thread()).await.unwrap();
    assert_eq!(standings(&*journal).await, left(&[budgets[1], budgets[3]]));
}

pub(super) async fn old_days_are_cleared(subject: JournalSubject) {
    let journal = subject.first;
    let start = claimed(&*journal, &thread()).await;
    let used = vec![settle("one", &[("usd/2026-01-01", 1), ("usd", 1)])];
    let open = vec![draws("two", &[("calls/2026-01-01", 9, 1)])];
    journal.append(booking(&thread(), start, used, open)).await.unwrap();
    let names = async || standings(&*journal).await.into_iter().map(|(name, ..)| name).collect::<Vec<_>>();
    let use_new = async |key: &str, budget: &str| {
        let used = vec![settle(key, &[(budget, 1)])];
        journal.append(booking(&thread(), start, used, vec![])).await.unwrap();
    };
    subject.clock.advance_ms(DAY_KEPT_MS);
    use_new("three", "usd/2026-02-10").await;
    assert_eq!(names().await, ["calls/2026-01-01", "usd", "usd/2026-01-01", "usd/2026-02-10"]);
    subject.clock.advance_ms(1);
    // A new use does not change the age of the old budget.
    use_new("four", "usd/2026-01-01").await;
    use_new("five", "usd/2026-02-11").await;
    // The store keeps a budget that has reservations, and a budget whose name has no day.
    assert_eq!(names().await, ["calls/2026-01-01", "usd", "usd/2026-02-10", "usd/2026-02-11"]);
    assert_eq!(journal.open_reservations(&thread()).await.unwrap().len(), 1);
}
