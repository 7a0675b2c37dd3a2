//! Background commands that are no longer needed, with engines: real processes, which must be gone with their
//! descendants.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass::clock::SystemClock;
use windlass::machine::{Content, Principal, Role, Rule, ThreadId, Verdict, WhenBusy};
use windlass::port::model::ModelCall;
use windlass::port::records::Expect;
use windlass::sqlite::SqliteFolder;
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::WorkingFolder;
use windlass::tool::builtin::{BashSettings, bash_tools};
use windlass::{Engine, EngineError, Started, Status, Task};

use super::{alive, gone};
use crate::drive::task;

/// A store and a folder, and the marker of the test's sleepers.
struct World {
    root: TempDir,
    marker: String,
}

impl World {
    fn new(nth: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("inside")).unwrap();
        Self { root, marker: format!("{}.{nth}", 90_000 + std::process::id()) }
    }

    fn begun(&self, name: &str) -> PathBuf {
        self.root.path().join("inside").join(name)
    }

    async fn engine(&self) -> Engine {
        let folder = WorkingFolder::open(self.root.path().join("inside")).unwrap();
        let tools = bash_tools(BashSettings::default(), Arc::new(SystemClock::new())).unwrap();
        let builder = windlass::builder()
            .store(SqliteFolder::new(self.root.path().join("store")))
            .folder(Arc::new(folder));
        let builder =
            builder.models(Arc::new(ScriptedModels::new(script))).rules(vec![Rule::new(Verdict::Allow)]);
        builder.tools(windlass::registry().add_all(tools).unwrap()).build().await.unwrap()
    }

    /// Starts a command with sleepers in a separate session; the run then ends, or hangs if `word` is `hang`.
    async fn begin(&self, engine: &Engine, thread: Option<ThreadId>, name: &str, word: &str) -> Started {
        let sleeper = self.sleeper(name);
        let command = format!(
            "setsid sh -c 'trap \"\" TERM; sleep {sleeper} & sleep {sleeper}' & echo {word} > {name}; sleep {sleeper}"
        );
        let started = engine.start(Task { thread, ..task(&command) }).await.unwrap();
        let sleeps = || self.begun(name).exists() && alive(&sleeper) >= 4;
        while !sleeps() {
            tokio::task::yield_now().await;
        }
        if word != "hang" {
            assert_eq!(engine.run(&started.run).wait().await.unwrap().status, Status::Done);
        }
        // Its processes exist before it is listed.
        let is_listed = async || {
            let listed = engine.thread(&started.thread).commands().await.unwrap();
            listed.iter().any(|command| command.run == started.run)
        };
        while !is_listed().await {
            tokio::task::yield_now().await;
        }
        started
    }

    fn sleeper(&self, name: &str) -> String {
        format!("{}{}", self.marker, name.len())
    }
}

/// Each message is a command that runs in the background; then the run ends, or hangs.
fn script(call: &ModelCall) -> Line {
    let said = call.request.messages.iter().filter(|message| message.role == Role::User);
    let texts = said.filter_map(|message| match message.texts().next() {
        Some(Content::Inline(text)) => Some(text.as_str()),
        Some(Content::Blob(_)) | None => None,
    });
    let commands: Vec<&str> = texts.filter(|text| text.contains("sleep")).collect();
    match commands.last() {
        Some(command) if results(call) < commands.len() => {
            Line::tool("Bash", &json!({"command": command, "run_in_background": true}).to_string())
        }
        Some(command) if command.contains("hang") => Line::Hang(String::new()),
        Some(_) | None => Line::Say("done".into()),
    }
}

async fn ids(engine: &Engine, thread: &ThreadId) -> Vec<String> {
    engine.thread(thread).commands().await.unwrap().into_iter().map(|command| command.id).collect()
}

// rows: LM-T1
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_takes_its_own_commands_with_it() {
    let world = World::new(1);
    let engine = world.engine().await;
    let first = world.begin(&engine, None, "a", "go").await;
    let second = world.begin(&engine, Some(first.thread.clone()), "bb", "hang").await;
    let shown = engine.thread(&first.thread).commands().await.unwrap();
    assert_eq!(shown.iter().map(|it| &it.run).collect::<Vec<_>>(), [&first.run, &second.run]);
    let (left, name) = (shown[0].id.clone(), &shown[1].id);
    assert!(left.starts_with("bash_") && name.starts_with("bash_") && left != *name, "{left} {name}");
    assert!(shown[1].command.starts_with("setsid sh -c") && shown[1].begun_at >= shown[0].begun_at);
    engine.run(&second.run).cancel(Principal::from("local")).await.unwrap();
    assert_eq!(engine.run(&second.run).wait().await.unwrap().status, Status::Cancelled);
    gone(&world.sleeper("bb"));
    // The command of an earlier run was not cancelled.
    assert!(alive(&world.sleeper("a")) >= 4);
    // Its output is read to the end once its processes are gone.
    while ids(&engine, &first.thread).await != [left.as_str()] {
        tokio::task::yield_now().await;
    }
    engine.thread(&first.thread).end_command(&left).await.unwrap();
    gone(&world.sleeper("a"));
    let unknown = engine.thread(&first.thread).end_command(&left).await.unwrap_err().to_string();
    assert_eq!(unknown, format!("a command `{left}` at work in the background does not exist"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_rolled_back_takes_its_commands_with_it() {
    let world = World::new(2);
    let engine = world.engine().await;
    let first = world.begin(&engine, None, "a", "hang").await;
    let instead =
        Task { thread: Some(first.thread.clone()), when_busy: WhenBusy::Rollback, ..task("instead") };
    let second = engine.start(instead).await.unwrap();
    assert_eq!(engine.run(&second.run).wait().await.unwrap().status, Status::Done);
    gone(&world.sleeper("a"));
}

/// A fork has none of the commands, and its fate does not affect them.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_thread_takes_its_commands_with_it_and_a_fork_has_none() {
    let world = World::new(3);
    let engine = world.engine().await;
    let first = world.begin(&engine, None, "a", "go").await;
    let head = engine.thread(&first.thread).row().await.unwrap().head;
    let fork = engine.thread(&first.thread).fork(head, Principal::from("local"), None).await.unwrap();
    assert!(ids(&engine, &fork).await.is_empty());
    engine.thread(&fork).delete().await.unwrap();
    assert!(alive(&world.sleeper("a")) >= 4);
    engine.thread(&first.thread).delete().await.unwrap();
    // It has ended by the time the thread is deleted.
    assert_eq!(alive(&world.sleeper("a")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_leaves_ends_its_commands() {
    let world = World::new(4);
    let engine = world.engine().await;
    let first = world.begin(&engine, None, "a", "go").await;
    assert_eq!(engine.hand_over(30_000).await, 0);
    assert_eq!(alive(&world.sleeper("a")), 0);
    assert!(ids(&world.engine().await, &first.thread).await.is_empty());
    // Dropping an engine kills its commands.
    let engine = world.engine().await;
    world.begin(&engine, None, "bb", "go").await;
    drop(engine);
    gone(&world.sleeper("bb"));
}

/// Two engines over one store, like two processes.
#[tokio::test(flavor = "multi_thread")]
async fn another_process_sees_commands_and_ends_them() {
    let world = World::new(5);
    let (one, other) = (world.engine().await, world.engine().await);
    let first = world.begin(&one, None, "a", "go").await;
    let seen = loop {
        if let [id] = &ids(&other, &first.thread).await[..] {
            break id.clone();
        }
        tokio::task::yield_now().await;
    };
    let (own, _) = seen.split_once('@').unwrap();
    let not_here = other.thread(&first.thread).end_command(own).await.unwrap_err();
    assert!(not_here.to_string().contains(&format!("`{own}`")), "{not_here}");
    other.thread(&first.thread).end_command(&seen).await.unwrap();
    assert_eq!(alive(&world.sleeper("a")), 0);
    assert!(ids(&other, &first.thread).await.is_empty());
    let again = other.thread(&first.thread).end_command(&seen).await.unwrap_err();
    assert!(matches!(again, EngineError::Store(_)), "{again}");

    // Command ids are unique across processes, because the thread refers to both.
    world.begin(&other, Some(first.thread.clone()), "ccc", "go").await;
    let later = ids(&other, &first.thread).await;
    assert!(later.len() == 1 && later[0] != own, "{later:?} {own}");
    other.thread(&first.thread).end_command(&later[0]).await.unwrap();

    // It deletes the thread, and the process that runs a command of it ends the command.
    world.begin(&one, Some(first.thread.clone()), "bb", "go").await;
    other.thread(&first.thread).delete().await.unwrap();
    gone(&world.sleeper("bb"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_process_has_written_down_is_forgotten() {
    let world = World::new(6);
    let engine = world.engine().await;
    let thread = ThreadId::from("thr_a");
    let said = json!({"thread": "thr_a", "run": "run_a", "id": "bash_1", "command": "x", "begun_at": 1});
    let write = async |key: &str, owner: &str, value: Value| {
        engine.records().put("background", key, owner, value, Expect::Absent).await.unwrap()
    };
    write("thr_a/dead/bash_1", "dead", said.clone()).await;
    write("thr_aa/dead/bash_1", "dead", said).await;
    assert!(ids(&engine, &thread).await.is_empty());
    let left = engine.records().list("background", None, None, 10).await.unwrap();
    assert_eq!(left.iter().map(|record| &*record.key).collect::<Vec<_>>(), ["thr_aa/dead/bash_1"]);
    let ended = engine.thread(&"thr_aa".into()).end_command("bash_1@dead").await.unwrap_err().to_string();
    assert_eq!(ended, "a command `bash_1@dead` at work in the background does not exist");
}
