//! `windlass mcp prompts`: lists and expands the prompts that servers offer. No model sees them.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::json;
use windlass::mcp::{Health, McpError, McpPrompt};
use windlass_server::servers::{self, PromptError, PromptMessage, PromptRole, Servers, Which};
use windlass_server::text::{shown, shown_line};
use windlass_server::trouble::{Exit, Trouble};

use crate::cli::flags::{ListFlags, ModelFlags};
use crate::console::Console;
use crate::place::{Ask, Ground};
use crate::report::report;

#[derive(Args, Debug)]
pub struct PromptsArgs {
    /// Only the prompts of this server
    server: Option<String>,
    /// Expand this prompt and print its messages
    prompt: Option<String>,
    /// An argument of the prompt [repeatable]
    #[arg(long = "arg", value_name = "NAME=VALUE", requires = "prompt")]
    arguments: Vec<String>,
    #[command(flatten)]
    list: ListFlags,
}

pub async fn prompts(console: &Console, args: &PromptsArgs) -> anyhow::Result<Exit> {
    let arguments = arguments(&args.arguments)?;
    let ListFlags { json, place } = &args.list;
    let ground = Ground::find(console, place, &ModelFlags::default(), Ask::OnTerminal)?;
    let place = ground.open_store().await?;
    let servers = super::over(&place, args.server.as_deref().map_or(Which::Each, Which::One)).await?;
    servers.hub.settled(servers::TEST_MS).await;
    let ended = match (&args.server, &args.prompt) {
        (Some(server), Some(prompt)) => match servers.prompt(server, prompt, arguments).await {
            Ok(messages) => {
                messages.iter().for_each(|message| say(console, message, *json));
                Ok(Exit::Done)
            }
            Err(error) => failed(console, server, &error),
        },
        (Some(server), None) => match servers.hub.prompts(server).await {
            Ok(prompts) => {
                list(console, server, &prompts, *json);
                Ok(Exit::Done)
            }
            Err(error) => failed(console, server, &error.into()),
        },
        (None, _) => Ok(each(console, &servers, *json).await),
    };
    servers.hub.stop().await;
    Ok(ended?)
}

/// Lists the prompts of all enabled servers, and reports servers that cannot be reached.
async fn each(console: &Console, servers: &Servers, json: bool) -> Exit {
    let mut exit = Exit::Done;
    let all = servers.hub.status();
    if all.is_empty() {
        super::tell_of_none(console);
    }
    for status in all {
        if status.health == Health::Disabled {
            continue;
        }
        match servers.hub.prompts(&status.name).await {
            Ok(prompts) => list(console, &status.name, &prompts, json),
            Err(error) => {
                exit = Exit::Failed;
                let hint = format!("`windlass mcp test {}` shows more", status.name);
                console.warn(&shown_line(&error.to_string()), &[&hint]);
            }
        }
    }
    exit
}

/// Parses `NAME=VALUE`.
fn arguments(given: &[String]) -> Result<BTreeMap<String, String>, Trouble> {
    let mut all = BTreeMap::new();
    for text in given {
        let Some((name, value)) = text.split_once('=') else {
            return Err(Trouble::usage(format!("`--arg {text}` is not NAME=VALUE")));
        };
        if all.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(Trouble::usage(format!("`--arg {name}` is given twice")));
        }
    }
    Ok(all)
}

fn list(console: &Console, server: &str, prompts: &[McpPrompt], json: bool) {
    if json {
        prompts.iter().for_each(|prompt| console.out_json(&json!(prompt).to_string()));
        return;
    }
    console.out_line(&format!("{server}  {} prompts", prompts.len()));
    for prompt in prompts {
        let takes = prompt.arguments.iter().map(|argument| match argument.required {
            true => argument.name.clone(),
            false => format!("[{}]", argument.name),
        });
        let takes = takes.collect::<Vec<_>>().join(" ");
        let about = prompt.description.as_ref().or(prompt.title.as_ref()).map_or("", String::as_str);
        let words = [prompt.name.as_str(), &takes, about].map(|word| shown_line(word).into_owned());
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        console.out_line(&format!("    {}", words.join("  ")));
    }
}

fn say(console: &Console, message: &PromptMessage, json: bool) {
    if json {
        return console.out_json(&json!(message).to_string());
    }
    let role = match message.role {
        PromptRole::User => "user",
        PromptRole::Assistant => "assistant",
    };
    console.out_line(&console.out_paint.dim(role));
    for content in &message.content {
        match content.kind {
            "image" => console.out_line("[image; `--json` includes it]"),
            _ => console.out_line(&shown(&content.data)),
        }
    }
}

/// Reports an error with a hint. A failure of the server is not a usage error.
fn failed(console: &Console, server: &str, error: &PromptError) -> Result<Exit, Trouble> {
    let trouble = Trouble::usage(shown_line(&error.to_string()));
    let trouble = match error {
        PromptError::Mcp(McpError::SignIn { .. }) => {
            trouble.hint(format!("`windlass mcp login {server}` signs in"))
        }
        PromptError::Mcp(_) => trouble.hint(format!("`windlass mcp test {server}` shows more")),
        PromptError::Unknown { .. } | PromptError::Missing { .. } | PromptError::Surplus { .. } => {
            let hint = format!("`windlass mcp prompts {server}` lists the prompts and their arguments");
            return Err(trouble.hint(hint));
        }
    };
    report(console, &trouble.into());
    Ok(Exit::Failed)
}
