//! A server that echoes secrets wherever the protocol allows: models and people never see them, and no record contains
//! them.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::Notify;
use windlass::machine::{Answer, InterruptKind};
use windlass::mcp::{
    Http, HubConfig, McpHub, McpServer, SamplingContext, SamplingHandler, SamplingReply, SamplingRequest,
    Transport,
};
use windlass::port::tool::{
    CallContext, OutputPart, ProgressSender, Tool, ToolOutcome, ToolOutput, ToolReply, ToolResumed,
};

use super::secrets::forms;
use super::stage::{Asked, Said, Stage, Step, legacy, modern, tool};
use super::{answer_of, ask_of, call, called, context, deferral_of, find, names, resumed, shown, values};

const SECRET: &str = "sentinel-hdr/6a+99f";

fn assert_none(told: &str) {
    for form in forms(SECRET).split(' ') {
        assert!(!told.contains(form), "`{form}` in {told}");
    }
}

/// Records the completions that servers request. Can be made to panic.
#[derive(Default)]
struct Completions {
    asked: Mutex<Vec<Value>>,
    crashes: Mutex<bool>,
}

#[async_trait]
impl SamplingHandler for Completions {
    async fn sample(&self, request: SamplingRequest, _: SamplingContext) -> Result<SamplingReply, String> {
        if *self.crashes.lock().unwrap() {
            panic!("no model for {SECRET}");
        }
        self.asked.lock().unwrap().push(request.params);
        Ok(SamplingReply { model: "m".into(), text: "completed".into(), stop_reason: "endTurn".into() })
    }
}

/// A hub over a fixture server that receives the secret in a header and may request completions.
async fn hub_of(stage: &Stage) -> (McpHub, Arc<Completions>) {
    let completions = Arc::new(Completions::default());
    let hub = McpHub::new(HubConfig { sampling: Some(completions.clone()), ..HubConfig::default() });
    let headers = vec![("x-api-key".to_owned(), SECRET.to_owned())];
    let http = Http { headers, ..Http::new(&stage.url) };
    let server = McpServer::new("stage", Transport::Http(http));
    hub.start(vec![McpServer { allow_sampling: true, trusted: true, ..server }]).await.unwrap();
    hub.ready("stage").await.unwrap();
    (hub, completions)
}

/// A fixture server that echoes its headers in every encoding, with a tool `say`.
async fn echoing(answer: impl Fn(&Asked, &str) -> Said + Send + Sync + 'static) -> Stage {
    Stage::start(move |asked| {
        let given = forms(asked.header("x-api-key").unwrap_or_default());
        modern(asked, &json!([tool("say", json!({}))])).unwrap_or_else(|| answer(asked, &given))
    })
    .await
}

/// The whole output, including the recorded state of a waiting call.
fn all(output: &ToolOutcome) -> String {
    let parts = match output {
        ToolOutcome::Done(output) => &*output.parts,
        ToolOutcome::Ask(_) | ToolOutcome::Defer(_) | ToolOutcome::Unknown { .. } => &[],
    };
    let texts = parts.iter().map(|part| match part {
        OutputPart::Text(_) => String::new(),
        OutputPart::Image { bytes, .. } | OutputPart::File { bytes, .. } => {
            String::from_utf8_lossy(bytes).into_owned()
        }
    });
    let states = output.state().map(str::to_owned);
    format!("{output:?} {}", texts.chain(states).collect::<Vec<_>>().join(" "))
}

/// Asserts that the output does not contain the secret.
#[track_caller]
fn untold(output: &ToolOutcome) -> String {
    let told = all(output);
    assert_none(&told);
    told
}

fn elicitation(given: &str, name: &str) -> Value {
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": given, "requestedSchema": {
        "type": "object", "required": ["n"], "properties": {
            "n": { "type": "integer", "title": given, "description": given },
            name: { "type": "string", "description": "a name", "default": given },
            "which": { "type": "string", "enum": ["plain", given] } } } } })
}

fn wants(requests: Value, state: &str) -> Value {
    json!({ "resultType": "input_required", "inputRequests": requests, "requestState": state })
}

#[tokio::test]
async fn schemas_are_redacted_and_a_tool_named_with_a_secret_is_omitted() {
    let stage = Stage::start(|asked| {
        let given = forms(asked.header("x-api-key").unwrap_or_default());
        let schema = |properties: Value| json!({ "type": "object", "properties": properties });
        let mut say = tool("say", json!({ "title": given }));
        say["tags"] = json!([given]);
        say["outputSchema"] = schema(json!({ "a": { "description": given } }));
        say["inputSchema"] = schema(json!({
            "text": { "type": "string", "description": given, "title": given, "default": given },
            "which": { "enum": ["plain", given], "examples": [given] },
            "default": { "type": "object", "properties": { "inner": { "const": given } } },
        }));
        let tools = json!([
            say,
            { "name": "named", "inputSchema": schema(json!({ SECRET: { "type": "string" } })) },
            { "name": "deep", "inputSchema": schema(json!({ "a": schema(json!({ SECRET: {} })) })) },
            { "name": "wants", "inputSchema": { "type": "object", "required": [SECRET] } },
            { "name": "old", "parameters": [{ "name": SECRET }] },
            { "name": format!("x-{SECRET}") },
            { "name": "far", "inputSchema": schema(json!({ "a": { "$ref": format!("https://x/{SECRET}") } })) },
        ]);
        match (asked.rpc(), modern(asked, &tools)) {
            ("server/discover", Some(Said::Json(status, mut body))) => {
                body["result"]["_meta"] =
                    json!({ "io.modelcontextprotocol/serverInfo": { "name": given, "version": given } });
                Said::Json(status, body)
            }
            (_, said) => said.unwrap_or(Said::Status(404)),
        }
    })
    .await;
    let (hub, _) = hub_of(&stage).await;
    let say = find(&hub, "say");
    let schema = &say.spec().input_schema;
    let names: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["text", "which", "default"], "a call has to fit what the server knows");
    assert_eq!(schema["properties"]["text"]["type"], "string");
    assert!(schema["properties"]["text"].get("default").is_none(), "it would be returned unchanged");
    assert!(schema["properties"]["text"]["description"].as_str().unwrap().contains("[masked]"));
    let status = hub.server("stage").unwrap();
    let left_out: Vec<_> = status.left_out.iter().map(|it| it.tool.as_str()).collect();
    assert_eq!(left_out, ["named", "deep", "wants", "old", "x-[masked]", "far"]);
    assert!(status.left_out[0].why.contains("a key in it contains a secret"), "{status:?}");
    assert!(status.software.as_ref().unwrap().contains("[masked]"), "{status:?}");
    let known = serde_json::to_string(&hub.known()).unwrap();
    assert!(known.contains("[masked]"), "{known}");
    [format!("{:?} {:?}", say.spec(), say.traits().toolset), format!("{status:?}"), known]
        .iter()
        .for_each(|told| assert_none(told));
}

#[tokio::test]
async fn cached_tools_are_redacted_with_the_current_secrets() {
    let tools = json!([tool("say", json!({})), { "name": "other", "description": SECRET }]);
    let stage = Stage::start(move |asked| modern(asked, &tools).unwrap_or(Said::Status(404))).await;
    let before = super::hub_of(&stage).await.known();
    assert!(serde_json::to_string(&before).unwrap().contains(SECRET), "it is no secret there");
    let headers = vec![("x-api-key".to_owned(), SECRET.to_owned())];
    let http = Http { headers, ..Http::new("http://127.0.0.1:1/mcp") };
    let hub = McpHub::new(HubConfig { known: before, ..HubConfig::default() });
    hub.put(McpServer::new("stage", Transport::Http(http))).unwrap();
    assert_eq!(find(&hub, "other").spec().description, "[masked]");
}

#[tokio::test]
async fn resources_and_prompts_are_redacted() {
    let stage = echoing(|asked, given| {
        let page = |list: &str, items: Value| {
            asked.result(json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private", list: items }))
        };
        let uri = format!("note://{SECRET}");
        let about = |mut item: Value| {
            (item["name"], item["title"], item["description"]) = (json!(given), json!(given), json!(given));
            item["mimeType"] = json!(format!("text/{SECRET}"));
            item
        };
        match asked.rpc() {
            "resources/list" => page("resources", json!([about(json!({ "uri": uri }))])),
            "resources/templates/list" => {
                page("resourceTemplates", json!([about(json!({ "uriTemplate": format!("{uri}/{{n}}") }))]))
            }
            "resources/read" if asked.params()["uri"] == "note://none" => asked.error(-32_002, given),
            "resources/read" => page("contents", json!([{ "uri": uri, "text": given },
                { "uri": uri, "blob": STANDARD.encode(given), "mimeType": format!("text/{SECRET}") }])),
            "prompts/list" => page("prompts", json!([{ "name": given, "title": given, "description": given,
                "arguments": [{ "name": given, "description": given }] }])),
            "prompts/get" if asked.params()["name"] == "none" => asked.error(-32_002, given),
            "prompts/get" => asked.result(json!({ "resultType": "complete", "messages": [
                { "role": "user", "content": { "type": "text", "text": given } },
                { "role": "user", "content": { "type": "image", "data": STANDARD.encode(given), "mimeType": "image/png" } }] })),
            _ => Said::Json(500, json!(given)),
        }
    })
    .await;
    let (hub, _) = hub_of(&stage).await;
    let (list, read) = (find(&hub, "ListMcpResources"), find(&hub, "ReadMcpResource"));
    let listed = untold(&call(&list, json!({ "server": "stage" })).await);
    assert!(listed.contains("note://[masked]/{n}"), "{listed}");
    for (uri, is_there) in [("note://1", true), ("note://none", false)] {
        let output = call(&read, json!({ "server": "stage", "uri": uri })).await;
        assert_eq!(answer_of(&output).error, !is_there);
        assert!(untold(&output).contains("[masked]"), "{output:?}");
    }
    let list = format!("{:?}", hub.resources("stage").await.unwrap());
    let read =
        ToolOutput { parts: hub.read_resource("stage", "note://1").await.unwrap(), ..Default::default() };
    let refused = hub.read_resource("stage", "note://none").await.unwrap_err().to_string();
    let prompts = format!("{:?}", hub.prompts("stage").await.unwrap());
    let filled = hub.prompt("stage", "any", serde_json::Map::new()).await.unwrap();
    let parts = filled.into_iter().flat_map(|message| message.parts).collect::<Vec<_>>();
    assert_eq!(parts.len(), 2);
    let filled = ToolOutput { parts, ..ToolOutput::default() };
    let none = hub.prompt("stage", "none", serde_json::Map::new()).await.unwrap_err().to_string();
    for told in [list, all(&read.into()), refused, prompts, all(&filled.into()), none] {
        assert!(told.contains("[masked]"), "{told}");
        assert_none(&told);
    }
    // The error for a rejected list quotes the server.
    stage.says(|asked| match asked.rpc() {
        "resources/list" => asked.error(-32_000, &forms(SECRET)),
        _ => modern(asked, &json!([])).unwrap_or(Said::Status(404)),
    });
    let list = find(&hub, "ListMcpResources");
    let refused = call(&list, json!({ "server": "stage" })).await;
    assert!(answer_of(&refused).error && untold(&refused).contains("[masked]"), "{refused:?}");
}

#[tokio::test]
async fn pictures_and_files_are_redacted() {
    let stage = echoing(|asked, given| {
        let data = STANDARD.encode(format!("\u{1}%PDF & \\ {given} more"));
        let kind = format!("application/{SECRET}");
        asked.result(json!({ "resultType": "complete", "content": [
            { "type": "image", "data": data, "mimeType": format!("image/{SECRET}") },
            { "type": "audio", "data": data, "mimeType": kind },
            { "type": "resource", "resource": { "uri": "x://a/sentinel-hdr%2F6a%2B99f", "blob": data, "mimeType": kind } },
            { "type": "hologram", "data": SECRET },
        ] }))
    })
    .await;
    let (hub, _) = hub_of(&stage).await;
    let output = call(&find(&hub, "say"), json!({})).await;
    let answer = answer_of(&output);
    assert!(!answer.error && answer.parts.len() == 4, "{output:?}");
    assert!(untold(&output).contains("%PDF & \\ [masked]"), "{output:?}");
}

#[tokio::test]
async fn what_a_call_waits_with_is_recorded_without_it() {
    let stage = echoing(|asked, given| {
        let form = |name: &str| json!({ "a": elicitation(given, name) });
        let page = json!({ "mode": "url", "elicitationId": "e", "message": given, "url": "https://pay/1" });
        let pages =
            |url: &str| json!([page, { "mode": "url", "elicitationId": "f", "message": given, "url": url }]);
        let failed = |pages: Value| {
            let error = json!({ "code": -32_042, "message": given, "data": { "elicitations": pages } });
            Said::Json(200, json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": error }))
        };
        match (asked.params()["arguments"]["text"].as_str().unwrap(), asked.params().get("inputResponses")) {
            (_, Some(answers)) => asked.text(&format!("{} {answers}", asked.params()["requestState"])),
            ("form", None) => asked.result(wants(form("unit"), "opaque")),
            ("named", None) => asked.result(wants(form(SECRET), "opaque")),
            ("state", None) => asked.result(wants(form("unit"), &format!("{{\"to\":\"{SECRET}\"}}"))),
            ("request", None) => asked.result(wants(json!({ SECRET: elicitation("?", "unit") }), "opaque")),
            ("page", None) => {
                let params = json!({ "mode": "url", "message": "m", "url": format!("https://pay/{SECRET}") });
                asked.result(wants(json!({ "a": { "method": "elicitation/create", "params": params } }), "s"))
            }
            ("pages", None) => failed(pages("https://pay/2")),
            (_, None) => {
                failed(json!([{ "mode": "url", SECRET: 1, "message": "m", "url": "https://pay/1" }]))
            }
        }
    })
    .await;
    let (hub, _) = hub_of(&stage).await;
    let say = find(&hub, "say");
    let said = async |text: &str| call(&say, json!({ "text": text })).await;
    let asks = said("form").await;
    assert!(untold(&asks).contains("opaque"), "{asks:?}");
    let InterruptKind::Question(question) = &ask_of(&asks).kind else { panic!("{asks:?}") };
    assert!(question.summary.starts_with("The server `stage` asks: [masked]"), "{question:?}");
    // After an invalid answer the question is repeated, and a redacted default is not an answer.
    let again = resumed(&say, &asks, values(json!({ "n": "x" }))).await;
    assert!(untold(&again).contains("previous answer was invalid"), "{again:?}");
    let done = resumed(&say, &again, values(json!({ "n": 2 }))).await;
    let wanted = json!({ "a": { "action": "accept", "content": { "n": 2 } } });
    assert_eq!(shown(&done), format!("ok: \"opaque\" {wanted}"));
    // Opaque state that contains the secret is not recorded.
    let state = said("state").await;
    assert!(untold(&state).contains("must not be recorded"), "{state:?}");
    let is_unknown = matches!(state, ToolOutcome::Unknown { .. });
    assert!(is_unknown, "how far the server has come, is not known: {state:?}");
    for way in ["named", "request", "page", "pages that are named"] {
        let refused = said(way).await;
        assert!(answer_of(&refused).error, "{way}: {refused:?}");
        assert!(untold(&refused).contains("contains a secret"), "{way}: {refused:?}");
    }
    let first = said("pages").await;
    assert!(untold(&first).contains("https://pay/2"), "{first:?}");
    let second = resumed(&say, &first, Answer::Reply(Box::default())).await;
    assert!(shown(&second).starts_with("signs in: https://pay/2") && !untold(&second).is_empty());
}

#[tokio::test]
async fn a_task_says_nothing_of_it() {
    let task = |status: &str, more: Value| {
        let mut task = json!({ "resultType": "complete", "taskId": "t-1", "status": status,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null });
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        task
    };
    let looks = Mutex::new(0);
    let stage = echoing(move |asked, given| match asked.rpc() {
        "tools/call" => {
            let id = asked.params()["arguments"]["text"].as_str().unwrap();
            asked.result(task(
                "working",
                json!({ "resultType": "task", "taskId": id, "statusMessage": given }),
            ))
        }
        "tasks/get" => {
            *looks.lock().unwrap() += 1;
            let wants =
                json!({ "inputRequests": { "a": elicitation(given, "unit") }, "statusMessage": given });
            asked.result(match *looks.lock().unwrap() {
                1 => task("working", json!({ "statusMessage": given })),
                2 => task("input_required", wants),
                _ => task("failed", json!({ "error": { "code": -1, "message": given } })),
            })
        }
        _ => Said::Status(404),
    })
    .await;
    let (hub, _) = hub_of(&stage).await;
    let say = find(&hub, "say");
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let looked = async |output: &ToolOutcome| {
        let state = deferral_of(output).state.clone();
        let hears = heard.clone();
        let progress = ProgressSender::new(move |text| hears.lock().unwrap().push(text));
        let resumed = Some(ToolResumed { times: 1, state });
        called(&say, CallContext { resumed, progress, ..context() }, json!({ "text": "t-1" })).await
    };
    let begun = call(&say, json!({ "text": "t-1" })).await;
    let working = looked(&begun).await;
    let asks = looked(&working).await;
    assert!(shown(&asks).starts_with("asks: The server `stage` asks: [masked]"), "{asks:?}");
    let failed = looked(&working).await;
    assert!(
        shown(&failed).starts_with("error: Tool error: the server's task failed: [masked]"),
        "{failed:?}"
    );
    [&begun, &working, &asks, &failed].into_iter().for_each(|output| drop(untold(output)));
    let heard = heard.lock().unwrap().join(" ");
    assert!(heard.contains("[masked]"), "{heard}");
    assert_none(&heard);
    // The task could only be polled by this name.
    let named = call(&say, json!({ "text": SECRET })).await;
    assert!(untold(&named).contains("must not be recorded"), "{named:?}");
    // The task is running. The model must not call again, and the client cancels the task at the server.
    assert!(matches!(named, ToolOutcome::Unknown { .. }), "{named:?}");
    assert_eq!(stage.asked("tasks/cancel")[0].params()["taskId"], SECRET);
}

fn completion(given: &str) -> Value {
    let text = |text: &str| json!({ "type": "text", "text": text });
    json!({ "messages": [{ "role": "user", "content": text(given) }], "systemPrompt": given, "maxTokens": 5 })
}

#[tokio::test]
async fn completions_are_asked_for_without_it() {
    let sample = |given: &str| json!({ "method": "sampling/createMessage", "params": completion(given) });
    let stage = echoing(move |asked, given| match asked.params().get("inputResponses") {
        Some(_) => asked.text("done"),
        None => {
            let both = json!({ "a": sample(given), "b": elicitation("How many?", "unit") });
            let only = json!({ "a": sample(given) });
            let is_resource = asked.rpc() == "resources/read";
            asked.result(wants(if is_resource { only } else { both }, "s"))
        }
    })
    .await;
    let (hub, completions) = hub_of(&stage).await;
    // A question to people is recorded with the server's other requests.
    let asks = call(&find(&hub, "say"), json!({})).await;
    assert_eq!(shown(&asks), "asks: The server `stage` asks: How many?");
    untold(&asks);
    let asked = format!("{:?}", completions.asked.lock().unwrap());
    assert!(asked.contains("[masked]"), "{asked}");
    assert_none(&asked);
    // A panic in a call is reported with redacted text, whichever tool it is.
    *completions.crashes.lock().unwrap() = true;
    for (name, arguments) in
        [("say", json!({})), ("ReadMcpResource", json!({ "server": "stage", "uri": "note://1" }))]
    {
        let tool = find(&hub, name);
        let crashed = tokio::spawn(async move { shown(&call(&tool, arguments).await) }).await;
        let panic = crashed.unwrap_err().into_panic();
        assert_eq!(panic.downcast_ref::<String>().unwrap(), "no model for [masked]", "{name}");
    }
}

/// An older server that asks in the middle of a call, and returns the answer.
async fn older(request: impl Fn(&str) -> Value + Send + Sync + 'static) -> Stage {
    let (answered, answer) = (Arc::new(Notify::new()), Arc::<Mutex<Value>>::default());
    Stage::start(move |asked| {
        let given = forms(asked.header("x-api-key").unwrap_or_default());
        let tools = json!([tool("say", json!({}))]);
        if asked.rpc().is_empty() && asked.method == "POST" {
            *answer.lock().unwrap() = asked.body.clone();
            answered.notify_one();
            return Said::Status(202);
        }
        if asked.rpc() != "tools/call" {
            return legacy(asked, &tools).unwrap_or(Said::Status(202));
        }
        let mut request = request(&given);
        (request["jsonrpc"], request["id"]) = (json!("2.0"), json!("q1"));
        Said::Stream(vec![Step::Event(request), Step::Until(answered.clone()), asked.event("done")])
    })
    .await
}

#[tokio::test]
async fn older_servers_ask_without_it() {
    let stage = older(|given| elicitation(given, "unit")).await;
    let (hub, _) = hub_of(&stage).await;
    let say: Arc<dyn Tool> = find(&hub, "say");
    let asks = call(&say, json!({ "text": "x" })).await;
    assert!(shown(&asks).starts_with("asks: The server `stage` asks: [masked]"), "{asks:?}");
    untold(&asks);
    let state = ask_of(&asks).state.clone();
    let reply = Some(ToolReply { answer: values(json!({ "n": 3 })), state });
    assert_eq!(shown(&called(&say, CallContext { reply, ..context() }, json!({})).await), "ok: done");
    // A question that cannot be redacted is declined.
    let stage = older(|_| elicitation("How many?", SECRET)).await;
    let (hub, _) = hub_of(&stage).await;
    assert!(names(&hub).contains(&"say".to_owned()));
    assert_eq!(shown(&call(&find(&hub, "say"), json!({})).await), "ok: done");
    let answers = stage.asked("").into_iter().filter(|asked| asked.body.get("result").is_some());
    assert_eq!(answers.map(|asked| asked.body["result"]["action"].clone()).collect::<Vec<_>>(), ["cancel"]);
    let log = hub.logs("stage").unwrap().join("\n");
    assert!(log.contains("rejected a question: a key in it contains a secret"), "{log}");
    let stage =
        older(|given| json!({ "method": "sampling/createMessage", "params": completion(given) })).await;
    let (hub, completions) = hub_of(&stage).await;
    assert_eq!(shown(&call(&find(&hub, "say"), json!({})).await), "ok: done");
    let asked = format!("{:?}", completions.asked.lock().unwrap());
    assert!(asked.contains("[masked]"), "{asked}");
    assert_none(&asked);
}
