//! `rig` alone: its streaming model over chat completions, and a hand-written loop with one tool.
//!
//! This program is the baseline for Windlass's wires: the same work in a widely used library, without
//! a store. rig's own agent costs more.

use anyhow::{Context, Result};
use async_trait::async_trait;
use futures::StreamExt;
use rig_core::completion::message::ToolResultContent;
use rig_core::completion::{CompletionRequest, CompletionResponse, Message, ToolDefinition};
use rig_core::driver::Model;
use rig_core::providers::openai::OpenAIConfig;
use rig_core::providers::openai::wire::Chat;
use rig_core::streaming::{Item, StreamEvent};
use rig_reqwest::ReqwestClient;

use super::{Driver, PROMPT, RunProbe, Settings, TOOL_DESCRIPTION, TOOL_NAME, tool_schema};

/// rig's model with its tool.
pub(super) struct Rig {
    model: Model<Chat>,
    tool: ToolDefinition,
}

impl Rig {
    pub(super) fn start(settings: &Settings) -> Result<Rig> {
        let config = OpenAIConfig::new("none").with_base_url(settings.base_url.clone());
        Ok(Rig {
            model: config.connect(ReqwestClient::default()).chat(settings.model.clone()),
            tool: ToolDefinition::new(TOOL_NAME.to_owned().try_into()?, TOOL_DESCRIPTION, tool_schema()),
        })
    }

    async fn step(&self, history: &[Message], probe: &RunProbe) -> Result<CompletionResponse> {
        let (prompt, earlier) = history.split_last().context("a conversation has a first message")?;
        let request =
            CompletionRequest::new(prompt.clone()).messages(earlier.to_vec()).tool(self.tool.clone());
        let mut stream = self.model.stream(request)?;
        while let Some(item) = stream.next().await {
            if let Item::Event(StreamEvent::Text { text, .. }) = item? {
                probe.text(&text);
            }
        }
        Ok(stream.finish().await?)
    }
}

#[async_trait]
impl Driver for Rig {
    async fn run(&self, probe: &RunProbe) -> Result<String> {
        let mut history = vec![Message::user(PROMPT)];
        loop {
            let response = self.step(&history, probe).await?;
            let answer = |arguments: &serde_json::Map<String, serde_json::Value>| {
                let text = arguments.get("text").and_then(|text| text.as_str()).unwrap_or_default();
                vec![ToolResultContent::text(text)]
            };
            let results: Vec<_> =
                response.tool_calls().map(|call| call.result(answer(&call.function.arguments))).collect();
            if results.is_empty() {
                return Ok(response.text());
            }
            history.extend(response.message());
            history.push(Message::tool_results(results));
        }
    }
}
