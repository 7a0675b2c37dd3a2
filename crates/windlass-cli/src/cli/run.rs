//! `windlass run`: executes one task and prints the answer.

mod piped;

use std::io::{IsTerminal, Read};
use std::path::PathBuf;

use clap::Args;
use windlass::machine::{AtLimit, Seq};
use windlass_server::trouble::{EXIT_CODES, Exit, Trouble};

use super::follow::{Follow, From, Sight, conclude};
use crate::cli::flags::{ModeFlag, ModelFlags, OutputFlags, PlaceFlags};
use crate::console::Console;
use crate::place::{Ask, Consent, Ground};
use crate::signals::Signals;

/// Maximum size of a task in bytes. A larger text is a document, which belongs in a file that the agent reads.
const TASK_MAX_BYTES: u64 = 1024 * 1024;

#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct RunArgs {
    /// The task; `-` reads it from standard input. Beside a task, piped input is attached to it
    #[arg(value_name = "TASK", conflicts_with = "file")]
    task: Option<String>,
    /// Read the task from a file
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Send the task to the folder's newest conversation; an active run finishes first
    #[arg(long = "continue", short = 'c', conflicts_with = "thread")]
    continues: bool,
    /// Send the task to this conversation: its id, or the end of it
    #[arg(long, value_name = "THREAD")]
    thread: Option<String>,
    /// Approve every call automatically, except those a rule denies or reserves for another approver
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    mode: ModeFlag,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    place: PlaceFlags,
}

pub async fn run(console: &Console, args: &RunArgs) -> anyhow::Result<Exit> {
    let (text, source) = task_text(args)?;
    let mut ground = Ground::find(console, &args.place, &args.model, Ask::OnTerminal)?;
    let models = ground.settings.models.clone();
    ground.reach(console, &models[0])?;
    let piped = match source {
        Source::Arguments => piped::read(console, ground.settings.files.max_bytes()).await?,
        Source::StandardInput => None,
    };
    let consent = Consent::of(args.yes);
    let place = ground.open(&models, consent).await?;
    let agent = place.agent(console)?;
    let thread = match &args.thread {
        None if !args.continues => None,
        None => Some(place.newest_thread_here().await?),
        Some(thread) => Some(place.find_thread(Some(thread)).await?),
    };
    let mut signals = Signals::listen()?;
    let mut task = place.task(&agent, text);
    task.thread.clone_from(&thread);
    if let Some(bytes) = piped {
        task.message.blocks.push(piped::attach(console, &place, bytes).await?);
    }
    let asks = console.can_ask() && !args.output.stream_json;
    task.options.mode = args.mode.mode;
    task.options.at_limit = Some(if asks { AtLimit::Ask } else { AtLimit::Fail });
    let started = place.engine.start(task).await?;
    if !args.output.stream_json {
        let line = format!("run {} with {}", started.run, agent.models[0]);
        console.note(&console.paint.dim(&line));
    }
    let sight = Sight::of(console, args.output);
    let mut follow = Follow::new(console, &place, &mut signals, started.thread, started.run, sight);
    if thread.is_some() {
        follow = follow.of_message();
    }
    let from = From { after: Seq(started.seq.0.saturating_sub(1)), past: Seq(0) };
    let end = follow.follow_through(from).await?;
    conclude(console, args.output, end)
}

/// The source of the task.
enum Source {
    Arguments,
    StandardInput,
}

fn task_text(args: &RunArgs) -> Result<(String, Source), Trouble> {
    let read_input = || {
        let read = bounded(std::io::stdin().lock(), "standard input");
        read.map(|text| (text, Source::StandardInput))
    };
    let (text, source) = match (&args.task, &args.file) {
        (_, Some(path)) => {
            let file = std::fs::File::open(path).map_err(|error| {
                Trouble::usage(format!("cannot read the task from `{}`: {error}", path.display()))
            })?;
            (bounded(file, &path.display().to_string())?, Source::Arguments)
        }
        (Some(task), None) if task != "-" => (task.clone(), Source::Arguments),
        (Some(_), None) => read_input()?,
        (None, None) if !std::io::stdin().is_terminal() => read_input()?,
        (None, None) => (String::new(), Source::Arguments),
    };
    if text.trim().is_empty() {
        return Err(Trouble::usage("no task given")
            .hint("`windlass run \"Read data.csv and write three insights to insights.md\"`"));
    }
    Ok((text.trim().to_owned(), source))
}

fn bounded(source: impl Read, name: &str) -> Result<String, Trouble> {
    let failed = |error: std::io::Error| Trouble::usage(format!("cannot read the task from {name}: {error}"));
    let mut text = String::new();
    source.take(TASK_MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > TASK_MAX_BYTES {
        return Err(Trouble::usage(format!("the task from {name} is larger than {TASK_MAX_BYTES} bytes"))
            .hint("put it into a file in the working folder, and name the file in the task"));
    }
    Ok(text)
}
