//! `windlass chat`: a conversation, one run for each message. What is typed while a run goes on is queued.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::PathBuf;

use clap::Args;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use windlass::AgentConfig;
use windlass::machine::{Fact, Mode, ModelName, RunId, Seq, Surface, ThreadId};
use windlass::port::journal::RunQuery;

use super::follow::{End, Follow, From, Sight};
use super::{ModeFlag, ModelFlags, OutputFlags, PlaceFlags};
use crate::console::{Console, first_line, shown, shown_line};
use crate::paths::private_directory;
use crate::place::{Ask, Consent, Ground, Place};
use crate::signals::{Screen, Signal, Signals};
use crate::trouble::{Exit, Trouble, report};
use crate::view::preview::plural;
use crate::view::transcript;

/// Lines of history that are kept.
const HISTORY: usize = 1_000;

/// Runs listed by `/turns`.
const TURNS: usize = 50;

/// Characters of a message in `/turns`.
const TITLE_CHARS: usize = 60;

const HELP: &str = "\
/help         this list
/turns        the messages so far, and what they took
/mode NAME    go on in another mode (`agent`, `ask`, `plan`); without a name, say which
/model NAME   go on with another model (`provider/name`); without a name, say which
/clear        start a new conversation
/quit         leave (also Ctrl-D, or Ctrl-C twice)
Ctrl-C stops a run; what is typed during a run is sent after it";

/// Arguments of `chat`.
#[derive(Args, Debug, Default)]
pub struct ChatArgs {
    /// Go on with a thread, or the end of its id
    #[arg(long, value_name = "THREAD")]
    thread: Option<String>,
    /// Run every call that no rule denies, or wants somebody else's word for
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    mode: ModeFlag,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    place: PlaceFlags,
}

struct Chat<'a> {
    console: &'a Console,
    place: Place,
    signals: Signals,
    agent: AgentConfig,
    thread: Option<ThreadId>,
    /// The mode of the messages from now on; `None`: as before in the thread.
    mode: Option<Mode>,
}

/// What a line led to.
enum Next {
    Go,
    Leave(Exit),
}

/// Runs `chat`.
pub async fn run(console: &Console, args: &ChatArgs) -> anyhow::Result<Exit> {
    let mut ground = Ground::find(console, &args.place, &args.model, Ask::OnTerminal)?;
    let models = ground.settings.models.clone();
    ground.reach(console, &models[0])?;
    let consent = Consent::of(args.yes);
    let place = ground.open(&models, consent).await?;
    let agent = place.agent(console)?;
    let thread = match &args.thread {
        Some(thread) => Some(place.find_thread(Some(thread)).await?),
        None => None,
    };
    let signals = Signals::listen()?;
    let mut chat = Chat { console, place, signals, agent, thread, mode: args.mode.mode };
    if console.can_ask() { chat.on_terminal().await } else { chat.on_pipe().await }
}

impl Chat<'_> {
    /// A person types.
    async fn on_terminal(&mut self) -> anyhow::Result<Exit> {
        let folder = std::path::absolute(&self.place.ground.folder)?;
        let paint = self.console.paint;
        let line = format!("{} in {}", self.agent.models[0], shown_line(&folder.display().to_string()));
        self.console.note(&format!("{} {}", paint.bold("windlass"), paint.dim(&line)));
        self.console.note(&paint.dim("/help lists the commands"));
        self.open_runs().await?;
        let history = self.place.ground.user.data.join("chat-history");
        let mut editor = Some(editor(&history)?);
        let mut interrupted = false;
        loop {
            // The editor blocks its thread, and comes back with what was typed.
            let Some(mut asked) = editor.take() else { return Ok(Exit::Done) };
            let screen = Screen::now();
            let reading = tokio::task::spawn_blocking(move || {
                let typed = asked.readline("› ");
                (asked, typed)
            });
            let (back, typed) = tokio::select! {
                read = reading => read?,
                signal = self.signals.next() => {
                    // The editor cannot be called back: what it did to the terminal is undone for it.
                    screen.restore(self.console);
                    return Ok(left(signal));
                }
            };
            let editor_back = editor.insert(back);
            let line = match typed {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) if !interrupted => {
                    interrupted = true;
                    self.console.note(&paint.dim("Ctrl-C again, or /quit, leaves"));
                    continue;
                }
                Err(ReadlineError::Interrupted | ReadlineError::Eof) => return Ok(Exit::Done),
                Err(error) => return Err(anyhow::Error::from(error).context("cannot read the terminal")),
            };
            interrupted = false;
            if !line.trim().is_empty() && editor_back.add_history_entry(line.as_str()).unwrap_or_default() {
                // A history that cannot be kept is no reason to stop talking.
                let _ = editor_back.save_history(&history);
            }
            match self.line(line.trim()).await {
                Ok(Next::Go) => {}
                Ok(Next::Leave(exit)) => return Ok(exit),
                Err(error) => {
                    report(self.console, &error);
                }
            }
        }
    }

    /// A program writes: each line is a message, one after the other.
    async fn on_pipe(&mut self) -> anyhow::Result<Exit> {
        let mut last = Exit::Done;
        loop {
            let mut line = Vec::new();
            let read = tokio::task::spawn_blocking(move || {
                std::io::stdin().lock().read_until(b'\n', &mut line).map(|_| line)
            });
            let line = tokio::select! {
                read = read => read??,
                signal = self.signals.next() => return Ok(left(signal)),
            };
            let line = String::from_utf8(line)
                .map_err(|_| Trouble::usage("a message on standard input is not valid UTF-8"))?;
            if line.is_empty() {
                return Ok(last);
            }
            match self.line(line.trim()).await? {
                Next::Go => last = Exit::Done,
                Next::Leave(exit @ (Exit::Done | Exit::Interrupted | Exit::Waiting | Exit::Signal(_))) => {
                    return Ok(exit);
                }
                Next::Leave(exit) => last = exit,
            }
        }
    }

    /// Says what a crash or an open question has left behind.
    async fn open_runs(&self) -> anyhow::Result<()> {
        let open = RunQuery { active: Some(true), ..RunQuery::newest(TURNS) };
        for row in self.place.engine.runs(&open).await? {
            let flags = self.place.ground.same_flags();
            let run = &row.view.run;
            self.console
                .hint(&format!("`windlass resume {run}{flags}` goes on with a run that has not ended"));
        }
        Ok(())
    }

    async fn line(&mut self, line: &str) -> anyhow::Result<Next> {
        if line.is_empty() {
            return Ok(Next::Go);
        }
        let Some(command) = line.strip_prefix('/') else { return self.say(line).await };
        let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match word {
            "quit" | "exit" | "q" => return Ok(Next::Leave(Exit::Done)),
            "help" | "h" | "?" => self.console.note(HELP),
            "clear" => {
                self.thread = None;
                self.console.note("a new conversation; the old one is kept in `windlass threads list`");
            }
            "turns" => self.turns().await?,
            "mode" => self.mode(rest.trim()).await?,
            "model" => self.model(rest.trim())?,
            other => {
                self.console.note(&format!("there is no command `/{}`", shown(other)));
                self.console.hint("/help lists the commands");
            }
        }
        Ok(Next::Go)
    }

    async fn say(&mut self, text: &str) -> anyhow::Result<Next> {
        let mut task = self.place.task(&self.agent, text);
        task.thread.clone_from(&self.thread);
        task.options.surface = Surface::Chat;
        task.options.mode = self.mode;
        let started = self.place.engine.start(task).await?;
        self.thread = Some(started.thread.clone());
        let sight = Sight::of(self.console, OutputFlags::default());
        let ids = (started.thread, started.run);
        let mut follow = Follow::new(self.console, &self.place, &mut self.signals, ids, sight);
        follow = follow.of_message();
        if self.console.can_ask() {
            follow = follow.in_chat(self.agent.clone());
        }
        let from = From { after: Seq(started.seq.0.saturating_sub(1)), past: Seq(0) };
        Ok(match follow.follow_through(from).await? {
            End::Left(exit) => Next::Leave(exit),
            End::Outcome(outcome) => match Exit::of(&outcome) {
                Exit::Done => Next::Go,
                exit if self.console.can_ask() && exit != Exit::Waiting => Next::Go,
                exit => Next::Leave(exit),
            },
        })
    }

    async fn turns(&self) -> anyhow::Result<()> {
        let Some(thread) = &self.thread else {
            self.console.note("nothing has been said yet");
            return Ok(());
        };
        let mut rows = self.place.engine.runs(&RunQuery::of(thread, TURNS)).await?;
        rows.reverse();
        self.console.note(&self.console.paint.dim(&format!("thread {thread}")));
        let said = self.said(thread).await?;
        for (nth, row) in rows.iter().enumerate() {
            let totals = &row.view.totals;
            let status = row.view.status.map_or("unfinished", super::threads::run_word);
            let tokens = match (totals.usage.input, totals.usage.output) {
                (Some(input), Some(output)) => format!(", {input} + {output} tokens"),
                (None, _) | (_, None) => String::new(),
            };
            let said = said.get(&row.view.run).map_or("", String::as_str);
            let (steps, calls) = (totals.steps, totals.calls);
            self.console.note(&format!("{:>3}  {said}", nth + 1));
            let steps = format!("{steps} {}", plural(steps as usize, "step"));
            let calls = format!("{calls} {}", plural(calls as usize, "call"));
            self.console.note(&format!("     {status}: {steps}, {calls}{tokens} ({})", row.view.model));
        }
        Ok(())
    }

    /// The messages that runs began with, each in a line.
    async fn said(&self, thread: &ThreadId) -> anyhow::Result<BTreeMap<RunId, String>> {
        let (mut said, mut queued) = (BTreeMap::new(), BTreeMap::new());
        for recorded in transcript::events(&self.place.engine, thread).await? {
            let (message, run) = match (&recorded.event.fact, recorded.event.run) {
                (Fact::MessageQueued { id, queued: waits }, _) => {
                    queued.insert(id.clone(), waits.message.clone());
                    continue;
                }
                (Fact::MessageReceived { message, .. }, Some(run)) => (message.clone(), run),
                (Fact::MessageTaken { id }, Some(run)) => match queued.remove(id) {
                    Some(message) => (message, run),
                    None => continue,
                },
                _ => continue, // tidy: the other kinds carry no message of a person
            };
            said.entry(run).or_insert_with(|| first_line(&shown(&message.plain_text()), TITLE_CHARS));
        }
        Ok(said)
    }

    async fn mode(&mut self, word: &str) -> anyhow::Result<()> {
        if !word.is_empty() {
            self.mode = Some(word.parse().map_err(Trouble::usage)?);
        }
        let last = match &self.thread {
            Some(thread) => self.place.engine.peek(thread).await?.state().mode,
            None => None,
        };
        let mode = self.mode.or(last).or(self.agent.mode).unwrap_or_default();
        self.console.note(&format!("the mode is `{}`", mode.word()));
        Ok(())
    }

    fn model(&mut self, name: &str) -> anyhow::Result<()> {
        if name.is_empty() {
            self.console.note(&format!("the model is `{}`", self.agent.models[0]));
            return Ok(());
        }
        let model = ModelName::from(name);
        crate::place::check_model(self.console, &self.place.models.now(), &model, &self.agent.settings)?;
        self.console.note(&format!("going on with `{model}`"));
        self.agent.models = vec![model];
        Ok(())
    }
}

/// How a chat ends that is told to while nothing runs.
fn left(signal: Signal) -> Exit {
    match signal {
        Signal::Interrupt => Exit::Interrupted,
        Signal::End(code) => Exit::Signal(code),
    }
}

fn editor(history: &PathBuf) -> anyhow::Result<Editor<(), FileHistory>> {
    if let Some(directory) = history.parent() {
        private_directory(directory)?;
    }
    let config = Config::builder().max_history_size(HISTORY)?.history_ignore_space(true).build();
    let mut editor = Editor::<(), FileHistory>::with_config(config)?;
    // The first time there is none.
    let _ = editor.load_history(history);
    Ok(editor)
}
