//! Processes that die at any append of two threads on SQLite, with inboxes, a queue, a budget and counted grants.
//!
//! "Dies" means that the runtime is dropped while the append hangs. The next process opens the same folder, and its
//! client sends the same messages again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::{Notify, oneshot};
use windlass::clock::SystemClock;
use windlass::limits::{Budget, Per, Unit, Window};
use windlass::machine::{
    AutoRun, Block, Digest, EffectClass, Fact, Input, InputId, Machine, Principal, RunId, Seq, StopReason,
    ThreadId, ToolCall, Usage,
};
use windlass::port::budget::{Amounts, BudgetRow};
use windlass::port::journal::{
    AppendError, Batch, Claim, Due, Epoch, Head, Journal, Left, Posted, Recorded, RunQuery, RunRow,
    StoreError, StoredSnapshot, ThreadCounts, ThreadQuery, ThreadRow, Usage as StoredUsage, UsageQuery,
};
use windlass::port::model::{ModelCall, Reply};
use windlass::port::records::Records;
use windlass::sqlite::bus::SocketBus;
use windlass::sqlite::{Durability, SqliteStore, StoreOptions};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::testing::thread_view;
use windlass::{Attend, Engine, GrantDraft, Status, Task};

use super::crash::{finish, runtime};
use super::{Counter, memory, registry, task};

const THREADS: [&str; 2] = ["t0", "t1"];

/// Calls that each grant allows: more than the runs make.
const GRANTED: u32 = 50;

/// At which append a process dies, and whether that append is still written.
#[derive(Clone, Copy, Debug)]
struct Death {
    append: usize,
    is_written: bool,
}

/// A store whose process dies at an append.
struct Mortal {
    store: Arc<SqliteStore>,
    death: Option<Death>,
    appends: AtomicUsize,
    died: Notify,
}

impl Mortal {
    async fn open(folder: &Path, death: Option<Death>) -> Arc<Self> {
        let options = StoreOptions { durability: Durability::Relaxed, ..StoreOptions::default() };
        let store = SqliteStore::open(folder, options, Arc::new(SystemClock::new())).await.unwrap();
        let store = Arc::new(store);
        Arc::new(Self { store, death, appends: AtomicUsize::new(0), died: Notify::new() })
    }

    async fn append_or_die(&self, batch: Batch) -> Result<Seq, AppendError> {
        let number = self.appends.fetch_add(1, Ordering::SeqCst);
        let Some(death) = self.death.filter(|death| death.append == number) else {
            return self.store.append(batch).await;
        };
        if death.is_written {
            // The append conflicts if the other thread has used the same grant meanwhile.
            let _ = self.store.append(batch).await;
        }
        self.died.notify_one();
        std::future::pending().await
    }
}

macro_rules! journal {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        #[async_trait]
        impl Journal for Mortal {
            fn node(&self) -> &str {
                self.store.node().id()
            }

            fn is_alive(&self, node: &str) -> bool {
                Journal::is_alive(&*self.store, node)
            }

            async fn append(&self, batch: Batch) -> Result<Seq, AppendError> {
                self.append_or_die(batch).await
            }

            $(async fn $name(&self, $($argument: $type),*) -> $answer {
                Journal::$name(&*self.store, $($argument),*).await
            })+
        }
    };
}

journal! {
    claim(thread: &ThreadId) -> Result<Claim, StoreError>;
    claim_due(except: &[ThreadId], limit: usize) -> Result<Vec<Due>, StoreError>;
    release(thread: &ThreadId, epoch: Epoch) -> Result<(), StoreError>;
    head(thread: &ThreadId) -> Result<Option<Head>, StoreError>;
    read(thread: &ThreadId, after: Seq, limit: usize) -> Result<Vec<Recorded>, StoreError>;
    read_back(thread: &ThreadId, before: Seq, limit: usize) -> Result<Vec<Recorded>, StoreError>;
    names_blob(thread: &ThreadId, digest: &Digest) -> Result<bool, StoreError>;
    snapshot(thread: &ThreadId) -> Result<Option<StoredSnapshot>, StoreError>;
    put_snapshot(thread: &ThreadId, epoch: Epoch, snapshot: StoredSnapshot) -> Result<(), StoreError>;
    post(thread: &ThreadId, id: &InputId, input: &Input) -> Result<Posted, StoreError>;
    inbox(thread: &ThreadId, limit: usize) -> Result<Vec<(InputId, Left)>, StoreError>;
    waiting_inboxes() -> Result<Vec<ThreadId>, StoreError>;
    posted(thread: &ThreadId, id: &InputId) -> Result<Option<Posted>, StoreError>;
    threads(query: &ThreadQuery) -> Result<Vec<ThreadRow>, StoreError>;
    thread(thread: &ThreadId) -> Result<Option<ThreadRow>, StoreError>;
    run(run: &RunId) -> Result<Option<RunRow>, StoreError>;
    runs_by_id(runs: &[RunId]) -> Result<Vec<RunRow>, StoreError>;
    runs(query: &RunQuery) -> Result<Vec<RunRow>, StoreError>;
    active_runs(owner: &Principal, limit: usize) -> Result<usize, StoreError>;
    thread_counts() -> Result<ThreadCounts, StoreError>;
    usage(query: &UsageQuery) -> Result<StoredUsage, StoreError>;
    holder(thread: &ThreadId) -> Result<Option<String>, StoreError>;
    budgets(prefix: &str) -> Result<Vec<BudgetRow>, StoreError>;
    open_reservations(thread: &ThreadId) -> Result<Vec<(String, Amounts)>, StoreError>;
    delete(thread: &ThreadId) -> Result<(), StoreError>;
    check() -> Result<String, StoreError>;
}

/// One call of each class and a local read, then text. Every reply uses ten input and five output tokens.
fn spoken(call: &ModelCall) -> Line {
    let nth = results(call);
    let (block, stop) = match ["pure", "look", "again", "once"].get(nth) {
        Some(name) => {
            let asked = r#"{"text":"x"}"#.into();
            let call = ToolCall { id: format!("c{nth}"), name: (*name).into(), asked, native: None };
            (Block::ToolCall(call), StopReason::ToolCalls)
        }
        None => (Block::text("done"), StopReason::End),
    };
    let usage = Usage { input: Some(10), output: Some(5), ..Usage::default() };
    Line::Reply(Reply { blocks: vec![block], stop, usage, model: None })
}

async fn engine(store: &Arc<Mortal>, once: &Counter) -> Engine {
    let count = |name, class| Counter::default().tool(name, class);
    let tools = registry([
        count("pure", EffectClass::Pure),
        count("look", EffectClass::Pure).reads_locally(),
        count("again", EffectClass::Idempotent),
        once.tool("once", EffectClass::Once),
    ]);
    let budget = Budget {
        per: Per::User,
        unit: Unit::Tokens,
        window: Window::Total,
        cap: 100_000_000,
        approvers: Default::default(),
    };
    // Blobs and records are in the same store, and no process dies while writing them.
    let built = memory(&ScriptedModels::new(spoken), tools);
    let built = built.ports(store.clone(), store.store.clone(), store.store.clone());
    let bus = SocketBus::open(store.store.node().clone(), store.store.clone()).unwrap();
    let built = built.bus(Arc::new(bus)).budgets(vec![budget]);
    built.auto_run(AutoRun::Ask).attend(Attend::All).build().await.unwrap()
}

fn id(thread: &str, number: usize) -> InputId {
    InputId::from(format!("{thread}-{number}"))
}

/// A client that sends two messages to each thread. The second one queues or follows. Each may have been sent before.
async fn work(engine: &Engine) {
    engine.recover().await.unwrap();
    give_grants(engine).await;
    let mut runs = Vec::new();
    for thread in THREADS {
        for number in 0..2 {
            runs.push(send(engine, thread, number).await);
        }
    }
    for run in runs {
        let (outcome, _) = finish(engine, &run).await;
        assert_eq!((outcome.status, outcome.text.as_deref()), (Status::Done, Some("done")));
    }
}

async fn send(engine: &Engine, thread: &str, number: usize) -> RunId {
    let task = Task { thread: Some(thread.into()), id: Some(id(thread, number)), ..task("go") };
    engine.start(task).await.unwrap().run
}

async fn give_grants(engine: &Engine) {
    if engine.policy().grants(None).await.unwrap().is_empty() {
        for tool in ["again", "once"] {
            let (user, count) = ("local".into(), Some(GRANTED));
            let (arguments, by) = (Vec::new(), "ann".into());
            let draft = GrantDraft { user, tool: tool.into(), arguments, count, expires_at: None, by };
            engine.policy().grant(draft).await.unwrap();
        }
    }
}

/// Runs processes that die one after another, and one that survives. Returns whether the first one died.
fn play(deaths: &[Death]) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let once = Counter::default();
    let mut died = Vec::new();
    for death in deaths.iter().copied().map(Some).chain([None]) {
        died.push(runtime().block_on(async {
            let store = Mortal::open(folder.path(), death).await;
            let engine = engine(&store, &once).await;
            tokio::select! {
                biased;
                () = store.died.notified() => true,
                () = work(&engine) => false,
            }
        }));
    }
    runtime().block_on(async {
        let store = Mortal::open(folder.path(), None).await;
        verify(&store, &once, died.iter().any(|died| *died)).await;
    });
    died[0]
}

/// Runs two processes in parallel. The first claims both threads and dies at an append, while the second one's client
/// sends the same messages and more. Returns whether the first one died.
fn play_beside(death: Death) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let once = Counter::default();
    let (has_taken, taken) = std::sync::mpsc::channel::<()>();
    let (has_ended, ended) = oneshot::channel();
    let (path, counter) = (folder.path(), &once);
    let second = move || {
        // Also begins if the first process died before it claimed both.
        let _ = taken.recv();
        runtime().block_on(async {
            let store = Mortal::open(path, None).await;
            work(&engine(&store, counter).await).await;
        });
        // The receiver is gone if the first process died.
        let _ = has_ended.send(());
    };
    let first = async move {
        let store = Mortal::open(path, Some(death)).await;
        let engine = engine(&store, counter).await;
        let begin = async {
            give_grants(&engine).await;
            for thread in THREADS {
                send(&engine, thread, 0).await;
            }
            drop(has_taken);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = store.died.notified() => true,
            _ = ended => false,
            () = begin => false,
        }
    };
    let has_died = std::thread::scope(|scope| {
        let second = scope.spawn(second);
        let has_died = runtime().block_on(first);
        second.join().unwrap();
        has_died
    });
    runtime().block_on(async {
        let store = Mortal::open(folder.path(), None).await;
        verify(&store, &once, has_died).await;
    });
    has_died
}

async fn verify(store: &Mortal, once: &Counter, has_died: bool) {
    let (mut doubts, mut tokens, mut uses) = (0, 0, BTreeMap::<String, u64>::new());
    for name in THREADS {
        let thread = ThreadId::from(name);
        let events = store.read(&thread, Seq(0), 1_000).await.unwrap();
        let (mut calls, mut finished) = (0, 0);
        let mut taken: Vec<InputId> = Vec::new();
        for Recorded { event, .. } in &events {
            match &event.fact {
                Fact::MessageReceived { id, .. } | Fact::MessageQueued { id, .. } => taken.push(id.clone()),
                Fact::StepReplied { message, usage, .. } => {
                    calls += message.calls().count();
                    tokens += usage.input.unwrap() + usage.output.unwrap();
                }
                Fact::ToolFinished { .. } => finished += 1,
                Fact::ToolInDoubt { .. } => doubts += 1,
                Fact::GrantUsed { grant, .. } => *uses.entry(grant.clone()).or_default() += 1,
                _ => {}
            }
        }
        assert_eq!(taken, [id(name, 0), id(name, 1)], "each message is taken once");
        assert_eq!((calls, finished), (4, 4));
        assert_eq!(store.inbox(&thread, 10).await.unwrap(), []);
        let runs = store.runs(&RunQuery::of(&thread, 10)).await.unwrap();
        assert_eq!(runs.len(), 2);
        let machine =
            Machine::restore(thread.clone(), None, events.into_iter().map(|recorded| recorded.event))
                .unwrap();
        assert_eq!(store.thread(&thread).await.unwrap().unwrap().view, thread_view(&machine));
        assert_eq!(store.open_reservations(&thread).await.unwrap(), []);
    }
    for record in store.store.list("grant", None, None, 10).await.unwrap() {
        let used = uses.get(&record.key).copied().unwrap_or_default();
        assert!(used >= 2, "each thread has used it: {used}");
        assert_eq!(record.value["remaining"], u64::from(GRANTED) - used);
    }
    let once = once.count();
    assert!((2..=2 + doubts).contains(&once), "{once} starts, {doubts} doubts");
    let [budget] = &*store.budgets("").await.unwrap() else { panic!("one budget") };
    assert_eq!(budget.reserved, 0);
    // A reply that a death has lost may have been charged for, so its reservation counts.
    assert!(budget.used == tokens || has_died && budget.used > tokens, "{budget:?}, {tokens} recorded");
}

// rows: LM-A7, SK-G16
#[test]
fn nothing_is_lost_or_done_twice_at_any_append_on_a_disk() {
    let mut deaths = 0;
    for is_written in [true, false] {
        for append in 0.. {
            if !play(&[Death { append, is_written }]) {
                break;
            }
            deaths += 1;
        }
    }
    assert!(
        deaths >= 2 * 16,
        "two runs of five steps and two of one append at least sixteen times: {deaths}"
    );
}

#[test]
fn nothing_is_lost_or_done_twice_where_the_next_process_dies_too() {
    for append in 1..12 {
        let first = Death { append: 2 * append, is_written: append % 2 == 0 };
        let second = Death { append: append % 5, is_written: append % 3 == 0 };
        play(&[first, second]);
    }
}

#[test]
fn nothing_is_lost_or_done_twice_where_one_of_two_processes_dies() {
    let dies = |append| play_beside(Death { append, is_written: append % 2 == 0 });
    let deaths = (0..).take_while(|append| dies(*append)).count();
    assert!(deaths >= 8, "the first process appends at least eight times: {deaths}");
}
