//! The client for the conformance suite of MCP: it connects to the given server, signs in if required, calls every
//! tool, and answers every question.
//!
//! `conformance client --command <this> --requirements 2026-07-28` starts it once per scenario, with the server's URL
//! as the last argument.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use windlass::machine::{Answer, CallKey, EffectId, InterruptKind, RunId, ThreadId};
use windlass::mcp::{Health, Http, HubConfig, McpHub, McpServer, OAuth, SignInReturn, Timeouts, Transport};
use windlass::port::tool::{Ask, CallContext, ProgressSender, Tool, ToolOutcome, ToolReply, ToolSource};

type Failure = Box<dyn Error>;

/// Maximum number of sign-ins. If the server requires another one, the client fails.
const MAX_SIGN_INS: usize = 3;
const SERVER: &str = "conformance";

#[tokio::main(flavor = "multi_thread")]
async fn main() -> Result<(), Failure> {
    let url = std::env::args().next_back().ok_or("usage: mcp_conformance URL")?;
    let context: Value = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(context) => serde_json::from_str(&context)?,
        Err(_) => Value::Null,
    };
    let hub = McpHub::new(HubConfig::default());
    let mut server = McpServer::new(SERVER, Transport::Http(http(&url, &context)));
    server.trusted = true;
    server.timeouts = Timeouts { connect_ms: 15_000, call_ms: 20_000, ..Timeouts::default() };
    hub.start(vec![server]).await?;
    let mut client = Client { hub, sign_ins: 0 };
    client.reached().await?;
    // The suite checks that the client opens the event stream. With an older protocol version, the client opens it
    // concurrently with the first requests, so wait until it is open.
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.call_everything(&context).await?;
    client.hub.stop().await;
    Ok(())
}

fn http(url: &str, context: &Value) -> Http {
    let text = |name: &str| context.get(name).and_then(Value::as_str).map(str::to_owned);
    let oauth = OAuth {
        client_id: text("client_id"),
        client_secret: text("client_secret"),
        client_metadata_url: Some("https://conformance-test.local/client-metadata.json".into()),
        ..OAuth::new("http://localhost:3000/callback")
    };
    Http { oauth: Some(oauth), ..Http::new(url) }
}

struct Client {
    hub: McpHub,
    sign_ins: usize,
}

/// A call with its arguments.
struct Called {
    tool: Arc<dyn Tool>,
    arguments: Value,
    outcome: ToolOutcome,
}

impl Client {
    /// Waits until the server is connected. Signs in if the server requires a sign-in.
    async fn reached(&mut self) -> Result<(), Failure> {
        loop {
            let Err(error) = self.hub.ready(SERVER).await else { return Ok(()) };
            let health = self.hub.server(SERVER)?.health;
            if !matches!(health, Health::NeedsSignIn { .. }) {
                return Err(error.into());
            }
            let page = self.hub.begin_sign_in(SERVER).await?;
            self.sign_in(&page.url).await?;
        }
    }

    /// Performs the steps of a person in a browser.
    async fn sign_in(&mut self, url: &str) -> Result<(), Failure> {
        if self.sign_ins == MAX_SIGN_INS {
            return Err(format!("the server still requires a sign-in after {MAX_SIGN_INS} sign-ins").into());
        }
        self.sign_ins += 1;
        let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
        let answer = browser.get(url).send().await?;
        let location =
            answer.headers().get("location").ok_or("the sign-in page does not redirect")?.to_str()?;
        let back = reqwest::Url::parse(location)?;
        let value = |wanted: &str| {
            back.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
        };
        let back = SignInReturn {
            code: value("code").ok_or("the redirect of the sign-in has no `code`")?,
            state: value("state").ok_or("the redirect of the sign-in has no `state`")?,
            iss: value("iss"),
        };
        Ok(self.hub.finish_sign_in(SERVER, &back).await?)
    }

    /// Calls the tools that the suite requests, or every tool. Questions are answered after every call was made.
    async fn call_everything(&mut self, context: &Value) -> Result<(), Failure> {
        let tools = self.hub.tools();
        let find = |name: &str| tools.iter().find(|tool| tool.spec().name.as_str() == name).cloned();
        let wanted: Vec<(Arc<dyn Tool>, Value)> = match context.get("toolCalls").and_then(Value::as_array) {
            Some(calls) => {
                let named = calls.iter().filter_map(|call| Some((find(call.get("name")?.as_str()?)?, call)));
                named
                    .map(|(tool, call)| (tool, call.get("arguments").cloned().unwrap_or(json!({}))))
                    .collect()
            }
            None => tools.iter().map(|tool| (tool.clone(), self.arguments_of(tool))).collect(),
        };
        let mut open = Vec::new();
        for (tool, arguments) in wanted {
            if tool.traits().server.is_some() {
                let outcome = call(&*tool, arguments.clone(), None).await?;
                open.push(Called { tool, arguments, outcome });
            }
        }
        let mut failed = None;
        for mut called in open {
            while let ToolOutcome::Ask(ask) = &called.outcome {
                let reply = self.answered(ask).await?;
                called.outcome = call(&*called.tool, called.arguments.clone(), Some(reply)).await?;
            }
            println!("{}: {:?}", called.tool.spec().name, called.outcome);
            if let ToolOutcome::Unknown { reason } = called.outcome {
                failed = Some(reason);
            }
        }
        failed.map_or(Ok(()), |why| Err(why.into()))
    }

    /// Returns the arguments for a tool. The argument of `json_schema_echo` is the schema that the client received for
    /// `json_schema_2020_12_tool`.
    fn arguments_of(&self, tool: &Arc<dyn Tool>) -> Value {
        let tools = self.hub.tools();
        let shown = tools.iter().find(|tool| tool.spec().name.as_str() == "json_schema_2020_12_tool");
        match shown.filter(|_| tool.spec().name.as_str() == "json_schema_echo") {
            Some(shown) => json!({ "schema": shown.spec().input_schema }),
            None => arguments(&tool.spec().input_schema),
        }
    }

    /// Signs in, or accepts the defaults of a form.
    async fn answered(&mut self, ask: &Ask) -> Result<ToolReply, Failure> {
        let mut reply = windlass::machine::Reply::default();
        match &ask.kind {
            InterruptKind::SignIn { url, .. } => self.sign_in(url).await?,
            InterruptKind::Question(question) => {
                let schema = question.schema.clone().unwrap_or_default();
                reply.values = Some(arguments(&schema));
            }
            other => return Err(format!("cannot answer {other:?}").into()),
        }
        Ok(ToolReply { answer: Answer::Reply(Box::new(reply)), state: ask.state.clone() })
    }
}

async fn call(tool: &dyn Tool, arguments: Value, reply: Option<ToolReply>) -> Result<ToolOutcome, Failure> {
    let (thread, run, call) = (ThreadId::from("thread"), RunId::from("run"), CallKey { step: 1, index: 0 });
    let context = CallContext {
        workspace: "default".into(),
        effect_id: EffectId::derive(&thread, &run, call),
        class: None,
        thread,
        run,
        call,
        cancel: tokio_util::sync::CancellationToken::new(),
        folder: None,
        now: windlass::machine::Timestamp(0),
        utc_offset_minutes: None,
        kept: None,
        results: windlass::port::offload::OffloadedResults::default(),
        reply,
        resumed: None,
        progress: ProgressSender::default(),
    };
    Ok(tokio::time::timeout(Duration::from_secs(25), tool.call(context, arguments)).await?)
}

/// Values for required properties without a default.
fn arguments(schema: &Value) -> Value {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let mut values = Map::new();
    for name in required.filter_map(Value::as_str) {
        let property = schema.get("properties").and_then(|properties| properties.get(name));
        let property = property.cloned().unwrap_or_default();
        if property.get("default").is_some() {
            continue;
        }
        let one_of =
            property.get("enum").and_then(Value::as_array).and_then(|values| values.first().cloned());
        let value = one_of.unwrap_or_else(|| match property.get("type").and_then(Value::as_str) {
            Some("number" | "integer") => json!(3),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => arguments(&property),
            _ => json!("value"),
        });
        values.insert(name.to_owned(), value);
    }
    Value::Object(values)
}
