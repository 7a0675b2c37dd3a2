//! `windlass answer`: answers what a run waits for, from any terminal, then goes on with the run.

use clap::{Args, ValueEnum};
use windlass::OpenInterrupt;
use windlass::machine::{Answer, AutoRun, InterruptKind, Principal, Seq};

use super::follow::{Consent, Follow, From, Sight, conclude};
use super::{ModelFlags, OutputFlags, PlaceFlags};
use crate::console::Console;
use crate::place::{Ask, Ground, Place};
use crate::signals::Signals;
use crate::trouble::{Exit, Trouble};

/// Arguments of `answer`.
#[derive(Args, Debug)]
pub struct AnswerArgs {
    /// The run, or the end of its id
    #[arg(value_name = "RUN")]
    run: String,
    /// What it waits for, or the end of its id
    #[arg(value_name = "INTERRUPT")]
    interrupt: String,
    /// approve or deny a call; done, retry or fail where its outcome is in doubt
    #[arg(value_enum, value_name = "ANSWER", hide_possible_values = true)]
    answer: Word,
    /// Why (deny, fail); told to the model
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// What came of it (done); told to the model
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,
    /// Only leave the answer; whoever drives the run takes it
    #[arg(long)]
    no_drive: bool,
    #[command(flatten)]
    output: OutputFlags,
    /// Another address for the model's provider
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The variable that holds that provider's key
    #[arg(long, value_name = "NAME")]
    api_key_env: Option<String>,
    #[command(flatten)]
    place: PlaceFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Word {
    Approve,
    Deny,
    Done,
    Retry,
    Fail,
}

/// Runs `answer`.
pub async fn run(console: &Console, args: &AnswerArgs) -> anyhow::Result<Exit> {
    let answer = answer(args)?;
    let model = ModelFlags {
        base_url: args.base_url.clone(),
        api_key_env: args.api_key_env.clone(),
        ..ModelFlags::default()
    };
    let ground = Ground::find(console, &args.place, &model, Ask::Never)?;
    let mut place = ground.open(&[], AutoRun::Ask).await?;
    let row = place.find_run(Some(&args.run)).await?;
    let open = find(&place, &row.thread, args).await?;
    fits(&open, args.answer)?;
    let by = Principal::from("local");
    if args.no_drive {
        place.engine.leave_answer(&row.thread, &open.interrupt, answer, by).await?;
        console.note("the answer is kept; whoever drives the run takes it");
        console.hint(&format!("`windlass resume {}{}` goes on", row.view.run, place.ground.same_flags()));
        return Ok(Exit::Done);
    }
    place.prepare(console, &row.view.model)?;
    let mut signals = Signals::listen()?;
    let seq = place.engine.answer(&row.thread, &open.interrupt, answer, by).await?;
    let sight = Sight::of(console, args.output);
    let ids = (row.thread.clone(), row.view.run.clone());
    let follow = Follow::new(console, &place, &mut signals, ids, sight, Consent::Ask);
    let end = follow.follow_through(From {
        after: Seq(row.view.from.0.saturating_sub(1)),
        past: Seq(seq.0.saturating_sub(1)),
    });
    conclude(console, args.output, end.await?)
}

fn answer(args: &AnswerArgs) -> Result<Answer, Trouble> {
    let unused = |flag: &str| Trouble::usage(format!("`{flag}` does not go with this answer"));
    let takes_reason = matches!(args.answer, Word::Deny | Word::Fail);
    if args.reason.is_some() && !takes_reason {
        return Err(unused("--reason").hint("`deny` and `fail` take a reason"));
    }
    if args.result.is_some() && args.answer != Word::Done {
        return Err(unused("--result").hint("`done` takes a result"));
    }
    Ok(match args.answer {
        Word::Approve => Answer::Approve,
        Word::Deny => Answer::Deny { reason: args.reason.clone() },
        Word::Retry => Answer::Retry,
        Word::Fail => Answer::Fail { reason: args.reason.clone() },
        Word::Done => {
            let result = args.result.clone().ok_or_else(|| {
                Trouble::usage("`done` needs the call's result")
                    .hint("`--result TEXT`; it is told to the model")
            })?;
            Answer::Done { result }
        }
    })
}

async fn find(
    place: &Place,
    thread: &windlass::machine::ThreadId,
    args: &AnswerArgs,
) -> anyhow::Result<OpenInterrupt> {
    let open = place.engine.interrupts(thread).await?;
    let mut found = open.iter().filter(|open| open.interrupt.as_str().ends_with(&args.interrupt));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one.clone()),
        (Some(_), Some(_)) => {
            Err(Trouble::usage(format!("`{}` is the end of several interrupts' ids", args.interrupt))
                .hint("give more of it")
                .into())
        }
        (None, _) => {
            let trouble = Trouble::usage(format!("the run does not wait for `{}`", args.interrupt));
            let known: Vec<_> = open.iter().map(|open| format!("`{}`", open.interrupt)).collect();
            Err(match known.is_empty() {
                true => trouble.hint("it waits for nothing; perhaps it was answered already"),
                false => trouble.hint(format!("it waits for {}", known.join(", "))),
            }
            .into())
        }
    }
}

fn fits(open: &OpenInterrupt, word: Word) -> Result<(), Trouble> {
    let (takes, words) = match open.kind {
        InterruptKind::Approval { .. } => (matches!(word, Word::Approve | Word::Deny), "`approve` or `deny`"),
        InterruptKind::InDoubt { .. } => {
            (matches!(word, Word::Done | Word::Retry | Word::Fail), "`done`, `retry` or `fail`")
        }
    };
    if takes {
        return Ok(());
    }
    Err(Trouble::usage(format!("`{}` takes {words}", open.interrupt)))
}
