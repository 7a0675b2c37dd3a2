//! Misbehaving tools and models: each case leads to a recorded limit or a result for the model, never to a crash.
//!
//! Each run ends, and its figures are real.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::Notify;
use windlass::machine::{
    Annotations, Block, Content, EffectClass, FAILURE_MAX_CHARS, Fact, FailureClass, INLINE_MAX_BYTES,
    Limits, ModelSettings, RESULT_MAX_CHARS, RESULT_MAX_PARTS, RunError, RunStatus, Seq, StopReason,
    ToolCall, Usage,
};
use windlass::models::{KnownModel, ProviderCatalog, ProviderConfig};
use windlass::port::journal::{Recorded, RunQuery};
use windlass::port::model::{ModelError, Reply};
use windlass::port::tool::{CallContext, OutputPart, ToolOutcome, ToolOutput};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::{FunctionTool, Registry};
use windlass::{AgentConfig, Engine, ErrorInfo, Outcome, Status, Task, Update};

use super::{Counter, Text, memory, registry, task};

/// The text that the model read last.
fn heard(call: &windlass::port::model::ModelCall) -> String {
    let last = call.request.messages.last().unwrap();
    let mut all = String::new();
    for block in &last.blocks {
        if let Block::ToolResult(result) = block {
            for part in &result.content {
                if let Block::Text { text, .. } = part {
                    all.push_str(call.text(text).unwrap());
                }
            }
        }
    }
    all
}

/// One call of a tool, then the model repeats what it read.
fn echo_result(tool: &'static str) -> ScriptedModels {
    ScriptedModels::new(move |call| match results(call) {
        0 => Line::tool(tool, r#"{"text":"x"}"#),
        _ => Line::Say(heard(call)),
    })
}

fn limited(limits: Limits) -> Task {
    let agent = AgentConfig { limits, ..AgentConfig::from("test/scripted") };
    Task { agent, ..task("go") }
}

async fn run(models: &ScriptedModels, tools: Registry, task: Task) -> (Engine, Outcome) {
    let engine = memory(models, tools).build().await.unwrap();
    let outcome = engine.run_task(task).await.unwrap();
    (engine, outcome)
}

// rows: LM-G8, SK-G13
#[tokio::test]
async fn a_tool_that_panics_is_an_error_or_in_doubt() {
    let panics = |hints| {
        let tool = FunctionTool::new("bad", "panics", |_, _: Text| async {
            if true {
                panic!("boom");
            }
            "never"
        });
        tool.annotations(hints)
    };
    let pure = Annotations { read_only_hint: true, ..Annotations::default() };
    let (_, outcome) = run(&echo_result("bad"), registry([panics(pure)]), task("go")).await;
    assert_eq!(outcome.text.as_deref(), Some("Stopped: it crashed: boom"));
    // The call may have had an effect before the panic, so the engine asks a person, and the model gets no result yet.
    let (_, outcome) = run(&echo_result("bad"), registry([panics(Annotations::default())]), task("go")).await;
    assert_eq!(outcome.status, Status::Paused);
    assert!(matches!(outcome.interrupts[0].kind, windlass::machine::InterruptKind::InDoubt { .. }));
}

// rows: WT-X8
#[tokio::test]
async fn a_tool_that_panics_leaves_its_neighbours_alone() {
    let counter = Counter::default();
    let panics = FunctionTool::new("bad", "panics", |_, _: Text| async {
        if true {
            panic!("boom");
        }
        "never"
    });
    let pure = Annotations { read_only_hint: true, ..Annotations::default() };
    let tools = registry([
        counter.tool("note", EffectClass::Pure),
        panics.annotations(pure),
        counter.tool("write", EffectClass::Once),
    ]);
    let models = ScriptedModels::new(|call| match results(call) {
        0 => {
            let calls = ["note", "bad", "write"].map(|name| (name.to_owned(), r#"{"text":"x"}"#.to_owned()));
            Line::Call(String::new(), calls.into())
        }
        _ => Line::Say(heard(call)),
    });
    let (_, outcome) = run(&models, tools, task("go")).await;
    assert_eq!(outcome.text.as_deref(), Some("said xStopped: it crashed: boomsaid x"));
    assert_eq!((outcome.status, counter.count()), (Status::Done, 2));
}

// rows: SK-G20, CF-5
#[tokio::test]
async fn a_model_that_panics_fails_the_run() {
    let models = ScriptedModels::new(|_: &windlass::port::model::ModelCall| panic!("boom"));
    let (engine, outcome) = run(&models, windlass::registry(), task("go")).await;
    assert_eq!(outcome.status, Status::Failed);
    // A code and one line in plain words; the log has the location.
    let (code, message) = ("ERR_STREAM_PARSE".to_owned(), "the model's adapter crashed: boom".to_owned());
    assert_eq!(
        outcome.errors,
        [ErrorInfo { code: code.clone(), message: message.clone(), retryable: false }]
    );
    // Later readers and watchers get the same error.
    assert_eq!(engine.run(&outcome.run).status().await.unwrap().errors, outcome.errors);
    let events = engine.thread(&outcome.thread).events(Seq(0), 100).await.unwrap();
    let end = &events.last().unwrap().event;
    assert_eq!(end.run.as_ref(), Some(&outcome.run));
    let Fact::RunFinished { status: RunStatus::Failed, error, .. } = &end.fact else { panic!("{end:?}") };
    assert_eq!(*error, Some(RunError { code, message, retryable: false }));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_is_stopped() {
    let hangs = |name: &str, hints| {
        FunctionTool::new(name, "hangs", |_, _: Text| async {
            std::future::pending::<()>().await;
            "never"
        })
        .annotations(hints)
    };
    let pure = Annotations { read_only_hint: true, ..Annotations::default() };
    let limits = Limits { call_timeout_ms: 50, ..Limits::default() };
    let (_, outcome) =
        run(&echo_result("bad"), registry([hangs("bad", pure)]), limited(limits.clone())).await;
    assert_eq!(outcome.text.as_deref(), Some("Stopped: it took longer than 50 ms"));
    // A call that may have had an effect is in doubt, and the engine asks a person.
    let once = hangs("bad", Annotations::default());
    let (_, outcome) = run(&echo_result("bad"), registry([once]), limited(limits)).await;
    assert_eq!(outcome.status, Status::Paused);
    assert!(matches!(outcome.interrupts[0].kind, windlass::machine::InterruptKind::InDoubt { .. }));
}

// rows: ZE-X7
#[tokio::test(start_paused = true)]
async fn a_tool_that_reports_progress_has_its_time_again() {
    let slow = |reports: u32, rest_ms: u64| {
        FunctionTool::new("bad", "takes its time", move |context: CallContext, _: Text| async move {
            for part in 0..reports {
                tokio::time::sleep(Duration::from_millis(40)).await; // tidy: sleep the tool's work is the time it takes; the clock is paused
                context.progress.report(format!("part {part}"));
            }
            tokio::time::sleep(Duration::from_millis(rest_ms)).await; // tidy: sleep the tool's silence; the clock is paused
            "done"
        })
        .annotations(Annotations { read_only_hint: true, ..Annotations::default() })
    };
    let limits = Limits { call_timeout_ms: 50, ..Limits::default() };
    let (_, outcome) = run(&echo_result("bad"), registry([slow(10, 40)]), limited(limits.clone())).await;
    assert_eq!(outcome.text.as_deref(), Some("done"));
    // Longer than the grace period of a stopped tool.
    let (_, outcome) = run(&echo_result("bad"), registry([slow(2, 60_000)]), limited(limits)).await;
    assert_eq!(outcome.text.as_deref(), Some("Stopped: it took longer than 50 ms without progress"));
}

#[tokio::test]
async fn watchers_are_sent_no_more_of_a_tools_progress_than_a_few_lines() {
    let (go, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (started, heard) = (go.clone(), end.clone());
    // Three-byte characters, so that the limit falls within one.
    let said = "\u{20ac}".repeat(1_000_000);
    let talks = FunctionTool::new("bad", "talks", move |context: CallContext, _: Text| {
        let (started, heard, said) = (started.clone(), heard.clone(), said.clone());
        async move {
            started.notified().await;
            context.progress.report(said);
            context.progress.report("short");
            heard.notified().await;
            "done"
        }
    });
    let engine = memory(&echo_result("bad"), registry([talks])).build().await.unwrap();
    let begun = engine.start(task("go")).await.unwrap();
    let (mut watched, mut told) = (engine.thread(&begun.thread).watch(Seq(0)), Vec::new());
    let all = async {
        while told.len() < 2 {
            match watched.next().await.unwrap().unwrap() {
                Update::Event(Recorded { event, .. }) if matches!(event.fact, Fact::ToolStarted { .. }) => {
                    go.notify_one();
                }
                Update::Progress { text, .. } => told.push(text.to_string()),
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("nothing is heard of it");
    end.notify_one();
    assert_eq!(engine.run(&begun.run).wait().await.unwrap().text.as_deref(), Some("done"));
    assert_eq!(told, ["\u{20ac}".repeat(4_096 / 3), "short".to_owned()]);
}

// rows: SK-G13
#[tokio::test]
async fn a_call_whose_outcome_the_tool_does_not_know_is_judged_by_its_class() {
    let lost = |hints| {
        FunctionTool::new("bad", "loses its server", |_, _: Text| async {
            ToolOutcome::unknown("the connection broke")
        })
        .annotations(hints)
    };
    let pure = Annotations { read_only_hint: true, ..Annotations::default() };
    let (_, outcome) = run(&echo_result("bad"), registry([lost(pure)]), task("go")).await;
    assert_eq!(outcome.text.as_deref(), Some("Stopped: the connection broke"));
    let (_, outcome) = run(&echo_result("bad"), registry([lost(Annotations::default())]), task("go")).await;
    assert_eq!(outcome.status, Status::Paused);
    assert!(matches!(outcome.interrupts[0].kind, windlass::machine::InterruptKind::InDoubt { .. }));
}

// rows: LM-L6
#[tokio::test]
async fn a_result_of_fifty_megabytes_is_shortened() {
    let tool = FunctionTool::new("big", "answers much", |_, _: Text| async {
        ToolOutput::text("x".repeat(50_000_000))
    });
    let (engine, outcome) = run(&echo_result("big"), registry([tool]), task("go")).await;
    let data = outcome.text.unwrap();
    assert_eq!(data.chars().count(), RESULT_MAX_CHARS);
    assert!(data.contains("49900000 of 50000000 characters left out"));
    let events = engine.thread(&outcome.thread).events(Seq(0), 100).await.unwrap();
    let lines: Vec<usize> = events.iter().map(|recorded| recorded.event.encode().len()).collect();
    assert!(lines.iter().all(|bytes| *bytes < INLINE_MAX_BYTES), "large texts are stored apart: {lines:?}");
}

// rows: LM-L6
#[tokio::test]
async fn a_result_of_a_hundred_parts_is_shortened_as_one() {
    let tool = FunctionTool::new("big", "answers much", |_, _: Text| async {
        let part = |n: usize| OutputPart::Text(format!("<{n}>{}", "x".repeat(RESULT_MAX_CHARS)));
        ToolOutput { parts: (0..100).map(part).collect(), ..ToolOutput::default() }
    });
    let (engine, outcome) = run(&echo_result("big"), registry([tool]), task("go")).await;
    let data = outcome.text.unwrap();
    assert_eq!(data.chars().count(), RESULT_MAX_CHARS);
    assert!(data.starts_with("<0>x") && data.ends_with('x'));
    assert!(data.contains("9900390 of 10000390 characters left out"), "{}", &data[74_000..76_000]);
    let events = engine.thread(&outcome.thread).events(Seq(0), 100).await.unwrap();
    let parts = events.iter().find_map(|recorded| match &recorded.event.fact {
        Fact::ToolFinished { content, .. } => Some(content.len()),
        _ => None,
    });
    assert_eq!(parts, Some(2), "what is left out whole leaves no empty part");
}

#[tokio::test]
async fn a_result_of_a_hundred_thousand_parts_is_cut_and_says_so() {
    let tool = FunctionTool::new("big", "answers in crumbs", |_, _: Text| async {
        let part = |n: u32| match n % 2 {
            0 => OutputPart::Text(format!("<{n}>")),
            _ => OutputPart::Image { media_type: "image/png".into(), bytes: n.to_be_bytes().to_vec().into() },
        };
        ToolOutput { parts: (0..100_000).map(part).collect(), ..ToolOutput::default() }
    });
    let (engine, outcome) = run(&echo_result("big"), registry([tool]), task("go")).await;
    let data = outcome.text.unwrap();
    assert!(data.starts_with("<0><2>") && data.contains("<126>[…") && !data.contains("<128>"), "{data}");
    assert!(data.ends_with("[… 99873 of 100000 parts left out …]"), "{data}");
    let events = engine.thread(&outcome.thread).events(Seq(0), 100).await.unwrap();
    let parts = events.iter().find_map(|recorded| match &recorded.event.fact {
        Fact::ToolFinished { content, .. } => Some(content.len()),
        _ => None,
    });
    assert_eq!(parts, Some(RESULT_MAX_PARTS));
}

#[tokio::test]
async fn what_a_crash_says_is_cut_and_says_so() {
    let page = || "x".repeat(20_000_000);
    let panics = FunctionTool::new("bad", "panics", move |_, _: Text| async move {
        if true {
            std::panic::panic_any(page());
        }
        "never"
    });
    let pure = Annotations { read_only_hint: true, ..Annotations::default() };
    let models = ScriptedModels::new(move |call| match results(call) {
        0 => Line::tool("bad", r#"{"text":"x"}"#),
        _ => Line::Fail(String::new(), ModelError::new(FailureClass::Auth, page())),
    });
    let (engine, outcome) = run(&models, registry([panics.annotations(pure)]), task("go")).await;
    let error = &outcome.errors[0];
    assert!(error.message.contains(" of 20000000 characters left out"), "{error:?}");
    let events = engine.thread(&outcome.thread).events(Seq(0), 100).await.unwrap();
    let lines: Vec<usize> = events.iter().map(|recorded| recorded.event.encode().len()).collect();
    assert!(lines.iter().all(|bytes| *bytes < 2 * FAILURE_MAX_CHARS), "{lines:?}");
    let told = events.iter().any(|recorded| {
        recorded.event.encode().contains("Stopped: it crashed: xxx")
            && recorded.event.encode().contains("of 20000012 characters left out")
    });
    assert!(told, "{events:?}");
}

#[tokio::test]
async fn five_hundred_calls_at_once_are_bounded() {
    let counter = Counter::default();
    let models = ScriptedModels::new(|call| match results(call) {
        0 => Line::Call(String::new(), vec![("note".into(), r#"{"text":"x"}"#.into()); 500]),
        all => Line::Say(format!("{all} results")),
    });
    let (_, outcome) = run(&models, registry([counter.tool("note", EffectClass::Pure)]), task("go")).await;
    assert_eq!((outcome.text.as_deref(), counter.count()), (Some("500 results"), 128));
}

// rows: SK-L13
#[tokio::test]
async fn a_model_known_to_lack_what_is_asked_for_is_refused_at_the_start() {
    let known =
        |tool_calls, structured_output| KnownModel { tool_calls, structured_output, ..KnownModel::default() };
    let models = [
        ("mute".to_owned(), known(Some(false), None)),
        ("plain".to_owned(), known(Some(true), Some(false))),
        ("able".to_owned(), known(Some(true), Some(true))),
    ];
    let config = ProviderConfig {
        base_url: Some("http://127.0.0.1:9/v1".to_owned()),
        models: models.into(),
        ..ProviderConfig::default()
    };
    let catalog = ProviderCatalog::builder().variables(|_| None).provider("own", config).build().unwrap();
    let with_tools = || registry([Counter::default().tool("count", EffectClass::Pure)]);
    let refused = |model: &'static str, tools: Registry, output_schema: Option<serde_json::Value>| {
        let catalog = Arc::new(catalog.clone());
        async move {
            let engine = windlass::builder().models(catalog).tools(tools).build().await.unwrap();
            let agent = AgentConfig {
                settings: ModelSettings { output_schema, ..ModelSettings::default() },
                ..AgentConfig::from(model)
            };
            let error = engine.start(Task { agent, ..task("go") }).await.err().map(|error| error.to_string());
            assert_eq!(
                engine.runs(&RunQuery::newest(9)).await.unwrap().is_empty(),
                error.is_some(),
                "{model}"
            );
            error
        }
    };
    let schema = || Some(serde_json::json!({"type": "object"}));
    let no_schema = |model: &str| {
        Some(format!("model `{model}` cannot be held to a JSON schema, which this agent asks for"))
    };
    let no_tools = Some("model `own/mute` cannot call tools, which an agent needs".to_owned());
    assert_eq!(refused("own/mute", with_tools(), None).await, no_tools);
    assert_eq!(refused("own/mute", windlass::registry(), None).await, None);
    assert_eq!(refused("own/plain", with_tools(), None).await, None);
    assert_eq!(refused("own/plain", with_tools(), schema()).await, no_schema("own/plain"));
    assert_eq!(refused("own/plain", windlass::registry(), schema()).await, no_schema("own/plain"));
    assert_eq!(refused("own/able", with_tools(), schema()).await, None);
    assert_eq!(refused("own/unknown", with_tools(), schema()).await, None);
}

#[tokio::test]
async fn the_same_call_for_ever_is_stopped() {
    let counter = Counter::default();
    let models = ScriptedModels::new(|_| Line::tool("note", r#"{"text":"x"}"#));
    let (_, outcome) = run(&models, registry([counter.tool("note", EffectClass::Once)]), task("go")).await;
    assert_eq!((outcome.status, outcome.figures.steps, counter.count()), (Status::Failed, 4, 4));
    assert_eq!(outcome.errors[0].code, "ERR_STALLED");
}

// rows: LM-X1, SK-G22
#[tokio::test]
async fn calls_without_end_stop_at_the_step_limit() {
    let counter = Counter::default();
    let models = ScriptedModels::new(|call| {
        Line::tool("note", &format!(r#"{{"text":"{}"}}"#, call.request.messages.len()))
    });
    let (_, outcome) = run(&models, registry([counter.tool("note", EffectClass::Once)]), task("go")).await;
    assert_eq!((outcome.status, outcome.figures.steps, counter.count()), (Status::Failed, 25, 25));
    assert_eq!(outcome.errors[0].code, "ERR_MAX_TURNS");
    assert!(outcome.figures.tokens.input.is_some_and(|tokens| tokens == 250));
}

// rows: LM-X3, ZE-X6
#[tokio::test(start_paused = true)]
async fn a_run_ends_when_its_time_is_up() {
    let models = ScriptedModels::new(|_| Line::Hang("thinking ".into()));
    let clock = windlass::clock::ManualClock::new(windlass::machine::Timestamp(1_000), 1);
    let clock = Arc::new(clock);
    let engine = memory(&models, windlass::registry()).clock(clock.clone()).build().await.unwrap();
    let started =
        engine.start(limited(Limits { run_timeout_ms: 60_000, ..Limits::default() })).await.unwrap();
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.run(&started.run).wait().await.unwrap() }
    });
    tokio::task::yield_now().await;
    for _ in 0..100 {
        clock.advance_ms(1_000);
        tokio::task::yield_now().await;
    }
    let outcome = waiting.await.unwrap();
    assert_eq!((outcome.status, outcome.errors[0].code.as_str()), (Status::Failed, "ERR_RUN_TIMEOUT"));
    assert_eq!(outcome.output.as_deref(), Some("thinking "));
}

// rows: LM-X7, LM-X8, LM-X9, LM-X10, LM-X11, LM-R11
#[tokio::test]
async fn a_models_failures_have_codes() {
    let check = async |line: Line, code: &str, retryable: bool| {
        let models = ScriptedModels::new(move |_| line.clone());
        let (_, outcome) = run(&models, windlass::registry(), task("go")).await;
        let error = &outcome.errors[0];
        assert_eq!((outcome.status, error.code.as_str(), error.retryable), (Status::Failed, code, retryable));
        assert_eq!(outcome.figures.steps, 1);
    };
    check(Line::fail(FailureClass::Auth), "ERR_AUTH", false).await;
    check(Line::fail(FailureClass::Config), "ERR_CONFIG", false).await;
    check(Line::fail(FailureClass::Malformed), "ERR_STREAM_PARSE", false).await;
    check(Line::fail(FailureClass::InvalidRequest), "ERR_REQUEST", false).await;
    let odd = |stop| {
        Line::Reply(Reply { blocks: vec![Block::text("x")], stop, usage: Usage::default(), model: None })
    };
    check(odd(StopReason::Other("eclipse".into())), "ERR_UNEXPECTED_STOP", false).await;
    check(odd(StopReason::Refusal), "ERR_REFUSED", false).await;
    let slow =
        ModelError { retry_after_ms: Some(0), ..ModelError::new(FailureClass::RateLimited, "slow down") };
    check(Line::Fail(String::new(), slow), "ERR_RATE_LIMIT", true).await;
    let cut = ModelError { retry_after_ms: Some(0), ..ModelError::new(FailureClass::Truncated, "cut") };
    check(Line::Fail("half".into(), cut), "ERR_STREAM_INCOMPLETE", true).await;
}

// rows: WT-L6, WT-L7
#[tokio::test]
async fn unknown_tools_and_bad_arguments_are_reported_to_the_model() {
    let counter = Counter::default();
    let asks = [("nope", "{}"), ("note", "{\"text\":7}"), ("note", "{{{"), ("note", "{text:'fine',}")];
    let models = ScriptedModels::new(move |call| match results(call) {
        0 => {
            let block = |(index, (name, asked)): (usize, &(&str, &str))| {
                let (id, asked) = (format!("c{index}"), Content::from(*asked));
                Block::ToolCall(ToolCall { id, name: (*name).into(), asked, native: None })
            };
            let blocks = asks.iter().enumerate().map(block).collect();
            Line::Reply(Reply { blocks, stop: StopReason::ToolCalls, usage: Usage::default(), model: None })
        }
        _ => Line::Say(heard(call)),
    });
    let (engine, outcome) =
        run(&models, registry([counter.tool("note", EffectClass::Once)]), task("go")).await;
    let data = outcome.text.unwrap();
    assert!(data.contains(r#"{"error":"Unknown tool: nope"}"#), "{data}");
    assert_eq!(data.matches("Invalid arguments: ").count(), 2, "{data}");
    assert!(
        data.contains(r#"said fine(The arguments were corrected. What was sent: {"text":"fine"})"#),
        "{data}"
    );
    assert_eq!(counter.count(), 1);
    let events = engine.thread(&outcome.thread).events(Seq(0), 100).await.unwrap();
    let started = events.iter().filter(|recorded| matches!(recorded.event.fact, Fact::ToolStarted { .. }));
    assert_eq!(started.count(), 1, "an invalid call is neither dispatched nor asked about");
}

#[tokio::test]
async fn a_reply_of_many_megabytes_is_stored_apart_and_told_whole() {
    let models = ScriptedModels::new(|_| Line::Say("long ".repeat(400_000)));
    let (engine, outcome) = run(&models, windlass::registry(), task("go")).await;
    assert_eq!(outcome.text.unwrap().len(), 2_000_000);
    let events = engine.thread(&outcome.thread).events(Seq(0), 100).await.unwrap();
    let blob = events.iter().any(|recorded| {
        matches!(&recorded.event.fact, Fact::StepReplied { message, .. }
            if message.texts().any(|text| text.size_bytes() == 2_000_000 && text.inline().is_none()))
    });
    assert!(blob, "{events:?}");
}
