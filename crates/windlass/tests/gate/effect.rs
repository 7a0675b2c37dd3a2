//! A call with an effect, and a process that dies at every append and every dispatch: the bank debits once, or the call
//! is reported as in doubt.

use std::sync::Arc;

use windlass::clock::SystemClock;
use windlass::machine::{Answer, AutoRun, InterruptKind, RunId, ThreadId};
use windlass::memory::{AppendFault, MemoryStore};
use windlass::port::journal::RunQuery;
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::{Engine, Outcome, Status};

use super::bank::{Bank, Death, Pays, Wire, tools};
use super::{asking, runtime, task_in};
use crate::drive::party;

/// One case: the bank's behaviour, how it is reached, and who approves the call.
#[derive(Clone, Copy, Debug)]
struct Case {
    pays: Pays,
    wire: Wire,
    auto_run: AutoRun,
    /// Whether another process on the store answers.
    elsewhere: bool,
}

/// Where the process dies.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// At this append, counted from 0.
    Append(usize, AppendFault),
    /// At this request to the bank.
    Request(usize, Death),
}

fn script() -> ScriptedModels {
    ScriptedModels::new(|call| match results(call) {
        0 => Line::tool("pay", r#"{"order":"o-1"}"#),
        _ => Line::Say("done".into()),
    })
}

async fn engine(store: &MemoryStore, bank: &Bank, case: Case) -> Engine {
    let tools = tools(bank, case.wire, case.pays);
    asking(store, &script(), tools).auto_run(case.auto_run).build().await.unwrap()
}

/// Drives a run to its end. Approves calls, and answers doubts from the bank's books. Returns the number of doubts.
async fn finish(
    store: &MemoryStore,
    bank: &Bank,
    (mut asked, run): (Engine, &RunId),
    case: Case,
) -> (Outcome, u32) {
    let mut doubts = 0;
    loop {
        let outcome = asked.run(run).wait().await.unwrap();
        if outcome.status != Status::Paused {
            return (outcome, doubts);
        }
        if case.elsewhere {
            // A process whose runs all wait holds no thread, once it has released this one.
            while asked.thread(&outcome.thread).is_driven() {
                tokio::task::yield_now().await;
            }
            asked = engine(&store.another_node(), bank, case).await;
        }
        let [open] = &*outcome.interrupts else { panic!("one at a time: {outcome:?}") };
        let answer = match &open.kind {
            InterruptKind::Approval { .. } => Answer::Approve,
            InterruptKind::InDoubt { .. } => {
                doubts += 1;
                match bank.debits() {
                    0 => Answer::Retry,
                    _ => Answer::Done { result: "paid o-1".into() },
                }
            }
            other => panic!("{other:?}"),
        };
        asked.thread(&outcome.thread).answer(&open.interrupt, answer, party("ann")).await.unwrap();
    }
}

/// Runs until the process dies. Returns `false` if the run ended before.
fn run_and_die(store: &MemoryStore, bank: &Bank, case: Case, place: Place) -> bool {
    match place {
        Place::Append(nth, fault) => {
            (0..nth).for_each(|_| store.fail_append(AppendFault::Nothing));
            store.fail_append(fault);
        }
        Place::Request(nth, death) => {
            (0..nth).for_each(|_| bank.let_die(Death::None));
            bank.let_die(death);
        }
    }
    // Appends are counted in the process that dies, so that process answers itself.
    let here = Case { elsewhere: false, ..case };
    runtime().block_on(async {
        let first = engine(store, bank, here).await;
        let run = async {
            let started = first.start(task_in("t", "go")).await.unwrap();
            finish(store, bank, (first, &started.run), here).await
        };
        tokio::select! {
            biased;
            () = store.died() => true,
            () = bank.died() => true,
            _ = run => false,
        }
    })
}

/// Another process resumes. Every debit is made once, unless its outcome is reported as unknown.
fn resume_elsewhere(store: &MemoryStore, bank: &Bank, case: Case, place: Place) {
    let at_death = bank.debits();
    assert!(at_death <= 1, "{case:?} {place:?}");
    runtime().block_on(async {
        let next = engine(store, bank, case).await;
        next.recover().await.unwrap();
        let thread = ThreadId::from("t");
        let Some(row) = next.runs(&RunQuery::of(&thread, 1)).await.unwrap().pop() else {
            // The sender received no acknowledgement of the message.
            assert!(matches!(place, Place::Append(0, AppendFault::DiesNotWritten)), "{case:?} {place:?}");
            assert_eq!(bank.debits(), 0);
            return;
        };
        let (outcome, doubts) = finish(store, bank, (next, &row.view.run), case).await;
        assert_eq!(
            (outcome.status, outcome.text.as_deref()),
            (Status::Done, Some("done")),
            "{case:?} {place:?}"
        );
        match case.pays {
            Pays::Pure => {
                assert!(bank.reads() >= 1 && doubts == 0, "{case:?} {place:?}");
                return;
            }
            Pays::Keyed | Pays::Idempotent => assert_eq!(doubts, 0, "{case:?} {place:?}"),
            Pays::Reconciled => {
                assert!(doubts == 0 || at_death == 0, "the read finds it: {case:?} {place:?}")
            }
            Pays::Once => assert!(doubts <= 1, "{case:?} {place:?}"),
        }
        assert_eq!(bank.debits(), 1, "{case:?} {place:?}, {doubts} doubts");
        let keys = bank.keys();
        assert!(keys.iter().all(|key| *key == keys[0]), "{case:?} {place:?}: {keys:?}");
    });
}

fn check(case: Case, place: Place) -> bool {
    let (store, bank) = (MemoryStore::new(Arc::new(SystemClock::new())), Bank::default());
    let wire = if case.wire == Wire::Function { Wire::Function } else { Wire::Http(bank.open()) };
    let case = Case { wire, ..case };
    if !run_and_die(&store, &bank, case, place) {
        return false;
    }
    resume_elsewhere(&store.restarted(), &bank, case, place);
    true
}

/// Dies at every point in every case. Returns the number of deaths.
fn dies_everywhere(wire: Wire) -> usize {
    let mut deaths = 0;
    for pays in Pays::ALL {
        for (auto_run, elsewhere) in
            [(AutoRun::Everything, false), (AutoRun::Ask, false), (AutoRun::Ask, true)]
        {
            let case = Case { pays, wire, auto_run, elsewhere };
            for fault in [AppendFault::DiesWritten, AppendFault::DiesNotWritten] {
                deaths += (0..).take_while(|nth| check(case, Place::Append(*nth, fault))).count();
            }
            for death in [Death::Before, Death::After] {
                deaths += (0..).take_while(|nth| check(case, Place::Request(*nth, death))).count();
            }
        }
    }
    deaths
}

// rows: ZE-H3, WT-X3
#[test]
fn a_bank_behind_a_function_debits_once_wherever_the_process_dies() {
    let deaths = dies_everywhere(Wire::Function);
    assert!(deaths >= 5 * (2 * 3 + 2 + 2 * (2 * 4 + 2)), "{deaths}");
}

// rows: ZE-H3, WT-X3
#[test]
fn a_bank_behind_http_debits_once_wherever_the_process_dies() {
    let deaths = dies_everywhere(Wire::Http(0));
    assert!(deaths >= 5 * (2 * 3 + 2 + 2 * (2 * 4 + 2)), "{deaths}");
}
