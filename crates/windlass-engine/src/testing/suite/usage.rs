//! Cases of usage sums by time bucket, model and agent.
//!
//! The cases compare whole reports, so that a value in the wrong field or row fails.

use windlass_machine::{MicroUsd, ModelName, Principal, RunId, RunStatus, Seq, ThreadId, Timestamp, Totals};

use super::sample::{batch, claimed, view};
use super::subject::JournalSubject;
use crate::memory::MemoryStore;
use crate::port::journal::{
    Batch, Head, Journal, RunView, StoreError, ThreadStatus, ThreadView, Usage, UsageQuery, UsageRow,
};

/// Creates a run of `demo/a` by agent `one` that ended after 100 ms; all its figures are distinct.
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

/// Returns the usage sum of the given number of such runs, in Alice's threads.
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
    // An active run whose provider reports no tokens.
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
    // One bucket for the whole time; buckets start at the query's start.
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
    // A range of whole quarters is served from sums, which lose the runs of a deleted thread.
    let runs_in = async |thread: Option<&str>| {
        let of = UsageQuery { thread: thread.map(ThreadId::from), ..query(0, QUARTER_MS, 0) };
        journal.usage(&of).await.unwrap().rows.iter().map(|row| row.runs).sum::<u64>()
    };
    let (all, own) = (runs_in(None).await, runs_in(Some("t2")).await);
    journal.delete(&ThreadId::from("t2")).await.unwrap();
    assert!(own > 0);
    assert_eq!(runs_in(None).await, all - own);
    let deleted = UsageQuery { thread: Some(ThreadId::from("t2")), ..query(0, 100, 0) };
    assert_eq!(journal.usage(&deleted).await.unwrap(), Usage::default());
    assert_eq!(journal.usage(&query(50, 40, 1)).await.unwrap(), Usage::default());
    let refused = journal.usage(&query(0, u64::MAX, 60_000)).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
}

const QUARTER_MS: u64 = 6 * 60 * 60 * 1000;
/// Start of a quarter far from 0; runs start in the twelve quarters after it.
const BASE_MS: u64 = 100 * QUARTER_MS;

/// The same changes of threads and runs, made in the tested store and in a store that computes sums for each query.
struct Twins<'s> {
    stores: [&'s dyn Journal; 2],
    random: u64,
    threads: Vec<Twin>,
}

/// A thread in both stores: its head in each, and its runs.
#[derive(Clone, Default)]
struct Twin {
    heads: Option<[Head; 2]>,
    runs: Vec<RunView>,
}

impl Twins<'_> {
    /// Returns a random number below a bound.
    fn below(&mut self, bound: u64) -> u64 {
        // The generator of Knuth's MMIX; its upper bits are more random than its lower bits.
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }

    fn figures(&mut self) -> Totals {
        let mut some = |bound| Some(self.below(bound)).filter(|figure| *figure > 0);
        let usage = windlass_machine::Usage {
            input: some(1_000),
            output: some(100),
            cached: some(10),
            ..Default::default()
        };
        let (cost, ttft_ms) = (some(3).map(MicroUsd), some(3));
        Totals { usage, cost, ttft_ms, approved: 1, denied: self.below(3) as u32, ..Totals::default() }
    }

    fn begin(&mut self, nth: usize) -> RunView {
        RunView {
            agent: ["one", "two"][self.below(2) as usize].to_owned(),
            status: None,
            queued: (self.below(6) == 0).then(|| "queued".into()),
            finished_at: None,
            totals: self.figures(),
            // Runs of a fork keep their ids, so two threads have runs with the same id.
            ..run(&format!("run-{}", self.threads[nth].runs.len()), BASE_MS + self.below(12 * QUARTER_MS))
        }
    }

    /// Returns a changed version of a started or queued run; `None` if it has ended.
    fn change(&mut self, run: &RunView) -> Option<RunView> {
        if run.status.is_some() {
            return None;
        }
        let mut run = RunView { queued: None, totals: self.figures(), ..run.clone() };
        if self.below(4) == 0 {
            run.model = ModelName::from("demo/b");
        }
        if self.below(2) == 0 {
            run.status = Some(RunStatus::Failed);
            run.finished_at = Some(Timestamp(run.started_at.0 + self.below(5_000)));
        }
        Some(run)
    }

    async fn delete(&mut self, nth: usize) {
        let is_idle = self.threads[nth].runs.iter().all(|run| run.status.is_some());
        if is_idle && self.threads[nth].heads.take().is_some() {
            self.threads[nth] = Twin::default();
            for store in self.stores {
                store.delete(&thread_of(nth)).await.unwrap();
            }
        }
    }

    /// Starts a run of a thread, changes a run, or deletes the thread.
    async fn step(&mut self) {
        let nth = self.below(self.threads.len() as u64) as usize;
        let (known, what) = (self.threads[nth].runs.len() as u64, self.below(20));
        let changed = match what {
            0 => return self.delete(nth).await,
            1..8 => self.begin(nth),
            _ if known == 0 => return,
            _ => {
                let run = self.below(known) as usize;
                let run = self.threads[nth].runs[run].clone();
                let Some(changed) = self.change(&run) else { return };
                changed
            }
        };
        let mut was_queued = false;
        let runs = &mut self.threads[nth].runs;
        match runs.iter_mut().find(|run| run.run == changed.run) {
            Some(run) => was_queued = std::mem::replace(run, changed.clone()).queued.is_some(),
            None => runs.push(changed.clone()),
        }
        let is_idle = runs.iter().all(|run| run.status.is_some());
        let status = match self.below(2) {
            _ if is_idle => ThreadStatus::Idle,
            0 => ThreadStatus::Running,
            _ => ThreadStatus::Waiting,
        };
        self.append(nth, status, changed, was_queued).await;
    }

    async fn append(&mut self, nth: usize, status: ThreadStatus, run: RunView, was_queued: bool) {
        let thread = thread_of(nth);
        let heads = match self.threads[nth].heads {
            Some(heads) => heads,
            None => [claimed(self.stores[0], &thread).await, claimed(self.stores[1], &thread).await],
        };
        let owner = Principal::from(["alice", "bob"][nth % 2]);
        let workspace = ["one", "two", "one"][nth % 3].to_owned();
        let mut after = heads;
        for (store, (head, after)) in self.stores.iter().zip(heads.into_iter().zip(&mut after)) {
            let batch = Batch {
                runs: vec![run.clone()],
                unqueued: was_queued.then(|| run.run.clone()).into_iter().collect(),
                thread_view: ThreadView {
                    owner: owner.clone(),
                    workspace: workspace.clone(),
                    ..view(status)
                },
                ..batch(&thread, head, &["a"])
            };
            after.seq = store.append(batch).await.unwrap();
        }
        self.threads[nth].heads = Some(after);
    }

    /// Returns a random time; two of three are the exact start of a quarter of a day (`QUARTER_MS`, six hours).
    fn time(&mut self) -> u64 {
        let within = if self.below(3) == 0 { self.below(QUARTER_MS) } else { 0 };
        BASE_MS + self.below(14) * QUARTER_MS + within
    }

    async fn compare(&mut self) {
        let (from, until) = (self.time(), self.time() + QUARTER_MS);
        let lengths =
            [0, QUARTER_MS, 2 * QUARTER_MS, 4 * QUARTER_MS, 28 * QUARTER_MS, QUARTER_MS / 6, 7_777_777];
        let one_of = |nth: u64, names: [&str; 2]| names.get(nth as usize).map(|name| (*name).to_owned());
        let query = UsageQuery {
            workspace: one_of(self.below(4), ["one", "two"]),
            owner: one_of(self.below(4), ["alice", "bob"]).map(Principal::from),
            thread: (self.below(8) == 0).then(|| thread_of(0)),
            ..query(from, until, lengths[self.below(7) as usize])
        };
        let [first, second] = self.stores;
        assert_eq!(first.usage(&query).await.unwrap(), second.usage(&query).await.unwrap(), "{query:?}");
    }
}

fn thread_of(nth: usize) -> ThreadId {
    ThreadId::from(format!("t{nth}"))
}

pub(super) async fn usage_is_the_sum_of_the_runs(subject: JournalSubject) {
    let summing = MemoryStore::new(subject.clock.clone());
    let mut twins =
        Twins { stores: [&*subject.first, &summing], random: 20, threads: vec![Twin::default(); 5] };
    for _ in 0..600 {
        twins.step().await;
        twins.compare().await;
    }
}
