//! Handles the interrupts of a followed run. On a terminal, prompts the user; otherwise prints how to answer later.

use std::collections::BTreeMap;

use windlass::machine::{Given, InterruptId, Reject};
use windlass::{EngineError, GrantDraft, OpenInterrupt, Outcome, Status};
use windlass_server::account::people::user::local;
use windlass_server::clock::now;
use windlass_server::http::stream::json;
use windlass_server::text::{shown, shown_line};
use windlass_server::trouble::Exit;

use super::{End, Follow, LOOKS, Sight};
use crate::cli::approvals::hints;
use crate::console::Console;
use crate::editor::{Edited, edit};
use crate::keyboard::Typed;
use crate::place::Place;
use crate::signals::Signal;
use crate::view::card::{Card, Light};
use crate::view::question::{Asking, GrantWish, Reply};
use crate::view::story::{Background, backgrounds};

/// Exit code of a process whose terminal was closed: 128 plus the number of `SIGHUP`.
const HANG_UP: u8 = 129;

impl Follow<'_> {
    /// Handles a run that waits for an answer.
    pub(super) async fn need_answer(&mut self) -> anyhow::Result<Option<End>> {
        // Display all earlier events before the prompt.
        if self.seen < self.place.engine.thread(&self.thread).row().await?.head {
            return Ok(None);
        }
        let open = self.place.engine.thread(&self.thread).interrupts().await?;
        if open.is_empty() {
            return Ok(None);
        }
        let party = local();
        // A user who has approved already waits for the other approvers.
        let mine = |open: &OpenInterrupt| !open.approved_by.contains(&party.principal);
        let open: Vec<OpenInterrupt> = open.into_iter().filter(mine).collect();
        let asks = self.console.can_ask() && matches!(self.sight, Sight::People(_));
        if !asks || open.is_empty() {
            return self.wait_elsewhere().await;
        }
        let backgrounds = backgrounds(&self.place.engine, &self.thread).await?;
        if let Sight::People(live) = &mut self.sight {
            live.pause();
        }
        if self.keyboard.is_none() {
            self.open_keyboard();
        }
        let light = Light { folder: &self.place.ground.folder, now: now(), paint: self.console.paint };
        self.asking = Some(Asking::start(self.console, open, backgrounds, party, light));
        Ok(None)
    }

    /// Handles interrupts that no user can answer on this terminal: prints how to answer them later.
    async fn wait_elsewhere(&mut self) -> anyhow::Result<Option<End>> {
        // A driver that just woke up may find an answer in its inbox. Without one, the driver stops.
        if self.place.engine.thread(&self.thread).is_driven() && self.looks < LOOKS {
            self.looks += 1;
            return Ok(None);
        }
        let outcome = self.place.engine.run(&self.at_work().await?).status().await?;
        if outcome.status != Status::Paused {
            return Ok(None);
        }
        match &mut self.sight {
            Sight::People(live) => {
                live.pause();
                let backgrounds = backgrounds(&self.place.engine, &self.thread).await?;
                waits(self.console, self.place, &outcome, &backgrounds);
            }
            Sight::Lines => {
                self.console.out_json(&json::outcome(&outcome).to_string());
            }
        }
        Ok(Some(End::Outcome(Box::new(outcome))))
    }

    pub(super) async fn typed(&mut self, typed: Typed) -> anyhow::Result<Option<End>> {
        let line = match typed {
            Typed::Line(line) => line,
            Typed::Interrupt => return self.signalled(Signal::Interrupt).await,
            Typed::Gone => return Ok(Some(self.leave(Exit::Signal(HANG_UP)))),
            Typed::End => {
                // Ctrl-D without an open question is ignored, because input during a run only queues messages.
                if self.asking.is_some() {
                    self.console.note("");
                    return Ok(Some(self.leave(Exit::Waiting)));
                }
                return Ok(None);
            }
        };
        let Some(asking) = &mut self.asking else { return self.queue(line).await.map(|()| None) };
        if self.console.screen().is_some() {
            // The line ends the displayed question, as the terminal's echo would.
            self.console.note(&shown_line(&line));
        }
        let reply = asking.take(self.console, &line);
        if let (Reply::NoAnswer, Some(screen)) = (&reply, self.console.screen()) {
            // The user may have begun to type a message before the question was displayed.
            screen.put_back(&line);
        }
        self.replied(reply).await
    }

    async fn replied(&mut self, reply: Reply) -> anyhow::Result<Option<End>> {
        match reply {
            Reply::Again | Reply::NoAnswer => {}
            Reply::Stop => {
                self.asking = None;
                self.cancel().await?;
            }
            Reply::Answers(given, said) => self.answer(given, &said).await,
            Reply::Grant(wish, given) => self.grant(wish, given).await,
            Reply::Edit(text) => return self.edit(text).await,
        }
        Ok(None)
    }

    /// Submits answers, all or none. If another user answered first, prints a note and continues.
    async fn answer(&mut self, given: Vec<Given>, said: &str) {
        let answered = self.place.answer(&self.thread, given, Vec::new()).await;
        let edit = self.asking.as_ref().and_then(Asking::sent_edit);
        match (answered, edit, &mut self.asking) {
            (Ok(_), ..) => {
                self.console.note(&format!("  {said}"));
                self.asking = None;
            }
            (Err(EngineError::Rejected(Reject::Invalid { what })), Some(text), Some(asking)) => {
                asking.fault(self.console, &what, text);
            }
            (Err(error), ..) => {
                self.console.note(&format!("  not accepted: {error}"));
                self.asking = None;
            }
        }
    }

    /// Approves a call and creates a grant for similar calls, both or neither. The next call already finds the grant.
    async fn grant(&mut self, wish: GrantWish, given: Given) {
        let place = self.place;
        let said = wish.said();
        let expires_at = wish.expires_at(now());
        let GrantWish { tool, arguments, count, lasts: _ } = wish;
        // This call uses the grant's first count.
        let count = count.map(|count| count.saturating_sub(1));
        self.asking = None;
        let (given, by) = (vec![given], local());
        let answered = if count == Some(0) {
            place.answer(&self.thread, given, Vec::new()).await.map(|_| "approved once".to_owned())
        } else {
            let (user, whose) = (by.principal.clone(), by.principal.clone());
            let draft = GrantDraft { user, tool, arguments, count, expires_at, by: whose };
            let granted = place.answer(&self.thread, given, vec![draft]).await;
            granted.map(|(_, grants)| grants.iter().map(|grant| format!("{said} ({})", grant.id)).collect())
        };
        match answered {
            Ok(said) => self.console.note(&format!("  {said}")),
            Err(error) => self.console.note(&format!("  not accepted: {error}")),
        }
    }

    async fn edit(&mut self, text: String) -> anyhow::Result<Option<End>> {
        // The editor needs the terminal, so end the keyboard thread first.
        self.keyboard = None;
        if let Some(screen) = self.console.screen() {
            screen.pause();
        }
        let directory = &self.place.ground.user.data;
        let edited = edit(directory, self.run.as_str(), &text, self.signals).await;
        match self.console.screen() {
            Some(screen) => screen.resume(),
            None => self.open_keyboard(),
        }
        let Some(asking) = &mut self.asking else { return Ok(None) };
        let reply = match edited {
            Ok(Edited::Text(text)) => asking.edited(self.console, text),
            Ok(Edited::Left(Signal::End(code))) => return Ok(Some(self.leave(Exit::Signal(code)))),
            Ok(Edited::Left(Signal::Interrupt)) => Reply::Again,
            Err(trouble) => asking.fault(self.console, trouble.parts().0, text),
        };
        // A reply after an edit never opens the editor again.
        if let Reply::Answers(given, said) = reply {
            self.answer(given, &said).await;
        }
        Ok(None)
    }
}

/// Prints the requests that a run waits for, and how to answer them from another terminal.
fn waits(
    console: &Console,
    place: &Place,
    outcome: &Outcome,
    backgrounds: &BTreeMap<InterruptId, Background>,
) {
    let flags = place.ground.same_flags();
    let run = &outcome.run;
    let light = Light { folder: &place.ground.folder, now: now(), paint: console.paint };
    console.note(&format!("{} the run waits for an answer", console.paint.yellow("waiting:")));
    for open in &outcome.interrupts {
        let background = backgrounds.get(&open.interrupt).cloned().unwrap_or_default();
        let card = Card::of(open, &background, light);
        console.note(&format!("  {} {}", card.word, console.paint.bold(&card.title)));
        for note in &card.notes {
            console.note(&format!("    {}", shown(note)));
        }
        for hint in hints(open, &local(), &place.ground) {
            console.hint(&hint);
        }
    }
    console.hint(&format!("`windlass resume {run}{flags}` asks in a terminal"));
}
