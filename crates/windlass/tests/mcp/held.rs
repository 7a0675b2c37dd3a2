//! Older servers that ask in the middle of a call and wait.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use windlass::machine::{Answer, Rest};
use windlass::mcp::{HubConfig, McpHub, McpServer, Timeouts};
use windlass::port::tool::{CallContext, ToolOutcome, ToolResumed};

use super::stage::{Asked, Said, Stage, Step, legacy, tool};
use super::{call, called, context, deferral_of, find, hub, hub_of, resumed, shown, trusted, values};

/// An older server whose tools ask for a number in the middle of a call, and return the answer.
struct Asking {
    stage: Stage,
    /// The answers that the server received.
    told: watch::Receiver<Vec<Value>>,
}

/// The stream on which a server asks.
#[derive(Clone, Copy, PartialEq)]
enum Over {
    /// The response stream of the call, which identifies the call.
    Answer,
    /// The stream of the session.
    Session,
}

impl Asking {
    async fn start(over: Over) -> Self {
        let (telling, told) = watch::channel(Vec::<Value>::new());
        let (session, said) = watch::channel(Vec::<Value>::new());
        let (telling, heard) = (Arc::new(telling), told.clone());
        let stage = Stage::start(move |asked| {
            let tools = json!([tool("once", json!({})), tool("set", json!({ "idempotentHint": true }))]);
            if asked.method == "GET" && over == Over::Session {
                return Said::Stream(vec![Step::Follow(said.clone())]);
            }
            if let Some(said) = legacy(asked, &tools) {
                return said;
            }
            if asked.rpc() != "tools/call" {
                // A person's answer arrives as a separate message.
                if asked.body.get("result").is_some() {
                    telling.send_modify(|told| told.push(asked.body["result"].clone()));
                }
                return Said::Status(202);
            }
            Self::call(asked, over, &session, heard.clone())
        })
        .await;
        Self { stage, told }
    }

    fn call(
        asked: &Asked,
        over: Over,
        session: &watch::Sender<Vec<Value>>,
        mut told: watch::Receiver<Vec<Value>>,
    ) -> Said {
        let call = asked.clone();
        let question = json!({ "jsonrpc": "2.0", "id": format!("q{}", call.body["id"]), "method": "elicitation/create",
            "params": { "message": "How many?", "requestedSchema": {
                "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] } } });
        let before = told.borrow_and_update().len();
        let (answer, answers) = watch::channel(Vec::new());
        if over == Over::Session {
            session.send_modify(|said| said.push(question));
        } else {
            answer.send_modify(|said| said.push(question));
        }
        tokio::spawn(async move {
            let told = told.wait_for(|told| told.len() > before).await.unwrap().last().unwrap().clone();
            let result = json!({ "content": [{ "type": "text", "text": told.to_string() }] });
            answer.send_modify(|said| {
                said.push(json!({ "jsonrpc": "2.0", "id": call.body["id"], "result": result }))
            });
        });
        Said::Stream(vec![Step::Follow(answers)])
    }
}

#[tokio::test]
async fn a_call_is_held_open_until_people_have_answered() {
    for over in [Over::Answer, Over::Session] {
        let asking = Asking::start(over).await;
        let hub = hub_of(&asking.stage).await;
        let once = find(&hub, "once");
        if over == Over::Session {
            asking.stage.until("", 1).await;
        }
        let asks = call(&once, json!({ "text": "x" })).await;
        assert_eq!(shown(&asks), "asks: The server `stage` asks: How many?");
        let wrong = resumed(&once, &asks, values(json!({ "n": "many" }))).await;
        assert!(shown(&wrong).contains("previous answer was invalid"), "{}", shown(&wrong));
        let done = resumed(&once, &wrong, values(json!({ "n": 3 }))).await;
        assert_eq!(shown(&done), r#"ok: {"action":"accept","content":{"n":3}}"#);
        assert_eq!(asking.stage.asked("tools/call").len(), 1, "it is the same call");
        // A held call can be taken only once.
        let again = resumed(&once, &wrong, values(json!({ "n": 3 }))).await;
        assert!(shown(&again).starts_with("lost: "), "{}", shown(&again));
    }
}

#[tokio::test]
async fn a_call_whose_hold_is_lost_is_made_again_only_where_that_changes_nothing() {
    let asking = Asking::start(Over::Answer).await;
    let first = hub_of(&asking.stage).await;
    let (once, set) = (
        call(&find(&first, "once"), json!({ "text": "x" })).await,
        call(&find(&first, "set"), json!({ "text": "x" })).await,
    );
    first.stop().await;
    // Another process does not have the calls.
    let second = hub_of(&asking.stage).await;
    let lost = resumed(&find(&second, "once"), &once, values(json!({ "n": 3 }))).await;
    assert!(
        shown(&lost).starts_with("lost: ") && shown(&lost).contains("the call that asked is no longer open"),
        "{}",
        shown(&lost)
    );
    let calls = asking.stage.asked("tools/call").len();
    let done = resumed(&find(&second, "set"), &set, values(json!({ "n": 3 }))).await;
    assert_eq!(
        shown(&done),
        r#"ok: {"action":"accept","content":{"n":3}}"#,
        "and people are not asked twice"
    );
    assert_eq!(asking.stage.asked("tools/call").len(), calls + 1);
}

#[tokio::test]
async fn a_held_call_whose_server_is_away_is_never_said_to_have_done_nothing() {
    let asking = Asking::start(Over::Answer).await;
    let first = hub_of(&asking.stage).await;
    let (once, set) = (
        call(&find(&first, "once"), json!({ "text": "x" })).await,
        call(&find(&first, "set"), json!({ "text": "x" })).await,
    );
    let known = first.known();
    first.stop().await;
    let calls = asking.stage.asked("tools/call").len();
    // Another process, which cannot reach the server.
    let second = McpHub::new(HubConfig { known, ..HubConfig::default() });
    let timeouts = Timeouts { connect_ms: 300, ..Timeouts::default() };
    let away = McpServer { timeouts, ..trusted("stage", "http://127.0.0.1:9/mcp") };
    second.start(vec![away]).await.unwrap();
    second.settled(20_000).await;
    let lost = shown(&resumed(&find(&second, "once"), &once, values(json!({ "n": 3 }))).await);
    assert!(lost.starts_with("lost: ") && lost.contains("the call that asked is no longer open"), "{lost}");
    // A repeatable call waits for the server, with the answers so far.
    let output = resumed(&find(&second, "set"), &set, values(json!({ "n": 3 }))).await;
    let later = deferral_of(&output).clone();
    assert_eq!((later.after_ms, later.rest), (30_000, Rest::AsTheCall));
    assert_eq!(asking.stage.asked("tools/call").len(), calls, "nothing was sent");
    let third = hub_of(&asking.stage).await;
    let again = CallContext { resumed: Some(ToolResumed { times: 1, state: later.state }), ..context() };
    let done = called(&find(&third, "set"), again, json!({ "text": "x" })).await;
    assert_eq!(shown(&done), r#"ok: {"action":"accept","content":{"n":3}}"#, "the question is not repeated");
}

#[tokio::test]
async fn an_answer_counts_for_one_question_and_not_for_the_next_that_reads_the_same() {
    let (telling, told) = watch::channel(Vec::<Value>::new());
    let stage = Stage::start(move |asked| {
        if let Some(said) = legacy(asked, &json!([tool("once", json!({}))])) {
            return said;
        }
        if asked.rpc() != "tools/call" {
            if asked.body.get("result").is_some() {
                telling.send_modify(|told| told.push(asked.body["result"]["content"].clone()));
            }
            return Said::Status(202);
        }
        let question = |n: u32| {
            json!({ "jsonrpc": "2.0", "id": format!("q{n}"), "method": "elicitation/create",
            "params": { "message": "Delete this?", "requestedSchema": {
                "type": "object", "properties": { "yes": { "type": "boolean" } }, "required": ["yes"] } } })
        };
        let (call, mut told) = (asked.clone(), told.clone());
        let (answer, answers) = watch::channel(vec![question(1)]);
        tokio::spawn(async move {
            told.wait_for(|told| !told.is_empty()).await.unwrap();
            answer.send_modify(|said| said.push(question(2)));
            let told = json!(told.wait_for(|told| told.len() > 1).await.unwrap().clone());
            let result = json!({ "content": [{ "type": "text", "text": told.to_string() }] });
            answer.send_modify(|said| {
                said.push(json!({ "jsonrpc": "2.0", "id": call.body["id"], "result": result }))
            });
        });
        Said::Stream(vec![Step::Follow(answers)])
    })
    .await;
    let hub = hub_of(&stage).await;
    let once = find(&hub, "once");
    let first = call(&once, json!({ "text": "x" })).await;
    let second = resumed(&once, &first, values(json!({ "yes": true }))).await;
    assert_eq!(shown(&second), "asks: The server `stage` asks: Delete this?");
    let done = resumed(&once, &second, values(json!({ "yes": false }))).await;
    assert_eq!(shown(&done), r#"ok: [{"yes":true},{"yes":false}]"#);
}

#[tokio::test]
async fn an_ambiguous_question_is_not_asked() {
    let asking = Asking::start(Over::Session).await;
    let hub = hub_of(&asking.stage).await;
    asking.stage.until("", 1).await;
    let quiet = Arc::new(Notify::new());
    // The first call asks nothing, so the question may belong to either.
    let held = quiet.clone();
    let (session, said) = watch::channel(Vec::<Value>::new());
    let stage = Stage::start(move |asked| {
        let tools = json!([tool("once", json!({}))]);
        match (asked.method.as_str(), asked.rpc(), asked.params()["arguments"]["text"].as_str()) {
            ("GET", ..) => Said::Stream(vec![Step::Follow(said.clone())]),
            (_, "tools/call", Some("asks")) => {
                session.send_modify(|said| said.push(json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                    "params": { "message": "Whose?", "requestedSchema": { "type": "object", "properties": {} } } })));
                Said::Stream(vec![Step::Until(held.clone()), asked.event("asked")])
            }
            (_, "tools/call", _) => Said::Stream(vec![Step::Until(held.clone()), asked.event("quiet")]),
            _ => legacy(asked, &tools).unwrap_or_else(|| {
                if asked.body["result"]["action"] == "cancel" {
                    held.notify_waiters();
                }
                Said::Status(202)
            }),
        }
    })
    .await;
    let two = super::hub_of(&stage).await;
    stage.until("", 1).await;
    let once = find(&two, "once");
    let (one, other) = (once.clone(), once.clone());
    let first = tokio::spawn(async move { shown(&call(&one, json!({ "text": "quiet" })).await) });
    stage.until("tools/call", 1).await;
    let second = tokio::spawn(async move { shown(&call(&other, json!({ "text": "asks" })).await) });
    assert_eq!((first.await.unwrap().as_str(), second.await.unwrap().as_str()), ("ok: quiet", "ok: asked"));
    assert!(
        two.logs("stage")
            .unwrap()
            .iter()
            .any(|line| line.contains("does not say which one its request belongs to"))
    );
    drop((hub, asking, quiet));
}

#[tokio::test]
async fn what_a_call_that_was_given_up_asks_late_is_not_asked_for_the_next_one() {
    let (session, said) = watch::channel(Vec::<Value>::new());
    let cancelled = Arc::new(Notify::new());
    let stage = Stage::start(move |asked| {
        let is_next = asked.params()["arguments"]["text"] == "next";
        match (asked.method.as_str(), asked.rpc()) {
            ("GET", _) => Said::Stream(vec![Step::Follow(said.clone())]),
            (_, "tools/call") if is_next => {
                // The first call still asks, because the server has not noticed the cancellation.
                session.send_modify(|said| said.push(json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                    "params": { "message": "Whose?", "requestedSchema": { "type": "object", "properties": {} } } })));
                Said::Stream(vec![Step::Until(cancelled.clone()), asked.event("next")])
            }
            (_, "tools/call") => Said::Stream(vec![Step::Until(Arc::default())]),
            _ => legacy(asked, &json!([tool("once", json!({}))])).unwrap_or_else(|| {
                if asked.body["result"]["action"] == "cancel" {
                    cancelled.notify_one();
                }
                Said::Status(202)
            }),
        }
    })
    .await;
    let hub = hub_of(&stage).await;
    stage.until("", 1).await;
    let (once, first) = (find(&hub, "once"), context());
    let (other, cancel) = (once.clone(), first.cancel.clone());
    let given_up = tokio::spawn(async move { shown(&called(&other, first, json!({ "text": "x" })).await) });
    stage.until("tools/call", 1).await;
    cancel.cancel();
    assert!(given_up.await.unwrap().starts_with("lost: "));
    stage.until("notifications/cancelled", 1).await;
    assert_eq!(shown(&call(&once, json!({ "text": "next" })).await), "ok: next");
}

#[tokio::test]
async fn an_unanswered_question_is_cancelled_after_its_timeout() {
    let asking = Asking::start(Over::Answer).await;
    let timeouts = Timeouts { question_ms: 50, ..Timeouts::default() };
    let hub = hub(McpServer { timeouts, ..trusted("stage", &asking.stage.url) }).await;
    let once = find(&hub, "once");
    let asks = call(&once, json!({})).await;
    let mut told = asking.told.clone();
    told.wait_for(|told| told.iter().any(|told| told["action"] == "cancel")).await.unwrap();
    asking.stage.until("notifications/cancelled", 1).await;
    let late = resumed(&once, &asks, values(json!({ "n": 1 }))).await;
    assert!(shown(&late).starts_with("lost: "), "{}", shown(&late));
}

#[tokio::test]
async fn a_server_that_wants_a_page_opened_first_is_called_again_afterwards() {
    let stage = Stage::start(|asked| {
        legacy(asked, &json!([tool("once", json!({}))])).unwrap_or_else(|| match asked.body["id"].as_i64() {
            Some(id) if id % 2 == 0 => {
                let page = |n: u32| json!({ "mode": "url", "message": "Connect", "url": format!("https://in/{n}"), "elicitationId": "e" });
                Said::Json(200, json!({ "jsonrpc": "2.0", "id": id, "error": {
                    "code": -32042, "message": "first", "data": { "elicitations": [page(1), page(2)] } } }))
            }
            Some(_) => asked.text("now it works"),
            None => Said::Status(202),
        })
    })
    .await;
    let hub = hub_of(&stage).await;
    let once = find(&hub, "once");
    let mut asks = call(&once, json!({})).await;
    if !matches!(asks, ToolOutcome::Ask(_)) {
        asks = call(&once, json!({})).await;
    }
    assert_eq!(shown(&asks), "signs in: https://in/1");
    let asks = resumed(&once, &asks, Answer::Reply(Box::default())).await;
    assert_eq!(shown(&asks), "signs in: https://in/2");
    let declined = resumed(&once, &asks, Answer::Deny { reason: None }).await;
    assert_eq!(shown(&declined), "error: Tool error: the sign-in at the server `stage` was declined");
    let done = resumed(&once, &asks, Answer::Reply(Box::default())).await;
    assert_eq!(shown(&done), "ok: now it works");
}
