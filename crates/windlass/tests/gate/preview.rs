//! Previews: the effect of a call, shown with the approval and computed again before the call starts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use windlass::machine::{Answer, AutoRun, Digest, Fact, Given, InterruptKind, Limits, Reject};
use windlass::memory::MemoryStore;
use windlass::port::tool::CallContext;
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::builtin::file_tools;
use windlass::tool::{FunctionTool, WorkingFolder};
use windlass::{AgentConfig, Engine, EngineError, Outcome, Status, Task};

use super::{asking, facts, open, plan, runtime, store, task_in};
use crate::drive::{Text, party, registry, task};
use crate::tools::reader;

/// What a preview does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Tells,
    Fails,
    Panics,
    Hangs,
}

/// Data that a call changes, and that others may change meanwhile.
#[derive(Clone)]
struct World {
    value: Arc<Mutex<String>>,
    look: Arc<Mutex<Look>>,
    looks: Arc<AtomicU32>,
    looking: Arc<Notify>,
}

impl World {
    fn new(look: Look) -> Self {
        Self {
            value: Arc::new(Mutex::new("old".into())),
            look: Arc::new(Mutex::new(look)),
            looks: Arc::default(),
            looking: Arc::default(),
        }
    }

    fn value(&self) -> String {
        self.value.lock().unwrap().clone()
    }

    fn set(&self, value: &str) {
        *self.value.lock().unwrap() = value.into();
    }

    fn looks(&self) -> u32 {
        self.looks.load(Ordering::SeqCst)
    }

    fn tool(&self) -> FunctionTool {
        let (changed, seen) = (self.clone(), self.clone());
        let change = move |_: CallContext, text: Text| {
            let world = changed.clone();
            async move {
                world.set(&text.text);
                format!("said {}", text.text)
            }
        };
        FunctionTool::new("write", "changes the world", change).preview(move |_: CallContext, text: Text| {
            let world = seen.clone();
            async move {
                world.looks.fetch_add(1, Ordering::SeqCst);
                world.looking.notify_one();
                let look = *world.look.lock().unwrap();
                match look {
                    Look::Tells => Ok(format!("{} -> {}", world.value(), text.text)),
                    Look::Fails => Err("out of order".to_owned()),
                    Look::Panics => panic!("boom"),
                    Look::Hangs => std::future::pending().await,
                }
            }
        })
    }
}

async fn engine(store: &MemoryStore, world: &World) -> Engine {
    asking(store, &plan(&[&[("write", "new")]]), registry([world.tool()])).build().await.unwrap()
}

fn shown(outcome: &Outcome) -> &str {
    outcome.interrupts[0].preview.as_deref().unwrap()
}

async fn answer(engine: &Engine, waits: &Outcome, answer: Answer) -> Outcome {
    let asked = open(waits).remove(0);
    engine.thread(&waits.thread).answer(&asked, answer, party("ann")).await.unwrap();
    engine.run(&waits.run).wait().await.unwrap()
}

#[tokio::test]
async fn what_a_call_would_do_is_shown_and_looked_up_again() {
    let world = World::new(Look::Tells);
    let engine = engine(&store(), &world).await;
    let waits = engine.run_task(task("go")).await.unwrap();
    assert_eq!((shown(&waits), world.value().as_str(), world.looks()), ("old -> new", "old", 1));
    let ended = answer(&engine, &waits, Answer::Approve).await;
    assert_eq!((ended.text.as_deref(), world.value().as_str(), world.looks()), (Some("said new"), "new", 2));
    let told = facts(&engine, &ended.thread).await;
    let looked = told.iter().filter_map(|fact| match fact {
        Fact::CallPreviewed { digest, .. } => Some(*digest),
        _ => None,
    });
    assert_eq!(looked.collect::<Vec<_>>(), [Digest::of(b"old -> new"); 2]);
}

#[tokio::test]
async fn another_preview_than_the_one_approved_asks_again() {
    let world = World::new(Look::Tells);
    let engine = engine(&store(), &world).await;
    let mut waits = engine.run_task(task("go")).await.unwrap();
    for value in ["other", "third"] {
        world.set(value);
        waits = answer(&engine, &waits, Answer::Approve).await;
        assert_eq!((shown(&waits), world.value().as_str()), (&*format!("{value} -> new"), value));
    }
    let ended = answer(&engine, &waits, Answer::Approve).await;
    assert_eq!((ended.status, world.value().as_str()), (Status::Done, "new"));
}

#[tokio::test]
async fn other_arguments_are_shown_before_they_are_sent() {
    let world = World::new(Look::Tells);
    let engine = engine(&store(), &world).await;
    let waits = engine.run_task(task("go")).await.unwrap();
    let edit = Answer::Edit { arguments: r#"{"text":"mine"}"#.into() };
    let waits = answer(&engine, &waits, edit).await;
    assert_eq!((shown(&waits), world.value().as_str()), ("old -> mine", "old"));
    answer(&engine, &waits, Answer::Approve).await;
    assert_eq!(world.value(), "mine");
}

#[tokio::test(start_paused = true)]
async fn a_look_that_comes_to_nothing_says_so_and_people_decide() {
    for (look, why) in [
        (Look::Fails, "out of order"),
        (Look::Panics, "it crashed: boom"),
        (Look::Hangs, "it took longer than 50 ms"),
    ] {
        let world = World::new(look);
        let engine = engine(&store(), &world).await;
        let limits = Limits { call_timeout_ms: 50, ..Limits::default() };
        let agent = AgentConfig { limits, ..AgentConfig::from("test/scripted") };
        let waits = engine.run_task(Task { agent, ..task("go") }).await.unwrap();
        assert_eq!(shown(&waits), format!("It cannot be told what the call would do: {why}"));
        assert_eq!(world.value(), "old");
        // The preview succeeds now, so it differs.
        *world.look.lock().unwrap() = Look::Tells;
        let waits = answer(&engine, &waits, Answer::Approve).await;
        assert_eq!((shown(&waits), world.value().as_str()), ("old -> new", "old"));
        // And vice versa.
        *world.look.lock().unwrap() = look;
        let waits = answer(&engine, &waits, Answer::Approve).await;
        assert!(shown(&waits).ends_with(why), "{waits:?}");
        let ended = answer(&engine, &waits, Answer::Approve).await;
        assert_eq!((ended.status, world.value().as_str()), (Status::Done, "new"));
    }
}

#[test]
fn a_process_that_dies_while_it_looks_changes_nothing_and_another_looks_again() {
    let (store, world) = (store(), World::new(Look::Hangs));
    let run = runtime().block_on(async {
        let started = engine(&store, &world).await.start(task_in("t", "go")).await.unwrap();
        world.looking.notified().await;
        started.run
    });
    *world.look.lock().unwrap() = Look::Tells;
    let store = store.restarted();
    let waits = runtime().block_on(async {
        let engine = engine(&store, &world).await;
        engine.recover().await.unwrap();
        let waits = engine.run(&run).wait().await.unwrap();
        assert_eq!(shown(&waits), "old -> new");
        *world.look.lock().unwrap() = Look::Hangs;
        // The process dies again, between the approval and the call.
        let asked = open(&waits).remove(0);
        engine.thread(&"t".into()).answer(&asked, Answer::Approve, party("ann")).await.unwrap();
        world.looking.notified().await;
        waits
    });
    *world.look.lock().unwrap() = Look::Tells;
    assert_eq!(world.value(), "old");
    runtime().block_on(async {
        let engine = engine(&store.restarted(), &world).await;
        engine.recover().await.unwrap();
        let ended = engine.run(&waits.run).wait().await.unwrap();
        assert_eq!((ended.status, world.value().as_str()), (Status::Done, "new"), "approved is approved");
    });
}

#[tokio::test]
async fn no_preview_without_an_approval() {
    let world = World::new(Look::Tells);
    let models = plan(&[&[("write", "new")]]);
    let engine = asking(&store(), &models, registry([world.tool()])).auto_run(AutoRun::Everything);
    let ended = engine.build().await.unwrap().run_task(task("go")).await.unwrap();
    assert_eq!((ended.status, world.value().as_str(), world.looks()), (Status::Done, "new", 0));
}

#[tokio::test]
async fn an_approval_of_something_else_is_stale() {
    let world = World::new(Look::Tells);
    let engine = engine(&store(), &world).await;
    let waits = engine.run_task(task("go")).await.unwrap();
    let interrupt = open(&waits).remove(0);
    let InterruptKind::Approval { approval, .. } = waits.interrupts[0].kind else { panic!("{waits:?}") };
    let with = |seen: Digest| {
        let given = Given { interrupt: interrupt.clone(), answer: Answer::Approve, approval: Some(seen) };
        engine.thread(&waits.thread).answer_all(vec![given], party("ann"))
    };
    let stale = with(Digest::of(b"another")).await.unwrap_err();
    assert!(matches!(stale, EngineError::Rejected(Reject::Stale { .. })), "{stale}");
    assert_eq!(world.value(), "old");
    with(approval).await.unwrap();
    assert_eq!(engine.run(&waits.run).wait().await.unwrap().status, Status::Done);
}

/// Another program changes a file between the approval and the call.
#[tokio::test]
async fn a_file_that_changed_since_it_was_approved_asks_again() {
    let (folder, models) = (
        tempfile::tempdir().unwrap(),
        ScriptedModels::new(|call| match results(call) {
            0 => Line::tool("Edit", r#"{"file_path":"a.md","old_string":"two","new_string":"2"}"#),
            _ => Line::Say("done".into()),
        }),
    );
    let file = folder.path().join("a.md");
    std::fs::write(&file, "one\ntwo\n").unwrap();
    let tools = windlass::registry().add_all(file_tools(&reader())).unwrap();
    let working = Arc::new(WorkingFolder::open(folder.path()).unwrap());
    let engine = asking(&store(), &models, tools).folder(working).build().await.unwrap();
    let waits = engine.run_task(task("go")).await.unwrap();
    assert!(shown(&waits).ends_with(" one\n-two\n+2\n"), "{}", shown(&waits));
    std::fs::write(&file, "eins\ntwo\n").unwrap();
    let waits = answer(&engine, &waits, Answer::Approve).await;
    assert!(shown(&waits).ends_with(" eins\n-two\n+2\n"), "{}", shown(&waits));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "eins\ntwo\n");
    assert_eq!(answer(&engine, &waits, Answer::Approve).await.status, Status::Done);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "eins\n2\n");
}
