//! Follows a run to its end: displays its progress, prompts the user for answers, and handles Ctrl-C.
//!
//! Following does not drive the run, so a run that the user stops following can be resumed later.

mod ask;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use windlass::machine::{Fact, InterruptId, Queued, RunId, Seq, State, ThreadId, Waiting};
use windlass::port::journal::{Recorded, ThreadStatus};
use windlass::{AgentConfig, EngineError, Outcome, Status, Update};
use windlass_server::account::people::user::local;
use windlass_server::http::outcome::RunOutcome;
use windlass_server::http::stream::json;
use windlass_server::text::{first_line, shown};
use windlass_server::trouble::{Exit, explain};

use crate::console::Console;
use crate::keyboard::{Keyboard, Typed};
use crate::place::Place;
use crate::screen::ChatScreen;
use crate::signals::{Signal, Signals};
use crate::view::live::{Live, Show};
use crate::view::question::Asking;

use crate::cli::flags::OutputFlags;

/// Interval at which the status line is refreshed.
const TICK: Duration = Duration::from_millis(250);

/// Interval at which the state of the run's driver is checked.
const TEND: Duration = Duration::from_secs(1);

/// Maximum number of checks, one per tick, for whether a waiting run's driver is still processing inputs.
const LOOKS: u32 = 8;

/// Maximum length of a queued message in the output, in characters.
const ECHO_CHARS: usize = 60;

/// The output format.
pub enum Sight {
    /// Text for a person or a log.
    People(Box<Live>),
    /// One JSON object per line, for a program.
    Lines,
}

impl Sight {
    /// Selects the format by the output flags.
    pub fn of(console: &Console, output: OutputFlags) -> Self {
        if output.stream_json {
            return Self::Lines;
        }
        let show = match (output.json, console.out_terminal) {
            (true, _) => Show::Progress,
            (false, true) => Show::Terminal,
            (false, false) => Show::Answer,
        };
        Self::People(Box::new(Live::new(console, show)))
    }
}

pub enum End {
    /// The run has ended or waits.
    Outcome(Box<Outcome>),
    /// The user stopped following the run, which is unfinished.
    Left(Exit),
    /// The user did not answer the question in a chat: the run keeps waiting, and the chat continues.
    Kept,
}

/// The chat that receives the input while a run is followed.
pub struct Typing<'a> {
    /// The agent that receives the messages.
    pub agent: AgentConfig,
    /// Messages that were typed but not sent, oldest first.
    pub unsent: &'a mut Vec<String>,
}

pub struct Follow<'a> {
    console: &'a Console,
    place: &'a Place,
    signals: &'a mut Signals,
    thread: ThreadId,
    run: RunId,
    sight: Sight,
    /// Whether to withdraw the run's queued message if the run before it does not complete.
    takes_back: bool,
    /// The chat that receives the input; `None` outside of a chat.
    chat: Option<Typing<'a>>,
    keyboard: Option<Keyboard>,
    open: Vec<InterruptId>,
    asking: Option<Asking>,
    waiting: bool,
    /// The last event that was displayed.
    seen: Seq,
    looks: u32,
    interrupts: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct From {
    /// Position after which updates are displayed.
    pub after: Seq,
    /// Position up to which events are summarized.
    pub past: Seq,
}

impl<'a> Follow<'a> {
    pub fn new(
        console: &'a Console,
        place: &'a Place,
        signals: &'a mut Signals,
        thread: ThreadId,
        run: RunId,
        sight: Sight,
    ) -> Self {
        Self {
            console,
            place,
            signals,
            thread,
            run,
            sight,
            takes_back: false,
            chat: None,
            keyboard: None,
            open: Vec::new(),
            asking: None,
            waiting: false,
            seen: Seq::default(),
            looks: 0,
            interrupts: 0,
        }
    }

    /// Marks the run's message as just sent. The command withdraws the message if an earlier run does not complete.
    pub fn of_message(mut self) -> Self {
        self.takes_back = true;
        self
    }

    /// Sends lines that the user types during the run to this chat's agent.
    pub fn in_chat(mut self, typing: Typing<'a>) -> Self {
        self.chat = Some(typing);
        self.open_keyboard();
        self
    }

    /// Follows the run until it ends, waits for another person, or the user stops following it.
    pub async fn follow_through(mut self, from: From) -> anyhow::Result<End> {
        // The run may be queued behind a run that has already opened interrupts.
        let open = self.place.engine.thread(&self.thread).interrupts().await?;
        self.open = open.into_iter().map(|open| open.interrupt).collect();
        self.seen = from.after;
        let mut updates = self.place.engine.thread(&self.thread).watch(from.after);
        let (mut tick, mut tend) = (tokio::time::interval(TICK), tokio::time::interval(TEND));
        loop {
            let ended = tokio::select! {
                biased;
                signal = self.signals.next() => self.signalled(signal).await?,
                typed = typed(&mut self.keyboard, self.console.screen()) => self.typed(typed).await?,
                update = updates.next() => match update {
                    Some(update) => self.update(update?, from.past).await?,
                    None => return Err(EngineError::NoRun(self.run.clone()).into()),
                },
                _ = tend.tick() => {
                    // If the process that drives the run ends, this process takes over.
                    self.place.engine.thread(&self.thread).tend().await?;
                    self.left().await?
                }
                _ = tick.tick() => {
                    if let (Sight::People(live), None) = (&mut self.sight, &self.asking) {
                        live.tick();
                    }
                    self.need().await?
                }
            };
            if let (Some(screen), None) = (self.console.screen(), &self.asking) {
                screen.take_answers("");
            }
            if let Some(end) = ended {
                return Ok(end);
            }
        }
    }

    /// Starts reading lines. A chat's screen reads its own keys.
    fn open_keyboard(&mut self) {
        let reads = self.console.can_ask() && self.console.screen().is_none();
        self.keyboard = reads.then(Keyboard::open);
    }

    /// Ends following if the run waits for tools that this process does not have.
    async fn left(&self) -> anyhow::Result<Option<End>> {
        if !self.place.engine.thread(&self.thread).is_left_to_others() {
            return Ok(None);
        }
        let outcome = self.place.engine.run(&self.run).status().await?;
        let lacks = outcome.status == Status::Paused && !outcome.missing_tools.is_empty();
        Ok(lacks.then(|| End::Outcome(Box::new(outcome))))
    }

    async fn update(&mut self, update: Update, past: Seq) -> anyhow::Result<Option<End>> {
        let engine = &self.place.engine;
        match (&mut self.sight, &update) {
            (Sight::Lines, update) => {
                self.console.out_json(&json::update(engine, update).await?.to_string());
            }
            (Sight::People(live), Update::Event(recorded)) if recorded.seq <= past => {
                live.past(engine, recorded).await?;
            }
            (Sight::People(live), update) => live.update(engine, update).await?,
        }
        match update {
            Update::Event(recorded) => {
                self.seen = recorded.seq;
                if let Some(end) = self.event(recorded).await? {
                    return Ok(Some(end));
                }
            }
            Update::Status(status) => {
                self.waiting = status == ThreadStatus::Waiting;
                if status == ThreadStatus::Idle && self.takes_back {
                    return self.at_rest().await;
                }
            }
            Update::Stopped { why } => {
                return Err(EngineError::Stopped { thread: self.thread.clone(), why: why.to_string() }.into());
            }
            Update::Delta { .. } | Update::Snapshot { .. } | Update::Progress { .. } => {}
        }
        self.need().await
    }

    /// Prompts the user if the user has to answer an open interrupt.
    async fn need(&mut self) -> anyhow::Result<Option<End>> {
        if self.waiting && !self.open.is_empty() && self.asking.is_none() {
            return self.need_answer().await;
        }
        Ok(None)
    }

    async fn event(&mut self, recorded: Recorded) -> anyhow::Result<Option<End>> {
        let mine = recorded.event.run.as_ref() == Some(&self.run);
        match recorded.event.fact {
            Fact::InterruptOpened { interrupt, .. } if self.open.contains(&interrupt) => {}
            Fact::InterruptOpened { interrupt, .. } => self.open.push(interrupt),
            Fact::InterruptClosed { interrupt, by, .. } => {
                self.open.retain(|open| *open != interrupt);
                if self.asking.take_if(|asking| asking.is_about(&interrupt)).is_some() {
                    let by_rule = by.as_str() == "policy";
                    self.console.note(match by_rule {
                        true => "\n  decided by a policy change",
                        false => "\n  answered elsewhere",
                    });
                }
            }
            Fact::RunFinished { .. } if mine => return self.finished().await,
            _ => {} // tidy: the other kinds neither ask nor end
        }
        Ok(None)
    }

    async fn finished(&mut self) -> anyhow::Result<Option<End>> {
        let outcome = self.place.engine.run(&self.run).status().await?;
        self.show_end(&outcome);
        // A message typed in a chat during this run has already started the next run.
        if self.chat.is_some() {
            let machine = self.place.engine.thread(&self.thread).folded().await?;
            if let Some(next) = &machine.state().run {
                self.run = next.id.clone();
                self.interrupts = 0;
                return Ok(None);
            }
            self.unqueue(machine.state()).await?;
        }
        Ok(Some(End::Outcome(Box::new(outcome))))
    }

    /// Handles a thread without an active run. If the run's message is still queued, the previous run did not complete,
    /// and no process will send the message.
    async fn at_rest(&mut self) -> anyhow::Result<Option<End>> {
        let machine = self.place.engine.thread(&self.thread).folded().await?;
        let state = machine.state();
        let (None, Some(last), true) = (&state.run, &state.last, self.is_queued(state)) else {
            return Ok(None);
        };
        let outcome = self.place.engine.run(&last.run).status().await?;
        self.show_end(&outcome);
        self.unqueue(state).await?;
        Ok(Some(End::Outcome(Box::new(outcome))))
    }

    fn is_queued(&self, state: &State) -> bool {
        state.queue.iter().any(|waiting| waiting.queued.run == self.run)
    }

    /// Returns the active run of the thread: the followed run, or a run before it.
    async fn at_work(&self) -> Result<RunId, EngineError> {
        let machine = self.place.engine.thread(&self.thread).folded().await?;
        let active = machine.state().run.as_ref().filter(|_| self.is_queued(machine.state()));
        Ok(active.map_or_else(|| self.run.clone(), |run| run.id.clone()))
    }

    /// Withdraws queued messages after a run that did not complete, so that none is sent without the user's knowledge.
    /// Outside of a chat, withdraws only this run's message: other messages may belong to another process.
    async fn unqueue(&mut self, state: &State) -> anyhow::Result<()> {
        let in_chat = self.chat.is_some();
        let me = local().principal;
        let ours = |queued: &Queued| in_chat && queued.by == me || queued.run == self.run;
        for Waiting { id, queued, .. } in state.queue.iter().filter(|waiting| ours(&waiting.queued)) {
            self.place.engine.thread(&self.thread).queue().withdraw(id, queued.by.clone()).await?;
            let text = queued.message.plain_text();
            self.console.note(&format!("not sent: {}", first_line(&shown(&text), ECHO_CHARS)));
            if let Some(typing) = &mut self.chat {
                typing.unsent.push(text);
            }
        }
        Ok(())
    }

    fn show_end(&mut self, outcome: &Outcome) {
        match &mut self.sight {
            Sight::People(live) => live.end(outcome),
            Sight::Lines => self.console.out_json(&json::outcome(outcome).to_string()),
        }
    }

    /// Queues a message that was typed during a run. The message is sent when the run has finished.
    async fn queue(&mut self, line: String) -> anyhow::Result<()> {
        let Some(typing) = self.chat.as_mut().filter(|_| !line.trim().is_empty()) else { return Ok(()) };
        if line.trim_start().starts_with(['/', '!']) {
            self.console.note("commands are not available during a run; Ctrl-C cancels it");
            match self.console.screen() {
                Some(screen) => screen.put_back(&line),
                None => typing.unsent.push(line),
            }
            return Ok(());
        }
        if let Some(screen) = self.console.screen() {
            screen.remember(&line);
        }
        let mut task = self.place.task(&typing.agent, line.trim());
        task.thread = Some(self.thread.clone());
        task.options.surface = windlass::machine::Surface::Chat;
        match self.place.engine.start(task).await {
            Ok(_) => self.console.note(&self.console.paint.dim("(queued: sent when this run finishes)")),
            Err(error) => {
                self.console.note(&format!("not queued: {error}"));
                typing.unsent.push(line.trim().to_owned());
            }
        }
        Ok(())
    }

    async fn signalled(&mut self, signal: Signal) -> anyhow::Result<Option<End>> {
        Ok(match signal {
            Signal::End(code) => Some(self.leave(Exit::Signal(code))),
            Signal::Interrupt if self.interrupts > 0 => Some(self.leave(Exit::Interrupted)),
            // A question may wait for months, so Ctrl-C stops following and never cancels the run.
            Signal::Interrupt if self.is_parked().await? => Some(self.keep()),
            Signal::Interrupt => {
                self.interrupts += 1;
                if let Sight::People(live) = &mut self.sight {
                    live.pause();
                }
                self.console.note("\ncancelling the run; press Ctrl-C again to leave it unfinished");
                self.asking = None;
                self.cancel().await?;
                None
            }
        })
    }

    /// Whether the run waits for an answer or a timer, so that the user cannot interrupt any activity.
    async fn is_parked(&self) -> Result<bool, EngineError> {
        let status = self.place.engine.thread(&self.thread).row().await?.view.status;
        Ok(self.asking.is_some() || matches!(status, ThreadStatus::Waiting | ThreadStatus::Sleeping))
    }

    /// Stops following a waiting run without changing it.
    fn keep(&mut self) -> End {
        self.console.note("");
        let left = self.leave(Exit::Waiting);
        if self.chat.is_none() {
            return left;
        }
        self.console.hint("/continue or your next message asks again");
        End::Kept
    }

    /// Requests cancellation. An event reports the run's end. If the engine rejects the
    /// request, the run has already ended.
    async fn cancel(&self) -> Result<(), EngineError> {
        let run = self.at_work().await?;
        let (engine, console) = (self.place.engine.clone(), self.console.clone());
        tokio::spawn(async move {
            match engine.run(&run).cancel(local().principal).await {
                Ok(_) | Err(EngineError::Rejected(_)) => {}
                Err(error) => console.note(&format!("not cancelled: {error}")),
            }
        });
        Ok(())
    }

    fn leave(&mut self, exit: Exit) -> End {
        if let Sight::People(live) = &mut self.sight {
            live.pause();
        }
        resume_hint(self.console, self.place, &self.run);
        End::Left(exit)
    }
}

async fn typed(keyboard: &mut Option<Keyboard>, screen: Option<&Arc<ChatScreen>>) -> Typed {
    match (keyboard, screen) {
        (Some(keyboard), _) => keyboard.next().await,
        (None, Some(screen)) => screen.next().await,
        (None, None) => std::future::pending().await,
    }
}

/// Prints how to resume a run.
pub fn resume_hint(console: &Console, place: &Place, run: &RunId) {
    console.note("the run is saved");
    console.hint(&format!("`windlass resume {run}{}` continues it", place.ground.same_flags()));
}

/// Prints an outcome in the requested format and returns the exit status.
pub fn conclude(console: &Console, output: OutputFlags, end: End) -> anyhow::Result<Exit> {
    match end {
        End::Left(exit) => Ok(exit),
        End::Kept => Ok(Exit::Waiting),
        End::Outcome(outcome) => {
            if output.json {
                let shape = RunOutcome::from((*outcome).clone());
                let text =
                    serde_json::to_string(&shape).map_err(|error| explain(&anyhow::Error::from(error)))?;
                console.out_json(&text);
            }
            Ok(Exit::of(&outcome))
        }
    }
}
