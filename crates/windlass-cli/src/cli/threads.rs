//! `windlass threads`: the conversations of a store: listed, shown, exported, forked, deleted, and what they have at
//! work.

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

/// Characters of a title in the list.
const TITLE_CHARS: usize = 44;

/// Arguments of `threads`.
#[derive(Args, Debug)]
pub struct ThreadsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List them, newest first
    List {
        /// At most so many
        #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
        limit: usize,
        #[command(flatten)]
        list: ListFlags,
    },
    /// Show what was said and done
    Show {
        /// The thread, or the end of its id [default: the newest]
        thread: Option<String>,
        #[command(flatten)]
        place: PlaceFlags,
    },
    /// Write all its events, one line of JSON each
    Export {
        /// The thread, or the end of its id [default: the newest]
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
    /// Begin another with what was said and done until some place
    Fork(fork::ForkArgs),
    /// The commands that it has at work in the background, in whichever process
    Commands(commands::CommandsArgs),
    /// Delete it with all that it holds
    Delete {
        /// The thread, or the end of its id
        thread: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        place: PlaceFlags,
    },
}

/// Runs `threads`.
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

/// How long ago something was.
pub fn age(now: Timestamp, then: Timestamp) -> String {
    match now.since(then) / 1000 {
        0..60 => "now".to_owned(),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// What a thread does, in a word.
pub fn thread_word(status: ThreadStatus) -> &'static str {
    match status {
        ThreadStatus::Idle => "idle",
        ThreadStatus::Running => "running",
        ThreadStatus::Waiting => "waiting",
        ThreadStatus::Sleeping => "sleeping",
    }
}

/// How a run stands, in a word.
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

/// How a run ended, in a word.
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
        // A file gets the text as it is, and so does whoever reads it through a pipe.
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
            return Err(Trouble::usage("deleting asks on a terminal")
                .hint("`--yes` deletes without asking")
                .into());
        }
        console.err(&format!("Delete `{}` ({thread}) for good? [y/N] ", shown(&title)));
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
