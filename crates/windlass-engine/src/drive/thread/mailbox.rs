//! A driver's mailbox in memory, and the thread's inbox in the store.
//!
//! This module reads mail; the driver decides the inputs.

use tokio::sync::mpsc;
use windlass_machine::{InputId, ThreadId};

use super::flight::InFlight;
use super::mail::{Letter, Mail};
use crate::port::journal::{Epoch, Journal, StoreError};

/// Capacity of a mailbox, and the maximum number of mails in one append. It exceeds the results of one step (at most
/// 16 parallel calls), so that input from people fits as well.
pub(super) const MAILBOX: usize = 64;

/// A driver's mailbox.
pub(super) struct Mailbox {
    receiver: mpsc::Receiver<Mail>,
    /// The sending half, by which the registry identifies this driver.
    pub sender: mpsc::Sender<Mail>,
    /// Whether the inbox has unread rows.
    pub inbox: bool,
    /// The epoch of the newest claim that is known to have lapsed.
    pub lapsed: Option<Epoch>,
    /// Inbox rows that are rejected without the machine, with the reason.
    pub refused: Vec<(InputId, String)>,
}

impl Mailbox {
    /// Creates a mailbox. `inbox` is whether the thread's inbox already has rows.
    pub(super) fn new(inbox: bool) -> Self {
        let (sender, receiver) = mpsc::channel(MAILBOX);
        Self { receiver, sender, inbox, lapsed: None, refused: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    pub(super) fn close(&mut self) {
        self.receiver.close();
    }

    pub(super) async fn recv(&mut self) -> Option<Mail> {
        self.receiver.recv().await
    }

    /// Takes up to `limit` mails without waiting.
    pub(super) fn drain(&mut self, limit: usize) -> impl Iterator<Item = Mail> {
        std::iter::from_fn(|| self.receiver.try_recv().ok()).take(limit)
    }

    /// Converts mail to inputs for the machine. Removes finished commands from `in_flight`.
    pub(super) fn open(&mut self, mails: Vec<Mail>, in_flight: &mut InFlight) -> Vec<Letter> {
        let mut letters = Vec::with_capacity(mails.len());
        for mail in mails {
            match mail {
                Mail::Input(letter) => letters.push(*letter),
                Mail::Landed(letter) => {
                    in_flight.landed(&letter.input);
                    letters.push(*letter);
                }
                Mail::Inbox => self.inbox = true,
                Mail::Lapsed(epoch) => self.lapsed = self.lapsed.max(Some(epoch)),
            }
        }
        letters
    }

    /// Reads the oldest inbox rows as inputs for the machine.
    pub(super) async fn inbox_letters(
        &mut self,
        journal: &dyn Journal,
        thread: &ThreadId,
    ) -> Result<Vec<Letter>, StoreError> {
        let rows = journal.inbox(thread, MAILBOX).await?;
        self.inbox = rows.len() == MAILBOX;
        let mut letters = Vec::with_capacity(rows.len());
        for (id, input) in rows {
            match input {
                Ok(input) if !input.is_the_drivers() => {
                    letters.push(Letter { row: Some(id), ..Letter::plain(input) });
                }
                Ok(_) => self.refuse(id, "only a thread's driver may report that".to_owned()),
                Err(why) => self.refuse(id, format!("the input cannot be read: {why}")),
            }
        }
        Ok(letters)
    }

    /// Rejects an inbox row once, even if it is read several times before an append consumes it.
    fn refuse(&mut self, id: InputId, why: String) {
        if !self.refused.iter().any(|(refused, _)| *refused == id) {
            self.refused.push((id, why));
        }
    }
}
