//! The whole way: a model calls a server's tool, the server asks, the process dies, another one goes on.

use std::sync::Arc;

use serde_json::json;
use windlass::adapter::mcp::{HubConfig, McpHub};
use windlass::adapter::memory::MemoryStore;
use windlass::machine::{InterruptKind, Party};
use windlass::port::tool::ToolSource;
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::Registry;
use windlass::{Engine, Status};

use super::stage::{Asked, Said, Stage, modern, tool};
use super::{trusted, values};
use crate::drive::{memory, task};

fn shop(asked: &Asked) -> Said {
    let form = json!({ "method": "elicitation/create", "params": { "message": "How many?", "requestedSchema": {
        "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] } } });
    modern(asked, &json!([tool("buy", json!({ "destructiveHint": false }))])).unwrap_or_else(|| match asked.params().get("inputResponses") {
        None => asked.result(json!({ "resultType": "input_required", "inputRequests": { "a": form }, "requestState": "s" })),
        Some(answers) => asked.text(&format!("bought {}", answers["a"]["content"]["n"])),
    })
}

async fn engine(store: &MemoryStore, stage: &Stage, models: &ScriptedModels) -> (Engine, McpHub) {
    let hub = McpHub::new(HubConfig::default());
    hub.start(vec![trusted("shop", &stage.url)]).await.unwrap();
    hub.ready("shop").await.unwrap();
    let tools = Registry::new().add_all(hub.tools().iter().cloned()).unwrap();
    let ports = Arc::new(store.clone());
    let engine = memory(models, tools).ports(ports.clone(), ports.clone(), ports).build().await.unwrap();
    (engine, hub)
}

#[tokio::test]
async fn a_question_of_a_server_outlives_the_process_that_asked() {
    let stage = Stage::start(shop).await;
    let store = MemoryStore::new(Arc::new(windlass::adapter::clock::SystemClock::new()));
    let models = ScriptedModels::new(|call| match results(call) {
        0 => Line::tool("buy", r#"{"text":"apples"}"#),
        _ => Line::Say(crate::gate::told(call)),
    });
    let (first, hub) = engine(&store, &stage, &models).await;
    let waiting = first.run(task("go")).await.unwrap();
    assert_eq!(waiting.status, Status::Paused);
    let InterruptKind::Question(question) = &waiting.meta.interrupts[0].kind else { panic!("{waiting:?}") };
    assert_eq!(question.summary, "The server `shop` asks: How many?");
    drop((first, hub));
    let (second, _hub) = engine(&store, &stage, &models).await;
    let by = Party { principal: "local".into(), workspace: "default".into(), roles: vec!["admin".into()] };
    let asked = &waiting.meta.interrupts[0].interrupt;
    second.answer(&waiting.meta.thread_id, asked, values(json!({ "n": 3 })), by).await.unwrap();
    let done = second.wait(&waiting.run_id).await.unwrap();
    assert_eq!(done.data.as_deref(), Some("bought 3"), "{done:?}");
    assert_eq!(stage.asked("tools/call").len(), 2);
}
