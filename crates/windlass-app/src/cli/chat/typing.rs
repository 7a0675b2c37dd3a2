//! A chat with an input of its own, which takes keys while a run works.

use std::path::PathBuf;
use std::sync::Arc;

use rustyline::history::{FileHistory, History as _};
use windlass::machine::ThreadId;
use windlass::port::model::Models;

use super::{Chat, HISTORY, Next, left};
use crate::console::Console;
use crate::keyboard::Typed;
use crate::paths::private_directory;
use crate::place::Place;
use crate::screen::ChatScreen;
use crate::text::shown;
use crate::trouble::{Exit, report};

/// The exit code of a process whose terminal is gone: 128 and the number of the signal.
const HANG_UP: u8 = 129;

/// What Tab completes at the beginning of a line.
const COMMANDS: &[&str] =
    &["/clear", "/continue", "/help", "/mode", "/model", "/output", "/quit", "/resume", "/turns"];

/// The screen of a chat, which gives the terminal back however the chat ends, and the file of its messages.
pub(super) struct Input {
    pub screen: Arc<ChatScreen>,
    history: FileHistory,
    path: PathBuf,
}

impl Input {
    /// Takes the terminal; `None` if it can only do lines.
    pub fn open(console: &Console, place: &Place) -> anyhow::Result<Option<Self>> {
        if !console.has_screen() {
            return Ok(None);
        }
        let path = place.ground.user.data.join("chat-history");
        if let Some(directory) = path.parent() {
            private_directory(directory)?;
        }
        let config =
            rustyline::Config::builder().max_history_size(HISTORY)?.history_ignore_space(true).build();
        let mut history = FileHistory::with_config(&config);
        // The first time there is none.
        let _ = history.load(&path);
        let texts = history.iter().cloned().collect();
        let folder = place.homes.ground().path().to_owned();
        let screen = ChatScreen::open(console.out_paint, texts, COMMANDS, folder);
        Ok(screen.map(|screen| Self { screen, history, path }))
    }

    fn keep(&mut self, line: &str) {
        self.screen.remember(line);
        if self.history.add(line).unwrap_or_default() {
            // A history that cannot be kept is no reason to stop talking.
            // Appended, because another chat may have written its own lines.
            let _ = self.history.append(&self.path);
        }
    }
}

impl Chat<'_> {
    /// A person types, also while a run works.
    pub(super) async fn on_screen(
        &mut self,
        input: &mut Input,
        thread: Option<ThreadId>,
    ) -> anyhow::Result<Exit> {
        self.ready(&input.screen).await?;
        if let Next::Leave(exit) = self.open_chat(thread).await? {
            return Ok(exit);
        }
        let mut is_leaving = false;
        loop {
            self.ready(&input.screen).await?;
            let typed = tokio::select! {
                signal = self.signals.next() => return Ok(left(signal)),
                typed = input.screen.next() => typed,
            };
            let line = match typed {
                Typed::Line(line) => line,
                Typed::Interrupt if !is_leaving => {
                    is_leaving = true;
                    self.console.note(&self.console.paint.dim("Ctrl-C again, or /quit, leaves"));
                    continue;
                }
                Typed::Interrupt | Typed::End => return Ok(Exit::Done),
                Typed::Gone => return Ok(Exit::Signal(HANG_UP)),
            };
            is_leaving = false;
            if line.trim().is_empty() {
                continue;
            }
            let prompt = self.console.paint.bold("›").into_owned();
            self.console.note(&format!("{prompt} {}", shown(line.trim()).replace('\n', "\n  ")));
            input.keep(&line);
            match self.line(line.trim()).await {
                Ok(Next::Go) => {}
                Ok(Next::Leave(exit)) => return Ok(exit),
                Err(error) => {
                    report(self.console, &error);
                }
            }
        }
    }

    /// Makes the input ready for a message: texts that were not sent return to it.
    async fn ready(&mut self, screen: &ChatScreen) -> anyhow::Result<()> {
        screen.take_answers("");
        screen.show_activity("");
        let unsent = std::mem::take(&mut self.unsent);
        unsent.iter().for_each(|text| screen.remember(text));
        if !unsent.is_empty() {
            screen.put_back(&unsent.join("\n"));
        }
        let mode = self.mode_now().await?;
        let model = &self.agent.models[0];
        let holds = self.place.models.now().resolve(model).ok().and_then(|model| model.info().context_tokens);
        screen.update_status(|status| {
            status.model = model.to_string();
            status.mode = mode.word().to_owned();
            status.context_tokens = holds;
        });
        Ok(())
    }
}
