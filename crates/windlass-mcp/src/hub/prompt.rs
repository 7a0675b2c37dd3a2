//! Prompts of servers: listed and filled in for people, who choose them.
//!
//! Models never see them unless somebody puts one into a message.

use rmcp::model::{ContentBlock, GetPromptRequestParams, GetPromptResponse, Role};
use serde::Serialize;
use serde_json::{Map, Value};
use windlass_engine::port::tool::OutputPart;

use crate::error::McpError;
use crate::hub::McpHub;
use crate::hub::resource::{connected, within};
use crate::list::Pages;
use crate::result;

/// A prompt of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpPrompt {
    /// The server.
    pub server: String,
    /// Its name there.
    pub name: String,
    /// Its title for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What has to be filled in.
    pub arguments: Vec<PromptArgument>,
}

/// What has to be filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// Whether the prompt makes no sense without it.
    pub required: bool,
}

/// A message of a filled-in prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptMessage {
    /// Whether the assistant is made to say it; else the user.
    pub from_assistant: bool,
    /// What is said.
    pub parts: Vec<OutputPart>,
}

/// Prompts of one server at most.
const MAX_PROMPTS: usize = 1_000;

impl McpHub {
    /// Lists the prompts of a server.
    pub async fn prompts(&self, server: &str) -> Result<Vec<McpPrompt>, McpError> {
        let core = self.shared().core(server)?;
        let connection = connected(&core).await?;
        let mut found = Vec::new();
        if connection.info.capabilities.prompts.is_none() {
            return Ok(found);
        }
        let mut pages = Pages::first();
        while let Some(params) = pages.wanted().filter(|_| found.len() < MAX_PROMPTS) {
            let page = within(&core, connection.peer.list_prompts(params)).await?;
            // One that cannot be told is left out.
            let listed = page.prompts.into_iter().filter_map(|prompt| core.masks.said(prompt).ok());
            found.extend(listed.map(|prompt| McpPrompt {
                server: server.to_owned(),
                name: prompt.name,
                title: prompt.title,
                description: prompt.description,
                arguments: prompt.arguments.unwrap_or_default().into_iter().map(argument).collect(),
            }));
            pages.came(page.next_cursor);
        }
        found.truncate(MAX_PROMPTS);
        Ok(found)
    }

    /// Fills a prompt in.
    pub async fn prompt(
        &self,
        server: &str,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Vec<PromptMessage>, McpError> {
        let core = self.shared().core(server)?;
        let connection = connected(&core).await?;
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        match within(&core, connection.peer.get_prompt_once(params)).await? {
            GetPromptResponse::Complete(prompt) => Ok(prompt
                .messages
                .into_iter()
                .map(|message| PromptMessage {
                    from_assistant: message.role == Role::Assistant,
                    parts: core.masks.parts(parts(&message.content)),
                })
                .collect()),
            _ => Err(McpError::WantsInput { server: server.to_owned(), prompt: name.to_owned() }),
        }
    }
}

fn parts(content: &ContentBlock) -> Vec<OutputPart> {
    let content = serde_json::to_value(content).ok();
    content.and_then(|content| result::part(&content)).into_iter().collect()
}

fn argument(argument: rmcp::model::PromptArgument) -> PromptArgument {
    PromptArgument {
        name: argument.name,
        description: argument.description,
        required: argument.required == Some(true),
    }
}
