//! The log of a run, as a subscriber of a host program receives it.
//!
//! The lines are those of the usual formatter, as people read them.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing::Level;
use tracing::subscriber::DefaultGuard;
use windlass::machine::{Answer, AutoRun, EffectClass, FailureClass};
use windlass::models::{ProviderCatalog, ProviderConfig, Secret};
use windlass::port::tool::{CallContext, ToolOutput};
use windlass::testing::provider::ProviderServer;
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::FunctionTool;
use windlass::{AgentConfig, Outcome, Task};

use super::{Counter, Text, memory, party, registry, task};

/// The lines logged on this thread since the subscriber was installed.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Subscribes from this level up, to every library of the process.
    fn listen(level: Level) -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines within a run, with the run named once, and without ids and times.
    fn lines(&self, outcome: &Outcome) -> String {
        let text = self.text().replace(outcome.run.as_str(), "RUN");
        let text = text.replace(outcome.thread.as_str(), "THREAD");
        let plain = |line: &str| {
            let words = line.split(' ').map(|word| match word.split_once("_ms=") {
                Some((name, rest)) => {
                    format!("{name}_ms=N{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
                }
                None => word.to_owned(),
            });
            words.collect::<Vec<_>>().join(" ")
        };
        let own = "invoke_agent{gen_ai.operation.name=\"invoke_agent\" gen_ai.agent.name=\"default\" \
                   gen_ai.conversation.id=THREAD thread=THREAD run=RUN";
        text.lines().map(|line| plain(line).replace(own, "run{") + "\n").collect()
    }
}

/// Returns, fails, or panics.
fn moody(name: &str) -> FunctionTool {
    FunctionTool::new(name, "follows the argument", |_: CallContext, text: Text| async move {
        match text.text.as_str() {
            "crash" => panic!("as it was told"),
            "fail" => ToolOutput::error("no"),
            other => ToolOutput::text(format!("said {other}")),
        }
    })
    .effect_class(EffectClass::Idempotent)
}

/// A reply with these calls, then an answer.
fn calls(asked: &'static [(&'static str, &'static str)]) -> ScriptedModels {
    ScriptedModels::new(move |call| match results(call) {
        0 => {
            let arguments = |text: &str| format!(r#"{{"text":"{text}"}}"#);
            let calls = asked.iter().map(|(tool, text)| ((*tool).into(), arguments(text)));
            Line::Call("Let me see.".into(), calls.collect())
        }
        _ => Line::Say("seen".into()),
    })
}

// rows: WT-L14
#[tokio::test]
async fn each_step_and_call_is_logged_with_its_place_and_its_end() {
    let models = calls(&[("one", "go"), ("two", "fail"), ("one", "crash")]);
    let engine = memory(&models, registry([moody("one"), moody("two")])).build().await.unwrap();
    let (log, _guard) = Log::listen(Level::INFO);
    let outcome = engine.run_task(task("go")).await.unwrap();
    insta::assert_snapshot!(log.lines(&outcome), @r#"
    INFO run{}: run started
    INFO run{}:chat{gen_ai.operation.name="chat" gen_ai.request.model=test/scripted step=1 steps=25 attempt=1}: started
    INFO run{}:chat{gen_ai.operation.name="chat" gen_ai.request.model=test/scripted step=1 steps=25 attempt=1 gen_ai.response.finish_reasons="tool_calls" gen_ai.usage.input_tokens=10 gen_ai.usage.output_tokens=5 ttft_ms=N outcome="replied" duration_ms=N}: ended
    INFO run{}:execute_tool{gen_ai.operation.name="execute_tool" gen_ai.tool.name=one gen_ai.tool.call.id="call_0_0" step=1 steps=25 call=1 calls=3 start=1 effect_class="idempotent"}: started
    INFO run{}:execute_tool{gen_ai.operation.name="execute_tool" gen_ai.tool.name=one gen_ai.tool.call.id="call_0_0" step=1 steps=25 call=1 calls=3 start=1 effect_class="idempotent" outcome="returned" duration_ms=N}: ended
    INFO run{}:execute_tool{gen_ai.operation.name="execute_tool" gen_ai.tool.name=two gen_ai.tool.call.id="call_0_1" step=1 steps=25 call=2 calls=3 start=1 effect_class="idempotent"}: started
    INFO run{}:execute_tool{gen_ai.operation.name="execute_tool" gen_ai.tool.name=two gen_ai.tool.call.id="call_0_1" step=1 steps=25 call=2 calls=3 start=1 effect_class="idempotent" outcome="error" duration_ms=N}: ended
    INFO run{}:execute_tool{gen_ai.operation.name="execute_tool" gen_ai.tool.name=one gen_ai.tool.call.id="call_0_2" step=1 steps=25 call=3 calls=3 start=1 effect_class="idempotent"}: started
    INFO run{}:execute_tool{gen_ai.operation.name="execute_tool" gen_ai.tool.name=one gen_ai.tool.call.id="call_0_2" step=1 steps=25 call=3 calls=3 start=1 effect_class="idempotent" outcome="stopped" duration_ms=N}: ended
    INFO run{}:chat{gen_ai.operation.name="chat" gen_ai.request.model=test/scripted step=2 steps=25 attempt=1}: started
    INFO run{}:chat{gen_ai.operation.name="chat" gen_ai.request.model=test/scripted step=2 steps=25 attempt=1 gen_ai.response.finish_reasons="end" gen_ai.usage.input_tokens=10 gen_ai.usage.output_tokens=5 ttft_ms=N outcome="replied" duration_ms=N}: ended
    INFO run{ outcome="done" steps=2 calls=3 duration_ms=N gen_ai.usage.input_tokens=20 gen_ai.usage.output_tokens=10}: run finished
    "#);
}

// rows: WT-L14
#[tokio::test]
async fn a_failed_step_and_a_denied_call_are_logged_as_such() {
    let models = ScriptedModels::new(|call| match results(call) {
        0 => Line::tool("write", r#"{"text":"x"}"#),
        _ => Line::fail(FailureClass::Auth),
    });
    let tools = registry([Counter::default().tool("write", EffectClass::Once)]);
    let engine = memory(&models, tools).auto_run(AutoRun::Ask).build().await.unwrap();
    let (log, _guard) = Log::listen(Level::INFO);
    let waiting = engine.run_task(task("go")).await.unwrap();
    let open = &waiting.interrupts[0].interrupt;
    let deny = Answer::Deny { reason: None };
    engine.thread(&waiting.thread).answer(open, deny, party("ann")).await.unwrap();
    let outcome = engine.run(&waiting.run).wait().await.unwrap();
    insta::assert_snapshot!(log.lines(&outcome), @r#"
    INFO run{}: run started
    INFO run{}:chat{gen_ai.operation.name="chat" gen_ai.request.model=test/scripted step=1 steps=25 attempt=1}: started
    INFO run{}:chat{gen_ai.operation.name="chat" gen_ai.request.model=test/scripted step=1 steps=25 attempt=1 gen_ai.response.finish_reasons="tool_calls" gen_ai.usage.input_tokens=10 gen_ai.usage.output_tokens=5 outcome="replied" duration_ms=N}: ended
    INFO run{}: waiting for an answer step=1 call=1 interrupt=RUN.1.0.0
    INFO run{}: run resumed
    INFO run{}: answered interrupt=RUN.1.0.0 by=ann
    INFO run{}: call closed step=1 call=1 outcome="denied"
    INFO run{}:chat{gen_ai.operation.name="chat" gen_ai.request.model=test/scripted step=2 steps=25 attempt=1}: started
    INFO run{}:chat{gen_ai.operation.name="chat" gen_ai.request.model=test/scripted step=2 steps=25 attempt=1 error.type="auth" outcome="failed" duration_ms=N}: ended
    INFO run{}: step failed step=2 attempt=1 error.type="auth"
    INFO run{ outcome="failed" steps=2 calls=0 duration_ms=N gen_ai.usage.input_tokens=10 gen_ai.usage.output_tokens=5}: run finished error.type="ERR_AUTH"
    "#);
}

// rows: WT-L14
#[tokio::test]
async fn no_content_is_logged_above_trace() {
    const PLANTED: &str = "sk-planted-0123456789";
    let talks = ScriptedModels::new(|call| match results(call) {
        0 => Line::Call(
            format!("I use {PLANTED}."),
            vec![("one".into(), format!(r#"{{"text":"{PLANTED}"}}"#))],
        ),
        1 => Line::tool("one", r#"{"text":"crash"}"#),
        _ => Line::Say(format!("It was {PLANTED}.")),
    });
    let told = async |level| {
        let engine = memory(&talks, registry([moody("one")])).build().await.unwrap();
        let (log, _guard) = Log::listen(level);
        let agent = AgentConfig { instructions: vec![PLANTED.into()], ..AgentConfig::from("test/scripted") };
        engine.run_task(Task::new(agent, PLANTED)).await.unwrap();
        log.text()
    };
    for level in [Level::INFO, Level::DEBUG] {
        let text = told(level).await;
        assert!(text.contains("run finished") && !text.contains(PLANTED), "{text}");
    }
    let text = told(Level::TRACE).await;
    for content in ["reply text=\"I use sk-", "arguments arguments={\"text\":\"sk-", "result text=\"said sk-"]
    {
        assert!(text.contains(content), "{content}: {text}");
    }
}

// rows: WT-L14
#[tokio::test]
async fn a_provider_is_logged_without_the_key_and_without_content() {
    const KEY: &str = "key-of-the-house";
    let server = ProviderServer::start().await.unwrap();
    let config = ProviderConfig {
        base_url: Some(server.url("anth-unknown")),
        api_key: Some(Secret::new(KEY)),
        headers: vec![("x-team".to_owned(), Secret::new("team-of-the-house"))],
        ..ProviderConfig::default()
    };
    let told = async |level| {
        let catalog = ProviderCatalog::builder().variables(|_| None).provider("anthropic", config.clone());
        let engine =
            windlass::builder().models(Arc::new(catalog.build().unwrap())).tools(windlass::registry());
        let engine = engine.build().await.unwrap();
        let (log, _guard) = Log::listen(level);
        let task = Task::new(AgentConfig::from("anthropic/claude-haiku-4-5"), "PLANTED");
        assert_eq!(engine.run_task(task).await.unwrap().text.as_deref(), Some("Look."));
        log.text()
    };
    let info = told(Level::INFO).await;
    assert!(info.contains("gen_ai.provider.name=\"anthropic\""), "{info}");
    assert!(!info.contains("PLANTED") && !info.contains("Look."), "{info}");
    let trace = told(Level::TRACE).await;
    assert!(trace.contains("Look.") && !trace.contains("of-the-house"), "{trace}");
}
