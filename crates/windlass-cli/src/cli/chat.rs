//! `windlass chat`: a conversation with one run per message. A message typed during a run is queued.

mod command;
mod resume;
mod shell;
mod typing;

use std::io::BufRead;

use clap::Args;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use windlass::AgentConfig;
use windlass::machine::{Mode, RunId, Seq, Surface, ThreadId};
use windlass::port::journal::RunQuery;
use windlass_server::text::shown_line;
use windlass_server::trouble::{Exit, Trouble};

use self::typing::open_screen;
use super::follow::{End, Follow, From, Sight, Typing};
use crate::cli::flags::{ModeFlag, ModelFlags, OutputFlags, PlaceFlags};
use crate::console::Console;
use crate::place::{Ask, Consent, Ground, Place};
use crate::report::report;
use crate::screen::MessageFile;
use crate::signals::{Screen, Signal, Signals};

/// Maximum number of runs listed by `/turns`.
const TURNS: usize = 50;

#[derive(Args, Debug, Default)]
pub struct ChatArgs {
    /// Continue a conversation: its id, or the end of it
    #[arg(long, value_name = "THREAD")]
    thread: Option<String>,
    /// Continue the newest conversation
    #[arg(long = "continue", short = 'c', conflicts_with = "thread")]
    newest: bool,
    /// Read whole lines and redraw nothing, for screen readers
    #[arg(long)]
    lines: bool,
    /// Approve every call automatically, except those a rule denies or reserves for another approver
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
    /// The mode of later messages; `None` keeps the thread's mode.
    mode: Option<Mode>,
    /// Messages that were typed but not sent. They are returned to the input.
    unsent: Vec<String>,
    /// The conversations listed by the last `/resume`, indexed by their numbers.
    listed: Vec<ThreadId>,
}

/// Whether the chat continues after an input.
enum Next {
    Go,
    Leave(Exit),
}

pub async fn run(console: &Console, args: &ChatArgs) -> anyhow::Result<Exit> {
    let mut ground = Ground::find(console, &args.place, &args.model, Ask::OnTerminal)?;
    let models = ground.settings.models.clone();
    ground.reach(console, &models[0])?;
    let consent = Consent::of(args.yes);
    let place = ground.open(&models, consent).await?;
    let agent = place.agent(console)?;
    let thread = match (&args.thread, args.newest) {
        (Some(thread), _) => Some(place.find_thread(Some(thread)).await?),
        (None, true) => Some(place.newest_thread_here().await?),
        (None, false) => None,
    };
    let signals = Signals::listen()?;
    let mode = args.mode.mode;
    let (unsent, listed) = (Vec::new(), Vec::new());
    let screen = if args.lines { None } else { open_screen(console, &place)? };
    if let Some(screen) = screen {
        let console = console.on_screen(screen.clone());
        let mut chat = Chat { console: &console, place, signals, agent, thread: None, mode, unsent, listed };
        return chat.on_screen(&screen, thread).await;
    }
    let mut chat = Chat { console, place, signals, agent, thread: None, mode, unsent, listed };
    if console.can_ask() { chat.on_terminal(thread).await } else { chat.on_pipe(thread).await }
}

impl Chat<'_> {
    /// Prints the header and enters the given conversation.
    async fn open_chat(&mut self, thread: Option<ThreadId>) -> anyhow::Result<Next> {
        let folder = std::path::absolute(&self.place.ground.folder)?;
        let paint = self.console.paint;
        let line = format!("{} in {}", self.agent.models[0], shown_line(&folder.display().to_string()));
        self.console.note(&format!("{} {}", paint.bold("windlass"), paint.dim(&line)));
        self.console.note(&paint.dim("/help lists the commands"));
        match thread {
            Some(thread) => self.enter(thread).await,
            None => self.open_runs().await.map(|()| Next::Go),
        }
    }

    /// Reads lines from a person, on a terminal without cursor control.
    async fn on_terminal(&mut self, thread: Option<ThreadId>) -> anyhow::Result<Exit> {
        if let Next::Leave(exit) = self.open_chat(thread).await? {
            return Ok(exit);
        }
        let paint = self.console.paint;
        let file = MessageFile::open(&self.place.ground.user.data)?;
        let mut editor = Some(editor(&file)?);
        let mut interrupted = false;
        loop {
            // The editor blocks, so it runs in a blocking task, which returns it together with the line.
            let Some(mut asked) = editor.take() else { return Ok(Exit::Done) };
            let screen = Screen::now();
            let unsent = self.take_unsent(&mut asked, &file);
            let reading = tokio::task::spawn_blocking(move || {
                let typed = asked.readline_with_initial("› ", (&unsent, ""));
                (asked, typed)
            });
            let (back, typed) = tokio::select! {
                read = reading => read?,
                signal = self.signals.next() => {
                    // The blocked editor cannot be interrupted, so restore its terminal modes.
                    screen.restore(self.console);
                    return Ok(left(signal));
                }
            };
            let editor_back = editor.insert(back);
            let line = match typed {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) if !interrupted => {
                    interrupted = true;
                    self.console.note(&paint.dim("press Ctrl-C again or type /quit to leave"));
                    continue;
                }
                Err(ReadlineError::Interrupted | ReadlineError::Eof) => return Ok(Exit::Done),
                Err(error) => return Err(anyhow::Error::from(error).context("cannot read the terminal")),
            };
            interrupted = false;
            if !line.trim().is_empty() {
                keep(editor_back, &file, &line);
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

    /// Reads messages from a pipe, one per line.
    async fn on_pipe(&mut self, thread: Option<ThreadId>) -> anyhow::Result<Exit> {
        self.thread = thread;
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
            // Only a person runs shell commands with `!`. In piped text, `!` is an ordinary character.
            let line = line.trim();
            let next = if line.starts_with('!') { self.say(line).await } else { self.line(line).await };
            match next? {
                Next::Go => last = Exit::Done,
                Next::Leave(exit @ (Exit::Done | Exit::Interrupted | Exit::Waiting | Exit::Signal(_))) => {
                    return Ok(exit);
                }
                Next::Leave(exit) => last = exit,
            }
        }
    }

    /// Returns unsent messages as the text of the next input, and adds each message to the history.
    fn take_unsent(&mut self, editor: &mut DefaultEditor, file: &MessageFile) -> String {
        for text in &self.unsent {
            keep(editor, file, text);
        }
        std::mem::take(&mut self.unsent).join("\n")
    }

    /// Prints a hint for each unfinished run, for example after a crash or with an open question.
    async fn open_runs(&self) -> anyhow::Result<()> {
        let open = RunQuery { active: Some(true), ..RunQuery::newest(TURNS) };
        for row in self.place.engine.runs(&open).await? {
            let flags = self.place.ground.same_flags();
            let run = &row.view.run;
            let hint =
                format!("`/resume` or `windlass resume {run}{flags}` continues a run that has not ended");
            self.console.hint(&hint);
        }
        Ok(())
    }

    async fn say(&mut self, text: &str) -> anyhow::Result<Next> {
        let mut task = self.place.task(&self.agent, text);
        task.thread.clone_from(&self.thread);
        task.options.surface = Surface::Chat;
        task.options.mode = self.mode;
        let started = self.place.engine.start(task).await?;
        self.thread = Some(started.thread.clone());
        let from = From { after: Seq(started.seq.0.saturating_sub(1)), past: Seq(0) };
        self.follow(started.thread, started.run, from).await
    }

    /// Follows a run of this conversation until it ends or the user leaves it.
    async fn follow(&mut self, thread: ThreadId, run: RunId, from: From) -> anyhow::Result<Next> {
        let sight = Sight::of(self.console, OutputFlags::default());
        let mut follow = Follow::new(self.console, &self.place, &mut self.signals, thread, run, sight);
        follow = follow.of_message();
        if self.console.can_ask() {
            follow = follow.in_chat(Typing { agent: self.agent.clone(), unsent: &mut self.unsent });
        }
        Ok(match follow.follow_through(from).await? {
            End::Left(exit) => Next::Leave(exit),
            End::Kept => Next::Go,
            End::Outcome(outcome) => match Exit::of(&outcome) {
                Exit::Done => Next::Go,
                // The run resumes when another approver answers, even after this chat has ended.
                _ if self.console.can_ask() => Next::Go,
                exit => Next::Leave(exit),
            },
        })
    }
}

/// Returns the exit status if a signal arrives while no run is active.
fn left(signal: Signal) -> Exit {
    match signal {
        Signal::Interrupt => Exit::Interrupted,
        Signal::End(code) => Exit::Signal(code),
    }
}

fn editor(file: &MessageFile) -> rustyline::Result<DefaultEditor> {
    let mut editor = DefaultEditor::with_config(file.config())?;
    for message in file.messages() {
        editor.add_history_entry(message)?;
    }
    Ok(editor)
}

fn keep(editor: &mut DefaultEditor, file: &MessageFile, message: &str) {
    if editor.add_history_entry(message).unwrap_or_default() {
        file.append(message);
    }
}
