//! End to end: a model calls a server's tool, the server asks, the process dies, and another one resumes.

use std::sync::Arc;

use serde_json::json;
use windlass::machine::{AutoRun, EffectClass, InterruptKind, Party, Rule, Verdict};
use windlass::mcp::{HubConfig, McpHub};
use windlass::memory::MemoryStore;
use windlass::port::tool::ToolSource;
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::Adjustment;
use windlass::{Engine, GrantDraft, Status};

use super::stage::{Asked, Said, Stage, Step, modern, tool};
use super::{at, hub, hub_of, trusted, values};
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
    let tools = windlass::registry().add_all(hub.tools().iter().cloned()).unwrap();
    let ports = Arc::new(store.clone());
    let engine = memory(models, tools).ports(ports.clone(), ports.clone(), ports).build().await.unwrap();
    (engine, hub)
}

#[tokio::test]
async fn a_question_of_a_server_outlives_the_process_that_asked() {
    let stage = Stage::start(shop).await;
    let store = MemoryStore::new(Arc::new(windlass::clock::SystemClock::new()));
    let models = ScriptedModels::new(|call| match results(call) {
        0 => Line::tool("buy", r#"{"text":"apples"}"#),
        _ => Line::Say(crate::gate::told(call)),
    });
    let (first, hub) = engine(&store, &stage, &models).await;
    let waiting = first.run_task(task("go")).await.unwrap();
    assert_eq!(waiting.status, Status::Paused);
    let InterruptKind::Question(question) = &waiting.interrupts[0].kind else { panic!("{waiting:?}") };
    assert_eq!(question.summary, "The server `shop` asks: How many?");
    drop((first, hub));
    let (second, _hub) = engine(&store, &stage, &models).await;
    let by = Party { principal: "local".into(), workspace: "default".into(), roles: vec!["admin".into()] };
    let asked = &waiting.interrupts[0].interrupt;
    second.thread(&waiting.thread).answer(asked, values(json!({ "n": 3 })), by).await.unwrap();
    let done = second.run(&waiting.run).wait().await.unwrap();
    assert_eq!(done.text.as_deref(), Some("bought 3"), "{done:?}");
    assert_eq!(stage.asked("tools/call").len(), 2);
}

#[tokio::test]
async fn what_an_administrator_says_of_a_tool_counts_where_a_call_breaks_off() {
    let annotations = json!({ "readOnlyHint": true });
    let cases = [(Some(EffectClass::Once), 1), (None, 2)];
    for (effect_class, sent) in cases {
        let tools = json!([tool("look", annotations.clone())]);
        let stage = Stage::start(move |asked| {
            modern(asked, &tools).unwrap_or_else(|| Said::Stream(vec![Step::Break]))
        })
        .await;
        let hub = hub_of(&stage).await;
        let registry = windlass::registry().add_all(hub.tools().iter().cloned()).unwrap();
        let registry = match effect_class {
            None => registry,
            effect_class => registry.adjust("look", Adjustment { effect_class, ..Adjustment::default() }),
        };
        let models = ScriptedModels::new(|call| match results(call) {
            0 => Line::tool("look", "{}"),
            _ => Line::Say("done".into()),
        });
        let engine = memory(&models, registry).build().await.unwrap();
        let started = engine.start(task("go")).await.unwrap();
        stage.until("tools/call", sent).await;
        if effect_class.is_some() {
            // The call is in doubt, and a person decides.
            assert_eq!(engine.run(&started.run).wait().await.unwrap().status, Status::Paused);
            assert_eq!(stage.asked("tools/call").len(), sent);
        }
    }
}

#[tokio::test]
async fn an_untrusted_server_cannot_make_its_tool_keyed_by_the_name_of_an_argument() {
    for (is_trusted, sent) in [(false, 1), (true, 3)] {
        let mut pay = tool("pay", json!({ "destructiveHint": false }));
        let text = json!({ "type": "string" });
        pay["inputSchema"] = json!({ "type": "object", "properties": { "client_request_id": text } });
        let tools = json!([pay]);
        let stage = Stage::start(move |asked| {
            modern(asked, &tools).unwrap_or_else(|| Said::Stream(vec![Step::Break]))
        })
        .await;
        let server = if is_trusted { trusted("shop", &stage.url) } else { at("shop", &stage.url) };
        let hub = hub(server).await;
        let registry = windlass::registry().add_all(hub.tools().iter().cloned()).unwrap();
        let models = ScriptedModels::new(|call| match results(call) {
            0 => Line::tool("pay", r#"{"client_request_id":"mine"}"#),
            _ => Line::Say("done".into()),
        });
        let engine = memory(&models, registry).build().await.unwrap();
        let waits = engine.run_task(task("go")).await.unwrap();
        let InterruptKind::InDoubt { .. } = &waits.interrupts[0].kind else { panic!("{waits:?}") };
        let calls = stage.asked("tools/call");
        let key = &calls[0].params()["arguments"]["client_request_id"];
        assert_eq!((calls.len(), key == "mine"), (sent, !is_trusted), "{key}");
    }
}

#[tokio::test]
async fn a_grant_for_a_servers_tool_names_the_server() {
    let stage = Stage::start(shop).await;
    let store = MemoryStore::new(Arc::new(windlass::clock::SystemClock::new()));
    let (engine, _hub) = engine(&store, &stage, &ScriptedModels::new(|_| Line::Say("hi".into()))).await;
    let draft = |tool: &str| GrantDraft {
        user: "ann".into(),
        tool: tool.into(),
        arguments: Vec::new(),
        count: None,
        expires_at: None,
        by: "ann".into(),
    };
    let given = engine.policy().grant(draft("buy")).await.unwrap();
    assert_eq!((given.server.as_deref(), given.schema.is_some()), (Some("shop"), true));
    let unknown = engine.policy().grant(draft("unknown")).await.unwrap_err().to_string();
    assert_eq!(unknown, "there is no tool `unknown`");
    assert_eq!(engine.policy().grants(None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_grant_for_a_servers_tool_counts_no_more_once_the_tool_has_changed() {
    let store = MemoryStore::new(Arc::new(windlass::clock::SystemClock::new()));
    let schema = json!({ "type": "object", "properties": { "to": { "type": "string" } } });
    let changes = [
        (None, Status::Done),
        (Some(("inputSchema", schema)), Status::Paused),
        (Some(("description", json!("sells, and tells everybody"))), Status::Paused),
        (Some(("annotations", json!({ "idempotentHint": true }))), Status::Paused),
        (None, Status::Done),
    ];
    let mut is_granted = false;
    for (change, wanted) in changes {
        let changed = change.clone();
        let stage = Stage::start(move |asked| {
            let mut sell = tool("sell", json!({}));
            if let Some((part, value)) = &changed {
                sell[part] = value.clone();
            }
            modern(asked, &json!([sell])).unwrap_or_else(|| asked.text("sold"))
        })
        .await;
        let models = ScriptedModels::new(|call| match results(call) {
            0 => Line::tool("sell", "{}"),
            _ => Line::Say("done".into()),
        });
        let hub = McpHub::new(HubConfig::default());
        hub.start(vec![trusted("shop", &stage.url)]).await.unwrap();
        hub.ready("shop").await.unwrap();
        let tools = windlass::registry().add_all(hub.tools().iter().cloned()).unwrap();
        let ports = Arc::new(store.clone());
        let engine = memory(&models, tools).ports(ports.clone(), ports.clone(), ports).auto_run(AutoRun::Ask);
        let engine = engine.build().await.unwrap();
        if !std::mem::replace(&mut is_granted, true) {
            let (user, tool, arguments) = (task("go").by, "sell".into(), Vec::new());
            let by = user.clone();
            let draft = GrantDraft { user, tool, arguments, count: None, expires_at: None, by };
            engine.policy().grant(draft).await.unwrap();
        }
        let outcome = engine.run_task(task("go")).await.unwrap();
        assert_eq!(outcome.status, wanted, "{change:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_rule_for_a_server_holds_for_its_resources_as_well() {
    let stage = Stage::start(|asked| match asked.rpc() {
        "resources/list" | "resources/templates/list" => asked.result(json!({ "resultType": "complete",
            "ttlMs": 0, "cacheScope": "private", "resources": [], "resourceTemplates": [] })),
        "resources/read" => asked
            .result(json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "contents": [{ "uri": "note://1", "text": "a secret" }] })),
        _ => modern(asked, &json!([])).unwrap_or(Said::Status(404)),
    })
    .await;
    let hub = hub_of(&stage).await;
    for server in ["stage", "another"] {
        let registry = windlass::registry().add_all(hub.tools().iter().cloned()).unwrap();
        let models = ScriptedModels::new(|call| match results(call) {
            0 => Line::tool("ReadMcpResource", r#"{"server":"stage","uri":"note://1"}"#),
            _ => Line::Say(crate::gate::told(call)),
        });
        let rule = Rule { servers: vec![server.into()], ..Rule::new(Verdict::Deny) };
        let engine = memory(&models, registry).rules(vec![rule]).build().await.unwrap();
        let said = engine.run_task(task("go")).await.unwrap().text.unwrap();
        assert_eq!(said == "a secret", server == "another", "{server}: {said}");
    }
    assert_eq!(stage.asked("resources/read").len(), 1);
}
