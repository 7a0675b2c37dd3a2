//! Restoring files as of a position of a thread: which files are restored, which are spared, and processes that die in
//! between.

use std::fs;
use std::future::Future;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde_json::json;
use windlass::clock::SystemClock;
use windlass::machine::{Answer, EffectClass, Fact, Role, Seq, ThreadId};
use windlass::memory::{AppendFault, MemoryStore};
use windlass::port::journal::RunQuery;
use windlass::port::tool::{CallContext, ToolOutput};
use windlass::testing::scripted::{Line, ScriptedModels};
use windlass::tool::builtin::{edit, write};
use windlass::tool::{FunctionTool, Registry, WorkingFolder};
use windlass::{Engine, FileFate, RestoreMode, Restored, Status, Task};

use super::{Text, memory, party, registry, stored, task};

/// Each user message is one call: its tool, then its arguments.
pub fn script() -> ScriptedModels {
    ScriptedModels::new(|call| match call.request.messages.last() {
        Some(last) if last.role == Role::User => {
            let text = last.shown_text();
            let (tool, arguments) = text.split_once(' ').unwrap();
            Line::tool(tool, arguments)
        }
        Some(_) | None => Line::Say("done".into()),
    })
}

/// `Write`, `Edit`, a tool that deletes through the folder, and one that bypasses it.
pub fn tools() -> Registry {
    let remove =
        FunctionTool::new("Remove", "deletes a file", |context: CallContext, path: Text| async move {
            let folder = context.folder.unwrap();
            let removed =
                tokio::task::spawn_blocking(move || folder.remove(&folder.resolve(&path.text)?)).await;
            match removed.unwrap() {
                Ok(()) => ToolOutput::text("gone"),
                Err(error) => ToolOutput::error(error.to_string()),
            }
        });
    let round =
        FunctionTool::new("Round", "writes without telling", |context: CallContext, path: Text| async move {
            fs::write(context.folder.unwrap().path().join(path.text), "round").unwrap();
            ToolOutput::text("done")
        });
    let look = FunctionTool::new("Look", "reads", |_: CallContext, _: Text| async move { "seen" });
    registry([
        write(),
        edit(),
        remove.effect_class(EffectClass::Once),
        round.effect_class(EffectClass::Once),
        look.effect_class(EffectClass::Pure),
    ])
}

async fn engine(folder: &Path, store: &MemoryStore) -> Engine {
    let ports = Arc::new(store.clone());
    let working = WorkingFolder::open(folder).unwrap();
    memory(&script(), tools())
        .ports(ports.clone(), ports.clone(), ports)
        .folder(Arc::new(working))
        .build()
        .await
        .unwrap()
}

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(SystemClock::new()))
}

pub fn writes(path: &str, content: &str) -> String {
    format!("Write {}", json!({"file_path": path, "content": content}))
}

/// Makes one call. Returns the thread's position after it.
async fn call(engine: &Engine, text: &str) -> Seq {
    let outcome = engine.run_task(Task { thread: Some("t".into()), ..task(text) }).await.unwrap();
    assert_eq!(outcome.status, Status::Done, "{outcome:?}");
    engine.thread(&"t".into()).row().await.unwrap().head
}

async fn restore(engine: &Engine, at: Seq, mode: RestoreMode) -> Restored {
    engine.thread(&ThreadId::from("t")).files().restore(at, mode).await.unwrap()
}

fn fates(restored: &Restored) -> Vec<(&str, FileFate)> {
    restored.files.iter().map(|file| (file.path.as_str(), file.fate)).collect()
}

fn read(folder: &Path, name: &str) -> Option<String> {
    fs::read(folder.join(name)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

// rows: ZE-P9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_tools_changed_is_put_back_at_a_fork() {
    let (folder, store) = (tempfile::tempdir().unwrap(), store());
    let root = folder.path();
    let engine = engine(root, &store).await;
    fs::write(root.join("old.bin"), b"\xff\x00old").unwrap();
    fs::write(root.join("gone.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("gone.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::write(root.join("same.txt"), "same").unwrap();
    let at = call(&engine, &writes("before.txt", "first")).await;
    call(&engine, &writes("old.bin", "new")).await;
    call(&engine, &writes("deep/er/made.txt", "made")).await;
    call(&engine, r#"Remove {"text":"gone.sh"}"#).await;
    call(&engine, r#"Edit {"file_path":"before.txt","old_string":"first","new_string":"second"}"#).await;
    call(&engine, &writes("before.txt", "third")).await;
    call(&engine, &writes("same.txt", "same")).await;

    let expected = [
        ("before.txt", FileFate::Restored),
        ("deep/er/made.txt", FileFate::Removed),
        ("gone.sh", FileFate::Restored),
        ("old.bin", FileFate::Restored),
        ("same.txt", FileFate::Unchanged),
    ];
    let preview = restore(&engine, at, RestoreMode::Preview).await;
    assert_eq!((fates(&preview), &preview.unseen), (expected.to_vec(), &vec![]));
    assert_eq!(read(root, "before.txt").as_deref(), Some("third"), "a preview changes nothing");
    let fork = engine.thread(&"t".into()).fork(at, "ann".into(), None).await.unwrap();
    let done = restore(&engine, at, RestoreMode::Spare).await;
    assert_eq!(done, preview);
    assert_eq!(fs::read(root.join("old.bin")).unwrap(), b"\xff\x00old");
    assert_eq!(read(root, "before.txt").as_deref(), Some("first"));
    assert_eq!(read(root, "deep/er/made.txt"), None);
    assert_eq!(read(root, "gone.sh").as_deref(), Some("#!/bin/sh\n"));
    let mode = fs::metadata(root.join("gone.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);

    // Repeating it changes nothing, even after the origin is deleted: the fork names the blobs that it needs.
    let again = restore(&engine, at, RestoreMode::Spare).await;
    assert!(again.files.iter().all(|file| file.fate == FileFate::Unchanged), "{again:?}");
    engine.thread(&"t".into()).delete().await.unwrap();
    let first = engine.thread(&fork).files().restore(Seq(1), RestoreMode::Spare).await.unwrap();
    assert_eq!(fates(&first), [("before.txt", FileFate::Removed)]);
    assert_eq!(read(root, "before.txt"), None);
}

// rows: ZE-P9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_changed_by_others_are_kept_unless_overwriting() {
    let (folder, outside, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), store());
    let root = folder.path();
    let engine = engine(root, &store).await;
    for name in ["theirs", "between", "linked", "dir", "read-only", "lost"] {
        fs::write(root.join(name), "old").unwrap();
        call(&engine, &writes(name, "new")).await;
    }
    fs::create_dir(root.join("sub")).unwrap();
    call(&engine, &writes("sub/a", "new")).await;
    // After the tool, between two of its changes, and in place of the file.
    fs::write(root.join("theirs"), "NEW").unwrap();
    fs::write(root.join("between"), "theirs").unwrap();
    call(&engine, &writes("between", "again")).await;
    fs::write(outside.path().join("a"), "new").unwrap();
    fs::remove_file(root.join("linked")).unwrap();
    symlink(outside.path().join("a"), root.join("linked")).unwrap();
    fs::remove_dir_all(root.join("sub")).unwrap();
    symlink(outside.path(), root.join("sub")).unwrap();
    fs::remove_file(root.join("dir")).unwrap();
    fs::create_dir(root.join("dir")).unwrap();
    fs::set_permissions(root.join("read-only"), fs::Permissions::from_mode(0o444)).unwrap();
    fs::remove_file(root.join("lost")).unwrap();
    let large = "x".repeat(8 * 1024 * 1024 + 1);
    fs::write(root.join("large"), &large).unwrap();
    call(&engine, &writes("large", "small")).await;

    let spared = restore(&engine, Seq(1), RestoreMode::Spare).await;
    let expected = [
        ("between", FileFate::ChangedSince),
        ("dir", FileFate::Failed),
        ("large", FileFate::NotKept),
        ("linked", FileFate::Failed),
        ("lost", FileFate::ChangedSince),
        ("read-only", FileFate::Failed),
        ("sub/a", FileFate::Failed),
        ("theirs", FileFate::ChangedSince),
    ];
    assert_eq!(fates(&spared), expected);
    assert_eq!(read(root, "theirs").as_deref(), Some("NEW"));
    let overwritten = restore(&engine, Seq(1), RestoreMode::Overwrite).await;
    let back = ["between", "lost", "theirs"];
    for file in &overwritten.files {
        assert_eq!(back.contains(&file.path.as_str()), file.fate == FileFate::Restored, "{file:?}");
    }
    assert!(back.iter().all(|name| read(root, name).as_deref() == Some("old")));
    assert_eq!(read(outside.path(), "a").as_deref(), Some("new"), "it never leaves the folder");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_said_which_calls_may_have_changed_more() {
    let (folder, store) = (tempfile::tempdir().unwrap(), store());
    let engine = engine(folder.path(), &store).await;
    let at = call(&engine, r#"Round {"text":"first"}"#).await;
    call(&engine, r#"Round {"text":"a"}"#).await;
    call(&engine, &writes("../out", "refused")).await;
    let restored = restore(&engine, at, RestoreMode::Spare).await;
    let unseen: Vec<_> = restored.unseen.iter().map(|call| call.tool.as_str()).collect();
    assert_eq!((unseen, restored.unseen_total, restored.files.len()), (vec!["Round"], 1, 0));
    assert_eq!(read(folder.path(), "a").as_deref(), Some("round"));
    let beyond = engine.thread(&"t".into()).files().restore(Seq(9_999), RestoreMode::Preview).await;
    assert!(beyond.unwrap_err().to_string().contains("event 9999 does not exist"));
}

/// While files are restored, no run begins in any process; later inputs are handled afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_asked_for_meanwhile_begins_when_the_files_are_back() {
    let (folder, stores) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = folder.path();
    let process = async || {
        let working = Arc::new(WorkingFolder::open(root).unwrap());
        stored(stores.path(), &script(), tools()).folder(working).build().await.unwrap()
    };
    let (here, elsewhere) = (process().await, process().await);
    let names: Vec<String> = (10..30).map(|n| format!("{n}.txt")).collect();
    for name in &names {
        fs::write(root.join(name), "old").unwrap();
        call(&here, &writes(name, "new")).await;
    }
    let thread = ThreadId::from("t");
    let all = |text: &str| names.iter().all(|name| read(root, name).as_deref() == Some(text));
    for (nth, engine) in [&here, &elsewhere].into_iter().enumerate() {
        let head = here.thread(&thread).row().await.unwrap().head;
        let mut restores = Box::pin(here.thread(&thread).files().restore(Seq(1), RestoreMode::Overwrite));
        while all("new") {
            let polled = restores.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Pending), "it ended unseen");
            tokio::task::yield_now().await;
        }
        let (engine, text) = (engine.clone(), writes("asked.txt", &nth.to_string()));
        let asked = tokio::spawn(async move { call(&engine, &text).await });
        tokio::time::sleep(std::time::Duration::from_millis(200)).await; // tidy: sleep no event may happen meanwhile
        assert_eq!(here.thread(&thread).row().await.unwrap().head, head, "a run began");
        restores.await.unwrap();
        assert!(all("old"));
        asked.await.unwrap();
        assert_eq!(read(root, "asked.txt"), Some(nth.to_string()));
        for name in &names {
            call(&here, &writes(name, "new")).await;
        }
    }
    // A restore that is dropped in the middle blocks no run either.
    let mut dropped = Box::pin(here.thread(&thread).files().restore(Seq(1), RestoreMode::Overwrite));
    while all("new") {
        let _ = dropped.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        tokio::task::yield_now().await;
    }
    drop(dropped);
    call(&elsewhere, &writes("10.txt", "again")).await;
    assert_eq!(read(root, "10.txt").as_deref(), Some("again"));
}

/// Within a step, the calls are recorded before the position.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_a_begun_step_are_listed_by_name() {
    let (folder, store) = (tempfile::tempdir().unwrap(), store());
    let engine = engine(folder.path(), &store).await;
    call(&engine, &writes("a", "new")).await;
    call(&engine, r#"Round {"text":"b"}"#).await;
    call(&engine, r#"Look {"text":"c"}"#).await;
    let events = engine.thread(&"t".into()).events(Seq(0), 1_000).await.unwrap();
    let is_call = |fact: &Fact| matches!(fact, Fact::StepReplied { stop, .. } if *stop == windlass::machine::StopReason::ToolCalls);
    let replied: Vec<Seq> =
        events.iter().filter(|it| is_call(&it.event.fact)).map(|recorded| recorded.seq).collect();
    let [write, round, look] = replied[..] else { panic!("{replied:?}") };
    let unseen = async |at: Seq| {
        let restored = restore(&engine, at, RestoreMode::Preview).await;
        restored.unseen.into_iter().map(|call| (call.tool, call.seq)).collect::<Vec<_>>()
    };
    let begun = |after: Seq| {
        let mut starts = events.iter().filter(|it| matches!(it.event.fact, Fact::ToolStarted { .. }));
        starts.find(|recorded| recorded.seq > after).unwrap().seq
    };
    let known = [("Round".to_owned(), begun(round))];
    for at in [Seq(1), write, begun(write), round, begun(round)] {
        assert_eq!(unseen(at).await, known, "at {at}");
    }
    for at in [Seq(begun(round).0 + 1), look, begun(look)] {
        assert_eq!(unseen(at).await, [], "at {at}");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A file is changed only after its record is in the journal, regardless of the append at which the process dies.
// rows: ZE-P9
#[test]
fn a_process_that_dies_at_any_append_leaves_a_file_that_can_be_put_back() {
    let mut deaths = 0;
    for fault in [AppendFault::DiesWritten, AppendFault::DiesNotWritten] {
        for nth in 0.. {
            let (folder, store) = (tempfile::tempdir().unwrap(), store());
            let root = folder.path();
            fs::write(root.join("a"), "old").unwrap();
            (0..nth).for_each(|_| store.fail_append(AppendFault::Nothing));
            store.fail_append(fault);
            let died = runtime().block_on(async {
                let (engine, text) = (engine(root, &store).await, writes("a", "new"));
                tokio::select! {
                    biased;
                    () = store.died() => true,
                    _ = call(&engine, &text) => false,
                }
            });
            if !died {
                break;
            }
            deaths += 1;
            let changed = read(root, "a").as_deref() == Some("new");
            runtime().block_on(check_after_death(root, &store.restarted(), (changed, nth)));
        }
    }
    assert!(deaths >= 2 * 4, "{deaths}");
}

async fn check_after_death(root: &Path, store: &MemoryStore, (changed, nth): (bool, usize)) {
    let engine = engine(root, store).await;
    let thread = ThreadId::from("t");
    let events = engine.thread(&thread).events(Seq(0), 1_000).await.unwrap();
    let recorded = events.iter().any(|one| matches!(one.event.fact, Fact::FileChanging { .. }));
    assert!(recorded || !changed, "append {nth}: the file was changed before it was recorded");
    engine.recover().await.unwrap();
    let Some(row) = engine.runs(&RunQuery::of(&thread, 1)).await.unwrap().pop() else { return };
    let mut outcome = engine.run(&row.view.run).wait().await.unwrap();
    while outcome.status == Status::Paused {
        for open in &outcome.interrupts {
            engine.thread(&thread).answer(&open.interrupt, Answer::Retry, party("ann")).await.unwrap();
        }
        outcome = engine.run(&row.view.run).wait().await.unwrap();
    }
    assert_eq!(read(root, "a").as_deref(), Some("new"), "append {nth}");
    let restored = restore(&engine, Seq(1), RestoreMode::Spare).await;
    assert_eq!(fates(&restored), [("a", FileFate::Restored)], "append {nth}");
    assert_eq!(read(root, "a").as_deref(), Some("old"));
}

/// A restore that dies between two files and is repeated ends in the same state.
#[test]
fn a_restore_that_dies_between_two_files_is_done_again() {
    let (folder, store) = (tempfile::tempdir().unwrap(), store());
    let root = folder.path();
    let names: Vec<String> = (10..30).map(|n| format!("{n}.txt")).collect();
    let left = || names.iter().filter(|name| read(root, name).as_deref() == Some("new")).count();
    runtime().block_on(async {
        let engine = engine(root, &store).await;
        for name in &names {
            fs::write(root.join(name), "old").unwrap();
            call(&engine, &writes(name, "new")).await;
        }
        let thread = ThreadId::from("t");
        let mut dying = Box::pin(engine.thread(&thread).files().restore(Seq(1), RestoreMode::Spare));
        while left() == names.len() {
            let polled = dying.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Pending), "it ended unseen");
            tokio::task::yield_now().await;
        }
    });
    assert!(left() > 0);
    runtime().block_on(async {
        let engine = engine(root, &store.restarted()).await;
        let restored = restore(&engine, Seq(1), RestoreMode::Spare).await;
        let of = |fate| restored.files.iter().filter(|file| file.fate == fate).count();
        assert!(
            of(FileFate::Unchanged) > 0 && of(FileFate::Unchanged) + of(FileFate::Restored) == names.len()
        );
    });
    assert!(names.iter().all(|name| read(root, name).as_deref() == Some("old")));
}
