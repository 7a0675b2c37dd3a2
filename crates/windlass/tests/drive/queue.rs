//! Queued messages: listed, changed, withdrawn, and sent before their turn.

use std::sync::Arc;

use windlass::clock::SystemClock;
use windlass::machine::{
    AutoRun, EffectClass, InputId, Message, Place, Principal, Role, ThreadId, Timestamp, WhenBusy,
};
use windlass::memory::MemoryStore;
use windlass::port::journal::{Batch, Journal, RunQuery, ThreadStatus, ThreadView};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::testing::suite::{batch, claimed, view};
use windlass::{Engine, EngineError, Status, Task};

use super::{Counter, memory, registry, stored, task};

/// Repeats the last message.
fn echoing() -> ScriptedModels {
    ScriptedModels::new(|call| match results(call) {
        0 if call.request.messages.len() == 1 => Line::tool("write", r#"{"text":"x"}"#),
        _ => {
            let said = call.request.messages.last().map(|message| message.shown_text());
            Line::Say(format!("heard: {}", said.unwrap_or_default()))
        }
    })
}

async fn open(folder: &std::path::Path) -> Engine {
    let tools = registry([Counter::default().tool("write", EffectClass::Once)]);
    stored(folder, &echoing(), tools).auto_run(AutoRun::Ask).build().await.unwrap()
}

fn sent(id: &str, by: &str) -> Task {
    let (thread, id) = (Some(ThreadId::from("t1")), Some(InputId::from(id)));
    Task { thread, id, by: by.into(), ..task(id_text(by)) }
}

fn id_text(by: &str) -> &'static str {
    if by == "ann" { "from ann" } else { "from cy" }
}

async fn listed(engine: &Engine) -> Vec<(InputId, String, Principal, Place)> {
    let queued = engine.thread(&"t1".into()).queue().list().await.unwrap();
    assert!(queued.iter().all(|message| message.since.0 > 0));
    let shown = queued.into_iter().map(|one| (one.id, one.message.shown_text(), one.by, one.place));
    shown.collect()
}

// rows: ZE-P7, OV-19, SK-U6
#[tokio::test]
async fn a_waiting_message_is_changed_taken_back_and_sent_now() {
    let folder = tempfile::tempdir().unwrap();
    let thread = ThreadId::from("t1");
    let engine = open(folder.path()).await;
    let first = engine.run_task(sent("m1", "ann")).await.unwrap();
    assert_eq!(first.status, Status::Paused);
    let waits = engine.start(sent("m2", "cy")).await.unwrap();
    engine.start(Task { when_busy: WhenBusy::Steer, ..sent("m3", "cy") }).await.unwrap();
    engine.start(sent("m4", "cy")).await.unwrap();
    drop(engine);

    // Queued messages survive a restart.
    let engine = open(folder.path()).await;
    let edited = |text: &str| Message::text(Role::User, text);
    let refused =
        engine.thread(&thread).queue().edit(&"m2".into(), edited("no"), "eve".into()).await.unwrap_err();
    let words = "message `m2` is not `eve`'s; ask its sender or the thread's owner";
    assert_eq!(refused.to_string(), words);
    assert_eq!(
        engine.thread(&thread).queue().send_now(&"m2".into(), "eve".into()).await.unwrap_err().to_string(),
        words
    );
    // Longer than what is recorded inline.
    let long = "so ".repeat(10_000);
    engine.thread(&thread).queue().edit(&"m2".into(), edited(&long), "cy".into()).await.unwrap();
    let by_owner =
        engine.thread(&thread).queue().edit(&"m4".into(), edited("no"), "ann".into()).await.unwrap_err();
    let words = "message `m4` is not `ann`'s; only its sender changes it, you may withdraw it";
    assert_eq!(by_owner.to_string(), words);
    engine
        .thread(&thread)
        .queue()
        .edit(&"m4".into(), edited("changed by its sender"), "cy".into())
        .await
        .unwrap();
    engine.thread(&thread).queue().withdraw(&"m3".into(), "cy".into()).await.unwrap();
    let row = |id: &str, text: &str, place| (id.into(), text.to_owned(), "cy".into(), place);
    let expected =
        [row("m2", "[a long text]", Place::AfterRun), row("m4", "changed by its sender", Place::AfterRun)];
    assert_eq!(listed(&engine).await, expected);

    engine.thread(&thread).queue().send_now(&"m4".into(), "cy".into()).await.unwrap();
    let outcome = engine.run(&waits.run).wait().await.unwrap();
    assert_eq!(engine.run(&first.run).status().await.unwrap().status, Status::Cancelled);
    let said: Vec<_> = engine
        .runs(&RunQuery { thread: Some(thread.clone()), limit: 10, ..RunQuery::default() })
        .await
        .unwrap();
    let mut answers = Vec::new();
    for row in said.iter().rev() {
        answers.push(engine.run(&row.view.run).status().await.unwrap().text.unwrap_or_default());
    }
    // The model received the long text in full; the script sees a mark in its place.
    assert_eq!(answers, ["", "heard: changed by its sender", "heard: [a long text]"]);
    assert_eq!(outcome.text.as_deref(), Some("heard: [a long text]"));
    assert_eq!(listed(&engine).await, []);
    let gone = engine.thread(&thread).queue().withdraw(&"m4".into(), "cy".into()).await.unwrap_err();
    assert_eq!(gone.to_string(), "a waiting message `m4` does not exist in this thread");
    let nowhere =
        engine.thread(&"t2".into()).queue().edit(&"m4".into(), edited("x"), "cy".into()).await.unwrap_err();
    assert_eq!(nowhere.to_string(), "thread `t2` does not exist in this store");
}

// rows: ZE-P7
#[tokio::test]
async fn a_queued_run_is_found_by_one_lookup_however_many_threads_are_newer() {
    let store = MemoryStore::new(Arc::new(SystemClock::new()));
    let ports = Arc::new(store.clone());
    let tools = registry([Counter::default().tool("write", EffectClass::Once)]);
    let built = memory(&echoing(), tools).ports(ports.clone(), ports.clone(), ports).auto_run(AutoRun::Ask);
    let engine = built.build().await.unwrap();
    assert_eq!(engine.run_task(sent("m1", "ann")).await.unwrap().status, Status::Paused);
    let waits = engine.start(sent("m2", "cy")).await.unwrap();
    for number in 0..300 {
        let thread = ThreadId::from(format!("newer-{number}"));
        let newer = batch(&thread, claimed(&store, &thread).await, &["a"]);
        let thread_view = ThreadView { updated_at: Timestamp(u64::MAX), ..view(ThreadStatus::Idle) };
        store.append(Batch { thread_view, ..newer }).await.unwrap();
    }
    assert_eq!(engine.run(&waits.run).status().await.unwrap().status, Status::Queued);
    assert_eq!(engine.run(&waits.run).row().await.unwrap().view.queued, Some("m2".into()));
    let listed = engine.runs(&RunQuery::of(&waits.thread, 10)).await.unwrap();
    assert_eq!(listed.len(), 1, "lists show runs that have begun");
    let before = store.count_reads();
    assert!(matches!(engine.run(&"nonsense".into()).status().await, Err(EngineError::NoRun(_))));
    assert_eq!(store.count_reads() - before, 1);
    // Withdrawing a message also removes its run.
    engine.thread(&waits.thread).queue().withdraw(&"m2".into(), "cy".into()).await.unwrap();
    assert!(matches!(engine.run(&waits.run).status().await, Err(EngineError::NoRun(_))));
}
