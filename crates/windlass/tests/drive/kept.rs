//! Tool state of a thread: it survives a restart, is copied by a fork, and is rolled back with a run.

use windlass::machine::{EffectClass, Fact, Role, Seq};
use windlass::port::tool::{CallContext, ToolOutput};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::builtin::desk_tools;
use windlass::tool::{FunctionTool, Registry};
use windlass::{Engine, Outcome, Task};

use super::{Text, registry, stored, task};

/// A model that writes entries on request, and then lists them.
fn models() -> ScriptedModels {
    ScriptedModels::new(|call| {
        let user = call.request.messages.iter().rev().find(|message| message.role == Role::User);
        let asked = user.map(|message| message.plain_text()).unwrap_or_default();
        let since = call.request.messages.iter().rev().take_while(|it| it.role != Role::User);
        let results: usize = since.filter(|it| it.role == Role::Tool).count();
        match (asked.split_once(' '), results) {
            (Some(("write", what)), 0) => {
                let todos = serde_json::json!({"todos": [{"content": what, "status": "pending"}]});
                Line::tool("write_todos", &todos.to_string())
            }
            (None | Some(_), 0) => Line::tool("read_todos", "{}"),
            _ => Line::Say(crate::gate::told(call)),
        }
    })
}

fn desk() -> Registry {
    windlass::registry().add_all(desk_tools()).unwrap()
}

async fn ask(engine: &Engine, thread: &str, text: &str) -> Outcome {
    engine.run_task(Task { thread: Some(thread.into()), ..task(text) }).await.unwrap()
}

async fn reads(engine: &Engine, thread: &str) -> String {
    ask(engine, thread, "read").await.text.unwrap()
}

// rows: ZE-H13
#[tokio::test]
async fn a_list_is_there_after_a_restart_and_in_a_fork() {
    let folder = tempfile::tempdir().unwrap();
    let engine = stored(folder.path(), &models(), desk()).build().await.unwrap();
    ask(&engine, "t", "write dig").await;
    let until = engine.thread(&"t".into()).row().await.unwrap().head;
    ask(&engine, "t", "write paint").await;
    assert_eq!(reads(&engine, "t").await, r#"[{"content":"paint","status":"pending"}]"#);
    drop(engine);
    let engine = stored(folder.path(), &models(), desk()).build().await.unwrap();
    assert_eq!(reads(&engine, "t").await, r#"[{"content":"paint","status":"pending"}]"#);
    // A fork has the state at its position.
    let fork = engine.thread(&"t".into()).fork(until, "ann".into(), None).await.unwrap();
    assert_eq!(reads(&engine, fork.as_str()).await, r#"[{"content":"dig","status":"pending"}]"#);
    // It is recorded once, with the result that refers to it.
    let events = engine.thread(&"t".into()).events(Seq(0), 1_000).await.unwrap();
    let kept: Vec<_> = events.iter().filter(|it| matches!(it.event.fact, Fact::ToolKept { .. })).collect();
    assert_eq!(kept.len(), 2);
    for one in kept {
        let next = events.iter().find(|it| it.seq == one.seq.next()).unwrap();
        assert!(matches!(next.event.fact, Fact::ToolFinished { .. }));
    }
}

// rows: LM-T14
#[tokio::test]
async fn oversized_tool_state_is_not_kept_and_the_model_gets_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let keeps = |size: usize| {
        let tool = FunctionTool::new("keep", "keeps", move |context: CallContext, _: Text| async move {
            let before = context.kept.map_or(0, |kept| kept.len());
            ToolOutput::text(format!("before {before}")).keeping("x".repeat(size))
        });
        registry([tool.keeps("x").effect_class(EffectClass::Idempotent)])
    };
    let script = ScriptedModels::new(|call| match results(call) {
        0 | 1 => Line::tool("keep", r#"{"text":"a"}"#),
        _ => Line::Say(crate::gate::told(call)),
    });
    for (size, wanted) in [
        (256 * 1024, "before 262144"),
        (256 * 1024 + 1, "Not kept: 262145 bytes are more than the 262144 that may be kept"),
    ] {
        let engine =
            stored(&folder.path().join(size.to_string()), &script, keeps(size)).build().await.unwrap();
        assert_eq!(ask(&engine, "t", "go").await.text.as_deref(), Some(wanted));
    }
}
