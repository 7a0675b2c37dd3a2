//! The definition of the command line, with one file per command.

mod admin;
mod approvals;
mod auto_run;
mod cancel;
mod chat;
mod completions;
mod doctor;
mod flags;
mod follow;
mod grants;
mod mcp;
mod policy;
mod resume;
mod run;
mod serve;
mod threads;
mod tools;
mod trust;
mod watch;

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};
use windlass_server::trouble::{EXIT_CODES, Exit};

use crate::console::{ColorChoice, Console};
use crate::telemetry::LOGS;

/// Runs LLM agents durably: every step is recorded, and an interrupted run resumes from the last one
#[derive(Debug, Parser)]
#[command(
    name = "windlass",
    version,
    after_help = format!("{EXIT_CODES}\n\n{LOGS}"),
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// When to use colour: auto, always, never
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        hide_possible_values = true,
        display_order = 100
    )]
    pub color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one task and print the answer
    Run(run::RunArgs),
    /// Chat with an agent (the default command, with the same flags)
    Chat(chat::ChatArgs),
    /// Serve the web UI and the HTTP API
    Serve(serve::ServeArgs),
    /// Resume an interrupted or waiting run
    Resume(resume::ResumeArgs),
    /// Follow a run that another process drives
    Watch(watch::WatchArgs),
    /// Cancel a run
    Cancel(cancel::CancelArgs),
    /// List, show and answer open requests of runs
    Approvals(approvals::ApprovalsArgs),
    /// List, add and revoke grants, by which calls run without asking
    Grants(grants::GrantsArgs),
    /// Show or set which calls run without asking
    AutoRun(auto_run::AutoRunArgs),
    /// Edit the list of tools that `auto-run allowlist` allows
    Allow(auto_run::AllowArgs),
    /// List, show, export, fork and delete conversations, and end their commands
    Threads(threads::ThreadsArgs),
    /// Check the configuration, the store and the servers, with hints for repair
    Doctor(doctor::DoctorArgs),
    /// Check and test policy files, and explain decisions about calls
    Policy(policy::PolicyArgs),
    /// List, show and test the tools of agents
    Tools(tools::ToolsArgs),
    /// List, add, remove and test tool servers, sign in there, and use their prompts
    Mcp(mcp::McpArgs),
    /// Trust a folder's `windlass.toml` and `windlass.policy.toml`
    Trust(trust::TrustArgs),
    /// Manage users, keys, links and workspaces; audit, back up and restore the store
    Admin(admin::AdminArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
}

/// Inserts the default command `chat` if the command line has flags only.
pub fn with_command(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut line: Vec<OsString> = line.into_iter().collect();
    let mut at = 1;
    // `--color` is the only flag that may precede a command.
    while let Some(word) = line.get(at).and_then(|word| word.to_str()) {
        match word {
            "--color" => at += 2,
            _ if word.starts_with("--color=") => at += 1,
            _ => break,
        }
    }
    let first = line.get(at).map(|word| word.to_string_lossy().into_owned());
    let is_chat = match first.as_deref() {
        None => at <= line.len(),
        Some("-h" | "--help" | "-V" | "--version" | "--") => false,
        Some(word) => word.starts_with('-'),
    };
    if is_chat {
        line.insert(at, "chat".into());
    }
    line
}

pub async fn run(cli: Cli, console: &Console) -> anyhow::Result<Exit> {
    match cli.command {
        None => Box::pin(chat::run(console, &chat::ChatArgs::default())).await,
        Some(Command::Run(args)) => run::run(console, &args).await,
        Some(Command::Chat(args)) => Box::pin(chat::run(console, &args)).await,
        Some(Command::Serve(args)) => serve::run(console, &args).await,
        Some(Command::Admin(args)) => Box::pin(admin::run(console, &args)).await,
        Some(Command::Resume(args)) => Box::pin(resume::run(console, &args)).await,
        Some(Command::Watch(args)) => watch::run(console, &args).await,
        Some(Command::Cancel(args)) => cancel::run(console, &args).await,
        Some(Command::Approvals(args)) => Box::pin(approvals::run(console, &args)).await,
        Some(Command::Grants(args)) => grants::run(console, &args).await,
        Some(Command::AutoRun(args)) => auto_run::auto_run(console, &args).await,
        Some(Command::Allow(args)) => auto_run::allow(console, &args).await,
        Some(Command::Threads(args)) => threads::run(console, &args).await,
        Some(Command::Doctor(args)) => doctor::run(console, &args).await,
        Some(Command::Policy(args)) => policy::run(console, &args).await,
        Some(Command::Tools(args)) => Box::pin(tools::run(console, &args)).await,
        Some(Command::Mcp(args)) => mcp::run(console, &args).await,
        Some(Command::Trust(args)) => trust::run(console, &args),
        Some(Command::Completions(args)) => {
            completions::run(console, &args, &mut Cli::command());
            Ok(Exit::Done)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_alone_are_those_of_chat() {
        let with = |line: &str| {
            let words = line.split(' ').map(OsString::from);
            let words = with_command(words).into_iter().map(|word| word.into_string().unwrap());
            words.collect::<Vec<_>>().join(" ")
        };
        let cases = [
            ("w", "w chat"),
            ("w -m a/b --yes", "w chat -m a/b --yes"),
            ("w --thread run", "w chat --thread run"),
            ("w --color never", "w --color never chat"),
            ("w --color=never -y", "w --color=never chat -y"),
            ("w --color", "w --color"),
            ("w --color never run x", "w --color never run x"),
            ("w run -m a/b x", "w run -m a/b x"),
            ("w rnu", "w rnu"),
            ("w --help", "w --help"),
            ("w -V", "w -V"),
        ];
        for (line, wanted) in cases {
            assert_eq!(with(line), wanted);
        }
    }
}
