//! The rows of threads: a function of their journals only, and due by the wall clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use windlass::clock::ManualClock;
use windlass::machine::{EffectClass, Fact, Input, Machine, Rest, Seq, ThreadId, Timestamp};
use windlass::memory::MemoryStore;
use windlass::port::clock::Clock;
use windlass::port::journal::{Journal, ThreadStatus};
use windlass::port::tool::{CallContext, Deferral, Tool, ToolOutcome};
use windlass::testing::thread_view;
use windlass::tool::FunctionTool;
use windlass::{Attend, Engine, RunTools, Task};

use super::later::{pass, settle, status};
use super::{plan, put_down, runtime, task_in};
use crate::drive::{Text, memory};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// A tool of a run that defers each call once, by a minute, and counts its starts.
#[derive(Clone, Default)]
struct Deferring(Arc<AtomicU32>);

impl Deferring {
    fn tool(&self) -> Arc<dyn Tool> {
        let starts = self.0.clone();
        let tool = FunctionTool::new("own", "defers", move |context: CallContext, _: Text| {
            starts.fetch_add(1, Ordering::Relaxed);
            let is_first = context.resumed.is_none();
            async move {
                match is_first {
                    true => ToolOutcome::defer(Deferral {
                        after_ms: MINUTE_MS,
                        state: None,
                        rest: Rest::AsTheCall,
                    }),
                    false => ToolOutcome::text("done"),
                }
            }
        });
        Arc::new(tool.effect_class(EffectClass::Pure))
    }

    fn starts(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// An engine whose model calls the tool twice; without `tool`, it lacks the tool.
async fn engine(store: &MemoryStore, clock: &Arc<ManualClock>, tool: Option<Arc<dyn Tool>>) -> Engine {
    let ports = Arc::new(store.clone());
    let models = plan(&[&[("own", "a")], &[("own", "b")]]);
    let builder = memory(&models, windlass::registry()).ports(ports.clone(), ports.clone(), ports);
    let builder = builder.clock(clock.clone()).attend(Attend::All).shown_tokens(0);
    let builder = match tool {
        Some(tool) => builder.tools_of(move |_, _| Ok(vec![tool.clone()])),
        None => builder,
    };
    builder.build().await.unwrap()
}

async fn start(engine: &Engine, tool: Arc<dyn Tool>) {
    let task = Task { tools: RunTools::beside(vec![tool]), ..task_in("t", "go") };
    engine.start(task).await.unwrap();
}

fn title() -> Input {
    Input::Title { title: "renamed".into(), by: "ann".into() }
}

async fn assert_row_follows_from_the_journal(store: &MemoryStore) {
    let thread = ThreadId::from("t");
    let events = store.read(&thread, Seq(0), 10_000).await.unwrap();
    let machine = Machine::restore(thread.clone(), None, events.into_iter().map(|recorded| recorded.event));
    let row = store.thread(&thread).await.unwrap().unwrap();
    assert_eq!(row.view, thread_view(&machine.unwrap()));
}

#[tokio::test]
async fn a_process_that_lacks_a_sleeping_runs_tool_keeps_its_deadline() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    let own = Deferring::default();
    let first = engine(&store, &clock, Some(own.tool())).await;
    start(&first, own.tool()).await;
    pass(&clock, async || status(&first).await == ThreadStatus::Sleeping).await;
    put_down(&first, &"t".into()).await;
    let deadline = first.thread(&"t".into()).row().await.unwrap().view.deadline;
    let other = engine(&store.another_node(), &clock, None).await;
    other.thread(&"t".into()).send(title()).await.unwrap();
    put_down(&other, &"t".into()).await;
    let row = first.thread(&"t".into()).row().await.unwrap();
    assert_eq!((row.view.status, row.view.deadline), (ThreadStatus::Sleeping, deadline));
    drop(other);
    pass(&clock, async || status(&first).await == ThreadStatus::Idle).await;
    assert_eq!(own.starts(), 4);
}

#[tokio::test]
async fn a_sleep_that_begins_after_the_clock_was_corrected_ends_in_time() {
    let clock = Arc::new(ManualClock::new(Timestamp(24 * HOUR_MS), 1));
    let store = MemoryStore::new(clock.clone());
    let ports = Arc::new(store.clone());
    let before = memory(&plan(&[]), windlass::registry()).ports(ports.clone(), ports.clone(), ports);
    let before = before.clock(clock.clone()).build().await.unwrap();
    before.run_task(task_in("t", "hello")).await.unwrap();
    put_down(&before, &"t".into()).await;
    drop(before);
    clock.set(Timestamp(1_000));
    let own = Deferring::default();
    let engine = engine(&store, &clock, Some(own.tool())).await;
    start(&engine, own.tool()).await;
    pass(&clock, async || own.starts() == 4).await;
    let passed_ms = clock.now().since(Timestamp(1_000));
    assert!(passed_ms < 3 * MINUTE_MS, "two sleeps of a minute took {passed_ms} ms");
}

#[tokio::test]
async fn a_sleep_that_began_before_the_clock_was_set_back_ends_in_time() {
    let clock = Arc::new(ManualClock::new(Timestamp(24 * HOUR_MS), 1));
    let store = MemoryStore::new(clock.clone());
    let own = Deferring::default();
    let before = engine(&store, &clock, Some(own.tool())).await;
    start(&before, own.tool()).await;
    pass(&clock, async || status(&before).await == ThreadStatus::Sleeping).await;
    put_down(&before, &"t".into()).await;
    drop(before);
    clock.set(Timestamp(1_000));
    let engine = engine(&store.restarted(), &clock, Some(own.tool())).await;
    pass(&clock, async || status(&engine).await == ThreadStatus::Idle).await;
    let passed_ms = clock.now().since(Timestamp(1_000));
    assert!(passed_ms < 3 * MINUTE_MS, "two sleeps of a minute took {passed_ms} ms");
    let events = store.read(&"t".into(), Seq(0), 10_000).await.unwrap();
    let notes = events.iter().filter(|recorded| matches!(recorded.event.fact, Fact::Note { .. }));
    assert_eq!(notes.count(), 1, "the correction is recorded once");
}

#[derive(Clone, Debug)]
enum Action {
    Advance(u64),
    SetClock(u64),
    Rename,
    /// The process dies, and another one opens the store, with or without the run's tool.
    Restart {
        has_tool: bool,
    },
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (1..2 * MINUTE_MS).prop_map(Action::Advance),
        (1..4 * HOUR_MS).prop_map(Action::SetClock),
        Just(Action::Rename),
        any::<bool>().prop_map(|has_tool| Action::Restart { has_tool }),
    ]
}

fn play(actions: &[Action]) {
    let clock = Arc::new(ManualClock::new(Timestamp(2 * HOUR_MS), 1));
    let mut store = MemoryStore::new(clock.clone());
    let own = Deferring::default();
    let mut process = runtime();
    let mut current = process.block_on(async {
        let first = engine(&store, &clock, Some(own.tool())).await;
        start(&first, own.tool()).await;
        first
    });
    let last = Action::Restart { has_tool: true };
    for action in actions.iter().chain([&last]) {
        match action {
            Action::Advance(ms) => clock.advance_ms(*ms),
            Action::SetClock(at) => clock.set(Timestamp(*at)),
            Action::Rename => {
                process.block_on(current.thread(&"t".into()).send(title())).unwrap();
            }
            Action::Restart { has_tool } => {
                drop((current, process));
                (store, process) = (store.restarted(), runtime());
                current = process.block_on(engine(&store, &clock, has_tool.then(|| own.tool())));
            }
        }
        process.block_on(async {
            settle().await;
            assert_row_follows_from_the_journal(&store).await;
        });
    }
    process.block_on(async {
        // However far the clock was set back, no deadline is delayed by more than some minutes.
        for _ in 0..10 {
            clock.advance_ms(MINUTE_MS);
            settle().await;
            if status(&current).await == ThreadStatus::Idle {
                break;
            }
        }
        assert_eq!(status(&current).await, ThreadStatus::Idle);
        assert_row_follows_from_the_journal(&store).await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_threads_row_is_a_function_of_its_journal_alone(actions in prop::collection::vec(action(), 1..24)) {
        play(&actions);
    }
}
