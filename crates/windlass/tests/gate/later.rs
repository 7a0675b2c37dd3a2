//! Deferred calls: nothing of them is held meanwhile, in any process, and each resumes once.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use windlass::clock::ManualClock;
use windlass::machine::{
    AutoRun, EffectClass, Fact, Glob, InterruptKind, Outcome, Policy, Rest, Rule, Timestamp, Verdict,
};
use windlass::port::journal::ThreadStatus;
use windlass::port::tool::{CallContext, Deferral, ToolOutcome};
use windlass::tool::FunctionTool;
use windlass::{Attend, Builder, Engine, Status};

use super::{facts, plan, put_down, runtime, task_in};
use crate::drive::{Text, registry, stored};

const DAY_MS: u64 = 24 * 3_600_000;

/// A tool's record of its starts: how often it was deferred, and the state it received.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn starts(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// A tool that defers its call several times and then returns.
    fn tool(&self, class: EffectClass, (after_ms, often): (u64, u32)) -> FunctionTool {
        let seen = self.clone();
        let tool = FunctionTool::new("later", "waits", move |context: CallContext, _: Text| {
            let seen = seen.clone();
            async move {
                let times = context.resumed.as_ref().map_or(0, |resumed| resumed.times);
                let state = context.resumed.and_then(|resumed| resumed.state).unwrap_or_default();
                seen.0.lock().unwrap().push(format!("{times} {state}").trim().to_owned());
                if times == often {
                    return ToolOutcome::text(format!("came back with {state}"));
                }
                let state = Some(format!("page {}", times + 1));
                ToolOutcome::defer(Deferral { after_ms, state, rest: Rest::AsTheCall })
            }
        });
        tool.effect_class(class)
    }
}

fn built(folder: &Path, clock: &Arc<ManualClock>, tool: FunctionTool) -> Builder {
    stored(folder, &plan(&[&[("later", "a")]]), registry([tool])).clock(clock.clone())
}

/// Lets all due work happen.
pub(super) async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}

/// Advances the time in steps until a condition holds.
pub(super) async fn pass(clock: &ManualClock, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..1_000 {
        if holds().await {
            return;
        }
        clock.advance_ms(1_000);
        settle().await;
    }
    panic!("it never comes to pass");
}

/// The thread's status.
pub(super) async fn status(engine: &Engine) -> ThreadStatus {
    engine.thread(&"t".into()).row().await.unwrap().view.status
}

// rows: LM-T11
#[test]
fn a_deferred_call_is_persisted_and_resumes_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let seen = Seen::default();
    let tool = || seen.tool(EffectClass::Once, (100 * DAY_MS, 2));
    let first = runtime();
    let run = first.block_on(async {
        let engine = built(folder.path(), &clock, tool()).attend(Attend::All).build().await.unwrap();
        let started = engine.start(task_in("t", "go")).await.unwrap();
        pass(&clock, async || status(&engine).await == ThreadStatus::Sleeping).await;
        // No process holds it, and no interrupt is open.
        put_down(&engine, &started.thread).await;
        let row = engine.thread(&started.thread).row().await.unwrap();
        assert!(row.view.deadline.unwrap().since(Timestamp(1_000)) >= 100 * DAY_MS);
        assert_eq!(row.view.interrupts, 0);
        let outcome = engine.run(&started.run).status().await.unwrap();
        assert_eq!((outcome.status, outcome.text), (Status::Running, None));
        started.run
    });
    drop(first);
    let next = runtime();
    let ended = next.block_on(async {
        let engine = built(folder.path(), &clock, tool()).attend(Attend::All).build().await.unwrap();
        clock.advance_ms(99 * DAY_MS);
        settle().await;
        assert_eq!((seen.starts(), status(&engine).await), (vec!["0".to_owned()], ThreadStatus::Sleeping));
        assert!(!engine.thread(&"t".into()).is_driven());
        clock.advance_ms(2 * DAY_MS);
        pass(&clock, async || seen.starts().len() == 2 && status(&engine).await == ThreadStatus::Sleeping)
            .await;
        clock.advance_ms(100 * DAY_MS);
        pass(&clock, async || status(&engine).await == ThreadStatus::Idle).await;
        engine.run(&run).status().await.unwrap()
    });
    assert_eq!(seen.starts(), ["0", "1 page 1", "2 page 2"]);
    // Two hundred days exceed a run's time limit, but sleeping does not count.
    assert_eq!((ended.status, ended.text.as_deref()), (Status::Done, Some("came back with page 2")));
    assert_eq!(ended.figures.calls, 1);
}

#[tokio::test]
async fn a_process_without_a_sweeper_keeps_driving_a_deferred_call() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let seen = Seen::default();
    let tool = seen.tool(EffectClass::Pure, (DAY_MS, 1));
    let engine = built(folder.path(), &clock, tool).build().await.unwrap();
    let started = engine.start(task_in("t", "go")).await.unwrap();
    pass(&clock, async || status(&engine).await == ThreadStatus::Sleeping).await;
    assert!(engine.thread(&"t".into()).is_driven(), "no other driver would wake it");
    clock.advance_ms(DAY_MS);
    let ended = engine.run(&started.run).wait().await.unwrap();
    assert_eq!((ended.status, seen.starts().len()), (Status::Done, 2));
}

#[tokio::test]
async fn a_run_is_cancelled_in_its_sleep() {
    for (class, wanted) in [(EffectClass::Pure, Outcome::Cancelled), (EffectClass::Once, Outcome::InDoubt)] {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
        let seen = Seen::default();
        let tool = seen.tool(class, (DAY_MS, 1));
        let engine = built(folder.path(), &clock, tool).attend(Attend::All).build().await.unwrap();
        let started = engine.start(task_in("t", "go")).await.unwrap();
        pass(&clock, async || status(&engine).await == ThreadStatus::Sleeping).await;
        put_down(&engine, &started.thread).await;
        engine.run(&started.run).cancel("ann".into()).await.unwrap();
        assert_eq!(engine.run(&started.run).wait().await.unwrap().status, Status::Cancelled);
        let facts = facts(&engine, &started.thread).await;
        let told = facts.iter().find_map(|fact| match fact {
            Fact::ToolFinished { outcome, .. } => Some(*outcome),
            _ => None,
        });
        assert_eq!((told, seen.starts().len()), (Some(wanted), 1));
    }
}

#[tokio::test]
async fn a_resumed_call_is_judged_by_the_current_policy() {
    for (class, wanted, says) in [
        (EffectClass::Pure, Outcome::Denied, "Tool call was denied by policy"),
        // What it did before is unknown.
        (EffectClass::Once, Outcome::InDoubt, "Outcome unknown: repeating the call was denied by policy"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
        let seen = Seen::default();
        let tool = seen.tool(class, (DAY_MS, 1));
        let engine = built(folder.path(), &clock, tool).attend(Attend::All).build().await.unwrap();
        let started = engine.start(task_in("t", "go")).await.unwrap();
        pass(&clock, async || status(&engine).await == ThreadStatus::Sleeping).await;
        let deny =
            Rule { name: Some("r".into()), tools: vec![Glob::new("later")], ..Rule::new(Verdict::Deny) };
        engine.policy().replace(Policy {
            rules: vec![deny],
            auto_run: AutoRun::Everything,
            ..Policy::default()
        });
        clock.advance_ms(DAY_MS);
        let ended = engine.run(&started.run).wait();
        tokio::pin!(ended);
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut ended => break ended.unwrap(),
                () = settle() => clock.advance_ms(1_000),
            }
        };
        assert!(ended.text.as_ref().unwrap().starts_with(says), "{ended:?}");
        let outcome = facts(&engine, &started.thread).await.into_iter().find_map(|fact| match fact {
            Fact::ToolFinished { outcome, .. } => Some(outcome),
            _ => None,
        });
        assert_eq!((outcome, seen.starts().len()), (Some(wanted), 1));
    }
}

/// If state that a call needs to resume is lost, its earlier effect is unknown.
#[tokio::test]
async fn a_call_that_cannot_resume_is_in_doubt() {
    for (class, wanted) in [
        (EffectClass::Once, None),
        (
            EffectClass::Pure,
            Some("Stopped: The working folder of this thread is not available: there is no folder"),
        ),
        (EffectClass::Idempotent, Some("there is no folder. It may or may not have taken effect")),
    ] {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
        let folder = tempfile::tempdir().unwrap();
        let (seen, asked) = (Seen::default(), Arc::new(AtomicU32::new(0)));
        let found = asked.clone();
        let builder = built(folder.path(), &clock, seen.tool(class, (DAY_MS, 1)));
        let builder = builder.attend(Attend::All).folders(move |_, _| {
            if found.fetch_add(1, Ordering::SeqCst) == 0 {
                Ok(None)
            } else {
                Err("there is no folder".into())
            }
        });
        let engine = builder.build().await.unwrap();
        let started = engine.start(task_in("t", "go")).await.unwrap();
        pass(&clock, async || status(&engine).await == ThreadStatus::Sleeping).await;
        put_down(&engine, &started.thread).await;
        clock.advance_ms(DAY_MS);
        let done = async || matches!(status(&engine).await, ThreadStatus::Waiting | ThreadStatus::Idle);
        pass(&clock, done).await;
        assert_eq!((seen.starts().len(), asked.load(Ordering::SeqCst) > 1), (1, true), "{class:?}");
        let told = facts(&engine, &started.thread).await.into_iter().find_map(|fact| match fact {
            Fact::ToolFinished { content, .. } => Some(format!("{content:?}")),
            _ => None,
        });
        match wanted {
            Some(wanted) => assert!(told.as_ref().is_some_and(|told| told.contains(wanted)), "{told:?}"),
            None => {
                assert_eq!(told, None);
                let outcome = engine.run(&started.run).status().await.unwrap();
                let InterruptKind::InDoubt { .. } = outcome.interrupts[0].kind else { panic!("{outcome:?}") };
            }
        }
    }
}
