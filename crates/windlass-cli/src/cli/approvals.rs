//! `windlass approvals`: lists and answers the open interrupts of all runs in a store, from any terminal at any time.

mod columns;
mod find;
mod give;
mod word;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass::machine::{Answer, Content, InterruptKind};
use windlass_server::account::people::user::local;
use windlass_server::clock::now;
use windlass_server::http::outcome;
use windlass_server::text::{first_line, shown};
use windlass_server::trouble::{Exit, Trouble, explain};

use crate::cli::flags::{ListFlags, ModelFlags, OutputFlags, PlaceFlags};
use crate::console::Console;
use crate::editor::{Edited, edit};
use crate::place::{Ask, Consent, Ground, Place};
use crate::signals::{Signal, Signals};
use crate::view::call::span;
use crate::view::card::{Card, Light, title, word as kind_word};
use crate::view::question::{pretty, read};
use crate::view::story::backgrounds;

use columns::Columns;
use find::{Waiting, all, named};
use give::give;
use word::{AnswerArgs, fits};

pub use word::hints;

/// Maximum length of a request's title in the list, in characters.
const TITLE_CHARS: usize = 48;

#[derive(Args, Debug)]
pub struct ApprovalsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List open requests, newest first
    List {
        /// Maximum number of requests
        #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        list: ListFlags,
    },
    /// Show a request in full
    Show {
        /// The request's id, or the end of it [default: the only open one]
        #[arg(value_name = "ID")]
        id: Option<String>,
        /// Print the request as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: PlaceFlags,
    },
    /// Approve calls once, or answer questions with yes
    Approve {
        /// The requests' ids, or the ends of them; answers for one thread are submitted together [default: the only
        /// open one]
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        #[command(flatten)]
        go_on: GoOn,
    },
    /// Deny calls, or decline questions
    Deny {
        /// The requests' ids, or the ends of them; answers for one thread are submitted together [default: the only
        /// open one]
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        /// The reason, which the model sees
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        go_on: GoOn,
    },
    /// Approve a call with edited arguments
    Edit {
        /// The request's id, or the end of it [default: the only open one]
        #[arg(value_name = "ID")]
        id: Option<String>,
        /// The arguments: JSON, `@FILE`, or `-` for standard input [default: opens an editor]
        #[arg(long, value_name = "JSON")]
        arguments: Option<String>,
        #[command(flatten)]
        go_on: GoOn,
    },
    /// Answer a question, a call in doubt or a limit
    Answer {
        /// The request's id, or the end of it [default: the only open one]
        #[arg(value_name = "ID")]
        id: Option<String>,
        #[command(flatten)]
        answer: AnswerArgs,
        #[command(flatten)]
        go_on: GoOn,
    },
}

/// Flags for resuming the run after an answer.
#[derive(Args, Debug)]
struct GoOn {
    /// Only save the answer; the process that drives the run applies it
    #[arg(long)]
    no_drive: bool,
    #[command(flatten)]
    output: OutputFlags,
    /// Another address for the model's provider [default: as recorded with the run]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The variable with that provider's key [default: as recorded with the run]
    #[arg(long, value_name = "NAME")]
    api_key_env: Option<String>,
    #[command(flatten)]
    place: PlaceFlags,
}

pub async fn run(console: &Console, args: &ApprovalsArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Command::List { limit, list: ListFlags { json, place } } => {
            let place = open(console, place).await?;
            list(console, &place, (*limit).max(1), *json).await?;
            Ok(Exit::Done)
        }
        Command::Show { id, json, place } => {
            let place = open(console, place).await?;
            let waiting = named(console, &place, id.as_slice()).await?.remove(0);
            show(console, &place, &waiting, *json).await?;
            Ok(Exit::Done)
        }
        Command::Approve { ids, go_on } => {
            let yes = |kind: &InterruptKind| match kind {
                InterruptKind::Question(_) | InterruptKind::SignIn { .. } => Answer::Reply(Box::default()),
                _ => Answer::Approve, // tidy: what it does not fit refuses it
            };
            Box::pin(answer_each(console, go_on, ids, yes)).await
        }
        Command::Deny { ids, reason, go_on } => {
            let no = |_: &InterruptKind| Answer::Deny { reason: reason.clone() };
            Box::pin(answer_each(console, go_on, ids, no)).await
        }
        Command::Edit { id, arguments, go_on } => {
            Box::pin(edited(console, go_on, id.as_slice(), arguments.as_deref())).await
        }
        Command::Answer { id, answer, go_on } => {
            let answer = answer.read()?;
            Box::pin(answer_each(console, go_on, id.as_slice(), |kind| answer.for_kind(kind))).await
        }
    }
}

async fn open(console: &Console, flags: &PlaceFlags) -> anyhow::Result<Place> {
    Ground::find(console, flags, &ModelFlags::default(), Ask::Never)?.open_store().await
}

async fn list(console: &Console, place: &Place, limit: usize, json: bool) -> anyhow::Result<()> {
    let (waiting, more) = all(console, place, limit).await?;
    if json {
        waiting.iter().for_each(|waiting| console.out_json(&as_json(waiting).to_string()));
        return Ok(());
    }
    if waiting.is_empty() {
        console.note("no open requests");
        return Ok(());
    }
    let columns = Columns::of(&waiting, console.out_width());
    console.out_line(&console.out_paint.dim(&columns.head()));
    let now = now();
    for Waiting { open, .. } in &waiting {
        let expires = open.expires_at.map_or("-".to_owned(), |at| format!("in {}", span(at.since(now))));
        let cells = [kind_word(&open.kind), &title(open), &span(now.since(open.since)), &expires];
        console.out_line(&columns.row(cells, open.interrupt.as_str()));
    }
    if more {
        console.note(&format!("showing the newest {limit}; `--limit` shows more"));
    }
    Ok(())
}

fn as_json(waiting: &Waiting) -> Value {
    let mut value = json!({ "run": waiting.row.view.run, "thread": waiting.row.thread });
    if let (Some(all), Value::Object(open)) = (value.as_object_mut(), outcome::interrupt(&waiting.open)) {
        all.extend(open);
    }
    value
}

async fn show(console: &Console, place: &Place, waiting: &Waiting, json: bool) -> anyhow::Result<()> {
    if json {
        console.out_json(&as_json(waiting).to_string());
        return Ok(());
    }
    let open = &waiting.open;
    let background = backgrounds(&place.engine, &waiting.row.thread).await?.remove(&open.interrupt);
    let paint = console.out_paint;
    let light = Light { folder: &place.ground.folder, now: now(), paint };
    let card = Card::of(open, &background.unwrap_or_default(), light);
    console.out_line(&format!("{} {}", paint.yellow(card.word), paint.bold(&card.title)));
    let waits = format!("open for {} (run {})", span(light.now.since(open.since)), waiting.row.view.run);
    for note in std::iter::once(&waits).chain(&card.notes) {
        console.out_line(&format!("  {}", shown(note)));
    }
    for line in &card.lines {
        console.out_line(&format!("  {} {line}", paint.dim("│")));
    }
    for hint in hints(open, &local(), &place.ground) {
        console.hint(&hint);
    }
    Ok(())
}

/// Opens the place and resolves all requests before the command answers any of them.
async fn found(console: &Console, go_on: &GoOn, ids: &[String]) -> anyhow::Result<(Place, Vec<Waiting>)> {
    let model = ModelFlags {
        base_url: go_on.base_url.clone(),
        api_key_env: go_on.api_key_env.clone(),
        ..ModelFlags::default()
    };
    let ground = Ground::find(console, &go_on.place, &model, Ask::Never)?;
    // Resolve the ids with the store alone first: an unknown id starts no server.
    let place = ground.clone().open_store().await?;
    let all = named(console, &place, ids).await?;
    if let ([], [only]) = (ids, &all[..]) {
        // If the caller named no request, print which request is answered.
        let what = first_line(&title(&only.open), TITLE_CHARS);
        console.note(&format!("{} {what} ({})", kind_word(&only.open.kind), only.open.interrupt));
    }
    if go_on.no_drive {
        return Ok((place, all));
    }
    drop(place);
    let place = ground.open_to_resume(Consent::Ask).await.map_err(|error| {
        let hint = "`--no-drive` only saves the answer, for the process that resumes the run";
        anyhow::Error::from(explain(&error).hint(hint))
    })?;
    Ok((place, all))
}

async fn answer_each(
    console: &Console,
    go_on: &GoOn,
    ids: &[String],
    answer: impl Fn(&InterruptKind) -> Answer,
) -> anyhow::Result<Exit> {
    let (mut place, all) = found(console, go_on, ids).await?;
    let mut answers = Vec::new();
    for waiting in all {
        let answer = answer(&waiting.open.kind);
        fits(&waiting.open, &answer)?;
        answers.push((waiting, answer));
    }
    Box::pin(give(console, &mut place, go_on, answers)).await
}

async fn edited(console: &Console, go_on: &GoOn, id: &[String], text: Option<&str>) -> anyhow::Result<Exit> {
    let (mut place, mut all) = found(console, go_on, id).await?;
    let Some(waiting) = all.pop() else { return Ok(Exit::Failed) };
    let now = waiting.open.arguments.clone().unwrap_or_default();
    fits(&waiting.open, &Answer::Edit { arguments: Content::Inline(now.clone()) })?;
    let text = match text {
        Some(text) => word::source(text)?,
        None if !console.can_ask() => {
            return Err(Trouble::usage("editing requires a terminal")
                .hint("without one, pass the arguments with `--arguments JSON`, `@FILE` or `-`")
                .into());
        }
        None => {
            let mut signals = Signals::listen()?;
            let directory = place.ground.user.data.clone();
            match edit(&directory, waiting.open.interrupt.as_str(), &pretty(&now), &mut signals).await? {
                Edited::Text(text) => text,
                Edited::Left(Signal::End(code)) => return Ok(Exit::Signal(code)),
                Edited::Left(Signal::Interrupt) => return Ok(Exit::Interrupted),
            }
        }
    };
    let value = read(&text).map_err(|fault| Trouble::usage(fault).hint("nothing was changed; try again"))?;
    if Some(&value) == read(&now).ok().as_ref() {
        return Err(Trouble::usage("the arguments are unchanged")
            .hint(format!(
                "`windlass approvals approve {}` approves the call unchanged",
                waiting.open.interrupt
            ))
            .into());
    }
    let answer = Answer::Edit { arguments: Content::Inline(value.to_string()) };
    Box::pin(give(console, &mut place, go_on, vec![(waiting, answer)])).await
}
