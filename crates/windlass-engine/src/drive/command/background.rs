//! Ends background commands whose run was cancelled or whose thread was deleted, also if another process detected it.
//! Running commands are also recorded, so that people can see and end them from every process.
//!
//! A run that ends without a cancellation leaves its commands running.
//! The commands belong to the thread, and a fork does not get them.

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

/// Kind of the records of running commands. Their owner is the node that runs the command.
const COMMAND: &str = "background";
/// Field of a record that requests the end of its command.
const END: &str = "end";

/// Maximum number of records read at a time.
const PAGE: usize = 100;
/// Timeout in milliseconds for ending a command of another process. That process polls within 1 s, gives the command
/// 2 s to exit, and waits 2 s for the remaining output. The total is doubled for a busy machine.
const END_WITHIN_MS: u64 = 10_000;
/// Interval of the checks whether the command has ended, in milliseconds.
const LOOK_EVERY_MS: u64 = 50;

/// The records that this process has written for its commands.
#[derive(Default)]
pub(in crate::drive) struct Noted {
    /// The written records by key.
    known: BTreeMap<String, BackgroundCommand>,
    /// The newest change number of the command records at the last read of end requests.
    changes: Vec<u64>,
}

/// The background commands of an engine's tools.
pub(crate) struct BackgroundCommands {
    /// The tools that manage background commands.
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

    /// Returns this process's commands.
    fn at_work(&self) -> Vec<(&Arc<dyn Background>, BackgroundCommand)> {
        let each = self.tools.iter().flat_map(|one| one.at_work().into_iter().map(move |it| (one, it)));
        each.collect()
    }

    /// Ends the commands of this process that `counts` selects, and waits until they have ended.
    pub(crate) async fn end(&self, counts: impl Fn(&BackgroundCommand) -> bool) {
        let named = self.at_work().into_iter().filter(|(_, command)| counts(command));
        let ends = named.map(|(one, command)| async move { one.end(&command.thread, &command.id).await });
        join_all(ends.collect::<Vec<_>>()).await;
    }

    /// Like [`end`](Self::end), but does not wait.
    pub(crate) fn end_soon(
        self: &Arc<Self>,
        counts: impl Fn(&BackgroundCommand) -> bool + Send + Sync + 'static,
    ) {
        if self.at_work().iter().any(|(_, command)| counts(command)) {
            let commands = self.clone();
            tokio::spawn(async move { commands.end(counts).await });
        }
    }

    /// Records the running commands. Ends commands if another process requested it, cancelled the run or deleted the
    /// thread.
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

    /// Whether the run of a command was cancelled or deleted with its thread.
    async fn is_unwanted(&self, command: &BackgroundCommand) -> Result<bool, StoreError> {
        let run = self.journal.run(&command.run).await?;
        Ok(run.is_none_or(|run| run.view.status == Some(RunStatus::Cancelled)))
    }

    /// Ends all of this process's commands and deletes their records.
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
            // Readers ignore the records of a process that has ended.
            Err(error) => tracing::debug!(%error, "commands that have ended stay written down"),
        }
    }

    /// Returns the commands of a thread in this and all other live processes.
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
                // A record that this build cannot decode is from a newer build.
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

    /// Ends a command of a thread, in any process, and waits until it has ended.
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
                    // The command has ended since the read, or another
                    // client has requested its end: read the record again.
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
