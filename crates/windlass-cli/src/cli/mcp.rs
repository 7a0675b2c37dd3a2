//! `windlass mcp`: lists and tests the configured tool servers, and signs in to them.
//!
//! A test starts a server and stops it afterwards. `write.rs` changes configuration files.

mod login;
mod prompts;
mod write;

use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use windlass::mcp::{Health, McpServer, ServerStatus, Transport};
use windlass::sqlite;
use windlass_server::servers::{self, Back, Draft, Page, Servers, Which};
use windlass_server::text::shown_line;
use windlass_server::trouble::{Exit, Trouble};

use crate::cli::flags::{ListFlags, ModelFlags};
use crate::console::Console;
use crate::place::{Ask, Ground, Place};

#[derive(Args, Debug)]
pub struct McpArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the configured and added servers
    List(ListFlags),
    /// Connect to the servers, and show their state and tools
    Test {
        /// Only this server
        name: Option<String>,
        #[command(flatten)]
        list: ListFlags,
    },
    /// List the prompts of servers, or expand one
    Prompts(prompts::PromptsArgs),
    /// Add a server to a configuration file
    Add(write::AddArgs),
    /// Remove a server from a configuration file
    Remove(write::RemoveArgs),
    /// Sign in at a server, with a browser on this machine
    Login(login::LoginArgs),
    /// Sign out of a server and delete its stored tokens
    Logout(login::LogoutArgs),
}

pub async fn run(console: &Console, args: &McpArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Command::List(ListFlags { json, place }) => {
            let ground = Ground::find(console, place, &ModelFlags::default(), Ask::OnTerminal)?;
            let is_any = !ground.settings.mcp.is_empty();
            for (name, server) in &ground.settings.mcp {
                let read = server.without_secrets(name, Page::USUAL)?;
                list(console, &Shown::of(&read, server.enabled.unwrap_or(true)), *json);
            }
            let added = added(ground).await?;
            for (name, draft) in &added {
                list(console, &Shown::added(name, draft.as_ref()), *json);
            }
            if !is_any && added.is_empty() {
                tell_of_none(console);
            }
            Ok(Exit::Done)
        }
        Command::Test { name, list: ListFlags { json, place } } => {
            let ground = Ground::find(console, place, &ModelFlags::default(), Ask::OnTerminal)?;
            // The store contains the tokens of sign-ins, and the servers that were added to it.
            let place = ground.open_store().await?;
            let which = name.as_deref().map_or(Which::Each, Which::One);
            let servers = over(&place, which).await?;
            servers.hub.settled(servers::TEST_MS).await;
            Ok(tested(console, &servers, *json).await)
        }
        Command::Prompts(args) => Box::pin(prompts::prompts(console, args)).await,
        Command::Add(args) => Ok(write::add(console, args)?),
        Command::Remove(args) => Ok(write::remove(console, args)?),
        Command::Login(args) => Box::pin(login::login(console, args)).await,
        Command::Logout(args) => Box::pin(login::logout(console, args)).await,
    }
}

/// Returns the servers that were added to the store. Creates no store.
async fn added(ground: Ground) -> anyhow::Result<Vec<(String, Option<Draft>)>> {
    let store = ground.store();
    if !sqlite::is_store(&store) {
        return Ok(Vec::new());
    }
    let place = ground.open_store().await?;
    servers::added_to(&store, &**place.engine.records()).await
}

/// Starts servers with an open store. Returns an error if a named server does not exist.
pub(super) async fn over(place: &Place, which: Which<'_>) -> anyhow::Result<Arc<Servers>> {
    let (ground, records) = (&place.ground, place.engine.records().clone());
    let own = ground.tools()?;
    let store = ground.store();
    let servers =
        Box::pin(Servers::start(&ground.settings, &own, &store, records, Back::Page, which)).await?;
    if let Which::One(name) = which
        && servers.hub.server(name).is_err()
    {
        let why = format!("no server named `{name}` is configured or added");
        return Err(Trouble::usage(why).hint("`windlass mcp list` lists the servers").into());
    }
    Ok(servers)
}

fn tell_of_none(console: &Console) {
    console.note("no servers are configured");
    console.hint("`windlass mcp add --help` explains how to add one");
}

/// Returns the command or URL of a server. Omits arguments, because they may contain secrets.
fn way(server: &McpServer) -> String {
    match &server.transport {
        Transport::Stdio(stdio) => stdio.command.clone(),
        Transport::Http(http) | Transport::Sse(http) => http.url.clone(),
    }
}

/// A server in the list.
struct Shown<'a> {
    name: &'a str,
    /// The server's command or URL; `None` if it is unknown.
    way: Option<String>,
    enabled: bool,
    trusted: bool,
    required: bool,
    /// Whether the server was added to the store instead of a configuration file.
    added: bool,
}

impl<'a> Shown<'a> {
    fn of(server: &'a McpServer, enabled: bool) -> Self {
        let (trusted, required) = (server.trusted, server.required);
        Self { name: &server.name, way: Some(way(server)), enabled, trusted, required, added: false }
    }

    fn added(name: &'a str, draft: Option<&Draft>) -> Self {
        let way = draft.and_then(|draft| draft.url.clone().or_else(|| draft.command.clone()));
        let trusted = draft.is_some_and(|draft| draft.trusted);
        Self { name, way, enabled: true, trusted, required: false, added: true }
    }
}

fn list(console: &Console, server: &Shown<'_>, json: bool) {
    if json {
        let line = json!({ "name": server.name, "way": server.way, "enabled": server.enabled,
            "trusted": server.trusted, "required": server.required, "added": server.added });
        return console.out_json(&line.to_string());
    }
    let marks = [
        (!server.enabled, "disabled"),
        (server.trusted, "trusted"),
        (server.required, "required"),
        (server.added, "added over HTTP"),
    ];
    let words = marks.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word);
    let way = server.way.as_deref().unwrap_or("encrypted with a missing key");
    let words: Vec<&str> = [way].into_iter().chain(words).collect();
    console.out_line(&format!("{}  {}", server.name, shown_line(&words.join(", "))));
}

async fn tested(console: &Console, servers: &Servers, json: bool) -> Exit {
    let hub = &servers.hub;
    let mut exit = Exit::Done;
    for status in hub.status() {
        let is_well = matches!(status.health, Health::Ready { .. } | Health::Disabled);
        if !is_well {
            exit = Exit::Failed;
        }
        let log = hub.logs(&status.name).unwrap_or_default();
        if json {
            let mut line = json!(status);
            line["log"] = json!(log);
            console.out_json(&line.to_string());
        } else {
            tell(console, &status);
            if !is_well {
                log.iter()
                    .rev()
                    .take(10)
                    .rev()
                    .for_each(|line| console.out_line(&format!("    | {}", shown_line(line))));
            }
        }
    }
    hub.stop().await;
    exit
}

fn tell(console: &Console, status: &ServerStatus) {
    let told = match &status.health {
        Health::Ready { .. } => format!("{} tools", status.tools.len()),
        Health::Starting => "no response yet".to_owned(),
        Health::Unavailable { why, .. } => format!("unavailable: {why}"),
        Health::NeedsSignIn { .. } => {
            format!("requires sign-in: `windlass mcp login {}`", status.name)
        }
        Health::Disabled => "disabled".to_owned(),
    };
    console.out_line(&format!("{}  {}", status.name, shown_line(&told)));
    for tool in &status.tools {
        console.out_line(&format!("    {}", shown_line(&tool.name)));
    }
    for left_out in &status.left_out {
        let line = format!("    {} is not loaded: {}", left_out.tool, left_out.why);
        console.out_line(&shown_line(&line));
    }
}
