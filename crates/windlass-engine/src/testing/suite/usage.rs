//! What runs used, summed up: by part of the time, model and agent.
//!
//! Whole reports are compared, so that no figure lands in another's place.

use windlass_machine::{MicroUsd, ModelName, Principal, RunId, RunStatus, Seq, ThreadId, Timestamp, Totals};

use super::sample::{batch, claimed, view};
use super::subject::JournalSubject;
use crate::port::journal::{
    Journal, RunView, StoreError, ThreadStatus, ThreadView, Usage, UsageQuery, UsageRow,
};

/// A run of `demo/a` by `one` that has ended after 100 ms; each of its figures is its own.
fn run(id: &str, started_at: u64) -> RunView {
    let usage = windlass_machine::Usage {
        input: Some(1_000),
        output: Some(200),
        cached: Some(30),
        ..Default::default()
    };
    RunView {
        run: RunId::from(id),
        agent: "one".to_owned(),
        model: ModelName::from("demo/a"),
        queued: None,
        status: Some(RunStatus::Done),
        from: Seq(1),
        started_at: Timestamp(started_at),
        finished_at: Some(Timestamp(started_at + 100)),
        totals: Totals {
            steps: 7,
            calls: 6,
            usage,
            cost: Some(MicroUsd(5_000)),
            duration_ms: 100,
            approved: 3,
            denied: 2,
            ttft_ms: Some(40),
        },
    }
}

async fn put(journal: &dyn Journal, thread: &str, (owner, workspace): (&str, &str), runs: Vec<RunView>) {
    let thread = ThreadId::from(thread);
    let mut batch = batch(&thread, claimed(journal, &thread).await, &["a"]);
    batch.runs = runs;
    let (owner, workspace) = (Principal::from(owner), workspace.to_owned());
    batch.thread_view = ThreadView { owner, workspace, ..view(ThreadStatus::Idle) };
    journal.append(batch).await.unwrap();
}

/// The sum of so many of the runs above, in Alice's threads.
fn sum(bucket: u64, model: &str, agent: &str, (runs, threads): (u64, u64)) -> UsageRow {
    UsageRow {
        bucket: Timestamp(bucket),
        model: ModelName::from(model),
        agent: agent.to_owned(),
        owner: Principal::from("alice"),
        runs,
        threads,
        input: 1_000 * runs,
        output: 200 * runs,
        cached: 30 * runs,
        cost: MicroUsd(5_000 * runs),
        cost_unknown: 0,
        approved: 3 * runs,
        denied: 2 * runs,
        ttft_ms: 40 * runs,
        ttft_runs: runs,
        duration_ms: 100 * runs,
        ended: runs,
    }
}

fn query(from: u64, until: u64, bucket_ms: u64) -> UsageQuery {
    UsageQuery { from: Timestamp(from), until: Timestamp(until), bucket_ms, ..UsageQuery::default() }
}

pub(super) async fn usage_is_summed_up(subject: JournalSubject) {
    let journal = &*subject.first;
    let alice = ("alice", "default");
    let other = RunView { model: ModelName::from("demo/b"), ..run("r4", 1_199) };
    let second = RunView { agent: "two".to_owned(), ..run("r3", 1_050) };
    put(journal, "t1", alice, vec![run("r1", 1_000), run("r2", 1_099), second, other]).await;
    // Active, and its provider tells nothing.
    let active = RunView {
        status: None,
        finished_at: None,
        totals: Totals { steps: 1, ..Totals::default() },
        ..run("r6", 1_250)
    };
    put(journal, "t2", alice, vec![run("r5", 1_001), active]).await;
    put(journal, "t3", alice, vec![run("early", 999), run("late", 1_300)]).await;

    let unknown = UsageRow { cost_unknown: 1, runs: 1, threads: 1, ..sum(1_200, "demo/a", "one", (0, 0)) };
    let wanted = Usage {
        rows: vec![
            sum(1_000, "demo/a", "one", (3, 2)),
            sum(1_000, "demo/a", "two", (1, 1)),
            sum(1_100, "demo/b", "one", (1, 1)),
            unknown,
        ],
        threads_by_bucket: vec![(Timestamp(1_000), 2), (Timestamp(1_100), 1), (Timestamp(1_200), 1)],
        threads: 2,
    };
    assert_eq!(journal.usage(&query(1_000, 1_300, 100)).await.unwrap(), wanted);
    // One part of it all; parts begin where the time begins.
    let whole = journal.usage(&query(1_001, 1_251, 0)).await.unwrap();
    assert_eq!(whole.threads_by_bucket, [(Timestamp(1_001), 2)]);
    let begins: Vec<_> = whole.rows.iter().map(|row| (row.bucket.0, row.runs)).collect();
    assert_eq!(begins, [(1_001, 3), (1_001, 1), (1_001, 1)]);
}

pub(super) async fn usage_is_filtered_and_bounded(subject: JournalSubject) {
    let journal = &*subject.first;
    put(journal, "t1", ("alice", "one"), vec![run("r1", 10)]).await;
    put(journal, "t2", ("alice", "two"), vec![run("r2", 20), run("r3", 20)]).await;
    put(journal, "t3", ("bob", "one"), vec![run("r4", 30)]).await;
    let alice = UsageQuery { owner: Some(Principal::from("alice")), ..query(0, 100, 0) };
    let one = |query: &UsageQuery| UsageQuery { workspace: Some("one".to_owned()), ..query.clone() };
    let everybody = query(0, 100, 0);
    let of_bob = UsageRow { owner: Principal::from("bob"), ..sum(0, "demo/a", "one", (1, 1)) };
    for (query, of_alice, bob, threads) in [
        (one(&everybody), (1, 1), true, 2),
        (everybody, (3, 2), true, 3),
        (one(&alice), (1, 1), false, 1),
        (alice, (3, 2), false, 2),
    ] {
        let rows = [sum(0, "demo/a", "one", of_alice)].into_iter().chain(bob.then(|| of_bob.clone()));
        let wanted =
            Usage { rows: rows.collect(), threads_by_bucket: vec![(Timestamp(0), threads)], threads };
        assert_eq!(journal.usage(&query).await.unwrap(), wanted, "{query:?}");
    }
    for (thread, owner, runs) in
        [("t2", None, 2), ("t1", None, 1), ("t2", Some("alice"), 2), ("t2", Some("bob"), 0), ("t9", None, 0)]
    {
        let owner = owner.map(Principal::from);
        let of = UsageQuery { thread: Some(ThreadId::from(thread)), owner, ..query(0, 100, 0) };
        let told = journal.usage(&of).await.unwrap();
        assert_eq!(told.rows.iter().map(|row| row.runs).sum::<u64>(), runs, "{of:?}");
        assert_eq!(told.threads, runs.min(1), "{of:?}");
    }
    journal.delete(&ThreadId::from("t2")).await.unwrap();
    let deleted = UsageQuery { thread: Some(ThreadId::from("t2")), ..query(0, 100, 0) };
    assert_eq!(journal.usage(&deleted).await.unwrap(), Usage::default());
    assert_eq!(journal.usage(&query(50, 40, 1)).await.unwrap(), Usage::default());
    let refused = journal.usage(&query(0, u64::MAX, 60_000)).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
}
