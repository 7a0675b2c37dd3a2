//! `windlass mcp`: the tool servers that are configured, and whether they answer.
//!
//! It changes no settings; a server is started for the test and ended after it.

use clap::{Args, Subcommand};
use serde_json::json;
use windlass::adapter::mcp::{Health, McpServer, ServerStatus, Transport};

use super::{ModelFlags, PlaceFlags};
use crate::console::{Console, shown_line};
use crate::place::{Ask, Ground};
use crate::servers;
use crate::trouble::{Exit, Trouble};

/// Arguments of `mcp`.
#[derive(Args, Debug)]
pub struct McpArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the servers that are configured
    List {
        /// Print a line of JSON for each
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: PlaceFlags,
    },
    /// Reach the servers, and say what they have and what they say
    Test {
        /// Only this one
        name: Option<String>,
        /// Print a line of JSON for each
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: PlaceFlags,
    },
}

/// Runs `mcp`.
pub async fn run(console: &Console, args: &McpArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Command::List { json, place } => {
            let servers = configured(console, place)?;
            for server in &servers {
                list(console, server, *json);
            }
            if servers.is_empty() {
                console.note("no servers are configured");
                console.hint("a table `[mcp.NAME]` in the configuration names one, by `command` or `url`");
            }
            Ok(Exit::Done)
        }
        Command::Test { name, json, place } => {
            let mut servers = configured(console, place)?;
            if let Some(name) = name {
                servers.retain(|server| server.name == *name);
                if servers.is_empty() {
                    let why = format!("no server named `{name}` is configured");
                    return Err(Trouble::usage(why).hint("`windlass mcp list` says which are").into());
                }
            }
            test(console, servers, *json).await
        }
    }
}

fn configured(console: &Console, place: &PlaceFlags) -> Result<Vec<McpServer>, Trouble> {
    let ground = Ground::find(console, place, &ModelFlags::default(), Ask::OnTerminal)?;
    servers::configured(&ground.settings)
}

/// How a server is reached. Arguments may hold secrets, and are not shown.
fn way(server: &McpServer) -> String {
    match &server.transport {
        Transport::Stdio(stdio) => stdio.command.clone(),
        Transport::Http(http) | Transport::Sse(http) => http.url.clone(),
    }
}

fn list(console: &Console, server: &McpServer, json: bool) {
    if json {
        let line = json!({ "name": server.name, "way": way(server), "enabled": server.enabled,
            "trusted": server.trusted, "required": server.required });
        return console.out_json(&line.to_string());
    }
    let mut words = vec![way(server)];
    words.extend(
        [(!server.enabled, "switched off"), (server.trusted, "trusted"), (server.required, "required")]
            .into_iter()
            .filter(|(holds, _)| *holds)
            .map(|(_, word)| word.to_owned()),
    );
    console.out_line(&format!("{}  {}", server.name, shown_line(&words.join(", "))));
}

async fn test(console: &Console, mut servers: Vec<McpServer>, json: bool) -> anyhow::Result<Exit> {
    for server in &mut servers {
        // Each is to be told of, not only the first that fails.
        server.required = false;
    }
    let hub = servers::hub(Vec::new());
    hub.start(servers).await?;
    hub.settled(servers::TEST_MS).await;
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
    Ok(exit)
}

fn tell(console: &Console, status: &ServerStatus) {
    let told = match &status.health {
        Health::Ready { .. } => format!("{} tools", status.tools.len()),
        Health::Starting => "it has not answered yet".to_owned(),
        Health::Unavailable { why, .. } => format!("not available: {why}"),
        Health::NeedsSignIn { .. } => "somebody has to sign in first".to_owned(),
        Health::Disabled => "switched off".to_owned(),
    };
    console.out_line(&format!("{}  {}", status.name, shown_line(&told)));
    for tool in &status.tools {
        console.out_line(&format!("    {}", shown_line(&tool.name)));
    }
    for left_out in &status.left_out {
        let line = format!("    {} is left out: {}", left_out.tool, left_out.why);
        console.out_line(&shown_line(&line));
    }
}
