//! The baseline, the minimum possible cost: a bare HTTP client with minimal parsing that plays a script to its end.
//!
//! Keeps the conversation as text of a request body, to which each step appends. Supports one wire and one tool, and
//! handles no failure except a refused request.

use std::borrow::Cow;

use anyhow::{Result, bail};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::{Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::json;

use super::{Driver, PROMPT, RunProbe, Settings, TOOL_DESCRIPTION, TOOL_NAME, tool_schema};

/// The bare client.
pub(super) struct Bare {
    client: Client<HttpConnector, Full<Bytes>>,
    address: Uri,
    /// Prefix of every request body: all JSON up to and including the first message. The array of messages is still
    /// open.
    opening: String,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Vec<CallDelta<'a>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    index: usize,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    arguments: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Arguments {
    text: String,
}

/// The model's output in one step.
#[derive(Default)]
struct Step {
    text: String,
    calls: Vec<Call>,
}

#[derive(Default)]
struct Call {
    id: String,
    arguments: String,
}

impl Bare {
    pub(super) fn start(settings: &Settings) -> Result<Bare> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let function =
            json!({"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "parameters": tool_schema()});
        let tools = json!([{"type": "function", "function": function}]);
        let (model, prompt) = (json!(settings.model), json!(PROMPT));
        let message = format!(r#"{{"role":"user","content":{prompt}}}"#);
        Ok(Bare {
            client: Client::builder(TokioExecutor::new()).build(connector),
            address: format!("{}/chat/completions", settings.base_url).parse()?,
            opening: format!(r#"{{"model":{model},"stream":true,"tools":{tools},"messages":[{message}"#),
        })
    }

    async fn send(&self, body: String) -> Result<Incoming> {
        let request = Request::post(self.address.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(AUTHORIZATION, "Bearer none")
            .body(Full::new(Bytes::from(body)))?;
        let response = self.client.request(request).await?;
        if !response.status().is_success() {
            bail!("the server answered {}", response.status());
        }
        Ok(response.into_body())
    }
}

#[async_trait]
impl Driver for Bare {
    async fn run(&self, probe: &RunProbe) -> Result<String> {
        let mut conversation = self.opening.clone();
        loop {
            let step = read(self.send(format!("{conversation}]}}")).await?, probe).await?;
            if step.calls.is_empty() {
                return Ok(step.text);
            }
            append(&mut conversation, &step.calls)?;
        }
    }
}

async fn read(mut body: Incoming, probe: &RunProbe) -> Result<Step> {
    let (mut step, mut unread) = (Step::default(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        unread.extend_from_slice(&data);
        let mut start = 0;
        while let Some(length) = unread[start..].windows(2).position(|pair| pair == b"\n\n") {
            let event = &unread[start..start + length];
            if let Some(json) = event.strip_prefix(b"data: ").filter(|json| *json != b"[DONE]") {
                step.take(serde_json::from_slice(json)?, probe);
            }
            start += length + 2;
        }
        let _ = unread.split_to(start);
    }
    Ok(step)
}

impl Step {
    fn take(&mut self, chunk: Chunk<'_>, probe: &RunProbe) {
        for delta in chunk.choices.into_iter().map(|choice| choice.delta) {
            if let Some(text) = delta.content {
                probe.text(&text);
                self.text.push_str(&text);
            }
            for part in delta.tool_calls {
                if part.index >= self.calls.len() {
                    self.calls.resize_with(part.index + 1, Call::default);
                }
                let call = &mut self.calls[part.index];
                if let Some(id) = part.id {
                    call.id = id.into_owned();
                }
                call.arguments.push_str(&part.function.arguments);
            }
        }
    }
}

/// Appends the calls and the tool's results.
fn append(conversation: &mut String, calls: &[Call]) -> Result<()> {
    let mut results = String::new();
    conversation.push_str(r#",{"role":"assistant","content":null,"tool_calls":["#);
    for (index, call) in calls.iter().enumerate() {
        let separator = if index == 0 { "" } else { "," };
        let (id, arguments) = (&call.id, serde_json::to_string(&call.arguments)?);
        let function = format!(r#"{{"name":"{TOOL_NAME}","arguments":{arguments}}}"#);
        *conversation += &format!(r#"{separator}{{"id":"{id}","type":"function","function":{function}}}"#);
        let text = serde_json::to_string(&serde_json::from_str::<Arguments>(&call.arguments)?.text)?;
        results += &format!(r#",{{"role":"tool","tool_call_id":"{id}","content":{text}}}"#);
    }
    conversation.push_str("]}");
    conversation.push_str(&results);
    Ok(())
}
