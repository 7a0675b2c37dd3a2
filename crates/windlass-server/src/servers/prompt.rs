//! Prompts of MCP servers: validates the arguments and fills in a prompt.
//!
//! This module rejects invalid names and arguments before it calls the server. The server generates the messages.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass::mcp::{McpError, McpPrompt};

use super::Servers;
use crate::toolbox::{self, Content};

/// The reason why a prompt cannot be filled in.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The request to the server failed.
    #[error(transparent)]
    Mcp(#[from] McpError),
    /// The server has no such prompt.
    #[error("the server `{server}` has no prompt `{prompt}`; its prompts: {known}")]
    Unknown {
        /// Name of the server.
        server: String,
        /// The requested prompt.
        prompt: String,
        /// Names of the server's prompts, for people.
        known: String,
    },
    /// Required arguments are missing.
    #[error("the prompt `{prompt}` requires {missing}")]
    Missing {
        /// Name of the prompt.
        prompt: String,
        /// The missing arguments, for people.
        missing: String,
    },
    /// The prompt has no such argument.
    #[error("the prompt `{prompt}` has no argument `{argument}`; its arguments: {known}")]
    Surplus {
        /// Name of the prompt.
        prompt: String,
        /// The unknown argument.
        argument: String,
        /// Names of the prompt's arguments, for people.
        known: String,
    },
}

/// A message of a filled-in prompt.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = PromptMessage)]
pub struct Message {
    /// Role of the author.
    pub role: Role,
    /// Content blocks.
    pub content: Vec<Content>,
}

/// Role of the author of a prompt message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = PromptRole)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user.
    User,
    /// The assistant, as scripted by the prompt.
    Assistant,
}

/// Maximum number of names in an error.
const LISTED_MAX: usize = 20;

impl Servers {
    /// Fills in a prompt of a server.
    pub async fn prompt(
        &self,
        server: &str,
        name: &str,
        arguments: BTreeMap<String, String>,
    ) -> Result<Vec<Message>, PromptError> {
        let prompts = self.hub.prompts(server).await?;
        let Some(prompt) = prompts.iter().find(|prompt| prompt.name == name) else {
            let known = listed(prompts.iter().map(|prompt| prompt.name.as_str()));
            return Err(PromptError::Unknown { server: server.to_owned(), prompt: name.to_owned(), known });
        };
        fits(prompt, &arguments)?;
        let arguments = arguments.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        let messages = self.hub.prompt(server, name, arguments).await?;
        let message = |message: windlass::mcp::PromptMessage| Message {
            role: if message.from_assistant { Role::Assistant } else { Role::User },
            content: message.parts.iter().map(toolbox::part).collect(),
        };
        Ok(messages.into_iter().map(message).collect())
    }
}

/// Checks the arguments of a prompt.
fn fits(prompt: &McpPrompt, given: &BTreeMap<String, String>) -> Result<(), PromptError> {
    let known = || prompt.arguments.iter().map(|argument| argument.name.as_str());
    if let Some(argument) = given.keys().find(|name| !known().any(|it| it == **name)) {
        let (prompt, argument) = (prompt.name.clone(), argument.clone());
        return Err(PromptError::Surplus { prompt, argument, known: listed(known()) });
    }
    let missing = prompt.arguments.iter().filter(|it| it.required && !given.contains_key(&it.name));
    let missing: Vec<&str> = missing.map(|argument| argument.name.as_str()).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => {
            let missing = listed(missing.into_iter());
            Err(PromptError::Missing { prompt: prompt.name.clone(), missing })
        }
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str> + Clone) -> String {
    let all = names.clone().count();
    let some: Vec<String> = names.take(LISTED_MAX).map(|name| format!("`{name}`")).collect();
    match all.saturating_sub(LISTED_MAX) {
        0 if all == 0 => "none".to_owned(),
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}
