//! The commands of a chat: lines that begin with a slash.

use std::collections::BTreeMap;

use windlass::machine::{Fact, Mode, ModelName, RunId, ThreadId};
use windlass::port::journal::RunQuery;
use windlass_server::text::{first_line, shown};
use windlass_server::trouble::{Exit, Trouble};

use super::{Chat, Next, TURNS};
use crate::view::preview::plural;
use crate::view::transcript;

/// Maximum length of a message in `/turns`, in characters.
const TITLE_CHARS: usize = 60;

const HELP: &str = "\
/help         list the commands
/turns        list the messages so far, with steps, calls and tokens
/resume       list conversations; `/resume N` continues one of them
/continue     continue this conversation's run, or the newest conversation
/mode NAME    switch to another mode (`agent`, `ask`, `plan`); without a name, show the mode
/output N     print the full output of a call; without a number, of the last one
/model NAME   switch to another model (`provider/name`); without a name, show the model
/clear        start a new conversation
/quit         leave (also Ctrl-D, or Ctrl-C twice)
!COMMAND      run a command under the rules of the tool `Bash`; the model does not see it
@FILE         refer to a file (Tab completes its name); the model reads it with its tools
Ctrl-C cancels an active run; a run that waits for you keeps waiting
A message that you send during a run is queued and sent after it
Alt-Enter, Ctrl-J or `\\` and Enter start a new line";

impl Chat<'_> {
    /// Sends a message or executes a command.
    pub(super) async fn line(&mut self, line: &str) -> anyhow::Result<Next> {
        if line.is_empty() {
            return Ok(Next::Go);
        }
        if let Some(command) = line.strip_prefix('!') {
            return self.shell(command).await;
        }
        let Some(command) = line.strip_prefix('/') else { return self.say(line).await };
        let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match word {
            "quit" | "exit" | "q" => return Ok(Next::Leave(Exit::Done)),
            "help" | "h" | "?" => self.console.note(HELP),
            "output" => self.output(rest.trim()),
            "clear" => {
                self.thread = None;
                self.forget_cost();
                self.console.note("new conversation; the old one stays in `windlass threads list`");
            }
            "turns" => self.turns().await?,
            "resume" => return self.resume(rest.trim()).await,
            "continue" => return self.continue_run().await,
            "mode" => self.mode(rest.trim()).await?,
            "model" => self.model(rest.trim())?,
            other => {
                self.console.note(&format!("unknown command `/{}`", shown(other)));
                self.console.hint("/help lists the commands");
            }
        }
        Ok(Next::Go)
    }

    async fn turns(&self) -> anyhow::Result<()> {
        let Some(thread) = &self.thread else {
            self.console.note("no messages yet");
            return Ok(());
        };
        let mut rows = self.place.engine.runs(&RunQuery::of(thread, TURNS)).await?;
        rows.reverse();
        self.console.note(&self.console.paint.dim(&format!("thread {thread}")));
        let said = self.said(thread).await?;
        for (nth, row) in rows.iter().enumerate() {
            let totals = &row.view.totals;
            let status = row.view.status.map_or("unfinished", crate::cli::threads::run_word);
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

    /// Returns the first line of the message that started each run.
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
        let mode = self.mode_now().await?;
        self.console.note(&format!("the mode is `{}`", mode.word()));
        Ok(())
    }

    /// Returns the mode of the next message.
    pub(super) async fn mode_now(&self) -> anyhow::Result<Mode> {
        let last = match &self.thread {
            Some(thread) => self.place.engine.thread(thread).folded().await?.state().mode,
            None => None,
        };
        Ok(self.mode.or(last).or(self.agent.mode).unwrap_or_default())
    }

    /// `/output`: prints the full output of a call.
    fn output(&self, number: &str) {
        let output = match (self.console.screen(), number.parse::<usize>()) {
            (Some(screen), Ok(number)) => screen.output(Some(number)),
            (Some(screen), Err(_)) if number.is_empty() => screen.output(None),
            (Some(_), Err(_)) | (None, _) => None,
        };
        match output {
            Some((label, text)) => {
                self.console.note(&self.console.paint.bold(&label));
                self.console.out_line(shown(&text).trim_end());
            }
            None => self.console.note("no such output; `/output N` shows the output of a call in this chat"),
        }
    }

    /// Resets the cost in the status line to zero.
    pub(super) fn forget_cost(&self) {
        if let Some(screen) = self.console.screen() {
            screen.update_status(|status| (status.cost, status.used_tokens) = (0, None));
        }
    }

    fn model(&mut self, name: &str) -> anyhow::Result<()> {
        if name.is_empty() {
            self.console.note(&format!("the model is `{}`", self.agent.models[0]));
            return Ok(());
        }
        let model = ModelName::from(name);
        crate::place::check_model(self.console, &self.place.models.now(), &model, &self.agent.settings)?;
        self.console.note(&format!("switched to `{model}`"));
        self.agent.models = vec![model];
        Ok(())
    }
}
