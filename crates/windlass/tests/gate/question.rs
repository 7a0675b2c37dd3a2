//! Questions: those that the model asks with `request_human_approval`, and those that a tool asks in the middle of a
//! call.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass::clock::ManualClock;
use windlass::machine::{
    Answer, AutoRun, EffectClass, Event, InterruptId, InterruptKind, Question, Reply, Seq, Terms, Timestamp,
};
use windlass::memory::{AppendFault, MemoryStore};
use windlass::port::journal::RunQuery;
use windlass::port::tool::{Ask, CallContext, ToolOutcome};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::builtin::request_human_approval;
use windlass::tool::{FunctionTool, Registry};
use windlass::{Attend, Engine, Outcome, Status};

use super::{asking, open, plan, put_down, runtime, store, task_in, told};
use crate::drive::{Counter, Text, party, registry, task};

/// A model that asks a person, then makes a write in the same step, and repeats the results.
fn model(asked: Value) -> ScriptedModels {
    let asked = asked.to_string();
    ScriptedModels::new(move |call| match results(call) {
        0 => {
            let calls = [("request_human_approval", asked.as_str()), ("write", r#"{"text":"after"}"#)];
            let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
            Line::Call(String::new(), calls.map(owned).to_vec())
        }
        _ => Line::Say(told(call)),
    })
}

fn tools(written: &Counter, expires_in_ms: Option<u64>) -> Registry {
    let tools = registry([written.tool("write", EffectClass::Once)]);
    tools.add(Arc::new(request_human_approval(expires_in_ms))).unwrap()
}

/// Has the model ask a question and answers it; the next call runs once the answer exists.
async fn asked(question: Value, answer: Answer) -> (Outcome, String) {
    let written = Counter::default();
    let engine = asking(&store(), &model(question), tools(&written, None)).auto_run(AutoRun::Everything);
    let engine = engine.build().await.unwrap();
    let waits = engine.run_task(task("go")).await.unwrap();
    assert_eq!(written.count(), 0, "a later call of the step waits for the answer");
    let asked = open(&waits).remove(0);
    engine.thread(&waits.thread).answer(&asked, answer, party("ann")).await.unwrap();
    let said = engine.run(&waits.run).wait().await.unwrap().text.unwrap();
    let (answered, after) = said.split_once(" | ").unwrap();
    assert_eq!((after, written.count()), ("said after", 1));
    (waits, answered.to_owned())
}

fn reply(reply: Reply) -> Answer {
    Answer::Reply(Box::new(reply))
}

// rows: WT-H1, WT-H2, WT-H3, WT-H5, WT-H6, WT-H7, WT-H8, WT-H11, WT-X1, LM-R15
#[tokio::test]
async fn the_model_asks_people_and_reads_what_they_said() {
    let question = json!({
        "checkpoint": "send", "summary": "Send the invoice?", "params": {"amount": 3},
        "options": ["now", "later"], "allow_free_input": true,
    });
    let check = async |answer, wanted: Value| {
        let (waits, said) = asked(question.clone(), answer).await;
        let InterruptKind::Question(shown) = &waits.interrupts[0].kind else { panic!("{waits:?}") };
        let whole = Question {
            checkpoint: Some("send".into()),
            summary: "Send the invoice?".into(),
            params: Some(json!({"amount": 3})),
            options: vec!["now".into(), "later".into()],
            free_input: true,
            schema: None,
        };
        assert_eq!(**shown, whole);
        assert_eq!(waits.interrupts[0].expires_at, None);
        assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), wanted);
    };
    let yes = |overrides: Value, selected: Value, free_input: Value| json!({"approved": true, "overrides": overrides, "selected": selected, "free_input": free_input});
    check(reply(Reply::default()), yes(Value::Null, Value::Null, Value::Null)).await;
    let values = Some(json!({"amount": 5}));
    let wanted = yes(json!({"amount": 5}), Value::Null, Value::Null);
    check(reply(Reply { values, ..Reply::default() }), wanted).await;
    let selected = Some("later".to_owned());
    let wanted = yes(Value::Null, json!("later"), Value::Null);
    check(reply(Reply { selected, ..Reply::default() }), wanted).await;
    let text = Some("twice".to_owned());
    check(reply(Reply { text, ..Reply::default() }), yes(Value::Null, Value::Null, json!("twice"))).await;
    check(Answer::Deny { reason: Some(String::new()) }, json!({"approved": false})).await;
    check(Answer::Deny { reason: None }, json!({"approved": false, "cancelled": true})).await;
}

// rows: WT-H1
#[tokio::test]
async fn an_incomplete_question_is_an_error_and_not_asked() {
    for question in [json!({}), json!({"checkpoint": "c"}), json!({"summary": "s"})] {
        let written = Counter::default();
        let engine = asking(&store(), &model(question), tools(&written, None)).auto_run(AutoRun::Everything);
        let ended = engine.build().await.unwrap().run_task(task("go")).await.unwrap();
        let wanted = r#"{"error":"checkpoint and summary are required"} | said after"#;
        assert_eq!(ended.text.as_deref(), Some(wanted));
    }
}

/// A value nested in this many objects.
fn deep(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"a": inner}))
}

#[tokio::test]
async fn a_question_that_nests_too_deeply_is_an_error_for_the_model_and_the_thread_stays_readable() {
    let question = json!({"checkpoint": "c", "summary": "s", "params": deep(120)});
    refused(question, "has `params`, which is nested more than 64 levels deep").await;
}

#[tokio::test]
async fn a_question_that_is_too_long_is_an_error_for_the_model() {
    let question = json!({"checkpoint": "c", "summary": "s".repeat(20_000)});
    refused(question, "has `summary` of 20000 bytes; at most 16384").await;
    let question = json!({"checkpoint": "c", "summary": "s", "params": {"a": "p".repeat(20_000)}});
    refused(question, "has `params` of 20008 bytes; at most 16384").await;
}

/// Asserts that no interrupt opens, the model gets the reason as a result, and the journal stays readable.
async fn refused(question: Value, why: &str) {
    let written = Counter::default();
    let engine = asking(&store(), &model(question), tools(&written, None)).auto_run(AutoRun::Everything);
    let engine = engine.build().await.unwrap();
    let ended = engine.run_task(task("go")).await.unwrap();
    let told = json!({ "error": format!("the question {why}") });
    assert_eq!(ended.text, Some(format!("{told} | said after")));
    let events = engine.thread(&ended.thread).events(Seq(0), 1_000).await.unwrap();
    for recorded in events {
        assert_eq!(Event::decode(&recorded.event.encode()).unwrap(), recorded.event);
    }
}

// rows: WT-H6
#[tokio::test]
async fn a_reply_that_the_question_does_not_take_is_refused() {
    let engine = asking(&store(), &model(json!({"checkpoint": "c", "summary": "s", "options": ["x"]})), {
        tools(&Counter::default(), None)
    });
    let engine = engine.build().await.unwrap();
    let waits = engine.run_task(task("go")).await.unwrap();
    let asked = waits.interrupts[0].interrupt.clone();
    let refused = async |answer, wanted: &str| {
        let refused = engine.thread(&waits.thread).answer(&asked, answer, party("ann")).await;
        assert_eq!(refused.unwrap_err().to_string(), wanted);
    };
    let selected = Some("y".to_owned());
    refused(reply(Reply { selected, ..Reply::default() }), "`y` is no option; choose `x`").await;
    let text = Some("words".to_owned());
    let wanted = "the question takes no answer in free words";
    refused(reply(Reply { text, ..Reply::default() }), wanted).await;
    for answer in [Answer::Approve, Answer::Retry, Answer::Stop] {
        refused(answer, "a question takes `reply` or `deny`").await;
    }
}

// rows: WT-H9
#[tokio::test]
async fn one_question_may_follow_another() {
    let asks = |name: &str| json!({"checkpoint": name, "summary": "s"}).to_string();
    let models = ScriptedModels::new(move |call| match results(call) {
        0 => Line::tool("request_human_approval", &asks("first")),
        1 => Line::tool("request_human_approval", &asks("second")),
        _ => Line::Say("done".into()),
    });
    let engine = asking(&store(), &models, tools(&Counter::default(), None)).build().await.unwrap();
    let mut outcome = engine.run_task(task("go")).await.unwrap();
    for checkpoint in ["first", "second"] {
        let asked = open(&outcome).remove(0);
        let InterruptKind::Question(question) = &outcome.interrupts[0].kind else { panic!("{outcome:?}") };
        assert_eq!(question.checkpoint.as_deref(), Some(checkpoint));
        let thread = &outcome.thread;
        engine.thread(thread).answer(&asked, reply(Reply::default()), party("ann")).await.unwrap();
        outcome = engine.run(&outcome.run).wait().await.unwrap();
    }
    assert_eq!(outcome.text.as_deref(), Some("done"));
}

// rows: WT-H4, WT-H10, OV-3
#[tokio::test]
async fn an_unanswered_question_is_declined_after_its_timeout() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    let written = Counter::default();
    let question = model(json!({"checkpoint": "c", "summary": "s"}));
    let engine = asking(&store, &question, tools(&written, Some(1_800_000))).auto_run(AutoRun::Everything);
    let engine = engine.clock(clock.clone()).attend(Attend::All).build().await.unwrap();
    let waits = engine.run_task(task("go")).await.unwrap();
    let asked = open(&waits).remove(0);
    put_down(&engine, &waits.thread).await;
    clock.advance_ms(1_799_000);
    tokio::task::yield_now().await;
    assert_eq!(engine.run(&waits.run).status().await.unwrap().status, Status::Paused);
    clock.advance_ms(2_000);
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let ended = engine.run(&waits.run).wait().await.unwrap();
    assert_eq!(ended.status, Status::Done, "{ended:?}");
    let (said, after) = ended.text.as_ref().unwrap().split_once(" | ").unwrap();
    let wanted = json!({"approved": false, "cancelled": true, "reason": "nobody answered in time"});
    assert_eq!(serde_json::from_str::<Value>(said).unwrap(), wanted);
    assert_eq!((after, written.count()), ("said after", 1));
    let late = engine.thread(&waits.thread).answer(&asked, reply(Reply::default()), party("ann")).await;
    assert!(late.unwrap_err().to_string().starts_with("too late"));
}

/// A tool that asks for a size when first called, and keeps its progress.
fn measures(starts: &Counter) -> FunctionTool {
    let starts = starts.clone();
    FunctionTool::new("measure", "asks in the middle", move |context: CallContext, text: Text| {
        let starts = starts.clone();
        async move {
            let nth = starts.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let _ = text;
            let Some(reply) = context.reply else {
                let schema = json!({
                    "type": "object", "required": ["size"],
                    "properties": {"size": {"type": "integer", "maximum": 9}},
                });
                let summary = "How large?".to_owned();
                let question = Question { summary, schema: Some(schema), ..Question::default() };
                let kind = InterruptKind::Question(Box::new(question));
                return ToolOutcome::ask(Ask {
                    kind,
                    terms: Terms::default(),
                    state: Some(format!("begun {nth}")),
                });
            };
            let state = reply.state.unwrap();
            match reply.answer {
                Answer::Reply(reply) => {
                    ToolOutcome::text(format!("{state}, size {}", reply.values.unwrap()["size"]))
                }
                other => ToolOutcome::text(format!("{state}, {other:?}")),
            }
        }
    })
}

async fn with_measure(store: &MemoryStore, starts: &Counter) -> Engine {
    let models = plan(&[&[("measure", "x")]]);
    let engine = asking(store, &models, registry([measures(starts)])).auto_run(AutoRun::Everything);
    engine.build().await.unwrap()
}

async fn size(engine: &Engine, outcome: &Outcome, asked: &InterruptId, values: Value) -> Result<(), String> {
    let answer = reply(Reply { values: Some(values), ..Reply::default() });
    let answered = engine.thread(&outcome.thread).answer(asked, answer, party("ann")).await;
    answered.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_tool_is_started_again_with_the_reply_also_by_another_process() {
    let (store, starts) = (store(), Counter::default());
    let first = with_measure(&store, &starts).await;
    let waits = first.run_task(task_in("t", "go")).await.unwrap();
    let asked = open(&waits).remove(0);
    put_down(&first, &"t".into()).await;
    drop(first);
    let next = with_measure(&store.restarted(), &starts).await;
    // Invalid values are rejected, and the question stays open.
    for (values, wanted) in [
        (json!({"size": 10}), "10 is greater than the maximum of 9"),
        (json!({"size": "large"}), r#""large" is not of type "integer""#),
        (json!({}), r#""size" is a required property"#),
    ] {
        let refused = size(&next, &waits, &asked, values).await.unwrap_err();
        assert_eq!(refused, format!("the values do not fit: {wanted}"));
    }
    assert_eq!(starts.count(), 1);
    size(&next, &waits, &asked, json!({"size": 7})).await.unwrap();
    let ended = next.run(&waits.run).wait().await.unwrap();
    assert_eq!((ended.text.as_deref(), starts.count()), (Some("begun 0, size 7"), 2));
}

#[tokio::test]
async fn a_tool_hears_that_its_question_was_declined() {
    let starts = Counter::default();
    let engine = with_measure(&store(), &starts).await;
    let waits = engine.run_task(task("go")).await.unwrap();
    let asked = open(&waits).remove(0);
    let deny = Answer::Deny { reason: Some("no".into()) };
    engine.thread(&waits.thread).answer(&asked, deny, party("ann")).await.unwrap();
    let said = engine.run(&waits.run).wait().await.unwrap().text.unwrap();
    assert!(said.starts_with("begun 0, Deny") && said.contains("no"), "{said}");
}

/// The tool is of the class `once`. If it dies after a start, a person says whether it was done; meanwhile no question
/// is lost or asked twice.
#[test]
fn a_question_in_the_middle_survives_a_crash_at_any_append() {
    for fault in [AppendFault::DiesWritten, AppendFault::DiesNotWritten] {
        for nth in 0..7 {
            let (store, starts) = (store(), Counter::default());
            let died = runtime().block_on(async {
                let engine = with_measure(&store, &starts).await;
                (0..nth).for_each(|_| store.fail_append(AppendFault::Nothing));
                store.fail_append(fault);
                let run = async {
                    let started = engine.start(task_in("t", "go")).await.unwrap();
                    finish(&engine, &started.run).await
                };
                tokio::select! {
                    biased;
                    () = store.died() => true,
                    _ = run => false,
                }
            });
            let store = store.restarted();
            runtime().block_on(async {
                let engine = with_measure(&store, &starts).await;
                engine.recover().await.unwrap();
                let Some(row) = engine.runs(&RunQuery::newest(1)).await.unwrap().pop() else { return };
                let said = finish(&engine, &row.view.run).await;
                assert!(said.ends_with(", size 7"), "{fault:?} {nth} {died}: {said}");
            });
        }
    }
}

/// Answers every interrupt until the run has ended.
async fn finish(engine: &Engine, run: &windlass::machine::RunId) -> String {
    loop {
        let outcome = engine.run(run).wait().await.unwrap();
        if outcome.status == Status::Done {
            return outcome.text.unwrap();
        }
        let asked = open(&outcome).remove(0);
        match outcome.interrupts[0].kind {
            InterruptKind::Question(_) => size(engine, &outcome, &asked, json!({"size": 7})).await.unwrap(),
            InterruptKind::InDoubt { .. } => {
                let by = party("ann");
                engine.thread(&outcome.thread).answer(&asked, Answer::Retry, by).await.map(drop).unwrap();
            }
            _ => panic!("{outcome:?}"),
        }
    }
}
