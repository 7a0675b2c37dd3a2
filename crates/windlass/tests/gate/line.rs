//! The order of a step's calls: starts and results keep it, regardless of the order of answers and of when the process
//! dies.

use std::sync::Arc;

use windlass::machine::{Answer, AutoRun, EffectClass, Fact, Glob, Rule, RunOptions, ThreadId, Verdict};
use windlass::memory::{AppendFault, MemoryStore};
use windlass::port::journal::RunQuery;
use windlass::testing::scripted::ScriptedModels;
use windlass::tool::Registry;
use windlass::{Engine, Outcome, Status, Task};

use super::{Held, asking, facts, open, plan, runtime, store, task_in};
use crate::drive::{Counter, party, registry};

/// Tools; only `write` requires approval.
fn tools(counter: &Counter) -> Registry {
    registry([
        counter.tool("write", EffectClass::Idempotent),
        counter.tool("shell", EffectClass::Idempotent),
        counter.tool("read", EffectClass::Pure),
    ])
}

async fn engine(store: &MemoryStore, models: &ScriptedModels) -> Engine {
    let rule = Rule { tools: vec![Glob::new("shell")], ..Rule::new(Verdict::Allow) };
    asking(store, models, tools(&Counter::default())).rules(vec![rule]).build().await.unwrap()
}

/// Starts (`<`) and results (`>`) of the first step's calls, by index.
fn order(facts: &[Fact]) -> String {
    let told = |fact: &Fact| match fact {
        Fact::ToolStarted { call, .. } => Some(format!("<{}", call.index)),
        Fact::ToolFinished { call, .. } => Some(format!(">{}", call.index)),
        _ => None,
    };
    facts.iter().filter_map(told).collect()
}

/// Every permutation of some indices.
fn orders(places: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for place in 0..places {
        let into = |order: &Vec<usize>| {
            let order = order.clone();
            (0..=order.len()).map(move |at| {
                let mut order = order.clone();
                order.insert(at, place);
                order
            })
        };
        all = all.iter().flat_map(into).collect();
    }
    all
}

/// Approves the open interrupts in the given order, then drives the run to its end.
async fn answer_in(engine: &Engine, waits: Outcome, order: &[usize]) -> Outcome {
    let asked = open(&waits);
    for nth in order {
        let (interrupt, by) = (&asked[*nth], party("ann"));
        engine.thread(&waits.thread).answer(interrupt, Answer::Approve, by).await.unwrap();
    }
    engine.run(&waits.run).wait().await.unwrap()
}

#[tokio::test]
async fn calls_keep_their_places_in_whatever_order_people_answer() {
    for (calls, asks, started, said) in [
        (&[("write", "a"), ("shell", "b")][..], 1, "<0>0<1>1", "said a | said b"),
        (&[("shell", "a"), ("write", "b")], 1, "<0>0<1>1", "said a | said b"),
        (&[("write", "a"), ("read", "b")], 1, "<0>0<1>1", "said a | said b"),
        (&[("write", "a"), ("read", "b"), ("write", "c")], 2, "<0>0<1>1<2>2", "said a | said b | said c"),
        (&[("write", "a"), ("write", "b"), ("write", "c")], 3, "<0>0<1>1<2>2", "said a | said b | said c"),
    ] {
        for order_of_answers in orders(asks) {
            let engine = engine(&store(), &plan(&[calls])).await;
            let waits = engine.run_task(task_in("t", "go")).await.unwrap();
            assert_eq!(open(&waits).len(), asks, "all are asked at once: {calls:?}");
            let ended = answer_in(&engine, waits, &order_of_answers).await;
            assert_eq!(ended.text.as_deref(), Some(said), "{calls:?} {order_of_answers:?}");
            let found = order(&facts(&engine, &"t".into()).await);
            assert_eq!(found, started, "{calls:?} {order_of_answers:?}");
        }
    }
}

#[tokio::test]
async fn a_denied_call_lets_those_behind_it_go() {
    let engine = engine(&store(), &plan(&[&[("write", "a"), ("shell", "b")]])).await;
    let waits = engine.run_task(task_in("t", "go")).await.unwrap();
    let (deny, by) = (Answer::Deny { reason: None }, party("ann"));
    engine.thread(&"t".into()).answer(&open(&waits)[0], deny, by).await.unwrap();
    let said = engine.run(&waits.run).wait().await.unwrap().text.unwrap();
    assert!(said.starts_with("Tool call was denied by the user") && said.ends_with(" | said b"), "{said}");
    assert_eq!(order(&facts(&engine, &"t".into()).await), ">0<1>1");
}

/// Parallel reads: they start together and may end in any order.
#[tokio::test]
async fn parallel_reads_return_their_results_in_call_order() {
    for ended in orders(3) {
        let held: [Held; 3] = Default::default();
        let names = ["r0", "r1", "r2"];
        let tools = registry((0..3).map(|nth| held[nth].tool(names[nth], EffectClass::Pure)));
        let models = plan(&[&[("r0", ""), ("r1", ""), ("r2", "")]]);
        let engine = asking(&store(), &models, tools).build().await.unwrap();
        let started = engine.start(task_in("t", "go")).await.unwrap();
        for held in &held {
            held.begun.notified().await;
        }
        let thread = ThreadId::from("t");
        for (done, nth) in ended.iter().enumerate() {
            held[*nth].go.notify_one();
            let results = async || order(&facts(&engine, &thread).await).matches('>').count();
            while results().await == done {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(
            engine.run(&started.run).wait().await.unwrap().text.as_deref(),
            Some("let go | let go | let go")
        );
        let wanted: String = ended.iter().map(|nth| format!(">{nth}")).collect();
        assert_eq!(order(&facts(&engine, &thread).await), format!("<0<1<2{wanted}"));
    }
}

#[tokio::test]
async fn a_write_waits_for_the_reads_before_it_and_reads_wait_for_a_write() {
    let held = Held::default();
    let counter = Counter::default();
    let tools = tools(&counter).add(Arc::new(held.tool("slow", EffectClass::Pure))).unwrap();
    let models = plan(&[&[("slow", ""), ("read", "a"), ("shell", "b"), ("read", "c")]]);
    let engine = asking(&store(), &models, tools).auto_run(AutoRun::Everything).build().await.unwrap();
    let started = engine.start(task_in("t", "go")).await.unwrap();
    held.begun.notified().await;
    while order(&facts(&engine, &"t".into()).await) != "<0<1>1" {
        tokio::task::yield_now().await;
    }
    assert_eq!(counter.count(), 1);
    held.go.notify_one();
    assert_eq!(engine.run(&started.run).wait().await.unwrap().status, Status::Done);
    assert_eq!(order(&facts(&engine, &"t".into()).await), "<0<1>1>0<2>2<3>3");
}

// rows: ZE-H10
#[tokio::test]
async fn a_thread_may_run_all_its_calls_one_by_one() {
    let models = plan(&[&[("read", "a"), ("read", "b"), ("read", "c")]]);
    let options = RunOptions { serialized: true, ..RunOptions::default() };
    for (options, wanted) in [(options, "<0>0<1>1<2>2"), (RunOptions::default(), "<0<1<2>0>1>2")] {
        let engine = engine(&store(), &models).await;
        let ended = engine.run_task(Task { options, ..task_in("t", "go") }).await.unwrap();
        assert_eq!(ended.text.as_deref(), Some("said a | said b | said c"));
        let found = order(&facts(&engine, &"t".into()).await);
        let starts = |order: &str| order.split('>').next().map(str::to_owned);
        assert_eq!(starts(&found), starts(wanted), "{found}");
    }
}

/// Asserts that no call starts before all earlier ones have ended, unless both are reads.
fn check_line(calls: &[(&str, &str)], found: &str) {
    let mut done = vec![false; calls.len()];
    let mut signs = found.chars();
    while let (Some(sign), Some(place)) = (signs.next(), signs.next()) {
        let place = place.to_digit(10).unwrap() as usize;
        match sign {
            '>' => {
                assert!(!done[place], "one result each: {found}");
                done[place] = true;
            }
            _ => {
                let beside = |at: usize| calls[at..=place].iter().all(|(name, _)| *name == "read");
                assert!((0..place).all(|before| done[before] || beside(before)), "{calls:?}: {found}");
            }
        }
    }
    assert!(done.iter().all(|done| *done), "{found}");
}

// rows: OV-13, CF-8
#[test]
fn the_line_keeps_its_order_wherever_the_process_dies() {
    let mut deaths = 0;
    for calls in [
        &[("write", "a"), ("shell", "b")][..],
        &[("write", "a"), ("read", "b")],
        &[("read", "a"), ("read", "b"), ("read", "c")],
        &[("read", "a"), ("read", "b"), ("write", "c"), ("read", "d"), ("shell", "e")],
    ] {
        let said: Vec<String> = calls.iter().map(|(_, text)| format!("said {text}")).collect();
        for (fault, nth) in [AppendFault::DiesWritten, AppendFault::DiesNotWritten]
            .into_iter()
            .flat_map(|fault| (0..16).map(move |nth| (fault, nth)))
        {
            let (store, models) = (store(), plan(&[calls]));
            let drive = async |engine: &Engine, run: &windlass::machine::RunId| loop {
                let outcome = engine.run(run).wait().await.unwrap();
                if outcome.status != Status::Paused {
                    return outcome;
                }
                // In reverse order.
                let asked = open(&outcome);
                answer_in(engine, outcome, &(0..asked.len()).rev().collect::<Vec<_>>()).await;
            };
            let died = runtime().block_on(async {
                let engine = engine(&store, &models).await;
                (0..nth).for_each(|_| store.fail_append(AppendFault::Nothing));
                store.fail_append(fault);
                let run = async {
                    let started = engine.start(task_in("t", "go")).await.unwrap();
                    drive(&engine, &started.run).await
                };
                tokio::select! {
                    biased;
                    () = store.died() => true,
                    _ = run => false,
                }
            });
            deaths += usize::from(died);
            let store = store.restarted();
            runtime().block_on(async {
                let engine = engine(&store, &models).await;
                engine.recover().await.unwrap();
                let Some(row) = engine.runs(&RunQuery::newest(1)).await.unwrap().pop() else { return };
                let ended = drive(&engine, &row.view.run).await;
                assert_eq!(ended.text, Some(said.join(" | ")), "{calls:?} {fault:?} {nth}");
                check_line(calls, &order(&facts(&engine, &"t".into()).await));
            });
        }
    }
    assert!(deaths >= 4 * 2 * 4, "{deaths}");
}
