//! The model adapter against a provider that replays difficult cases of the real wires.

mod anthropic;
#[cfg(feature = "bedrock")]
mod bedrock;
mod catalog;
mod chat;
mod error;
mod history;
mod other;
mod replay;
mod request;
mod streams;
#[cfg(feature = "vertex")]
mod vertex;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use windlass::models::{ProviderCatalog, ProviderConfig, Secret, WireKind};
use windlass::port::model::{Delta, Model, ModelCall, ModelError, ModelEvent, Models, Reply};
use windlass::testing::provider::ProviderServer;
use windlass_machine::{
    Annotations, Block, Content, Message, Mode, ModelName, ModelRequest, ModelSettings, Role, ToolResult,
    ToolSpec, Usage,
};

/// Short enough for a test, long enough for a loaded machine.
const STALL: Duration = Duration::from_millis(400);

/// The configuration of a scenario at the server.
fn config(server: &ProviderServer, scenario: &str, kind: WireKind) -> ProviderConfig {
    let base = server.url(scenario);
    ProviderConfig {
        wire: Some(kind),
        base_url: Some(match kind {
            WireKind::Anthropic | WireKind::Gemini | WireKind::Converse => base,
            WireKind::OpenaiChat | WireKind::OpenaiResponses => format!("{base}/v1"),
        }),
        api_key: Some(Secret::new("test-key")),
        stall_timeout: STALL,
        ..ProviderConfig::default()
    }
}

/// The wire of a scenario.
fn kind_of(scenario: &str) -> WireKind {
    match scenario.split('-').next() {
        Some("anth") => WireKind::Anthropic,
        Some("resp") => WireKind::OpenaiResponses,
        Some("gem") => WireKind::Gemini,
        Some("br") => WireKind::Converse,
        _ => WireKind::OpenaiChat,
    }
}

/// The model name for a scenario.
fn name_of(kind: WireKind) -> &'static str {
    match kind {
        WireKind::Anthropic => "anthropic/claude-opus-4-6",
        WireKind::OpenaiResponses => "openai/gpt-5.2",
        WireKind::OpenaiChat => "openai-compatible/model-x",
        WireKind::Gemini => "gemini/gemini-3.8-flash",
        WireKind::Converse => "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    }
}

/// A model at a scenario.
fn model(
    server: &ProviderServer,
    scenario: &str,
    name: &str,
    edit: impl FnOnce(&mut ProviderConfig),
) -> Arc<dyn Model> {
    let mut config = config(server, scenario, kind_of(scenario));
    edit(&mut config);
    let provider = name.split('/').next().unwrap();
    let catalog = ProviderCatalog::builder().variables(place).provider(provider, config).build().unwrap();
    catalog.resolve(&ModelName::from(name)).unwrap()
}

/// Runs one test of this program in a separate process, where an SDK that reads the environment finds only these
/// variables.
fn alone(test: &str, home: &std::path::Path, variables: &[(&str, &str)]) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env_clear()
        .env(ALONE, "yes")
        .env("HOME", home)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{output:?}");
}

/// Marks the process of such a test.
const ALONE: &str = "WINDLASS_TEST_ALONE";

/// The location of the clouds' models; no other variable is set.
fn place(variable: &str) -> Option<String> {
    match variable {
        "AWS_REGION" => Some("eu-west-1".to_owned()),
        "GOOGLE_CLOUD_PROJECT" => Some("house".to_owned()),
        "GOOGLE_CLOUD_LOCATION" => Some("europe-west1".to_owned()),
        _ => None,
    }
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("the {name} tool"),
        input_schema: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
        annotations: Annotations::default(),
        withheld: Vec::new(),
    }
}

/// A request with two tools and these messages.
fn call(name: &str, messages: Vec<Message>) -> ModelCall {
    ModelCall {
        request: ModelRequest {
            model: name.into(),
            system: vec![Content::from("Be brief.")],
            tools: None,
            loaded: None,
            messages: messages.into_iter().map(Arc::new).collect(),
            tail: Vec::new(),
            mode: Mode::Agent,
            settings: ModelSettings::default(),
        },
        tools: vec![tool("get_weather"), tool("get_time")].into(),
        blobs: HashMap::new(),
    }
}

fn ask() -> Vec<Message> {
    vec![Message::text(Role::User, "What is the weather?")]
}

/// Reads a stream to its end: the fragments joined by part, and the outcome.
async fn read(model: &dyn Model, call: ModelCall) -> (Vec<String>, Result<Reply, ModelError>) {
    let mut stream = model.stream(call);
    let mut parts: Vec<String> = Vec::new();
    let mut outcome = None;
    while let Some(event) = stream.next().await {
        assert!(outcome.is_none(), "an event after the end");
        match event {
            Ok(ModelEvent::Delta(delta)) => {
                let (part, kind, text) = match delta {
                    Delta::Text { part, text } => (part, "text", text.to_string()),
                    Delta::Reasoning { part, text } => (part, "reasoning", text.to_string()),
                    Delta::Call { part, name: Some(name), arguments } => {
                        (part, "call", format!("{name} {arguments}"))
                    }
                    Delta::Call { part, name: None, arguments } => (part, "call", arguments.to_string()),
                };
                let part = part as usize;
                parts.resize(parts.len().max(part + 1), String::new());
                if parts[part].is_empty() {
                    parts[part] = format!("{kind}: ");
                }
                parts[part].push_str(&text);
            }
            Ok(ModelEvent::Finished(reply)) => outcome = Some(Ok(*reply)),
            Err(error) => outcome = Some(Err(error)),
        }
    }
    (parts, outcome.expect("a stream ends with a reply or an error"))
}

/// Requests a scenario and formats deltas, blocks, stop and usage.
async fn transcript(scenario: &str) -> String {
    let server = ProviderServer::start().await.unwrap();
    let name = name_of(kind_of(scenario));
    let model = model(&server, scenario, name, |_| {});
    let (parts, outcome) = read(&*model, call(name, ask())).await;
    let mut shown = String::new();
    for (at, part) in parts.iter().enumerate() {
        writeln!(shown, "{}", format!("~ {at} {part}").trim_end()).unwrap();
    }
    match outcome {
        Ok(reply) => show_reply(&mut shown, &reply),
        Err(error) => show_error(&mut shown, &error),
    }
    shown
}

fn show_error(shown: &mut String, error: &ModelError) {
    write!(shown, "error {:?}: {}", error.class, error.message).unwrap();
    if let Some(status) = error.status {
        write!(shown, " [{status}]").unwrap();
    }
    if let Some(wait) = error.retry_after_ms {
        write!(shown, " [again in {wait} ms]").unwrap();
    }
}

fn show_reply(shown: &mut String, reply: &Reply) {
    for block in &reply.blocks {
        match block {
            Block::Text { text, native } => {
                line(shown, "text", text.inline().unwrap(), native.as_deref().map(|n| &n.item))
            }
            Block::Reasoning { text, native } => {
                line(shown, "reasoning", text.inline().unwrap(), native.as_deref().map(|n| &n.item));
            }
            Block::ToolCall(call) => line(
                shown,
                "call",
                &format!("{} {} {}", call.id, call.name, call.asked.inline().unwrap()),
                call.native.as_deref().map(|n| &n.item),
            ),
            Block::Opaque { native } => line(shown, "opaque", "", Some(&native.item)),
            Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) => panic!("{block:?} in a reply"),
        }
    }
    let Usage { input, output, cached, cache_written, reasoning } = reply.usage;
    let figure = |figure: Option<u64>| figure.map_or_else(|| "-".to_owned(), |figure| figure.to_string());
    write!(
        shown,
        "stop {:?}, in {} (cached {}, written {}), out {} (reasoning {}), by {}",
        reply.stop,
        figure(input),
        figure(cached),
        figure(cache_written),
        figure(output),
        figure(reasoning),
        reply.model.as_deref().unwrap_or("-")
    )
    .unwrap();
}

fn line(shown: &mut String, kind: &str, text: &str, item: Option<&Value>) {
    let item = item.map(|item| format!(" + {item}")).unwrap_or_default();
    writeln!(shown, "{kind} {text:?}{item}").unwrap();
}

/// The history after a reply whose calls were all answered with `ok`.
fn answered(mut messages: Vec<Message>, reply: &Reply) -> Vec<Message> {
    let message = Message { role: Role::Assistant, blocks: reply.blocks.clone() };
    let results: Vec<Block> = message
        .calls()
        .map(|call| {
            Block::ToolResult(ToolResult {
                call_id: call.id.clone(),
                name: call.name.clone(),
                content: vec![Block::text("ok")],
                error: false,
            })
        })
        .collect();
    messages.push(message);
    if results.is_empty() {
        messages.push(Message::text(Role::User, "Go on."));
    } else {
        messages.push(Message { role: Role::Tool, blocks: results });
    }
    // The recorded history is the one read after a crash.
    let recorded = serde_json::to_string(&messages).unwrap();
    serde_json::from_str(&recorded).unwrap()
}
