//! A chat on its own screen, which accepts input while a run is active.

use std::sync::Arc;

use windlass::machine::ThreadId;
use windlass::port::model::Models;
use windlass_server::text::shown;
use windlass_server::trouble::Exit;

use super::{Chat, Next, left};
use crate::console::Console;
use crate::keyboard::Typed;
use crate::place::Place;
use crate::report::report;
use crate::screen::{ChatScreen, MessageFile};

/// Exit code of a process whose terminal was closed: 128 plus the number of `SIGHUP`.
const HANG_UP: u8 = 129;

/// The commands that Tab completes at the start of a line.
const COMMANDS: &[&str] =
    &["/clear", "/continue", "/help", "/mode", "/model", "/output", "/quit", "/resume", "/turns"];

/// Opens the chat's screen. Returns `None` if the terminal supports only whole lines.
pub(super) fn open_screen(console: &Console, place: &Place) -> anyhow::Result<Option<Arc<ChatScreen>>> {
    if !console.has_screen() {
        return Ok(None);
    }
    let file = MessageFile::open(&place.ground.user.data)?;
    let folder = place.homes.ground().path().to_owned();
    Ok(ChatScreen::open(console.out_paint, file, COMMANDS, folder))
}

impl Chat<'_> {
    /// Reads input from a person, also while a run is active.
    pub(super) async fn on_screen(
        &mut self,
        screen: &ChatScreen,
        thread: Option<ThreadId>,
    ) -> anyhow::Result<Exit> {
        self.ready(screen).await?;
        if let Next::Leave(exit) = self.open_chat(thread).await? {
            return Ok(exit);
        }
        let mut is_leaving = false;
        loop {
            self.ready(screen).await?;
            let typed = tokio::select! {
                signal = self.signals.next() => return Ok(left(signal)),
                typed = screen.next() => typed,
            };
            let line = match typed {
                Typed::Line(line) => line,
                Typed::Interrupt if !is_leaving => {
                    is_leaving = true;
                    self.console.note(&self.console.paint.dim("press Ctrl-C again or type /quit to leave"));
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
            screen.remember(&line);
            match self.line(line.trim()).await {
                Ok(Next::Go) => {}
                Ok(Next::Leave(exit)) => return Ok(exit),
                Err(error) => {
                    report(self.console, &error);
                }
            }
        }
    }

    /// Prepares the input for a message. Returns unsent texts to the input.
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
