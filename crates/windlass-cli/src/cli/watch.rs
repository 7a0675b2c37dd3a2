//! `windlass watch`: follows a run of another process, also when another process takes
//! the run over. Never drives the run.

use clap::Args;
use futures::StreamExt;
use windlass::machine::{Fact, Seq};
use windlass::port::journal::{RunRow, ThreadStatus};
use windlass::{Outcome, Status, Update};
use windlass_server::http::stream::json;
use windlass_server::trouble::{Exit, Trouble};

use super::follow::{End, Sight, conclude};
use crate::cli::flags::{ModelFlags, OutputFlags, PlaceFlags};
use crate::console::Console;
use crate::place::{Ask, Ground, Place};
use crate::signals::{Signal, Signals};

/// The section on lines of JSON in `--help`.
const LINES: &str = "\
Lines of `--stream-json`:
  {\"seq\":7,\"type\":\"step.started\",…}               an event; `seq` has no gaps
  {\"seq\":7,\"delta\":1,\"type\":\"message.delta\",…}    a live fragment of the reply to step.started 7
  {\"seq\":7,\"delta\":9,\"type\":\"message.snapshot\",…} that reply so far, replacing its fragments up to 9
  {\"type\":\"thread.status\",…}                        the thread's status after the events so far
  {\"type\":\"outcome\",…}                              the last line: the run's outcome
Fragments are numbered from 1 after each step.started. step.replied has the complete reply; until
then its text is the last snapshot, if any, and the fragments after it. step.failed discards them.
A disconnected client resumes with `--after` and the `seq` of its last event.

Exit codes are those of `run`.";

#[derive(Args, Debug)]
#[command(after_help = LINES)]
pub struct WatchArgs {
    /// The run's id, or the end of it [default: the newest unfinished run]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Show only what follows this event [default: the run from its start]
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Also end when the run waits for an answer
    #[arg(long)]
    until_waiting: bool,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    place: PlaceFlags,
}

pub async fn run(console: &Console, args: &WatchArgs) -> anyhow::Result<Exit> {
    let ground = Ground::find(console, &args.place, &ModelFlags::default(), Ask::Never)?;
    let place = ground.open_store().await?;
    let row = place.find_run(args.run.as_deref()).await?;
    let head = place.engine.thread(&row.thread).row().await?.head;
    let after = args.after.map_or(Seq(row.view.from.0.saturating_sub(1)), Seq);
    if after > head {
        let message = format!("`--after {after}`: the thread ends at event {head}");
        return Err(Trouble::usage(message).hint("`--after` takes the `seq` of an event").into());
    }
    let mut watch = Watch { place: &place, row, head, sight: Sight::of(console, args.output), console };
    let end = watch.follow_to_end(after, args.until_waiting).await?;
    conclude(console, args.output, end)
}

struct Watch<'a> {
    console: &'a Console,
    place: &'a Place,
    /// The run's row when watching began.
    row: RunRow,
    /// The position of the thread's last event when watching began.
    head: Seq,
    sight: Sight,
}

impl Watch<'_> {
    async fn follow_to_end(&mut self, after: Seq, until_waiting: bool) -> anyhow::Result<End> {
        let mut signals = Signals::listen()?;
        if self.has_ended() && after >= self.head {
            return self.outcome().await;
        }
        let mut updates = self.place.engine.thread(&self.row.thread).watch(after);
        loop {
            let update = tokio::select! {
                biased;
                // Ctrl-C only stops watching, because the run belongs to another process.
                signal = signals.next() => return Ok(End::Left(self.left(signal))),
                update = updates.next() => update,
            };
            let Some(update) = update.transpose()? else {
                return Err(windlass::EngineError::NoRun(self.row.view.run.clone()).into());
            };
            self.show(&update).await?;
            if until_waiting && matches!(update, Update::Status(ThreadStatus::Waiting)) {
                // Read the status again: the run may have been answered meanwhile, or another run may be waiting.
                let outcome = self.place.engine.run(&self.row.view.run).status().await?;
                if outcome.status == Status::Paused {
                    return Ok(self.ended(outcome));
                }
            }
            let over = match &update {
                Update::Event(recorded) => {
                    let mine = recorded.event.run.as_ref() == Some(&self.row.view.run);
                    let finished = mine && matches!(recorded.event.fact, Fact::RunFinished { .. });
                    finished || self.has_ended() && recorded.seq >= self.head
                }
                // Another process may resume the run at any time.
                Update::Stopped { .. } | Update::Status(_) => false,
                Update::Delta { .. } | Update::Snapshot { .. } | Update::Progress { .. } => false,
            };
            if over {
                return self.outcome().await;
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.row.view.status.is_some()
    }

    async fn show(&mut self, update: &Update) -> anyhow::Result<()> {
        let engine = &self.place.engine;
        match &mut self.sight {
            Sight::Lines => self.console.out_json(&json::update(engine, update).await?.to_string()),
            Sight::People(live) => live.update(engine, update).await?,
        }
        Ok(())
    }

    async fn outcome(&mut self) -> anyhow::Result<End> {
        let outcome = self.place.engine.run(&self.row.view.run).status().await?;
        Ok(self.ended(outcome))
    }

    fn ended(&mut self, outcome: Outcome) -> End {
        match &mut self.sight {
            Sight::Lines => self.console.out_json(&json::outcome(&outcome).to_string()),
            Sight::People(live) => live.end(&outcome),
        }
        End::Outcome(Box::new(outcome))
    }

    fn left(&mut self, signal: Signal) -> Exit {
        if let Sight::People(live) = &mut self.sight {
            live.pause();
        }
        match signal {
            Signal::Interrupt => Exit::Interrupted,
            Signal::End(code) => Exit::Signal(code),
        }
    }
}
