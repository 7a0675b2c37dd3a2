//! Commands in the background whose run was cancelled or whose thread is gone are ended, whichever process saw that
//! happen; and what runs is written down, so that people see it from every process and can end it.
//!
//! A run that has ended by itself leaves its commands at work, and a fork has none of them: they are the thread's.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use windlass_machine::{RunStatus, ThreadId};

use crate::error::{EngineError, SlowDriver};
use crate::port::background::{Background, BackgroundCommand};
use crate::port::bus::Bus;
use crate::port::clock::Clock;
use crate::port::journal::{Journal, StoreError};
use crate::port::records::{Expect, RecordError, Records};

/// The kind of the records that say what runs. Their owner is the node that runs it.
const COMMAND: &str = "background";
/// What a record says where somebody wants the command to end.
const END: &str = "end";

/// Records read at once.
const PAGE: usize = 100;
/// How long a process may take to end a command for another one: 1 s until it looks, 2 s in which the command may end by
/// itself, 2 s in which it is still heard, and as much again for a busy machine.
const END_WITHIN_MS: u64 = 10_000;
/// How often it is looked whether it has.
const LOOK_EVERY_MS: u64 = 50;

/// What this process has written down of its own commands.
#[derive(Default)]
pub(in crate::drive) struct Noted {
    /// By key.
    known: BTreeMap<String, BackgroundCommand>,
    /// The newest change of the commands' records when wishes were looked up.
    changes: Vec<u64>,
}

/// The commands in the background of an engine's tools.
pub(crate) struct BackgroundCommands {
    /// The tools that keep some at work.
    tools: Vec<Arc<dyn Background>>,
    journal: Arc<dyn Journal>,
    records: Arc<dyn Records>,
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
}

impl BackgroundCommands {
    pub(crate) fn new(
        tools: Vec<Arc<dyn Background>>,
        journal: &Arc<dyn Journal>,
        records: &Arc<dyn Records>,
        bus: &Arc<dyn Bus>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        Self {
            tools,
            journal: journal.clone(),
            records: records.clone(),
            bus: bus.clone(),
            clock: clock.clone(),
        }
    }

    /// This process's commands.
    fn at_work(&self) -> Vec<(&Arc<dyn Background>, BackgroundCommand)> {
        let each = self.tools.iter().flat_map(|one| one.at_work().into_iter().map(move |it| (one, it)));
        each.collect()
    }

    /// Ends those of this process's commands that `counts` names, and waits until they have ended.
    pub(crate) async fn end(&self, counts: impl Fn(&BackgroundCommand) -> bool) {
        let named = self.at_work().into_iter().filter(|(_, command)| counts(command));
        let ends = named.map(|(one, command)| async move { one.end(&command.thread, &command.id).await });
        join_all(ends.collect::<Vec<_>>()).await;
    }

    /// As [`end`](Self::end), beside everything else.
    pub(crate) fn end_soon(
        self: &Arc<Self>,
        counts: impl Fn(&BackgroundCommand) -> bool + Send + Sync + 'static,
    ) {
        if self.at_work().iter().any(|(_, command)| counts(command)) {
            let commands = self.clone();
            tokio::spawn(async move { commands.end(counts).await });
        }
    }

    /// Writes down what runs here, and ends what nobody wants any more: by a word from another process, or because another
    /// one has cancelled the run or deleted the thread.
    pub(in crate::drive) async fn look_after(self: &Arc<Self>, noted: &mut Noted) -> Result<(), StoreError> {
        let now: BTreeMap<String, BackgroundCommand> =
            self.at_work().into_iter().map(|(_, command)| (self.key(&command), command)).collect();
        if now.is_empty() && noted.known.is_empty() {
            return Ok(());
        }
        for (key, command) in now.iter().filter(|(key, _)| !noted.known.contains_key(*key)) {
            let value = json!(command);
            match self.records.put(COMMAND, key, self.journal.node(), value, Expect::Any).await {
                Ok(_) | Err(RecordError::Conflict { .. }) => {}
                Err(RecordError::Store(error)) => return Err(error),
            }
        }
        for key in noted.known.keys().filter(|key| !now.contains_key(*key)) {
            self.forget(key).await?;
        }
        noted.known = now;
        let changes = self.records.changes(&[COMMAND]).await?;
        let is_new = noted.changes != changes;
        noted.changes = changes;
        for (key, command) in &noted.known {
            let is_wished = is_new
                && self
                    .records
                    .get(COMMAND, key)
                    .await?
                    .is_some_and(|record| record.value.get(END).is_some());
            if is_wished || self.is_unwanted(command).await? {
                let ends = command.clone();
                self.end_soon(move |other| *other == ends);
            }
        }
        Ok(())
    }

    /// Whether the run of a command was cancelled, or is gone with its thread.
    async fn is_unwanted(&self, command: &BackgroundCommand) -> Result<bool, StoreError> {
        let run = self.journal.run(&command.run).await?;
        Ok(run.is_none_or(|run| run.view.status == Some(RunStatus::Cancelled)))
    }

    /// Ends all of this process's commands, and takes back what was written down of them.
    pub(crate) async fn end_all(&self) {
        self.end(|_| true).await;
        match self.records.list(COMMAND, Some(self.journal.node()), None, PAGE).await {
            Ok(records) => {
                for record in records {
                    if let Err(error) = self.forget(&record.key).await {
                        tracing::debug!(%error, "a command that has ended stays written down");
                    }
                }
            }
            // Whoever reads it finds this process dead.
            Err(error) => tracing::debug!(%error, "commands that have ended stay written down"),
        }
    }

    /// The commands of a thread, of this process and of all others that live.
    pub(crate) async fn of_thread(&self, thread: &ThreadId) -> Result<Vec<BackgroundCommand>, StoreError> {
        let own = self.at_work().into_iter().map(|(_, command)| command);
        let mut all: Vec<_> = own.filter(|command| command.thread == *thread).collect();
        let begin = format!("{thread}/");
        let mut after = begin.clone();
        loop {
            let records = self.records.list(COMMAND, None, Some(&after), PAGE).await?;
            let is_last = records.len() < PAGE;
            for record in records {
                if !record.key.starts_with(&begin) {
                    return Ok(all);
                }
                after.clone_from(&record.key);
                if record.owner == self.journal.node() {
                    continue;
                }
                if !self.journal.is_alive(&record.owner) {
                    self.forget(&record.key).await?;
                    continue;
                }
                // One that this build cannot read is of a newer one.
                if let Ok(mut command) = serde_json::from_value::<BackgroundCommand>(record.value) {
                    command.id = format!("{}@{}", command.id, record.owner);
                    all.push(command);
                }
            }
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Ends a command of a thread, in whichever process it runs, and waits until it has ended.
    pub(crate) async fn end_one(&self, thread: &ThreadId, id: &str) -> Result<(), EngineError> {
        let Some((own, node)) = id.split_once('@') else {
            let is_it = |command: &BackgroundCommand| command.thread == *thread && command.id == id;
            if !self.at_work().iter().any(|(_, command)| is_it(command)) {
                return Err(unknown(id));
            }
            self.end(is_it).await;
            return Ok(());
        };
        let key = format!("{thread}/{node}/{own}");
        let until_ms = self.clock.monotonic_ms() + END_WITHIN_MS;
        let mut is_asked = false;
        loop {
            let found = self.records.get(COMMAND, &key).await?;
            let Some(record) = found.filter(|_| self.journal.is_alive(node)) else {
                return if is_asked { Ok(()) } else { Err(unknown(id)) };
            };
            if self.clock.monotonic_ms() >= until_ms {
                let driver = SlowDriver::AnotherProcess { node: node.to_owned() };
                return Err(EngineError::Pending { thread: thread.clone(), driver });
            }
            if record.value.get(END).is_none() {
                let mut value = record.value;
                value[END] = Value::Bool(true);
                let expected = Expect::Version(record.version);
                match self.records.put(COMMAND, &key, &record.owner, value, expected).await {
                    Ok(_) => self.bus.wake(thread),
                    // It has ended meanwhile, or somebody else has asked: looked at again.
                    Err(RecordError::Conflict { .. }) => continue,
                    Err(RecordError::Store(error)) => return Err(error.into()),
                }
            }
            is_asked = true;
            self.clock.sleep_ms(LOOK_EVERY_MS).await;
        }
    }

    fn key(&self, command: &BackgroundCommand) -> String {
        format!("{}/{}/{}", command.thread, self.journal.node(), command.id)
    }

    async fn forget(&self, key: &str) -> Result<(), StoreError> {
        match self.records.delete(COMMAND, key, Expect::Any).await {
            Ok(()) | Err(RecordError::Conflict { .. }) => Ok(()),
            Err(RecordError::Store(error)) => Err(error),
        }
    }
}

fn unknown(id: &str) -> EngineError {
    EngineError::Store(StoreError::NotFound { what: format!("a command `{id}` at work in the background") })
}
