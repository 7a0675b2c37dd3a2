//! Forks with separate folders: their initial files, files reported as not restored, rejected forks, and processes that
//! die in between. The origin's folder never changes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use windlass::clock::SystemClock;
use windlass::machine::{Answer, AutoRun, EffectClass, Fact, Seq, ThreadId};
use windlass::memory::{AppendFault, MemoryStore};
use windlass::port::journal::ThreadQuery;
use windlass::port::tool::CallContext;
use windlass::tool::{FunctionTool, WorkingFolder};
use windlass::{
    Engine, EngineError, FileFate, ForkFiles, ForkFolder, ForkedThread, Status, Task, UnrestoredReason,
};

use super::restore::{script, tools, writes};
use super::{Text, memory, party, registry, task};

/// An engine whose threads have separate folders below one directory.
pub struct Homes {
    root: tempfile::TempDir,
    store: MemoryStore,
}

impl Homes {
    pub fn new() -> Self {
        let store = MemoryStore::new(Arc::new(SystemClock::new()));
        Self { root: tempfile::tempdir().unwrap(), store }
    }

    pub async fn engine(&self) -> Engine {
        self.engine_over(&self.store, AutoRun::Everything).await
    }

    async fn engine_over(&self, store: &MemoryStore, auto_run: AutoRun) -> Engine {
        let (ports, root) = (Arc::new(store.clone()), self.root.path().to_owned());
        let folders = move |thread: &ThreadId, _: Option<&str>| {
            let path = root.join(thread.as_str());
            fs::create_dir_all(&path).map_err(|error| error.to_string())?;
            WorkingFolder::open(&path).map(|folder| Some(Arc::new(folder))).map_err(|error| error.to_string())
        };
        let builder = memory(&script(), tools()).ports(ports.clone(), ports.clone(), ports);
        builder.folders(folders).auto_run(auto_run).build().await.unwrap()
    }

    pub fn folder(&self, thread: &str) -> PathBuf {
        self.root.path().join(thread)
    }

    pub fn put(&self, thread: &str, path: &str, content: &str) {
        fs::create_dir_all(self.folder(thread)).unwrap();
        fs::write(self.folder(thread).join(path), content).unwrap();
    }

    /// Every file of a thread's folder.
    pub fn files(&self, thread: &str) -> BTreeMap<String, Vec<u8>> {
        let (root, mut files) = (self.folder(thread), BTreeMap::new());
        let mut open = vec![root.clone()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    let name = path.strip_prefix(&root).unwrap().display().to_string();
                    files.insert(name, fs::read(path).unwrap());
                }
            }
        }
        files
    }

    fn texts(&self, thread: &str) -> Vec<(String, String)> {
        let texts = self.files(thread).into_iter();
        texts.map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap())).collect()
    }

    /// The number of folders, of threads or left behind.
    fn folders(&self) -> usize {
        fs::read_dir(self.root.path()).unwrap().count()
    }
}

/// Makes one call in a thread. Returns the thread's position after it.
pub async fn call(engine: &Engine, thread: &str, text: &str) -> Seq {
    let outcome = engine.run_task(Task { thread: Some(thread.into()), ..task(text) }).await.unwrap();
    assert_eq!(outcome.status, Status::Done, "{outcome:?}");
    engine.thread(&thread.into()).row().await.unwrap().head
}

pub async fn fork(engine: &Engine, thread: &str, at: Seq) -> Result<ForkedThread, EngineError> {
    engine.thread(&thread.into()).files().fork(at, "ann".into(), None).await
}

fn texts(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn named(files: &ForkFiles) -> Vec<(&str, UnrestoredReason)> {
    files.not_restored.iter().map(|file| (file.path.as_str(), file.reason)).collect()
}

fn restored(files: &ForkFiles) -> Vec<(&str, FileFate)> {
    files.restored.iter().map(|file| (file.path.as_str(), file.fate)).collect()
}

// rows: ZE-P9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_has_the_files_of_its_event_and_the_other_folder_stays() {
    let homes = Homes::new();
    let engine = homes.engine().await;
    homes.put("t", "given.csv", "a,b\n");
    call(&engine, "t", &writes("notes.md", "first")).await;
    let at = call(&engine, "t", &writes("deep/gone.md", "here")).await;
    call(&engine, "t", &writes("notes.md", "second")).await;
    call(&engine, "t", &writes("later.md", "later")).await;
    call(&engine, "t", &writes("given.csv", "c\n")).await;
    call(&engine, "t", r#"Remove {"text":"deep/gone.md"}"#).await;
    let before = homes.files("t");

    let preview = engine.thread(&"t".into()).files().preview_fork(at).await.unwrap();
    assert_eq!(homes.folders(), 1, "a preview makes nothing");
    let made = fork(&engine, "t", at).await.unwrap();
    assert_eq!(preview, made.files);
    assert_eq!(made.files.folder, ForkFolder::Copied);
    let expected = [
        ("deep/gone.md", FileFate::Restored),
        ("given.csv", FileFate::Restored),
        ("later.md", FileFate::Removed),
        ("notes.md", FileFate::Restored),
    ];
    assert_eq!((restored(&made.files), named(&made.files)), (expected.to_vec(), vec![]));
    let files = texts(&[("deep/gone.md", "here"), ("given.csv", "a,b\n"), ("notes.md", "first")]);
    assert_eq!(homes.texts(made.thread.as_str()), files);
    assert_eq!(homes.files("t"), before);

    // Changes in the fork are visible in the fork only. A fork at its end reports nothing.
    let end = call(&engine, made.thread.as_str(), &writes("notes.md", "otherwise")).await;
    assert_eq!(homes.files("t"), before);
    let again = fork(&engine, made.thread.as_str(), end).await.unwrap();
    assert_eq!((restored(&again.files), named(&again.files)), (vec![], vec![]));
    assert_eq!(homes.files(again.thread.as_str()), homes.files(made.thread.as_str()));
    // A restored file is as old as the event, so a fork of the fork does not take it for a later one.
    let same = Seq(at.0 + 1);
    let back = fork(&engine, made.thread.as_str(), same).await.unwrap();
    assert_eq!((restored(&back.files), named(&back.files)), (vec![("notes.md", FileFate::Restored)], vec![]));
    assert_eq!(homes.texts(back.thread.as_str()), files);
}

// rows: ZE-P9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_commands_changed_are_named_and_stay_as_they_are() {
    let homes = Homes::new();
    let engine = homes.engine().await;
    let round = |path: &str| format!("Round {}", json!({ "text": path }));
    call(&engine, "t", &writes("early.md", "first")).await;
    call(&engine, "t", &writes("undone.md", "first")).await;
    let at = call(&engine, "t", &writes("between.md", "first")).await;
    for path in ["early.md", "made.md", "undone.md", "between.md", "before.md"] {
        call(&engine, "t", &round(path)).await;
    }
    // Changed by a command, and later by a tool.
    call(&engine, "t", &writes("between.md", "second")).await;
    call(&engine, "t", &writes("before.md", "second")).await;
    call(&engine, "t", &writes("undone.md", "second")).await;
    call(&engine, "t", &writes("clean.md", "second")).await;
    let made = fork(&engine, "t", at).await.unwrap();
    let changed = UnrestoredReason::ChangedUnrecorded;
    let expected =
        ["before.md", "between.md", "early.md", "made.md", "undone.md"].map(|path| (path, changed));
    assert_eq!(named(&made.files), expected);
    assert_eq!(made.files.not_restored_total, 5);
    assert_eq!(made.files.unseen_total, 5);
    let texts = texts(&[
        ("before.md", "round"),
        ("between.md", "round"),
        ("early.md", "round"),
        ("made.md", "round"),
        ("undone.md", "round"),
    ]);
    assert_eq!(homes.texts(made.thread.as_str()), texts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_content_was_not_recorded_is_named() {
    let homes = Homes::new();
    let engine = homes.engine().await;
    let at = call(&engine, "t", &writes("a.md", "first")).await;
    homes.put("t", "large.bin", &"x".repeat(8 * 1024 * 1024 + 1));
    call(&engine, "t", &writes("large.bin", "small")).await;
    let made = fork(&engine, "t", at).await.unwrap();
    assert_eq!(named(&made.files), [("large.bin", UnrestoredReason::NotRecorded)]);
    let why = &made.files.not_restored[0].why;
    assert!(why.contains("8388609 bytes") && why.contains("present content"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_over_the_limit_is_refused_before_anything_is_made() {
    let homes = Homes::new();
    let engine = homes.engine().await;
    let at = call(&engine, "t", &writes("a.md", "first")).await;
    let large = fs::File::create(homes.folder("t").join("large.bin")).unwrap();
    large.set_len(1024 * 1024 * 1024).unwrap();
    let words = "the folder of thread `t` cannot be copied: its files have more than 1073741824 bytes";
    assert_eq!(fork(&engine, "t", at).await.unwrap_err().to_string(), words);
    assert_eq!(engine.thread(&"t".into()).files().preview_fork(at).await.unwrap_err().to_string(), words);
    assert_eq!((homes.folders(), engine.threads(&ThreadQuery::default()).await.unwrap().len()), (1, 1));
    // Without the file, there is room.
    fs::remove_file(homes.folder("t").join("large.bin")).unwrap();
    fork(&engine, "t", at).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_where_no_fork_begins_is_refused_before_anything_is_made() {
    let homes = Homes::new();
    let engine = homes.engine().await;
    let at = call(&engine, "t", &writes("a.md", "first")).await;
    let said = async |at: u64| fork(&engine, "t", Seq(at)).await.unwrap_err().to_string();
    assert!(said(at.0 + 1).await.contains("does not exist"));
    let events = engine.thread(&"t".into()).events(Seq(0), 1_000).await.unwrap();
    let end = events.iter().find(|one| matches!(one.event.fact, Fact::RunFinished { .. })).unwrap().seq;
    assert!(said(end.0 - 1).await.starts_with("a run is active at event"));
    let missing = fork(&engine, "t2", at).await.unwrap_err();
    assert!(matches!(missing, EngineError::NoThread(_)), "{missing}");
    assert_eq!(homes.folders(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_whose_run_waits_for_a_person_is_forked() {
    let homes = Homes::new();
    let engine = homes.engine_over(&homes.store, AutoRun::Ask).await;
    let at = {
        let outcome = engine.start(Task { thread: Some("t".into()), ..task(&writes("a.md", "new")) }).await;
        let run = outcome.unwrap().run;
        let paused = engine.run(&run).wait().await.unwrap();
        assert_eq!(paused.status, Status::Paused);
        let open = &paused.interrupts[0].interrupt;
        engine.thread(&"t".into()).answer(open, Answer::Approve, party("ann")).await.unwrap();
        assert_eq!(engine.run(&run).wait().await.unwrap().status, Status::Done);
        engine.thread(&"t".into()).row().await.unwrap().head
    };
    let second = engine.start(Task { thread: Some("t".into()), ..task(&writes("a.md", "second")) }).await;
    let run = second.unwrap().run;
    let paused = engine.run(&run).wait().await.unwrap();
    let made = fork(&engine, "t", at).await.unwrap();
    assert_eq!(homes.texts(made.thread.as_str()), texts(&[("a.md", "new")]));
    // The origin's open interrupt is not affected.
    let open = &paused.interrupts[0].interrupt;
    engine.thread(&"t".into()).answer(open, Answer::Approve, party("ann")).await.unwrap();
    assert_eq!(engine.run(&run).wait().await.unwrap().status, Status::Done);
    assert_eq!(homes.texts("t"), texts(&[("a.md", "second")]));
    assert_eq!(homes.texts(made.thread.as_str()), texts(&[("a.md", "new")]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_with_a_call_in_flight_is_not_forked() {
    let homes = Homes::new();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (held, begun) = (gate.clone(), Arc::new(tokio::sync::Notify::new()));
    let told = begun.clone();
    let waits = FunctionTool::new("Wait", "waits", move |_: CallContext, _: Text| {
        let (held, told) = (held.clone(), told.clone());
        async move {
            told.notify_one();
            drop(held.acquire().await);
            "done"
        }
    });
    let root = homes.root.path().to_owned();
    let engine = memory(&script(), registry([waits.effect_class(EffectClass::Once)]))
        .folders(move |thread, _| {
            fs::create_dir_all(root.join(thread.as_str())).unwrap();
            Ok(Some(Arc::new(WorkingFolder::open(root.join(thread.as_str())).unwrap())))
        })
        .build()
        .await
        .unwrap();
    let task = Task { thread: Some("t".into()), ..task(r#"Wait {"text":"x"}"#) };
    let run = engine.start(task).await.unwrap().run;
    begun.notified().await;
    let refused = fork(&engine, "t", Seq(1)).await.unwrap_err();
    assert!(matches!(refused, EngineError::Active { .. }), "{refused}");
    assert_eq!(
        refused.to_string(),
        "a run is active in this thread and may change files; wait for it, or cancel it"
    );
    let looked = engine.thread(&"t".into()).files().preview_fork(Seq(1)).await.unwrap_err();
    assert!(matches!(looked, EngineError::Active { .. }), "{looked}");
    gate.add_permits(1);
    engine.run(&run).wait().await.unwrap();
    fork(&engine, "t", Seq(1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_others_have_too_is_shared_and_left_alone() {
    let (folder, homes) = (tempfile::tempdir().unwrap(), Homes::new());
    let shared = Arc::new(WorkingFolder::open(folder.path()).unwrap());
    let (found, taken) = (shared.clone(), homes.folder("taken"));
    fs::create_dir(&taken).unwrap();
    let engines = [
        memory(&script(), tools()).folder(shared).build().await.unwrap(),
        memory(&script(), tools()).folders(move |_, _| Ok(Some(found.clone()))).build().await.unwrap(),
    ];
    for engine in engines {
        let at = call(&engine, "t", &writes("a.md", "first")).await;
        call(&engine, "t", &writes("a.md", "second")).await;
        let made = fork(&engine, "t", at).await.unwrap();
        assert_eq!(made.files, ForkFiles::without_copy(ForkFolder::Shared));
        assert_eq!(fs::read_to_string(folder.path().join("a.md")).unwrap(), "second");
    }
    // A folder that already has files is not used as a copy.
    let root = homes.root.path().to_owned();
    let engine = memory(&script(), tools())
        .folders(move |thread, _| {
            let name = if thread.as_str() == "t" { "t" } else { "taken" };
            fs::create_dir_all(root.join(name)).unwrap();
            Ok(Some(Arc::new(WorkingFolder::open(root.join(name)).unwrap())))
        })
        .build()
        .await
        .unwrap();
    let at = call(&engine, "t", &writes("a.md", "first")).await;
    fs::write(taken.join("mine.md"), "mine").unwrap();
    let refused = fork(&engine, "t", at).await.unwrap_err();
    assert!(matches!(&refused, EngineError::Config(why) if why.contains("is not empty")), "{refused}");
    assert_eq!(homes.texts("taken"), texts(&[("mine.md", "mine")]));
    assert_eq!(engine.threads(&ThreadQuery::default()).await.unwrap().len(), 1);
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// The append creates the thread. Regardless of its outcome, an existing thread has its complete folder.
// rows: ZE-P9
#[test]
fn a_fork_that_dies_has_its_whole_folder_or_is_not_there() {
    let faults = [
        (AppendFault::DiesNotWritten, 1, 2),
        (AppendFault::DiesWritten, 2, 2),
        (AppendFault::UnknownAndWritten, 2, 2),
        (AppendFault::UnknownAndNotWritten, 2, 2),
        // The folder of a thread that was certainly not created is removed.
        (AppendFault::Refused, 1, 1),
    ];
    for (fault, threads, folders) in faults {
        let homes = Homes::new();
        runtime().block_on(async {
            let engine = homes.engine().await;
            // This file has no record, so only a copy can contain it.
            homes.put("t", "given.csv", "a,b\n");
            let at = call(&engine, "t", &writes("a.md", "first")).await;
            call(&engine, "t", &writes("a.md", "second")).await;
            homes.store.fail_append(fault);
            tokio::select! {
                biased;
                () = homes.store.died() => {}
                made = fork(&engine, "t", at) => assert_eq!(made.is_ok(), fault != AppendFault::Refused, "{fault:?}"),
            }
        });
        let rows = runtime().block_on(async {
            let engine = homes.engine_over(&homes.store.restarted(), AutoRun::Everything).await;
            engine.threads(&ThreadQuery::default()).await.unwrap()
        });
        assert_eq!((rows.len(), homes.folders()), (threads, folders), "{fault:?}");
        for row in rows {
            let text = if row.thread.as_str() == "t" { "second" } else { "first" };
            assert_eq!(
                homes.texts(row.thread.as_str()),
                texts(&[("a.md", text), ("given.csv", "a,b\n")]),
                "{fault:?}"
            );
        }
    }
}

/// If the caller stops waiting, the fork is still completed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_completes_after_its_caller_stops_waiting() {
    let homes = Homes::new();
    let engine = homes.engine().await;
    let at = call(&engine, "t", &writes("a.md", "first")).await;
    let mut made = Box::pin(fork(&engine, "t", at));
    let polled = futures::poll!(made.as_mut());
    assert!(polled.is_pending());
    drop(made);
    let there = async || engine.threads(&ThreadQuery::default()).await.unwrap();
    while there().await.len() < 2 {
        tokio::task::yield_now().await;
    }
    let rows = there().await;
    assert!(rows.iter().all(|row| homes.texts(row.thread.as_str()) == texts(&[("a.md", "first")])));
}

/// Whether or not files share their blocks, a copy is a separate file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_shares_no_file_with_the_other_folder() {
    let homes = Homes::new();
    let engine = homes.engine().await;
    let at = call(&engine, "t", &writes("a.md", "first")).await;
    let made = fork(&engine, "t", at).await.unwrap();
    let inode = |path: &Path| fs::metadata(path.join("a.md")).unwrap().ino();
    assert_ne!(inode(&homes.folder("t")), inode(&homes.folder(made.thread.as_str())));
}
