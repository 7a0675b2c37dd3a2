//! Submits answers, then resumes the runs that the answers belong to.

use std::collections::BTreeMap;

use windlass::machine::{Answer, Given, Seq};
use windlass::port::journal::ThreadStatus;
use windlass_server::trouble::Exit;

use super::GoOn;
use super::find::Waiting;
use crate::cli::follow::{Follow, From, Sight, conclude};
use crate::console::Console;
use crate::place::Place;
use crate::signals::Signals;

/// Submits the answers, one batch per thread, then resumes the runs.
pub async fn give(
    console: &Console,
    place: &mut Place,
    go_on: &GoOn,
    answers: Vec<(Waiting, Answer)>,
) -> anyhow::Result<Exit> {
    let mut batches: BTreeMap<String, (Waiting, Vec<Given>)> = BTreeMap::new();
    for (waiting, answer) in answers {
        let given = waiting.given(answer);
        let batch = batches.entry(waiting.row.thread.to_string());
        batch.or_insert_with(|| (waiting, Vec::new())).1.push(given);
    }
    let mut exit = Exit::Done;
    if go_on.no_drive {
        for (waiting, given) in batches.into_values() {
            leave(console, place, &waiting, given).await?;
        }
        return Ok(exit);
    }
    // All answers are submitted before any run is followed.
    let (mut taken, mut apart) = (Vec::new(), Vec::new());
    let mut failed = None;
    for (waiting, given) in batches.into_values() {
        if !place.reaches_alike(&waiting.row).await? {
            place.leave_answers(&waiting.row.thread, given).await?;
            apart.push(waiting);
            continue;
        }
        let id = waiting.open.interrupt.clone();
        let answered = match place.prepare(console, &waiting.row).await {
            Ok(()) => {
                let answered = place.answer(&waiting.row.thread, given, Vec::new()).await;
                answered.map(|(accepted, _)| accepted.seq).map_err(anyhow::Error::from)
            }
            Err(error) => Err(error),
        };
        match answered {
            Ok(seq) => taken.push((waiting, seq)),
            Err(error) if failed.is_none() => failed = Some(error),
            Err(error) => console.warn(&format!("`{id}` was not answered: {error}"), &[]),
        }
    }
    for (waiting, seq) in taken {
        let ended = drive(console, place, go_on, &waiting, seq).await?;
        if exit == Exit::Done {
            exit = ended;
        }
        if ended == Exit::Interrupted {
            return failed.map_or(Ok(exit), Err);
        }
    }
    for waiting in apart {
        let ended = drive_apart(console, place, go_on, &waiting).await?;
        if exit == Exit::Done {
            exit = ended;
        }
        if ended == Exit::Interrupted {
            break;
        }
    }
    failed.map_or(Ok(exit), Err)
}

/// Resumes a run with a separate engine, because it reaches its provider differently from the other runs.
/// The answer is already in the inbox.
async fn drive_apart(
    console: &Console,
    place: &Place,
    go_on: &GoOn,
    waiting: &Waiting,
) -> anyhow::Result<Exit> {
    let row = &waiting.row;
    let mut place = Box::pin(place.open_again()).await?;
    place.prepare(console, row).await?;
    let head = place.engine.thread(&row.thread).row().await?.head;
    place.engine.run(&row.view.run).resume().await?;
    drive(console, &mut place, go_on, waiting, Seq(head.0.saturating_add(1))).await
}

async fn leave(
    console: &Console,
    place: &Place,
    waiting: &Waiting,
    given: Vec<Given>,
) -> anyhow::Result<Exit> {
    place.leave_answers(&waiting.row.thread, given).await?;
    console.note("the answer is saved; the process that drives the run applies it");
    let (run, flags) = (&waiting.row.view.run, place.ground.same_flags());
    console.hint(&format!("`windlass resume {run}{flags}` resumes the run"));
    Ok(Exit::Done)
}

/// Follows a run that was prepared before its answer was submitted. The run may have ended meanwhile.
async fn drive(
    console: &Console,
    place: &mut Place,
    go_on: &GoOn,
    waiting: &Waiting,
    seq: Seq,
) -> anyhow::Result<Exit> {
    let row = &waiting.row;
    let mut signals = Signals::listen()?;
    // Read `is_driven` before the status. If this process drives the run and the run stops between
    // the two reads, no process drives it.
    let drives = place.engine.thread(&row.thread).is_driven();
    let status = place.engine.thread(&row.thread).row().await?.view.status;
    if status == ThreadStatus::Running && !drives {
        console.note("the answer was accepted; another process drives the run");
        console.hint(&format!("`windlass watch {}{}` follows it", row.view.run, place.ground.same_flags()));
        return Ok(Exit::Done);
    }
    let sight = Sight::of(console, go_on.output);
    let (thread, run) = (row.thread.clone(), row.view.run.clone());
    let follow = Follow::new(console, place, &mut signals, thread, run, sight);
    let end = follow.follow_through(From {
        after: Seq(row.view.from.0.saturating_sub(1)),
        past: Seq(seq.0.saturating_sub(1)),
    });
    conclude(console, go_on.output, end.await?)
}
