//! End-to-end: a run calls a server's tool, the server requests a completion, and the run's user pays for it.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use windlass::machine::{AutoRun, Block, Fact, Role, Rule};
use windlass::mcp::{Http, HubConfig, McpHub, McpServer, Transport};
use windlass::memory::MemoryStore;
use windlass::port::journal::ThreadQuery;
use windlass::port::model::ModelCall;
use windlass::testing::mcp::{introduction, reading_tool};
use windlass::testing::scripted::{Line, ScriptedModels};
use windlass::{AgentConfig, Engine, Status, Task};

use super::*;

/// Starts a server whose tool requests the given number of completions and returns the text of the first.
async fn far() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = Router::new().route("/mcp", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

async fn answer(body: Bytes) -> Response {
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let method = asked["method"].as_str().unwrap_or_default();
    let question = json!({ "method": "sampling/createMessage", "params": { "systemPrompt": "Be short.", "maxTokens": 50,
        "messages": [{ "role": "user", "content": { "type": "text", "text": "What is best?" } }] } });
    let params = &asked["params"];
    let given = || params["inputResponses"]["q0"]["content"]["text"].as_str();
    let result = match (introduction(method, &json!([reading_tool("think")])), method) {
        (Some(introduction), _) => introduction,
        (None, "tools/call") => match given() {
            Some(given) => json!({ "resultType": "complete",
                "content": [{ "type": "text", "text": format!("thought: {given}") }] }),
            None => {
                let questions = 0..params["arguments"]["questions"].as_u64().unwrap_or(1);
                let requests: serde_json::Map<_, _> =
                    questions.map(|nth| (format!("q{nth}"), question.clone())).collect();
                json!({ "resultType": "input_required", "requestState": "s", "inputRequests": requests })
            }
        },
        (None, _) => return http::StatusCode::NOT_FOUND.into_response(),
    };
    axum::Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).into_response()
}

/// Scripts a model that calls the tool once, repeats the tool's result, and answers requests without tools.
fn script(call: &ModelCall) -> Line {
    let said = |role: Role| {
        let texts = call.request.messages.iter().filter(|message| message.role == role).flat_map(|message| {
            message.blocks.iter().filter_map(|block| match block {
                Block::Text { text, .. } => text.inline().map(str::to_owned),
                Block::ToolResult(result) => match result.content.first() {
                    Some(Block::Text { text, .. }) => text.inline().map(str::to_owned),
                    _ => None,
                },
                _ => None,
            })
        });
        texts.collect::<Vec<_>>().join(" ")
    };
    match (call.tools.is_empty(), said(Role::Tool).as_str()) {
        (true, _) => Line::Say(format!("answer to {}", said(Role::User))),
        (false, "") => Line::tool("think", &said(Role::User)),
        (false, told) => Line::Say(told.to_owned()),
    }
}

async fn ran(sampling: bool) -> (Engine, windlass::Outcome) {
    asked(sampling, AgentConfig::from("test/scripted"), 1).await
}

/// Runs an agent that calls the tool, which requests the given number of completions.
async fn asked(sampling: bool, agent: AgentConfig, questions: u32) -> (Engine, windlass::Outcome) {
    ruled(vec![], (sampling, agent, questions)).await
}

/// Like [`asked`], with policy rules.
async fn ruled(
    rules: Vec<Rule>,
    (sampling, agent, questions): (bool, AgentConfig, u32),
) -> (Engine, windlass::Outcome) {
    let handler = Arc::new(EngineSampling::default());
    let hub = Arc::new(McpHub::new(HubConfig { sampling: Some(handler.clone()), ..HubConfig::default() }));
    let mut server = McpServer::new("far", Transport::Http(Http::new(far().await)));
    (server.trusted, server.allow_sampling) = (true, sampling);
    hub.start(vec![server]).await.unwrap();
    hub.ready("far").await.unwrap();
    let store = Arc::new(MemoryStore::new(crate::clock::clock()));
    let models = Arc::new(ScriptedModels::new(script));
    let builder =
        windlass::builder().models(models).tool_source(hub).auto_run(AutoRun::Everything).rules(rules);
    let engine = builder.ports(store.clone(), store.clone(), store).build().await.unwrap();
    handler.attach(&engine);
    let mut task = Task::new(agent, json!({ "questions": questions }).to_string());
    task.by = "ann".into();
    task.options.surface = Surface::Chat;
    let outcome = engine.run_task(task).await.unwrap();
    (engine, outcome)
}

// rows: LM-P4, LM-P5
#[tokio::test]
async fn a_server_is_answered_by_a_run_without_tools_that_its_person_pays_for() {
    let (engine, outcome) = ran(true).await;
    assert_eq!(outcome.status, Status::Done, "{outcome:?}");
    assert_eq!(outcome.text.as_deref(), Some("thought: answer to What is best?"));
    let query = ThreadQuery { owner: Some("ann".into()), ..ThreadQuery::default() };
    let threads = engine.threads(&query).await.unwrap();
    let run = engine.runs(&windlass::port::journal::RunQuery::default()).await.unwrap();
    assert_eq!((threads.len(), run.len()), (2, 2), "the completion is a conversation of the same person");
    assert!(run.iter().all(|run| run.owner == "ann".into() && run.view.totals.cost.is_some()));
}

// rows: LM-P3
#[tokio::test]
async fn a_server_that_may_not_ask_gets_nothing() {
    let (engine, outcome) = ran(false).await;
    assert!(
        outcome.text.as_deref().unwrap_or_default().contains("requested input that it cannot get"),
        "{outcome:?}"
    );
    assert_eq!(engine.threads(&ThreadQuery::default()).await.unwrap().len(), 1);
}

// rows: LM-P4
#[tokio::test]
async fn rules_say_which_servers_are_answered() {
    let rule = |verdict: Verdict, server: &str| Rule {
        name: Some("said".into()),
        tools: vec![WISH.into()],
        servers: vec![server.into()],
        ..Rule::new(verdict)
    };
    for (verdict, server, told) in [
        (Verdict::Deny, "far", "a rule denies completions (`said`)"),
        (Verdict::Ask, "far", "completions require approval (`said`), which a server cannot wait for"),
        (Verdict::Deny, "other", "thought: answer to What is best?"),
    ] {
        let agent = AgentConfig::from("test/scripted");
        let (_, outcome) = ruled(vec![rule(verdict, server)], (true, agent, 1)).await;
        assert!(outcome.text.as_deref().unwrap_or_default().contains(told), "{told}: {outcome:?}");
    }
}

// rows: LM-P4
#[tokio::test]
async fn rules_see_the_run_that_a_completion_is_asked_for() {
    let deny = || Rule { tools: vec![WISH.into()], ..Rule::new(Verdict::Deny) };
    let denied = "a rule denies completions";
    for (rule, told) in [
        (Rule { agents: vec!["reporter".into()], ..deny() }, denied),
        (Rule { surfaces: vec![Surface::Chat], ..deny() }, denied),
        (Rule { users: vec!["ann".into()], ..deny() }, denied),
        (Rule { agents: vec!["default".into()], ..deny() }, "thought: answer to What is best?"),
        (Rule { surfaces: vec![Surface::Headless], ..deny() }, "thought: answer to What is best?"),
    ] {
        let agent = AgentConfig { name: "reporter".into(), ..AgentConfig::from("test/scripted") };
        let (_, outcome) = ruled(vec![rule.clone()], (true, agent, 1)).await;
        assert!(outcome.text.as_deref().unwrap_or_default().contains(told), "{rule:?}: {outcome:?}");
    }
}

#[test]
fn what_a_server_asks_is_text_within_bounds() {
    let text = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
    let one = Asked::read(&json!({"messages": [text("user", "hi")], "maxTokens": 5, "systemPrompt": "s"}));
    let wanted = Asked { system: Some("s".into()), text: "hi".into(), max_tokens: 5, temperature: None };
    assert_eq!(one, Ok(wanted));
    let two = Asked::read(&json!({"messages": [text("user", "a"), text("assistant", "b")]})).unwrap();
    assert_eq!((two.text.as_str(), two.max_tokens), ("user: a\n\nassistant: b", TOKENS_MAX));
    for (wrong, why) in [
        (json!({}), "`messages` is empty"),
        (json!({"messages": [{"role": "user", "content": {"type": "image", "data": "x"}}]}), "`image`"),
        (json!({"messages": [text("user", &"x".repeat(CHARS_MAX + 1))]}), "200001"),
    ] {
        let refused = Asked::read(&wrong).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[tokio::test]
async fn a_run_gets_so_many_completions_and_no_more() {
    let agent = || AgentConfig::from("test/scripted");
    let threads = async |engine: &Engine| {
        engine.threads(&ThreadQuery { limit: 100, ..ThreadQuery::default() }).await.unwrap().len()
    };
    let (engine, outcome) = asked(true, agent(), TIMES_MAX).await;
    assert_eq!(outcome.text.as_deref(), Some("thought: answer to What is best?"));
    assert_eq!(threads(&engine).await, 1 + 25);
    let (engine, outcome) = asked(true, agent(), TIMES_MAX + 1).await;
    assert!(outcome.text.as_deref().unwrap_or_default().contains("at most 25 completions"), "{outcome:?}");
    assert_eq!(threads(&engine).await, 1 + 25);
}

/// Each reply uses 15 tokens and 20 millionths of a dollar, including that of the calling run before its call.
#[tokio::test]
async fn completions_use_what_the_asking_run_has_left_of_its_limits() {
    let (_, whole) = asked(true, AgentConfig::from("test/scripted"), 8).await;
    assert_eq!(whole.text.as_deref(), Some("thought: answer to What is best?"));
    for bounded in [
        |agent: &mut AgentConfig| agent.limits.max_cost.0 = 20_000,
        |agent: &mut AgentConfig| agent.limits.max_tokens = 20_000,
    ] {
        let mut agent = AgentConfig::from("test/scripted");
        agent.settings.max_output_tokens = Some(50);
        bounded(&mut agent);
        let (engine, outcome) = asked(true, agent, 8).await;
        assert_eq!(outcome.status, Status::Done, "{outcome:?}");
        let runs = engine.runs(&RunQuery::default()).await.unwrap();
        let mut left = Vec::new();
        for run in runs.iter().filter(|run| run.view.agent.starts_with("asked by")) {
            let events = engine.thread(&run.thread).events(windlass::machine::Seq(0), 10).await.unwrap();
            left.extend(events.into_iter().find_map(|recorded| match recorded.event.fact {
                Fact::RunStarted { agent, .. } => {
                    let limits = &agent.full().unwrap().limits;
                    Some((limits.max_tokens, limits.max_cost.0))
                }
                _ => None,
            }));
        }
        left.sort_unstable();
        let steps: Vec<u64> =
            left.windows(2).map(|two| (two[1].0 - two[0].0) + (two[1].1 - two[0].1)).collect();
        assert_eq!((left.len(), steps.iter().all(|step| [15, 20].contains(step))), (8, true), "{left:?}");
        assert!(left.iter().all(|(tokens, cost)| tokens + cost < 20_000), "{left:?}");
    }
    let mut limits = Limits { max_tokens: 100, ..Limits::default() };
    let used = Used { tokens: 100, micro_usd: 1_000 };
    assert!(used.bound(&mut limits).is_err(), "nothing is left, which is not the same as no limit");
}
