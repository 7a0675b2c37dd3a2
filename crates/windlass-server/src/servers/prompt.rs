//! Prompts of servers, which people choose: listed, and filled in with what they give.
//!
//! What is wrong with a choice is told before the server is asked; what it answers is the server's.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass::mcp::{McpError, McpPrompt};

use super::Servers;
use crate::toolbox::{self, Content};

/// Why a prompt is not given.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The server.
    #[error(transparent)]
    Mcp(#[from] McpError),
    /// The server has no such prompt.
    #[error("the server `{server}` has no prompt `{prompt}`; it has {known}")]
    Unknown {
        /// The server.
        server: String,
        /// What was asked for.
        prompt: String,
        /// Those that it has, for people.
        known: String,
    },
    /// It makes no sense without them.
    #[error("the prompt `{prompt}` needs {missing}")]
    Missing {
        /// The prompt.
        prompt: String,
        /// What is missing, for people.
        missing: String,
    },
    /// It takes no such argument.
    #[error("the prompt `{prompt}` takes no argument `{argument}`; it takes {known}")]
    Surplus {
        /// The prompt.
        prompt: String,
        /// What was given.
        argument: String,
        /// Those that it takes, for people.
        known: String,
    },
}

/// A message of a filled-in prompt.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = PromptMessage)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said, part by part.
    pub content: Vec<Content>,
}

/// Who says a message of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = PromptRole)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user.
    User,
    /// The assistant is made to say it.
    Assistant,
}

/// Names that an error lists at most.
const LISTED_MAX: usize = 20;

impl Servers {
    /// Fills a prompt of a server in.
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

/// Whether a prompt takes these arguments.
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
