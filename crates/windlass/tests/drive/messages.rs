//! The messages of a thread as a client displays them, page by page, and its journal as lines of JSON.

use futures::{StreamExt, TryStreamExt};
use serde_json::Value;
use windlass::machine::{
    AutoRun, Block, EffectClass, Fact, FailureClass, Message, Mode, Outcome, Principal, Role, Seq, ThreadId,
    WhenBusy,
};
use windlass::port::journal::RunQuery;
use windlass::testing::scripted::{Line, ScriptedModels};
use windlass::{AnswerWord, CallState, Engine, MessageStatus, Status, StoredCall, StoredMessage, Task};

use super::{Counter, memory, party, registry, task};

fn script() -> ScriptedModels {
    ScriptedModels::new(|call| {
        let last = call.request.messages.last().unwrap();
        match (last.role, last.shown_text().as_str()) {
            (Role::User, "fail") => Line::Fail(
                "half a".into(),
                windlass::port::model::ModelError::new(FailureClass::Auth, "no key"),
            ),
            (Role::User, "refuse") => Line::Fail(
                String::new(),
                windlass::port::model::ModelError::new(FailureClass::Auth, "no key at all"),
            ),
            (Role::User, "call") => Line::Call(
                "calling".into(),
                ["one", "two"].map(|text| ("write".into(), format!(r#"{{"text":"{text}"}}"#))).to_vec(),
            ),
            (Role::User, "long") => Line::Say("so long ".repeat(5_000)),
            _ => Line::Say("said".into()),
        }
    })
}

async fn engine() -> Engine {
    let tools = registry([Counter::default().tool("write", EffectClass::Once)]);
    memory(&script(), tools).auto_run(AutoRun::Ask).build().await.unwrap()
}

fn to(text: &str) -> Task {
    Task { thread: Some("t1".into()), by: "ann".into(), ..task(text) }
}

/// Formats a message as one line.
fn line(message: &StoredMessage) -> String {
    let block = |block: &Block| match block {
        Block::Text { text, .. } => text.inline().unwrap_or("(long)").to_owned(),
        Block::ToolCall(call) => format!("call {}", call.asked.inline().unwrap()),
        Block::ToolResult(result) => format!("result {}", result.plain_text()),
        other => panic!("{other:?}"),
    };
    let blocks: Vec<String> = message.blocks.iter().map(block).collect();
    let calls: Vec<String> = message.calls.iter().map(|call| format!(" {:?}", call.state)).collect();
    format!("{:?} {:?}: {}{}", message.role, message.status, blocks.join(" | "), calls.concat())
}

async fn lines(engine: &Engine) -> Vec<String> {
    engine.thread(&"t1".into()).messages(None, 100).await.unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn messages_carry_their_status() {
    let engine = engine().await;
    let thread = ThreadId::from("t1");
    engine.run_task(to("long")).await.unwrap();
    assert_eq!(engine.run_task(to("fail")).await.unwrap().status, Status::Failed);
    let first = engine.run_task(to("call")).await.unwrap();
    engine.start(Task { id: Some("m9".into()), by: "cy".into(), ..to("next") }).await.unwrap();
    let done = [
        "User Complete: long",
        "Assistant Complete: (long)",
        "User Complete: fail",
        "Assistant Partial: half a",
    ];
    let called = r#"calling | call {"text":"one"} | call {"text":"two"}"#;
    let asked = |first: &str, second: &str| format!("Assistant Complete: {called} {first} {second}");
    let mut expected: Vec<String> = done.map(str::to_owned).to_vec();
    expected.extend(["User Complete: call".into(), asked("Asking", "Asking"), "User Queued: next".into()]);
    assert_eq!(lines(&engine).await, expected);

    // Out of order: the second call waits for its turn, and results keep the order of calls.
    let open = first.interrupts;
    let answer = async |at: usize, answer| {
        engine.thread(&thread).answer(&open[at].interrupt, answer, party("ann")).await.unwrap()
    };
    answer(1, windlass::machine::Answer::Approve).await;
    expected[5] = asked("Asking", "Waiting");
    assert_eq!(lines(&engine).await, expected);
    let message = Message::text(Role::User, "next, edited");
    engine.thread(&thread).queue().edit(&"m9".into(), message, "cy".into()).await.unwrap();
    answer(0, windlass::machine::Answer::Deny { reason: None }).await;
    assert_eq!(engine.run(&first.run).wait().await.unwrap().status, Status::Done);
    let next = engine
        .runs(&RunQuery { thread: Some(thread.clone()), limit: 1, ..RunQuery::default() })
        .await
        .unwrap()
        .remove(0)
        .view
        .run;
    engine.run(&next).wait().await.unwrap();
    expected[5] = asked("Done", "Done");
    let all = engine.thread(&thread).messages(None, 100).await.unwrap();
    let shown: Vec<String> = all.iter().map(line).collect();
    assert_eq!(shown[..6], expected[..6]);
    assert!(
        shown[6].starts_with("Tool Complete: result ") && shown[6].ends_with(" | result said two"),
        "{shown:?}"
    );
    let rest = ["Assistant Complete: said", "User Complete: next, edited", "Assistant Complete: said"];
    assert_eq!(shown[7..], rest);
    let [denied, written] = all[5].calls.as_slice() else { panic!("{all:?}") };
    assert_eq!((denied.outcome, denied.error), (Some(Outcome::Denied), true));
    assert_eq!((written.outcome, written.error), (Some(Outcome::Returned), false));
    assert_eq!((written.state, written.interrupt.as_ref()), (CallState::Done, None));
    let said = |call: &StoredCall| call.answered.clone().map(|answered| (answered.word, answered.by));
    assert_eq!(said(denied), Some((AnswerWord::Denied, "ann".into())));
    assert_eq!(said(written), Some((AnswerWord::Approved, "ann".into())));
    assert_eq!((denied.rule.as_deref(), written.rule.as_deref()), (Some("annotations"), Some("annotations")));
    assert_eq!((all[8].by.as_ref(), all[8].id.as_ref()), (Some(&"cy".into()), Some(&"m9".into())));
    assert_eq!(all[9].model.as_ref().map(|model| model.as_str()), Some("test/scripted"));
    assert_eq!((all[9].usage.and_then(|usage| usage.output), all[9].cost.is_some()), (Some(5), true));

    // Pages of any size add up to the whole.
    for limit in 1..=all.len() + 1 {
        let (mut pages, mut before) = (Vec::new(), None);
        loop {
            let page = engine.thread(&thread).messages(before, limit).await.unwrap();
            let Some(first) = page.first() else { break };
            assert!(page.len() <= limit);
            before = Some(first.seq);
            pages.splice(0..0, page);
        }
        assert_eq!(pages, all, "in pages of {limit}");
    }
    let missing = engine.thread(&"t2".into()).messages(None, 1).await.unwrap_err();
    assert_eq!(missing.to_string(), "thread `t2` does not exist in this store");
}

#[tokio::test]
async fn a_run_that_did_not_end_well_says_so_with_its_last_message() {
    let engine = engine().await;
    let thread = ThreadId::from("t1");
    engine.run_task(to("long")).await.unwrap();
    engine.run_task(to("fail")).await.unwrap();
    engine.run_task(to("refuse")).await.unwrap();
    let called = engine.run_task(to("call")).await.unwrap();
    engine.run(&called.run).cancel("ann".into()).await.unwrap();
    engine.run(&called.run).wait().await.unwrap();
    let all = engine.thread(&thread).messages(None, 100).await.unwrap();
    let said = |message: &StoredMessage| {
        let ends = message.after.iter().map(|recorded| match &recorded.event.fact {
            Fact::RunFinished { status, error, .. } => {
                format!(" {status:?} {}", error.as_ref().map_or("", |error| &error.message))
            }
            other => panic!("{other:?}"),
        });
        format!("{:?}{}", message.role, ends.collect::<String>())
    };
    let said: Vec<String> = all.iter().map(said).collect();
    let expected = [
        "User",
        "Assistant",
        "User",
        "Assistant Failed no key",
        "User Failed no key at all",
        "User",
        "Assistant",
        "Tool Cancelled Run was cancelled by client",
    ];
    assert_eq!(said, expected);
    for limit in 1..all.len() {
        let newest = engine.thread(&thread).messages(None, limit).await.unwrap();
        assert_eq!(newest, all[all.len() - limit..], "{limit}");
    }
}

#[tokio::test]
async fn messages_say_what_their_run_began_with_and_replies_how_long_they_took() {
    let engine = engine().await;
    let mut task = to("long");
    task.options.mode = Some(Mode::Plan);
    engine.run_task(task).await.unwrap();
    engine.run_task(to("again")).await.unwrap();
    let all = engine.thread(&"t1".into()).messages(None, 100).await.unwrap();
    let chosen =
        |message: &StoredMessage| (message.model.clone().map(|model| model.to_string()), message.mode);
    let model = Some("test/scripted".to_owned());
    let expected = [(model.clone(), Some(Mode::Plan)), (model, None)];
    assert_eq!(all.iter().map(chosen).collect::<Vec<_>>(), [expected.clone(), expected].concat());
    let took: Vec<bool> = all.iter().map(|message| message.duration_ms.is_some()).collect();
    assert_eq!(took, [false, true, false, true]);
    assert!(all.iter().all(|message| message.duration_ms.is_some() || message.ttft_ms.is_none()));
    assert!(all[1].ttft_ms.is_some(), "{:?}", all[1]);
    // The start of the last run refers to an agent that the page does not read.
    let page = engine.thread(&"t1".into()).messages(None, 1).await.unwrap();
    assert_eq!(page[..], all[3..]);
    let page = engine.thread(&"t1".into()).messages(None, 2).await.unwrap();
    assert_eq!(page[..], all[2..]);
}

#[tokio::test]
async fn a_run_that_is_taken_back_is_shown_as_such() {
    let engine = engine().await;
    engine.run_task(to("first")).await.unwrap();
    engine.run_task(to("call")).await.unwrap();
    let second = engine.start(Task { when_busy: WhenBusy::Rollback, ..to("instead") }).await.unwrap();
    engine.run(&second.run).wait().await.unwrap();
    let shown = lines(&engine).await;
    let status: Vec<MessageStatus> = engine
        .thread(&"t1".into())
        .messages(None, 100)
        .await
        .unwrap()
        .iter()
        .map(|message| message.status)
        .collect();
    use MessageStatus::{Complete, Withdrawn};
    assert_eq!(
        status,
        [Complete, Complete, Withdrawn, Withdrawn, Withdrawn, Complete, Complete],
        "{shown:?}"
    );
    // Also if the page ends before the run does.
    let call = engine.thread(&"t1".into()).messages(None, 100).await.unwrap()[3].seq;
    let page = engine.thread(&"t1".into()).messages(Some(call), 1).await.unwrap();
    assert_eq!((page.len(), page[0].status), (1, Withdrawn));
    engine.run(&second.run).cancel(Principal::from("ann")).await.unwrap_err();
}

#[tokio::test]
async fn an_export_has_every_event_and_its_texts() {
    let engine = engine().await;
    let thread = ThreadId::from("t1");
    engine.run_task(to("long")).await.unwrap();
    let lines: Vec<String> = engine.thread(&thread).export().try_collect().await.unwrap();
    let events = engine.thread(&thread).events(Seq(0), 1_000).await.unwrap();
    assert_eq!(lines.len(), events.len());
    for (line, recorded) in lines.iter().zip(&events) {
        let (text, end) = line.split_at(line.len() - 1);
        assert!(end == "\n" && !text.contains('\n'));
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(value["seq"], recorded.seq.0);
        assert_eq!(value, engine.event_json(recorded).await.unwrap());
    }
    let replied = lines.iter().find(|line| line.contains("step.replied")).unwrap();
    assert!(replied.contains(&"so long ".repeat(5_000)), "the text is put back");
    let mut missing = engine.thread(&"t2".into()).export();
    let error = missing.next().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "thread `t2` does not exist in this store");
    assert!(missing.next().await.is_none());
}

#[tokio::test]
async fn pictures_are_shown_up_to_a_size() {
    let engine = engine().await;
    let mut sizes = Vec::new();
    for size in [20 * 1024 * 1024, 20 * 1024 * 1024 + 1] {
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        bytes.resize(size, 0);
        let block = engine.attach("large.png", "", bytes.into()).await.unwrap();
        let Block::Image { blob } = &block else { panic!("{block:?}") };
        let digest = blob.digest;
        assert_eq!(
            engine.thread(&"t1".into()).files().picture(&digest).await.unwrap(),
            None,
            "it has no title yet"
        );
        let mut task = to("look");
        task.message.blocks.push(block);
        engine.run_task(task).await.unwrap();
        let found = engine.thread(&"t1".into()).files().picture(&digest).await.unwrap();
        sizes.push(found.map(|(media_type, bytes)| (media_type, bytes.len())));
    }
    assert_eq!(sizes, [Some(("image/png", 20 * 1024 * 1024)), None]);
}
