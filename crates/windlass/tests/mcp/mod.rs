//! Tool servers as an embedding program uses them: on loopback, as processes, and the protocol's own.

mod away;
mod call;
mod echo;
mod engine;
mod held;
mod input;
mod lasting;
mod list;
#[cfg(unix)]
pub mod process;
mod real;
mod secrets;
mod sign_in;
pub mod stage;
mod task;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass::machine::{Answer, CallKey, EffectId, Reply, RunId, ThreadId};
use windlass::mcp::{Http, HubConfig, McpHub, McpServer, Transport};
use windlass::port::tool::{
    Ask, CallContext, Deferral, OutputPart, ProgressSender, Tool, ToolOutcome, ToolOutput, ToolReply,
    ToolSource,
};

use self::stage::Stage;

/// A server at an address.
fn at(name: &str, url: &str) -> McpServer {
    McpServer::new(name, Transport::Http(Http::new(url)))
}

/// The same, with trusted hints.
fn trusted(name: &str, url: &str) -> McpServer {
    McpServer { trusted: true, ..at(name, url) }
}

/// A hub over one server that is ready.
pub async fn hub(server: McpServer) -> McpHub {
    let (hub, name) = (McpHub::new(HubConfig::default()), server.name.clone());
    hub.start(vec![server]).await.unwrap();
    hub.ready(&name).await.unwrap();
    hub
}

/// A hub over a fixture server named `stage`.
pub async fn hub_of(stage: &Stage) -> McpHub {
    hub(trusted("stage", &stage.url)).await
}

pub fn find(hub: &McpHub, name: &str) -> Arc<dyn Tool> {
    let tools = hub.tools();
    let found = tools.iter().find(|tool| tool.spec().name.as_str() == name).cloned();
    found.unwrap_or_else(|| panic!("no tool `{name}` among {:?}", names(hub)))
}

fn names(hub: &McpHub) -> Vec<String> {
    hub.tools().iter().map(|tool| tool.spec().name.to_string()).collect()
}

fn context() -> CallContext {
    let (thread, run, call) = (ThreadId::from("t1"), RunId::from("r1"), CallKey { step: 1, index: 0 });
    CallContext {
        workspace: "default".into(),
        effect_id: EffectId::derive(&thread, &run, call),
        class: None,
        thread,
        run,
        call,
        cancel: CancellationToken::new(),
        folder: None,
        now: windlass::machine::Timestamp(1_000),
        utc_offset_minutes: None,
        kept: None,
        results: windlass::port::offload::OffloadedResults::default(),
        resumed: None,
        reply: None,
        progress: ProgressSender::default(),
    }
}

/// Calls a tool. A call that hangs fails the test instead of blocking it.
pub async fn call(tool: &Arc<dyn Tool>, arguments: Value) -> ToolOutcome {
    called(tool, context(), arguments).await
}

async fn called(tool: &Arc<dyn Tool>, context: CallContext, arguments: Value) -> ToolOutcome {
    let called = tokio::time::timeout(Duration::from_secs(60), tool.call(context, arguments)).await;
    called.expect("the call hangs")
}

/// Resumes a call that has asked a question.
async fn resumed(tool: &Arc<dyn Tool>, output: &ToolOutcome, answer: Answer) -> ToolOutcome {
    let state = ask_of(output).state.clone();
    called(
        tool,
        CallContext { reply: Some(ToolReply { answer, state }), ..context() },
        json!({ "text": "x" }),
    )
    .await
}

fn values(values: Value) -> Answer {
    Answer::Reply(Box::new(Reply { values: Some(values), ..Reply::default() }))
}

/// The question of a call.
pub fn ask_of(outcome: &ToolOutcome) -> &Ask {
    let ToolOutcome::Ask(ask) = outcome else { panic!("nothing was asked: {outcome:?}") };
    ask
}

/// The deferral of a call.
pub fn deferral_of(outcome: &ToolOutcome) -> &Deferral {
    let ToolOutcome::Defer(deferral) = outcome else { panic!("it was not deferred: {outcome:?}") };
    deferral
}

/// The output of a finished call.
pub fn answer_of(outcome: &ToolOutcome) -> &ToolOutput {
    let ToolOutcome::Done(output) = outcome else { panic!("it is not done: {outcome:?}") };
    output
}

/// An outcome in one line.
pub fn shown(outcome: &ToolOutcome) -> String {
    let output = match outcome {
        ToolOutcome::Done(output) => output,
        ToolOutcome::Unknown { reason } => return format!("lost: {reason}"),
        ToolOutcome::Defer(deferral) => return format!("deferred: {}", deferral.after_ms),
        ToolOutcome::Ask(ask) => {
            return match &ask.kind {
                windlass::machine::InterruptKind::Question(question) => format!("asks: {}", question.summary),
                windlass::machine::InterruptKind::SignIn { url, .. } => format!("signs in: {url}"),
                other => format!("asks: {other:?}"),
            };
        }
    };
    let parts = output.parts.iter().map(|part| match part {
        OutputPart::Text(text) => text.clone(),
        OutputPart::Image { media_type, bytes } => format!("<{media_type} {}>", bytes.len()),
        OutputPart::File { name, media_type, bytes } => format!("<{name} {media_type} {}>", bytes.len()),
    });
    format!("{}: {}", if output.error { "error" } else { "ok" }, parts.collect::<Vec<_>>().join("\n"))
}
