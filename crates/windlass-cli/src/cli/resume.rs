//! `windlass resume`: resumes a run, or prints the outcome of a finished one.

use clap::Args;
use windlass::machine::Seq;
use windlass::port::journal::ThreadStatus;
use windlass_server::http::stream::json;
use windlass_server::trouble::{EXIT_CODES, Exit};

use super::follow::{End, Follow, From, Sight, conclude};
use crate::cli::flags::{ModelFlags, OutputFlags, PlaceFlags};
use crate::console::Console;
use crate::place::{Ask, Consent, Ground};
use crate::signals::Signals;
use crate::view::live::{Live, Show};

#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct ResumeArgs {
    /// The run's id, or the end of it [default: the newest unfinished run]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Approve every call automatically, except those a rule denies or reserves for another approver; a call in doubt
    /// still waits
    #[arg(long, short)]
    yes: bool,
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

pub async fn run(console: &Console, args: &ResumeArgs) -> anyhow::Result<Exit> {
    let model = ModelFlags {
        base_url: args.base_url.clone(),
        api_key_env: args.api_key_env.clone(),
        ..ModelFlags::default()
    };
    let consent = Consent::of(args.yes);
    let ground = Ground::find(console, &args.place, &model, Ask::OnTerminal)?;
    // Look up the run first, because a finished run needs no tool server.
    let found = Box::pin(ground.with_run(console, args.run.as_deref(), Ask::OnTerminal)).await?;
    let (ground, looked, row) = found;
    if row.view.status.is_some() {
        return finished(console, args, &looked, &row.view.run).await;
    }
    drop(looked);
    let mut place = ground.open_to_resume(consent).await?;
    place.prepare(console, &row).await?;
    let mut signals = Signals::listen()?;
    let past = place.engine.thread(&row.thread).row().await?.head;
    place.engine.run(&row.view.run).resume().await?;
    if !args.output.stream_json {
        let thread = place.engine.thread(&row.thread).row().await?;
        let verb = match (place.engine.thread(&row.thread).is_driven(), thread.view.status) {
            (_, ThreadStatus::Waiting) | (true, _) | (false, ThreadStatus::Idle) => "resuming",
            (false, ThreadStatus::Running) => "another process drives it; following",
            (false, ThreadStatus::Sleeping) => "waiting for the timer of",
        };
        console.note(&console.paint.dim(&format!("{verb} run {} ({})", row.view.run, row.view.model)));
    }
    let (thread, run) = (row.thread.clone(), row.view.run.clone());
    let sight = Sight::of(console, args.output);
    let follow = Follow::new(console, &place, &mut signals, thread, run, sight);
    let end = follow.follow_through(From { after: Seq(row.view.from.0.saturating_sub(1)), past }).await?;
    conclude(console, args.output, end)
}

/// Prints the outcome of a run that has already ended.
async fn finished(
    console: &Console,
    args: &ResumeArgs,
    place: &crate::place::Place,
    run: &windlass::machine::RunId,
) -> anyhow::Result<Exit> {
    let outcome = place.engine.run(run).status().await?;
    if args.output.stream_json {
        console.out_json(&json::outcome(&outcome).to_string());
    } else {
        console.note(&console.paint.dim(&format!("run {run} has already ended")));
        let show = match (args.output.json, console.out_terminal) {
            (true, _) => Show::Progress,
            (false, true) => Show::Terminal,
            (false, false) => Show::Answer,
        };
        Live::new(console, show).end(&outcome);
    }
    conclude(console, args.output, End::Outcome(Box::new(outcome)))
}
