//! Newer servers that request input before they answer: people are asked, and any process resumes the call.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass::machine::{Answer, InterruptKind, Rest, RunId};
use windlass::mcp::{
    HubConfig, McpHub, McpServer, SamplingContext, SamplingHandler, SamplingReply, SamplingRequest, Timeouts,
};
use windlass::port::tool::{CallContext, ToolResumed};

use super::stage::{Asked, Said, Stage, Step, modern, tool};
use super::{ask_of, call, called, context, deferral_of, find, hub, hub_of, resumed, shown, trusted, values};

fn wants(requests: Value, state: &str) -> Value {
    json!({ "resultType": "input_required", "inputRequests": requests, "requestState": state })
}

fn form(message: &str) -> Value {
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": message, "requestedSchema": {
        "type": "object", "properties": { "n": { "type": "integer", "minimum": 1 } }, "required": ["n"] } } })
}

const STATE: &str = "opaque \"✓\" {\"a\": 1.50} \\ state";

async fn stage(answer: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Stage {
    let tools = json!([tool("buy", json!({}))]);
    Stage::start(move |asked| modern(asked, &tools).unwrap_or_else(|| answer(asked))).await
}

/// Requests two numbers and a page, then returns the answers.
fn shop(asked: &Asked) -> Said {
    match asked.params().get("inputResponses") {
        None => asked.result(wants(
            json!({ "a": form("How many?"), "b": form("And how many spare?"),
                "c": { "method": "elicitation/create", "params": { "mode": "url", "message": "Pay", "url": "https://pay/1" } } }),
            STATE,
        )),
        Some(responses) if asked.params()["requestState"] == STATE => asked.text(&responses.to_string()),
        Some(_) => asked.error(-32602, "not the state that was given"),
    }
}

#[tokio::test]
async fn a_question_resumes_in_another_process_with_the_exact_state() {
    let stage = stage(shop).await;
    let first = hub_of(&stage).await;
    let asks = call(&find(&first, "buy"), json!({ "text": "x" })).await;
    assert_eq!(shown(&asks), "asks: The server `stage` asks: How many?");
    let InterruptKind::Question(question) = &ask_of(&asks).kind else { panic!() };
    assert_eq!(question.schema.as_ref().unwrap()["required"], json!(["n"]));
    drop(first);
    // Days later, in another process.
    let second = hub_of(&stage).await;
    let buy = find(&second, "buy");
    let asks = resumed(&buy, &asks, values(json!({ "n": 2 }))).await;
    assert_eq!(shown(&asks), "asks: The server `stage` asks: And how many spare?");
    // After an invalid answer the question is repeated, and the server never receives the answer.
    let asks = resumed(&buy, &asks, values(json!({ "n": 0 }))).await;
    assert!(shown(&asks).contains("(The previous answer was invalid: "), "{}", shown(&asks));
    let asks = resumed(&buy, &asks, Answer::Deny { reason: None }).await;
    assert_eq!(shown(&asks), "signs in: https://pay/1");
    let done = resumed(&buy, &asks, Answer::Reply(Box::default())).await;
    let wanted = json!({ "a": { "action": "accept", "content": { "n": 2 } }, "b": { "action": "decline" },
        "c": { "action": "accept" } });
    assert_eq!(shown(&done), format!("ok: {wanted}"));
    let calls = stage.asked("tools/call");
    assert_eq!(calls.len(), 2, "people are asked one after the other, the server twice");
    assert_eq!(calls[1].params()["arguments"], json!({ "text": "x" }));
    assert_eq!(calls[1].params()["requestState"], STATE);
}

#[tokio::test]
async fn answers_wait_for_a_server_that_is_away() {
    let answer = |asked: &Asked| match asked.params().get("inputResponses") {
        None => asked.result(wants(json!({ "a": form("How many?") }), STATE)),
        Some(responses) if asked.params()["requestState"] == STATE => asked.text(&responses.to_string()),
        Some(_) => asked.error(-32602, "not the state that was given"),
    };
    let stage = stage(answer).await;
    let timeouts = Timeouts { connect_ms: 300, ..Timeouts::default() };
    let hub = hub(McpServer { timeouts, ..trusted("stage", &stage.url) }).await;
    let buy = find(&hub, "buy");
    let asks = call(&buy, json!({ "text": "x" })).await;
    stage.says(|_| Said::Status(503));
    hub.restart("stage").unwrap();
    hub.settled(20_000).await;
    let output = resumed(&buy, &asks, values(json!({ "n": 2 }))).await;
    let later = deferral_of(&output).clone();
    assert_eq!((later.after_ms, later.rest), (30_000, Rest::AsTheCall));
    let tools = json!([tool("buy", json!({}))]);
    stage.says(move |asked| modern(asked, &tools).unwrap_or_else(|| answer(asked)));
    hub.restart("stage").unwrap();
    hub.ready("stage").await.unwrap();
    let again = CallContext { resumed: Some(ToolResumed { times: 1, state: later.state }), ..context() };
    let done = called(&buy, again, json!({ "text": "x" })).await;
    assert_eq!(
        shown(&done),
        r#"ok: {"a":{"action":"accept","content":{"n":2}}}"#,
        "the question is not repeated"
    );
    assert_eq!(stage.asked("tools/call").len(), 2);
}

#[tokio::test]
async fn a_server_that_wants_nothing_but_another_try_gets_it_and_one_without_end_does_not() {
    let first = Mutex::new(true);
    let patient = stage(move |asked| match std::mem::take(&mut *first.lock().unwrap()) {
        true => asked.result(json!({ "resultType": "input_required", "requestState": "later" })),
        false => asked.text(asked.params()["requestState"].as_str().unwrap()),
    })
    .await;
    let hub = hub_of(&patient).await;
    assert_eq!(shown(&call(&find(&hub, "buy"), json!({})).await), "ok: later");

    let clock = Arc::new(windlass::clock::ManualClock::new(windlass::machine::Timestamp(0), 1));
    let endless =
        stage(|asked| asked.result(json!({ "resultType": "input_required", "requestState": "again" }))).await;
    let hub = McpHub::new(HubConfig { clock: clock.clone(), ..HubConfig::default() });
    hub.start(vec![trusted("stage", &endless.url)]).await.unwrap();
    hub.ready("stage").await.unwrap();
    let buy = find(&hub, "buy");
    let calling = tokio::spawn(async move { shown(&call(&buy, json!({})).await) });
    for times in 1..=10 {
        endless.until("tools/call", times).await;
        while !calling.is_finished() && endless.asked("tools/call").len() == times {
            clock.advance_ms(100);
            tokio::time::sleep(std::time::Duration::from_millis(1)).await; // tidy: sleep the sockets are real, and only the clock is manual
        }
    }
    let said = calling.await.unwrap();
    assert!(said.contains("requested too many inputs in a row"), "{said}");
}

#[tokio::test]
async fn what_was_not_offered_is_not_given() {
    for (request, named) in [
        (
            json!({ "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 5 } }),
            "sampling/createMessage",
        ),
        (json!({ "method": "roots/list" }), "roots/list"),
    ] {
        let stage = stage(move |asked| asked.result(wants(json!({ "a": request }), "s"))).await;
        let hub = hub_of(&stage).await;
        let said = shown(&call(&find(&hub, "buy"), json!({})).await);
        assert!(
            said.starts_with("error: ") && said.contains(&format!("`{named}` is not supported")),
            "{said}"
        );
        assert_eq!(stage.asked("tools/call").len(), 1);
    }
    let stage = stage(|asked| {
        let page = json!({ "method": "elicitation/create", "params": { "mode": "url", "message": "m", "url": "javascript:alert(1)" } });
        asked.result(wants(json!({ "a": page }), "s"))
    })
    .await;
    let hub = hub_of(&stage).await;
    let said = shown(&call(&find(&hub, "buy"), json!({})).await);
    assert!(said.contains("only http and https are supported"), "{said}");
}

/// Returns the requesting server and the depth.
#[derive(Default)]
struct Completions(Mutex<Vec<(String, u32)>>);

#[async_trait]
impl SamplingHandler for Completions {
    async fn sample(
        &self,
        request: SamplingRequest,
        context: SamplingContext,
    ) -> Result<SamplingReply, String> {
        self.0.lock().unwrap().push((context.server.clone(), context.depth));
        // The completion is itself a run, whose tools' servers may request completions.
        context.nests(&RunId::from(format!("nested{}", context.depth)));
        let text = format!("{} at {}", request.params["messages"][0]["content"]["text"], context.depth);
        Ok(SamplingReply { model: "m".into(), text, stop_reason: "endTurn".into() })
    }
}

// rows: LM-P3, LM-P4, LM-P5
#[tokio::test]
async fn completions_are_given_where_they_are_allowed_and_three_deep_at_most() {
    let stage = stage(|asked| match asked.params().get("inputResponses") {
        Some(responses) => asked.text(responses["a"]["content"]["text"].as_str().unwrap()),
        None => {
            let messages = json!([{ "role": "user", "content": { "type": "text", "text": "hi" } }]);
            let params = json!({ "messages": messages, "maxTokens": 5 });
            asked.result(wants(json!({ "a": { "method": "sampling/createMessage", "params": params } }), "s"))
        }
    })
    .await;
    let handler = Arc::new(Completions::default());
    let config = HubConfig { sampling: Some(handler.clone()), ..HubConfig::default() };
    let hub = McpHub::new(config);
    let server = McpServer { allow_sampling: true, ..trusted("stage", &stage.url) };
    hub.start(vec![server]).await.unwrap();
    hub.ready("stage").await.unwrap();
    let buy = find(&hub, "buy");
    let mut said = BTreeMap::new();
    for (depth, run) in ["r1", "nested1", "nested2", "nested3"].into_iter().enumerate() {
        let context = windlass::port::tool::CallContext { run: RunId::from(run), ..context() };
        said.insert(depth, shown(&called(&buy, context, json!({})).await));
    }
    assert_eq!(said[&0], "ok: \"hi\" at 1");
    assert_eq!(said[&2], "ok: \"hi\" at 3");
    assert!(said[&3].contains("sampling requests can nest at most 3 levels deep"), "{}", said[&3]);
    assert_eq!(handler.0.lock().unwrap().len(), 3);
    let offered =
        stage.asked("tools/call")[0].params()["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone();
    assert!(offered.get("sampling").is_some());
    // The same hub with a server that is not allowed to: sampling is not offered.
    let stage = Stage::start(|asked| {
        modern(asked, &json!([tool("buy", json!({}))])).unwrap_or_else(|| asked.text("x"))
    })
    .await;
    hub.put(trusted("other", &stage.url)).unwrap();
    hub.ready("other").await.unwrap();
    let offered =
        stage.asked("server/discover")[0].params()["_meta"]["io.modelcontextprotocol/clientCapabilities"]
            .clone();
    assert!(offered.get("sampling").is_none(), "{offered}");
}

#[tokio::test]
async fn a_list_without_end_is_not_followed_and_one_that_hangs_is_let_go_of() {
    for same in [false, true] {
        let pages = AtomicU32::new(0);
        let stage = Stage::start(move |asked| {
            let list = match asked.rpc() {
                "resources/list" => "resources",
                "prompts/list" => "prompts",
                _ => return modern(asked, &json!([])).unwrap_or(Said::Status(404)),
            };
            let page = if same { 1 } else { pages.fetch_add(1, Ordering::Relaxed) };
            asked.result(json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private", list: [],
                "nextCursor": page.to_string() }))
        })
        .await;
        let hub = hub_of(&stage).await;
        let lists = async {
            assert_eq!(hub.resources("stage").await.unwrap(), []);
            assert_eq!(hub.prompts("stage").await.unwrap(), []);
        };
        tokio::time::timeout(Duration::from_secs(20), lists).await.expect("the listing ends");
        let most = if same { 2 } else { 200 };
        for list in ["resources/list", "prompts/list"] {
            assert_eq!(stage.asked(list).len(), most, "{list}");
        }
    }
    let stage = Stage::start(|asked| match asked.rpc() {
        "resources/list" => Said::Stream(vec![Step::Until(Arc::default())]),
        _ => modern(asked, &json!([])).unwrap_or(Said::Status(404)),
    })
    .await;
    let hub = hub_of(&stage).await;
    let (list, context) = (find(&hub, "ListMcpResources"), context());
    let cancel = context.cancel.clone();
    let listing =
        tokio::spawn(async move { shown(&called(&list, context, json!({ "server": "stage" })).await) });
    stage.until("resources/list", 1).await;
    cancel.cancel();
    let said = tokio::time::timeout(Duration::from_secs(20), listing).await.expect("it waits on").unwrap();
    assert!(said.starts_with("error: ") && said.contains("cancelled"), "{said}");
}

// rows: LM-T16
#[tokio::test]
async fn resources_are_listed_read_and_may_ask_as_well() {
    let stage = Stage::start(|asked| match asked.rpc() {
        "resources/list" => {
            let next = asked.params()["cursor"].is_null().then_some("2");
            let n = if next.is_some() { 1 } else { 2 };
            let mut page = json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "resources": [{ "uri": format!("note://{n}"), "name": format!("note {n}"), "mimeType": "text/plain", "size": 5 }] });
            if let Some(next) = next {
                page["nextCursor"] = json!(next);
            }
            asked.result(page)
        }
        "resources/templates/list" => {
            let is_first = asked.params()["cursor"].is_null();
            let (uri, name) = if is_first { ("note://{n}", "any note") } else { ("log://{n}", "any log") };
            let mut page = json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "resourceTemplates": [{ "uriTemplate": uri, "name": name }] });
            if is_first {
                page["nextCursor"] = json!("2");
            }
            asked.result(page)
        }
        "resources/read" => match (asked.params()["uri"].as_str().unwrap(), asked.params().get("inputResponses")) {
            ("note://1", _) => asked.result(json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "contents": [{ "uri": "note://1", "text": "first" }, { "uri": "note://1.png", "blob": "AAAA", "mimeType": "image/png" }] })),
            ("note://2", None) => asked.result(wants(json!({ "a": form("Which page?") }), "s")),
            ("note://2", Some(responses)) => asked.result(json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "contents": [{ "uri": "note://2", "text": responses["a"]["content"]["n"].to_string() }] })),
            (other, _) => asked.error(-32602, &format!("no {other}")),
        },
        "prompts/list" => asked.result(json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "prompts": [{ "name": "greet", "arguments": [{ "name": "who", "required": true }] }] })),
        "prompts/get" => asked.result(json!({ "resultType": "complete", "messages": [
            { "role": "user", "content": { "type": "text", "text": format!("greet {}", asked.params()["arguments"]["who"]) } }] })),
        _ => modern(asked, &json!([])).unwrap_or(Said::Status(404)),
    })
    .await;
    let hub = hub(trusted("stage", &stage.url)).await;
    let (list, read) = (find(&hub, "ListMcpResources"), find(&hub, "ReadMcpResource"));
    // Without a server name, no server is contacted: rules for servers apply to calls that name one.
    let before = stage.asked("resources/list").len();
    let servers = json!({ "servers": ["stage"], "hint": "call again with one of these as `server`" });
    assert_eq!(shown(&call(&list, json!({})).await), format!("ok: {servers}"));
    assert_eq!(stage.asked("resources/list").len(), before);
    let listed = shown(&call(&list, json!({ "server": "stage" })).await);
    let wanted = json!({ "resources": [
        { "server": "stage", "uri": "note://1", "name": "note 1", "media_type": "text/plain", "size_bytes": 5 },
        { "server": "stage", "uri": "note://2", "name": "note 2", "media_type": "text/plain", "size_bytes": 5 },
        { "server": "stage", "uri": "note://{n}", "name": "any note" },
        { "server": "stage", "uri": "log://{n}", "name": "any log" },
    ] });
    assert_eq!(listed, format!("ok: {wanted}"));
    let arguments = |uri: &str| json!({ "server": "stage", "uri": uri });
    assert_eq!(shown(&call(&read, arguments("note://1")).await), "ok: first\n<image/png 3>");
    assert_eq!(shown(&call(&read, arguments("note://3")).await), "error: Tool error: no note://3 (-32602)");
    let unknown = shown(&call(&read, json!({ "server": "x", "uri": "a" })).await);
    assert_eq!(unknown, "error: Tool error: there is no server named `x`. Available: `stage`");
    let asks = call(&read, arguments("note://2")).await;
    let state = ask_of(&asks).state.clone();
    let reply = Some(windlass::port::tool::ToolReply { answer: values(json!({ "n": 7 })), state });
    let done =
        called(&read, windlass::port::tool::CallContext { reply, ..context() }, arguments("note://2")).await;
    assert_eq!(shown(&done), "ok: 7");
    // The same for programs and people.
    assert_eq!(hub.resources("stage").await.unwrap().len(), 4);
    assert_eq!(hub.read_resource("stage", "note://1").await.unwrap().len(), 2);
    let prompts = hub.prompts("stage").await.unwrap();
    assert_eq!((prompts[0].name.as_str(), prompts[0].arguments[0].required), ("greet", true));
    let who = json!({ "who": "Ada" }).as_object().unwrap().clone();
    let messages = hub.prompt("stage", "greet", who).await.unwrap();
    assert_eq!(messages[0].parts, [windlass::port::tool::OutputPart::Text("greet \"Ada\"".into())]);
}
