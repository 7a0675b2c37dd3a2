//! Measures the cost of an append. `cargo run --release --example append_cost -- <folder> [threads] [appends]
//! [full|relaxed] [limits]`
//!
//! Prints wall time and CPU time per append, for one thread at a time and for many at once. Each append has two events,
//! a run row and the thread's row, like half a step of a run. With `limits`, each append also settles the previous
//! reservation of a budget and reserves again.

use std::path::PathBuf;
use std::sync::Arc;

use windlass::clock::SystemClock;
use windlass::port::budget::{Draw, Reserve, Settle};
use windlass::port::clock::Clock;
use windlass::port::journal::{Batch, BatchId, Claim, Journal, RunView, ThreadStatus, ThreadView};
use windlass::sqlite::{Durability, SqliteStore, StoreOptions};
use windlass_machine::{
    Attempt, CallKey, Digest, Event, Fact, Message, ModelName, Role, RunId, Seq, StopReason, ThreadId,
    Totals, Usage,
};

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder for the store"));
    let threads: usize = arguments.next().map_or(200, |text| text.parse().expect("a number of threads"));
    let appends: usize = arguments.next().map_or(10_000, |text| text.parse().expect("a number of appends"));
    let durability = match arguments.next().as_deref() {
        Some("relaxed") => Durability::Relaxed,
        Some(_) | None => Durability::Full,
    };
    let limits = arguments.next().as_deref() == Some("limits");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let options = StoreOptions { durability, ..StoreOptions::default() };
    let store = SqliteStore::open(&folder, options, Arc::clone(&clock)).await.expect("a store");
    let store: Arc<dyn Journal> = Arc::new(store);
    println!("threads  appends  wall µs/append  CPU µs/append");
    for at_once in [1, threads] {
        let (wall_ms, cpu_us) = (clock.monotonic_ms(), cpu_time_us());
        let tasks: Vec<_> = (0..at_once)
            .map(|number| {
                let thread = ThreadId::from(format!("thread-{at_once}-{number}"));
                tokio::spawn(drive(Arc::clone(&store), thread, appends / at_once, limits))
            })
            .collect();
        for task in tasks {
            task.await.expect("a task that ends");
        }
        let done = (appends / at_once * at_once) as f64;
        let (wall_us, cpu_us) = ((clock.monotonic_ms() - wall_ms) as f64 * 1e3, cpu_time_us() - cpu_us);
        println!("{at_once:>7}  {done:>7}  {:>14.1}  {:>13.1}", wall_us / done, cpu_us as f64 / done);
    }
    println!("resident: {} KiB", resident_kib());
}

async fn drive(store: Arc<dyn Journal>, thread: ThreadId, appends: usize, limits: bool) {
    let Claim::Taken { mut head, .. } = store.claim(&thread).await.expect("a claim") else {
        panic!("thread `{thread}` is held by another process");
    };
    for _ in 0..appends {
        let mut batch = batch(&thread, head.seq, head.epoch);
        if limits {
            draw(&mut batch);
        }
        head.seq = store.append(batch).await.expect("an append");
    }
}

fn batch(thread: &ThreadId, expected: Seq, epoch: windlass::port::journal::Epoch) -> Batch {
    let run = RunId::from(format!("{thread}-run"));
    let call = CallKey { step: 1, index: 0 };
    let replied = Fact::StepReplied {
        attempt: Attempt { step: 1, attempt: 1 },
        message: Message::text(Role::Assistant, "The disk is nearly full; I will look for large files.")
            .into(),
        stop: StopReason::End,
        usage: Usage::default(),
        cost: None,
        request: Digest::of(b"request").into(),
        ttft_ms: Some(310),
        thoughts_ms: Vec::new(),
        duration_ms: 1200,
    };
    let started = Fact::ToolStarted { call };
    let at = windlass_machine::Timestamp(1_700_000_000_000 + expected.0);
    let event = |fact| Event { at, wall: None, run: Some(run.clone()), fact };
    Batch {
        thread: thread.clone(),
        epoch,
        expected,
        id: BatchId(expected.0 + 1),
        events: (vec![event(replied), event(started)]).into(),
        blobs: Vec::new(),
        is_new: false,
        consumed: Vec::new(),
        thread_view: ThreadView {
            workspace: "default".to_owned(),
            title: Some("Disk space".to_owned()),
            status: ThreadStatus::Running,
            updated_at: at,
            ..ThreadView::default()
        },
        unqueued: Vec::new(),
        runs: vec![RunView {
            run: run.clone(),
            agent: "default".to_owned(),
            model: ModelName::from("demo/script"),
            queued: None,
            status: None,
            from: Seq(1),
            started_at: at,
            finished_at: None,
            totals: Totals::default(),
        }],
        settle: Vec::new(),
        reserve: Vec::new(),
        records: Vec::new(),
    }
}

/// Settles the reservation of the previous append, and reserves again.
fn draw(batch: &mut Batch) {
    let budget = "user/alice/usd/2026-11-21".to_owned();
    batch.settle = vec![Settle { key: batch.expected.to_string(), used: vec![(budget.clone(), 900)] }];
    let draw = Draw { budget, cap: u64::MAX, amount: 1_000 };
    batch.reserve = vec![Reserve { key: (batch.expected.0 + 2).to_string(), draws: vec![draw] }];
}

fn cpu_time_us() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid place for the answer, and all zeros is a valid value of it.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    micros(usage.ru_utime) + micros(usage.ru_stime)
}

fn resident_kib() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.map_or_else(|| "unknown".to_owned(), |text| text.trim().trim_end_matches(" kB").to_owned())
}
