//! The prompt of a step, rebuilt from the journal: identical to the one that the model received.

use std::sync::{Arc, Mutex};

use windlass::machine::{
    Block, EffectClass, Fact, FailureClass, Fingerprint, Limits, ModelRequest, PartKind, RunOptions, Seq,
    StopReason, ThreadId, Usage,
};
use windlass::port::journal::Recorded;
use windlass::port::model::Reply;
use windlass::testing::scripted::{Line, ScriptedModels};
use windlass::{AgentConfig, Engine, PROMPT_TEXT_MAX_BYTES, Status, Task};

use super::{Counter, registry, stored, task};

/// The requests sent to the model.
type Sent = Arc<Mutex<Vec<ModelRequest>>>;

/// Calls a tool in most steps, fails, replies with nothing, and reaches its output cap.
fn script(sent: &Sent) -> ScriptedModels {
    let sent = sent.clone();
    ScriptedModels::new(move |call| {
        let mut sent = sent.lock().unwrap();
        sent.push(call.request.clone());
        let reply = |blocks, stop| Line::Reply(Reply { blocks, stop, usage: Usage::default(), model: None });
        match sent.len() {
            2 => Line::fail(FailureClass::Overloaded),
            4 => Line::fail(FailureClass::ContextTooLong),
            6 => reply(Vec::new(), StopReason::End),
            8 => reply(vec![Block::text("so far")], StopReason::MaxTokens),
            nth if nth % 12 == 0 => Line::Say("done".into()),
            nth => Line::tool("read", &format!(r#"{{"text":"{nth} {}"}}"#, "y".repeat(nth * 3_000))),
        }
    })
}

fn asked(thread: &ThreadId, text: &str) -> Task {
    let limits = Limits { window_messages: 8, max_steps: 40, ..Limits::default() };
    let instructions = vec!["Be brief.".to_owned(), "i".repeat(100_000)];
    let agent = AgentConfig { instructions, limits, ..AgentConfig::from("test/scripted") };
    let options = RunOptions { utc_offset_minutes: Some(60), ..RunOptions::default() };
    Task { thread: Some(thread.clone()), agent, options, ..task(text) }
}

async fn open(folder: &std::path::Path, sent: &Sent) -> Engine {
    let tools = registry([Counter::default().tool("read", EffectClass::Pure)]);
    stored(folder, &script(sent), tools).build().await.unwrap()
}

/// The replied steps of a thread, with the fingerprints recorded in their replies.
fn steps(events: &[Recorded]) -> Vec<(Seq, Option<Fingerprint>)> {
    let mut steps = Vec::new();
    for Recorded { seq, event } in events {
        match &event.fact {
            Fact::StepStarted { .. } => steps.push((*seq, None)),
            Fact::StepReplied { request, .. } => steps.last_mut().unwrap().1 = Some(*request),
            _ => {}
        }
    }
    steps
}

#[tokio::test]
async fn every_prompt_is_built_again_as_it_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let sent = Sent::default();
    let engine = open(folder.path(), &sent).await;
    let thread = ThreadId::from("t1");
    for text in ["first", "second"] {
        assert_eq!(engine.run_task(asked(&thread, text)).await.unwrap().status, Status::Done);
    }
    drop(engine);
    let engine = open(folder.path(), &sent).await;
    let events = engine.thread(&thread).events(Seq(0), 1_000).await.unwrap();
    let moved = events.iter().filter(|one| matches!(one.event.fact, Fact::WindowMoved { .. })).count();
    let sent = sent.lock().unwrap().clone();
    let steps = steps(&events);
    assert!(moved >= 3 && steps.len() == 24 && sent.len() == 24, "{moved} moves, {} steps", steps.len());
    assert_eq!(steps.iter().filter(|(_, replied)| replied.is_none()).count(), 2);
    for ((seq, replied), sent) in steps.iter().zip(sent) {
        let prompt = engine.thread(&thread).prompt(*seq).await.unwrap();
        assert_eq!(prompt.request, sent, "at {seq}");
        assert_eq!(prompt.replied, *replied);
        assert!(replied.is_none_or(|replied| replied == prompt.digest), "at {seq}");
        // The parts add up to the whole.
        assert_eq!(prompt.parts.iter().map(|part| part.tokens).sum::<u64>(), prompt.tokens);
        let count = |kind| prompt.parts.iter().filter(|part| part.kind == kind).count();
        let kinds = [PartKind::Instructions, PartKind::Tools, PartKind::History, PartKind::Tail];
        assert_eq!(kinds.map(count), [2, 1, prompt.request.messages.len(), 1]);
        let [short, long, tools, ..] = prompt.parts.as_slice() else { panic!("{prompt:?}") };
        let text = |part: &windlass::PromptPart| match part.blocks.as_slice() {
            [Block::Text { text, .. }] => text.inline().unwrap().to_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!((text(short).as_str(), short.cut), ("Be brief.", false));
        assert_eq!((text(long).len(), long.size_bytes, long.cut), (PROMPT_TEXT_MAX_BYTES, 100_000, true));
        assert!(text(tools).contains("counts its calls"));
        let shown: usize = prompt.parts.iter().flat_map(|part| &part.blocks).map(shown_bytes).sum();
        assert!(shown <= 4 * 1024 * 1024);
    }
    for seq in [Seq(0), Seq(1), Seq(100_000)] {
        let missing = engine.thread(&thread).prompt(seq).await.unwrap_err().to_string();
        assert_eq!(missing, format!("a `step.started` at event {seq} does not exist in this thread"));
    }
}

/// Bytes of the texts of a block; none of them is offloaded.
fn shown_bytes(block: &Block) -> usize {
    match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => text.inline().expect("a text").len(),
        Block::ToolCall(call) => call.asked.inline().expect("arguments").len(),
        Block::ToolResult(result) => result.content.iter().map(shown_bytes).sum(),
        Block::Image { .. } | Block::File { .. } | Block::Opaque { .. } => 0,
    }
}
