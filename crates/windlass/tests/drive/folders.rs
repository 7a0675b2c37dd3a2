//! Threads with separate folders: where their tools work, and what happens if the folder is missing.
//!
//! The folders are real; the tool writes into the folder of its call.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use windlass::clock::ManualClock;
use windlass::machine::{AutoRun, EffectClass, Fact, Role, Seq, ThreadId, Timestamp};
use windlass::memory::MemoryStore;
use windlass::port::journal::{RunQuery, ThreadStatus};
use windlass::port::tool::{CallContext, ToolOutput};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::builtin::file_tools;
use windlass::tool::{FunctionTool, Registry, WorkingFolder};
use windlass::{Engine, Status, Task};

use super::attend::settle;
use super::{Text, memory, registry, stored, task};

/// Two steps of one call each, then the end; one more call for a second message.
fn twice() -> ScriptedModels {
    ScriptedModels::new(|call| match (results(call), call.request.messages.last().map(|last| last.role)) {
        (0 | 1, _) | (2, Some(Role::User)) => Line::tool("leave", r#"{"text":"a mark"}"#),
        _ => Line::Say("done".into()),
    })
}

/// A tool that creates a file in its folder.
fn leaves() -> Registry {
    let leave = async |context: CallContext, text: Text| match context.folder {
        Some(folder) => {
            std::fs::write(folder.path().join("mark.txt"), text.text).unwrap();
            ToolOutput::text("left")
        }
        None => ToolOutput::text("no folder"),
    };
    let leave = move |context: CallContext, text: Text| Box::pin(leave(context, text));
    registry([FunctionTool::new("leave", "leaves a mark", leave).effect_class(EffectClass::Once)])
}

fn open(path: &Path) -> Result<Option<Arc<WorkingFolder>>, String> {
    std::fs::create_dir_all(path).map_err(|error| error.to_string())?;
    WorkingFolder::open(path).map(|folder| Some(Arc::new(folder))).map_err(|error| error.to_string())
}

/// The results of a thread's calls.
async fn told(engine: &Engine, thread: &ThreadId) -> Vec<(String, bool)> {
    let events = engine.thread(thread).events(Seq(0), 1_000).await.unwrap();
    let told = events.into_iter().filter_map(|recorded| match recorded.event.fact {
        Fact::ToolFinished { content, error, .. } => {
            let texts = content.iter().filter_map(|block| match block {
                windlass::machine::Block::Text { text, .. } => text.inline().map(str::to_owned),
                _ => None, // tidy: the tool answers in text
            });
            Some((texts.collect(), error))
        }
        _ => None, // tidy: no other events hold results
    });
    told.collect()
}

#[tokio::test]
async fn each_thread_works_in_its_own_folder_which_is_looked_for_once() {
    let base = tempfile::tempdir().unwrap();
    let asked: Arc<Mutex<Vec<_>>> = Arc::default();
    let (heard, root) = (asked.clone(), base.path().to_owned());
    let engine = memory(&twice(), leaves())
        .folders(move |thread, recorded| {
            heard.lock().unwrap().push((thread.to_string(), recorded.map(str::to_owned)));
            open(&root.join(recorded.unwrap_or(thread.as_str())))
        })
        .build()
        .await
        .unwrap();
    for (thread, folder) in [("t1", None), ("t2", Some("named")), ("t2", Some("other"))] {
        let folder = folder.map(str::to_owned);
        let outcome =
            engine.run_task(Task { thread: Some(thread.into()), folder, ..task("go") }).await.unwrap();
        assert_eq!(outcome.status, Status::Done);
    }
    let is_marked = |name: &str| base.path().join(name).join("mark.txt").exists();
    assert_eq!(["t1", "named", "t2", "other"].map(is_marked), [true, true, false, false]);
    // The folder is recorded with the thread, regardless of later tasks. The engine calls the host once each time it
    // opens the thread.
    let named = |thread: &str| (thread.to_owned(), (thread == "t2").then(|| "named".to_owned()));
    assert_eq!(*asked.lock().unwrap(), [named("t1"), named("t2"), named("t2")]);
    assert_eq!(engine.thread(&"t2".into()).row().await.unwrap().view.folder.as_deref(), Some("named"));
    assert_eq!(engine.thread(&"t1".into()).row().await.unwrap().view.folder, None);
}

#[tokio::test]
async fn a_folder_that_is_not_there_fails_the_call_and_is_looked_for_again() {
    let base = tempfile::tempdir().unwrap();
    let (count, root) = (Arc::new(AtomicU32::new(0)), base.path().to_owned());
    for (first, wanted) in [(0, "looking for it crashed"), (1, "not available: the disk is away")] {
        let (count, root) = (count.clone(), root.clone());
        count.store(0, Ordering::SeqCst);
        let engine = memory(&twice(), leaves())
            .folders(move |_, _| match (count.fetch_add(1, Ordering::SeqCst), first) {
                (0, 0) => panic!("a defect of the program"),
                (0, _) => Err("the disk is away".to_owned()),
                _ => open(&root),
            })
            .build()
            .await
            .unwrap();
        let outcome = engine.run_task(task("go")).await.unwrap();
        assert_eq!(outcome.status, Status::Done);
        let told = told(&engine, &outcome.thread).await;
        let [(failed, true), (left, false)] = &told[..] else { panic!("{told:?}") };
        assert!(failed.contains(wanted), "{failed}");
        assert_eq!(left, "left");
    }
}

#[tokio::test]
async fn the_store_stays_out_of_the_folder_of_every_thread() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().to_owned();
    let engine = stored(&base.path().join("apart/store"), &twice(), leaves())
        .folders(move |thread, _| open(&root.join(thread.as_str())))
        .build()
        .await
        .unwrap();
    for (thread, wanted) in [("apart", "lies inside the working folder"), ("beside", "left")] {
        let outcome = engine.run_task(Task { thread: Some(thread.into()), ..task("go") }).await.unwrap();
        assert_eq!(outcome.status, Status::Done);
        for (told, _) in told(&engine, &thread.into()).await {
            assert!(told.contains(wanted), "{told}");
        }
    }
    assert!(!base.path().join("apart/mark.txt").exists());
    assert_eq!(engine.runs(&RunQuery::newest(0)).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_folder_that_hangs_delays_a_cancel_by_seconds() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let ports = Arc::new(MemoryStore::new(clock.clone()));
    let models = ScriptedModels::new(|_| Line::tool("Write", r#"{"file_path":"a","content":"x"}"#));
    let (end, hangs) = std::sync::mpsc::channel::<()>();
    let hangs = Mutex::new(hangs);
    let find = move |_: &ThreadId, _: Option<&str>| {
        let _ = hangs.lock().unwrap().recv();
        Err("it hung".to_owned())
    };
    let built = memory(&models, windlass::registry().add_all(file_tools(&crate::tools::reader())).unwrap())
        .auto_run(AutoRun::Ask);
    let built = built.ports(ports.clone(), ports.clone(), ports).clock(clock.clone());
    let engine = built.folders(find).build().await.unwrap();
    let started = engine.start(task("go")).await.unwrap();
    while engine.thread(&started.thread).row().await.unwrap().view.status != ThreadStatus::Waiting {
        clock.advance_ms(1_000);
        settle().await;
    }
    let mut cancel = std::pin::pin!(engine.run(&started.run).cancel("ann".into()));
    for _ in 0..6 {
        assert!((&mut cancel).now_or_never().is_none_or(|cancelled| cancelled.is_ok()));
        settle().await;
        clock.advance_ms(1_000);
        settle().await;
    }
    assert_eq!(engine.thread(&started.thread).row().await.unwrap().view.status, ThreadStatus::Idle);
    drop(end);
}
