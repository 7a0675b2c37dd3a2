//! Calls that a server continues as a task, polled by whichever process drives the thread.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use serde_json::{Value, json};
use windlass::Update;
use windlass::machine::{Fact, Rest, Rule, Seq, Verdict};
use windlass::mcp::{McpHub, McpServer};
use windlass::port::journal::Recorded;
use windlass::port::tool::{CallContext, Tool, ToolOutcome, ToolResumed, ToolSource};
use windlass::testing::scripted::{Line, ScriptedModels};

use super::stage::{Asked, Said, Stage, modern, tool};
use super::{call, called, context, deferral_of, find, hub_of, resumed, shown, trusted, values};
use crate::drive::{memory, task as asked_to};

/// A server whose calls become tasks with these states, poll by poll.
async fn stage(looks: Vec<Value>) -> Stage {
    let looks = Mutex::new(looks.into_iter());
    Stage::start(move |asked| match asked.rpc() {
        "tools/call" => {
            asked.result(task("working", json!({ "resultType": "task", "pollIntervalMs": 2_000 })))
        }
        "tasks/get" => match looks.lock().unwrap().next() {
            Some(Value::String(error)) => asked.error(-32602, &error),
            Some(Value::Null) | None => asked.error(-32603, "nothing more was planned"),
            Some(found) => asked.result(found),
        },
        "tasks/update" | "tasks/cancel" => asked.result(json!({ "resultType": "complete" })),
        _ => modern(asked, &json!([tool("build", json!({}))])).unwrap_or(Said::Status(404)),
    })
    .await
}

fn task(status: &str, more: Value) -> Value {
    let mut task = json!({ "resultType": "complete", "taskId": "t-1", "status": status,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

/// The id of the task that a call polls.
fn watched(output: &ToolOutcome) -> String {
    let state: Value = serde_json::from_str(deferral_of(output).state.as_deref().unwrap()).unwrap();
    state["id"].as_str().unwrap().to_owned()
}

/// Resumes a deferred call.
async fn looked(tool: &Arc<dyn Tool>, output: &ToolOutcome, times: u32) -> ToolOutcome {
    let resumed = Some(ToolResumed { times, state: deferral_of(output).state.clone() });
    called(tool, CallContext { resumed, ..context() }, json!({ "text": "x" })).await
}

#[tokio::test]
async fn a_task_is_looked_after_in_other_processes_and_asks_people() {
    let form = json!({ "method": "elicitation/create", "params": { "message": "Which branch?", "requestedSchema": {
        "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] } } });
    let wants = task("input_required", json!({ "inputRequests": { "a": form } }));
    let stage = stage(vec![
        task("working", json!({ "pollIntervalMs": 2_000, "statusMessage": "half of it" })),
        wants.clone(),
        // The server takes a while to notice the input.
        wants,
        task("working", json!({})),
        task("completed", json!({ "result": { "content": [{ "type": "text", "text": "built" }] } })),
    ])
    .await;
    let first = hub_of(&stage).await;
    let begun = call(&find(&first, "build"), json!({ "text": "x" })).await;
    assert_eq!((deferral_of(&begun).after_ms, deferral_of(&begun).rest), (2_000, Rest::Repeatable));
    drop(first);
    let second = hub_of(&stage).await;
    let build = find(&second, "build");
    let working = looked(&build, &begun, 1).await;
    assert_eq!(deferral_of(&working).after_ms, 2_000);
    let asks = looked(&build, &working, 150).await;
    assert_eq!(shown(&asks), "asks: The server `stage` asks: Which branch?");
    let wrong = resumed(&build, &asks, values(json!({ "n": "x" }))).await;
    assert!(shown(&wrong).contains("previous answer was invalid"), "{}", shown(&wrong));
    let given = resumed(&build, &wrong, values(json!({ "n": 4 }))).await;
    assert_eq!(stage.asked("tasks/update")[0].params()["inputResponses"]["a"]["content"], json!({ "n": 4 }));
    let noticed = looked(&build, &given, 151).await;
    assert_eq!(
        deferral_of(&noticed).after_ms,
        10_000,
        "a long task is polled less often; no question is repeated"
    );
    let working = looked(&build, &noticed, 152).await;
    assert_eq!(shown(&looked(&build, &working, 153).await), "ok: built");
    assert_eq!((stage.asked("tools/call").len(), stage.asked("tasks/update").len()), (1, 1));
    let offered =
        stage.asked("tools/call")[0].params()["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone();
    assert!(offered["extensions"].get("io.modelcontextprotocol/tasks").is_some(), "{offered}");
}

#[tokio::test]
async fn what_a_call_waits_with_goes_to_no_other_server_that_has_come_to_its_name() {
    let (first, other) = (stage(Vec::new()).await, stage(Vec::new()).await);
    let hub = hub_of(&first).await;
    let begun = call(&find(&hub, "build"), json!({})).await;
    hub.remove("stage").unwrap();
    hub.put(trusted("other", &other.url)).unwrap();
    hub.ready("other").await.unwrap();
    let build = find(&hub, "build");
    let said = shown(&looked(&build, &begun, 1).await);
    assert_eq!(said, "lost: the call was waiting for a server other than the server `other`");
    build.let_go(deferral_of(&begun).state.as_deref().unwrap()).await;
    assert_eq!((other.asked("tasks/get").len(), other.asked("tasks/cancel").len()), (0, 0));
}

#[tokio::test]
async fn every_end_of_a_task_is_reported() {
    let ends = [
        (
            task("failed", json!({ "error": { "code": -1, "message": "no disk" } })),
            "error: Tool error: the server's task failed: no disk",
        ),
        // How far the task had come is unknown.
        (task("cancelled", json!({})), "lost: the server cancelled its task"),
        (
            task(
                "completed",
                json!({ "result": { "isError": true, "content": [{ "type": "text", "text": "red" }] } }),
            ),
            "error: Tool error: red",
        ),
        // The outcome is unknown, and the model must not guess it.
        (json!("unknown task"), "lost: the server no longer has the task `t-1`: unknown task"),
    ];
    for (end, wanted) in ends {
        let stage = stage(vec![end]).await;
        let hub = hub_of(&stage).await;
        let build = find(&hub, "build");
        let begun = call(&build, json!({})).await;
        assert_eq!(shown(&looked(&build, &begun, 1).await), wanted);
    }
}

#[tokio::test]
async fn a_task_whose_inputs_are_refused_is_polled_again() {
    let form = json!({ "method": "elicitation/create", "params": { "message": "Which branch?", "requestedSchema": {
        "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] } } });
    let wants = task("input_required", json!({ "inputRequests": { "a": form } }));
    let built = task("completed", json!({ "result": { "content": [{ "type": "text", "text": "built" }] } }));
    let tools = json!([tool("build", json!({}))]);
    let looks = Mutex::new(vec![wants.clone(), wants, built].into_iter());
    let stage = Stage::start(move |asked| match asked.rpc() {
        "tools/call" => asked.result(task("working", json!({ "resultType": "task" }))),
        "tasks/get" => asked.result(looks.lock().unwrap().next().unwrap()),
        "tasks/update" => asked.error(-32602, "it no longer waits"),
        _ => modern(asked, &tools).unwrap_or(Said::Status(404)),
    })
    .await;
    let hub = hub_of(&stage).await;
    let build = find(&hub, "build");
    let begun = call(&build, json!({})).await;
    let asks = looked(&build, &begun, 1).await;
    let refused = resumed(&build, &asks, values(json!({ "n": 4 }))).await;
    assert_eq!(deferral_of(&refused).after_ms, 500, "the task itself says how it stands");
    // The server still requests the input. The engine asks a person, who only learns that an input was refused.
    let asks = looked(&build, &refused, 2).await;
    assert_eq!(shown(&asks), "asks: The server `stage` asks: Which branch?");
    let refused = resumed(&build, &asks, values(json!({ "n": 5 }))).await;
    assert_eq!(shown(&looked(&build, &refused, 3).await), "ok: built");
    assert_eq!(stage.asked("tasks/update").len(), 2);
}

#[tokio::test]
async fn a_server_that_fails_to_tell_of_a_task_has_not_forgotten_it() {
    // `-32603`, for any reason.
    let stage = stage(Vec::new()).await;
    let hub = hub_of(&stage).await;
    let build = find(&hub, "build");
    let begun = call(&build, json!({})).await;
    let failed = looked(&build, &begun, 1).await;
    assert_eq!((deferral_of(&failed).after_ms, watched(&failed)), (30_000, "t-1".to_owned()));
}

#[tokio::test]
async fn a_look_that_fails_after_many_good_ones_is_soon_made_again() {
    let mut looks = vec![Value::Null; 120];
    looks.push(task("working", json!({ "pollIntervalMs": 2_000 })));
    let stage = stage(looks).await;
    let hub = hub_of(&stage).await;
    let build = find(&hub, "build");
    let mut output = call(&build, json!({})).await;
    let begun = deferral_of(&output).state.clone();
    let mut pauses = Vec::new();
    for failed in 0..120 {
        output = looked(&build, &output, 2_500 + failed).await;
        pauses.push(deferral_of(&output).after_ms);
    }
    assert_eq!(pauses, [vec![30_000; 100], vec![300_000; 20]].concat());
    // The server responded in between, so the next failure counts as the first.
    output = looked(&build, &output, 2_620).await;
    assert_eq!((deferral_of(&output).after_ms, &deferral_of(&output).state), (300_000, &begun));
    output = looked(&build, &output, 2_621).await;
    assert_eq!(deferral_of(&output).after_ms, 30_000);
}

#[tokio::test]
async fn a_task_that_wants_what_it_does_not_get_is_stopped_and_its_outcome_is_not_guessed() {
    let form = |name: &str| json!({ "method": "elicitation/create", "params": { "mode": "url", "message": "m", "url": name } });
    let completion = json!({ "method": "sampling/createMessage", "params": { "maxTokens": 5, "messages": [
        { "role": "user", "content": { "type": "text", "text": "?" } }] } });
    for wish in [form("javascript:alert(1)"), completion] {
        let stage = stage(vec![task("input_required", json!({ "inputRequests": { "a": wish } }))]).await;
        let hub = hub_of(&stage).await;
        let build = find(&hub, "build");
        let begun = call(&build, json!({})).await;
        let said = shown(&looked(&build, &begun, 1).await);
        assert!(said.starts_with("lost: the server `stage`: it"), "{said}");
        assert_eq!(stage.asked("tasks/cancel")[0].params()["taskId"], "t-1");
    }
}

#[tokio::test]
async fn a_task_of_a_server_that_is_away_is_looked_after_later() {
    let stage = stage(vec![task(
        "completed",
        json!({ "result": { "content": [{ "type": "text", "text": "built" }] } }),
    )])
    .await;
    let hub = hub_of(&stage).await;
    let build = find(&hub, "build");
    let begun = call(&build, json!({})).await;
    stage.says(|_: &Asked| Said::Status(503));
    let away = looked(&build, &begun, 1).await;
    assert_eq!((deferral_of(&away).after_ms, watched(&away)), (30_000, "t-1".to_owned()));
    // It may be unreachable for months: the call has 10,000 deferrals.
    assert_eq!(deferral_of(&looked(&build, &begun, 9_000).await).after_ms, 3_600_000);
    // A task that is stopped in the middle is cancelled at the server.
    stage.says(move |asked| match asked.rpc() {
        "tasks/get" => Said::Stream(vec![super::stage::Step::Until(Arc::default())]),
        "tasks/cancel" => asked.result(json!({ "resultType": "complete" })),
        _ => modern(asked, &json!([tool("build", json!({}))])).unwrap_or(Said::Status(404)),
    });
    hub.restart("stage").unwrap();
    hub.ready("stage").await.unwrap();
    let resumed = Some(ToolResumed { times: 1, state: deferral_of(&away).state.clone() });
    let context = CallContext { resumed, ..context() };
    let cancel = context.cancel.clone();
    let before = stage.asked("tasks/get").len();
    let looking = tokio::spawn(async move { shown(&called(&build, context, json!({})).await) });
    stage.until("tasks/get", before + 1).await;
    cancel.cancel();
    assert_eq!(looking.await.unwrap(), "lost: the run was stopped while the server was working");
    assert_eq!(stage.asked("tasks/cancel")[0].params()["taskId"], "t-1");
}

#[tokio::test]
async fn a_task_of_a_server_that_is_out_is_lost_and_one_of_a_process_that_ends_is_not() {
    let stage = stage(Vec::new()).await;
    let lost = "lost: the server `stage` was disabled or removed during the call";
    type Way = fn(&McpHub, McpServer);
    let out: [(Way, bool); 3] = [
        (|hub, server| hub.put(McpServer { enabled: false, ..server }).unwrap(), true),
        (|hub, _| hub.remove("stage").unwrap(), true),
        (|_, _| {}, false),
    ];
    for (way, is_lost) in out {
        let hub = hub_of(&stage).await;
        let build = find(&hub, "build");
        let begun = call(&build, json!({})).await;
        way(&hub, trusted("stage", &stage.url));
        hub.stop().await;
        let after = looked(&build, &begun, 1).await;
        assert_eq!(shown(&after) == lost, is_lost, "{after:?}");
        assert_eq!(matches!(after, ToolOutcome::Defer(_)), !is_lost, "{after:?}");
    }
}

// rows: LM-P1
#[tokio::test]
async fn a_run_that_is_stopped_between_two_looks_gives_the_task_up() {
    let stage = stage(Vec::new()).await;
    let hub = hub_of(&stage).await;
    let models = ScriptedModels::new(|_| Line::tool("build", "{}"));
    let tools = windlass::registry().add_all(hub.tools().iter().cloned()).unwrap();
    let rules = vec![Rule::new(Verdict::Allow)];
    let engine = memory(&models, tools).rules(rules).build().await.unwrap();
    let started = engine.start(asked_to("go")).await.unwrap();
    let mut watched = engine.thread(&started.thread).watch(Seq(0));
    let deferred = async {
        while let Some(update) = watched.next().await {
            if let Update::Event(Recorded { event, .. }) = update.unwrap()
                && matches!(event.fact, Fact::ToolDeferred { .. })
            {
                return;
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), deferred).await.unwrap();
    engine.run(&started.run).cancel("ann".into()).await.unwrap();
    stage.until("tasks/cancel", 1).await;
    assert_eq!(stage.asked("tasks/cancel")[0].params()["taskId"], "t-1");
}
