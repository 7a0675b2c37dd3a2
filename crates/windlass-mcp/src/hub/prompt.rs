//! Prompts of servers: lists the prompts, and fills them in for users.
//!
//! A model sees a prompt only if a user adds the prompt to a message.

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
    /// The server's name.
    pub server: String,
    /// The prompt's name at the server.
    pub name: String,
    /// The title for users.
    pub title: Option<String>,
    /// The purpose of the prompt, as described by the server.
    pub description: Option<String>,
    /// The arguments to fill in.
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PromptArgument {
    /// The argument's name at the server.
    pub name: String,
    /// The expected value, as described by the server.
    pub description: Option<String>,
    /// Whether the server requires the argument.
    pub required: bool,
}

/// A message of a filled-in prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptMessage {
    /// Whether the message is the assistant's. Otherwise, the message is the user's.
    pub from_assistant: bool,
    /// The content of the message.
    pub parts: Vec<OutputPart>,
}

/// Maximum number of prompts listed per server.
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
            // Prompts that cannot be redacted are omitted.
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

    /// Fills in a prompt.
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
