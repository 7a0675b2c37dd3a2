//! `windlass threads`: lists, shows, exports, forks and deletes the conversations of a store, and lists their
//! background commands.

mod commands;
mod fork;

use std::io::BufRead;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use futures::StreamExt;
use windlass::Status;
use windlass::machine::{RunStatus, ThreadId, Timestamp};
use windlass::port::journal::{ThreadQuery, ThreadRow, ThreadStatus};
use windlass_server::clock::now;
use windlass_server::text::{first_line, shown, shown_line, tame_json};
use windlass_server::trouble::{Exit, Trouble};

use crate::cli::flags::{ListFlags, ModelFlags, PlaceFlags};
use crate::console::Console;
use crate::place::{Ask, Ground, Place};
use crate::view::transcript::{self, Form};

/// Maximum length of a title in the list, in characters.
const TITLE_CHARS: usize = 44;

#[derive(Args, Debug)]
pub struct ThreadsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List conversations, newest first
    List {
        /// Maximum number of conversations
        #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
        limit: usize,
        #[command(flatten)]
        list: ListFlags,
    },
    /// Show the messages and calls of a conversation
    Show {
        /// The thread's id, or the end of it [default: the newest]
        thread: Option<String>,
        #[command(flatten)]
        place: PlaceFlags,
    },
    /// Print all events of a conversation, one line of JSON each
    Export {
        /// The thread's id, or the end of it [default: the newest]
        thread: Option<String>,
        /// Write the conversation as Markdown instead
        #[arg(long)]
        markdown: bool,
        /// Write to a file
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        place: PlaceFlags,
    },
    /// Create a new conversation from an earlier position of this one
    Fork(fork::ForkArgs),
    /// List the background commands of a conversation, in all processes
    Commands(commands::CommandsArgs),
    /// Delete a conversation with all of its data
    Delete {
        /// The thread's id, or the end of it
        thread: String,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        place: PlaceFlags,
    },
}

pub async fn run(console: &Console, args: &ThreadsArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Command::List { limit, list: ListFlags { json, place } } => {
            let place = open(console, place).await?;
            let query = ThreadQuery { limit: (*limit).max(1), ..ThreadQuery::default() };
            list(console, &place.engine.threads(&query).await?, *json);
        }
        Command::Show { thread, place } => {
            let place = open(console, place).await?;
            let thread = place.find_thread(thread.as_deref()).await?;
            console.out(&transcript::write(console, &place.engine, &thread, Form::Plain).await?);
        }
        Command::Export { thread, markdown, output, place } => {
            let place = open(console, place).await?;
            let thread = place.find_thread(thread.as_deref()).await?;
            export(console, &place, &thread, *markdown, output.as_ref()).await?;
        }
        Command::Commands(args) => commands::run(console, args).await?,
        Command::Fork(args) => return fork::run(console, args).await,
        Command::Delete { thread, yes, place } => {
            let place = open(console, place).await?;
            let thread = place.find_thread(Some(thread)).await?;
            return delete(console, &place, &thread, *yes).await;
        }
    }
    Ok(Exit::Done)
}

async fn open(console: &Console, flags: &PlaceFlags) -> anyhow::Result<Place> {
    Ground::find(console, flags, &ModelFlags::default(), Ask::Never)?.open_store().await
}

fn list(console: &Console, rows: &[ThreadRow], json: bool) {
    if json {
        for row in rows {
            if let Ok(line) = serde_json::to_string(row) {
                console.out_json(&line);
            }
        }
        return;
    }
    if rows.is_empty() {
        console.note("no threads yet");
        console.hint("`windlass run` or `windlass chat` starts one");
        return;
    }
    let now = now();
    let head = format!("{:<TITLE_CHARS$}  {:<8}  {:>9}  ID", "TITLE", "STATUS", "AGE");
    console.out_line(&console.out_paint.dim(&head));
    for row in rows {
        let title = first_line(&shown(row.view.title.as_deref().unwrap_or("(no title)")), TITLE_CHARS - 1);
        let status = thread_word(row.view.status);
        console.out_line(&format!(
            "{title:<TITLE_CHARS$}  {status:<8}  {:>9}  {}",
            age(now, row.view.updated_at),
            row.thread
        ));
    }
}

/// Formats the time since `then`, such as `5 min`.
pub fn age(now: Timestamp, then: Timestamp) -> String {
    match now.since(then) / 1000 {
        0..60 => "now".to_owned(),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// Returns the displayed name of a thread's status.
pub fn thread_word(status: ThreadStatus) -> &'static str {
    match status {
        ThreadStatus::Idle => "idle",
        ThreadStatus::Running => "running",
        ThreadStatus::Waiting => "waiting",
        ThreadStatus::Sleeping => "sleeping",
    }
}

/// Returns the displayed name of a run's current status.
pub fn status_word(status: Status) -> &'static str {
    match status {
        Status::Queued => "queued",
        Status::Running => "running",
        Status::Paused => "waiting",
        Status::Done => "done",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
    }
}

/// Returns the displayed name of a finished run's status.
pub fn run_word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Done => "done",
        RunStatus::Failed => "failed",
        RunStatus::Cancelled => "cancelled",
    }
}

async fn export(
    console: &Console,
    place: &Place,
    thread: &ThreadId,
    markdown: bool,
    output: Option<&PathBuf>,
) -> anyhow::Result<()> {
    let text = if markdown {
        transcript::write(console, &place.engine, thread, Form::Markdown).await?
    } else {
        let mut lines = String::new();
        let mut exported = place.engine.thread(thread).export();
        while let Some(line) = exported.next().await {
            lines.push_str(&tame_json(line?.trim_end()));
            lines.push('\n');
        }
        lines
    };
    let Some(path) = output else {
        // A file or a pipe receives the unescaped text.
        console.out(&if console.out_terminal { shown(&text) } else { text.into() });
        return Ok(());
    };
    std::fs::write(path, text).map_err(|error| {
        Trouble::engine(format!("cannot write `{}`: {error}", path.display()))
            .hint("name another file with `--output`")
    })?;
    console.note(&format!("written to `{}`", shown_line(&path.display().to_string())));
    Ok(())
}

async fn delete(console: &Console, place: &Place, thread: &ThreadId, yes: bool) -> anyhow::Result<Exit> {
    let row = place.engine.thread(thread).row().await?;
    let title = row.view.title.unwrap_or_else(|| "(no title)".into());
    if !yes {
        if !console.can_ask() {
            return Err(Trouble::usage("deletion requires confirmation in a terminal")
                .hint("`--yes` deletes without asking")
                .into());
        }
        console.err(&format!("Delete `{}` ({thread}) permanently? [y/N] ", shown(&title)));
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        if read.is_err() || !matches!(line.trim(), "y" | "Y" | "yes") {
            console.note("kept");
            return Ok(Exit::Failed);
        }
    }
    place.engine.thread(thread).delete().await?;
    console.note(&format!("deleted `{}` ({thread})", shown(&title)));
    Ok(Exit::Done)
}
