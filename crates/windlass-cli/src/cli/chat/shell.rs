//! `!command` in a chat: a shell command of the user, evaluated by the policy like any call of the tool `Bash`.
//!
//! The command is not part of the conversation: no model receives the command or its output.

use std::io::BufRead;
use std::pin::pin;
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass::machine::ToolName;
use windlass::port::tool::OutputPart;
use windlass::{Consent, Trial, Tried};
use windlass_server::account::people::user::local;
use windlass_server::text::{shown, shown_line};
use windlass_server::toolbox;

use super::{Chat, Next, left};
use crate::keyboard::Typed;
use crate::screen::ChatScreen;
use crate::signals::{Signal, Signals};

/// Time-out of a command without output, in milliseconds.
const SILENCE_MS: u64 = 10 * 60 * 1000;

/// Exit code of a process whose terminal was closed: 128 plus the number of `SIGHUP`.
const HANG_UP: u8 = 129;

/// The user's reply to a request for approval.
enum Reply {
    Yes,
    No,
    /// The process must end.
    Leave(Signal),
}

impl Chat<'_> {
    /// Runs a command and prints its output. Ctrl-C cancels it.
    pub(super) async fn shell(&mut self, command: &str) -> anyhow::Result<Next> {
        let command = command.trim();
        if command.is_empty() {
            self.console.note("type a command after the `!`");
            return Ok(Next::Go);
        }
        let mut trial = Trial {
            tool: ToolName::from("Bash"),
            arguments: json!({ "command": command }),
            by: local(),
            folder: Some(self.place.homes.ground().clone()),
            consent: Consent::NotYet,
            timeout_ms: SILENCE_MS,
            at_most_ms: None,
            stop: CancellationToken::new(),
            counts_as_approver: true,
        };
        loop {
            let (tried, signal) = {
                let mut running = pin!(self.place.engine.tools().try_tool(trial.clone()));
                tokio::select! {
                    tried = &mut running => (tried?, None),
                    signal = interrupted(&mut self.signals, self.console.screen()) => {
                        trial.stop.cancel();
                        (running.await?, Some(signal))
                    }
                }
            };
            match signal {
                Some(signal @ Signal::End(_)) => return Ok(Next::Leave(left(signal))),
                Some(Signal::Interrupt) => {
                    self.tell(&tried);
                    self.console.note("the command was stopped");
                    return Ok(Next::Go);
                }
                None => {}
            }
            match tried {
                Tried::Asks { by, yours: true, preview } if self.console.can_ask() => {
                    self.console.note(&format!("`Bash` requires approval (decided by {})", shown_line(&by)));
                    preview.iter().for_each(|preview| self.console.note(&shown(preview)));
                    match self.agrees().await? {
                        Reply::Yes => {}
                        Reply::No => {
                            self.console.note("not run");
                            return Ok(Next::Go);
                        }
                        Reply::Leave(signal) => return Ok(Next::Leave(left(signal))),
                    }
                    trial.consent = preview.map_or(Consent::Given, Consent::AsShown);
                }
                tried => {
                    self.tell(&tried);
                    return Ok(Next::Go);
                }
            }
        }
    }

    async fn agrees(&mut self) -> anyhow::Result<Reply> {
        if let Some(screen) = self.console.screen() {
            screen.take_answers("yYnN");
        }
        self.console.err("Run it? [y/N] ");
        let line = match self.console.screen() {
            Some(screen) => {
                let typed = tokio::select! {
                    typed = screen.next() => typed,
                    signal = self.signals.next() => match signal {
                        Signal::Interrupt => Typed::Interrupt,
                        Signal::End(_) => return Ok(Reply::Leave(signal)),
                    },
                };
                screen.take_answers("");
                match typed {
                    Typed::Line(line) => {
                        self.console.note(&shown_line(&line));
                        line
                    }
                    Typed::Gone => return Ok(Reply::Leave(Signal::End(HANG_UP))),
                    Typed::End | Typed::Interrupt => {
                        self.console.note("");
                        String::new()
                    }
                }
            }
            None => {
                let read = tokio::task::spawn_blocking(|| {
                    let mut line = String::new();
                    std::io::stdin().lock().read_line(&mut line).map(|_| line)
                });
                read.await??
            }
        };
        Ok(if matches!(line.trim(), "y" | "Y" | "yes") { Reply::Yes } else { Reply::No })
    }

    fn tell(&self, tried: &Tried) {
        let console = self.console;
        match tried {
            Tried::Unknown => {
                console.note("commands are disabled");
                if let Some(how) = toolbox::instead(&self.place.engine, &ToolName::from("Bash")) {
                    console.hint(&how);
                }
            }
            Tried::Unfit { reason } => console.note(&format!("not run: {}", shown(reason))),
            Tried::Denied { by, reason } => {
                let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
                console.note(&shown_line(&format!("not run: denied by `{by}`{why}")));
            }
            Tried::Asks { by, .. } => {
                console.note(&shown_line(&format!("not run: it requires approval (decided by {by})")));
            }
            Tried::Ran(result) => {
                for part in &result.parts {
                    if let OutputPart::Text(text) = part {
                        console.out_line(shown(text).trim_end());
                    }
                }
            }
        }
    }
}

/// Waits for Ctrl-C or a termination signal. Lines typed meanwhile are returned to the input.
async fn interrupted(signals: &mut Signals, screen: Option<&Arc<ChatScreen>>) -> Signal {
    loop {
        let typed = async {
            match screen {
                Some(screen) => screen.next().await,
                None => std::future::pending().await,
            }
        };
        let typed = tokio::select! {
            signal = signals.next() => return signal,
            typed = typed => typed,
        };
        match typed {
            Typed::Interrupt => return Signal::Interrupt,
            Typed::Gone => return Signal::End(HANG_UP),
            Typed::End => {}
            Typed::Line(text) => screen.into_iter().for_each(|screen| screen.put_back(&text)),
        }
    }
}
