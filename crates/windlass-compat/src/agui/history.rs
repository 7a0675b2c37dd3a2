//! The state of a thread as a client sees it: its messages, the message ids it has used, and the state of its run.
//!
//! The module folds the journal and stores nothing else.

use std::collections::{BTreeMap, HashMap};

use windlass::machine::{
    CallKey, Event, Fact, InputId, InterruptId, ModelName, Principal, RunError, RunId, RunStatus, Seq,
    ThreadId,
};
use windlass::port::journal::Recorded;
use windlass::{Engine, EngineError};

use super::message::{Message, call_id, last_words_id, parts, plain, remark, reply_id, result_id, text};
use super::notes::{self, Named};
use super::reply::Whole;
use super::word::Spent;
use crate::fill::{ROOM_BYTES, fill};
use crate::folds::JournalFold;

/// Number of events per read.
const PAGE: usize = 512;

#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    pub status: RunStatus,
    pub error: Option<RunError>,
    /// Tokens used since the run last waited for a person.
    pub spent: Spent,
}

/// The fold of a thread's journal.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The last applied event.
    pub seq: Seq,
    /// Each message with its run.
    messages: Vec<(Option<RunId>, Message)>,
    /// Queued messages with the runs that they will start.
    pub queued: HashMap<InputId, (RunId, Message)>,
    /// Every message ever received, with its run.
    pub known: HashMap<InputId, Option<RunId>>,
    /// The newest run.
    pub run: Option<RunId>,
    pub ended: HashMap<RunId, Ending>,
    /// The clients' run ids in the order of their requests, each with the engine's id.
    pub outward: Vec<(String, RunId)>,
    /// The step in progress, and the event at which its newest attempt began.
    pub step: Option<(u32, Seq)>,
    /// Whether a model call is in progress.
    pub is_calling: bool,
    /// The model of the newest step.
    pub model: Option<ModelName>,
    /// Client-visible ids of the newest reply's calls.
    pub calls: BTreeMap<CallKey, String>,
    /// The call of each interrupt.
    pub asked: HashMap<InterruptId, CallKey>,
    /// Closed interrupts, with the principal who closed each.
    pub closed: HashMap<InterruptId, Principal>,
    /// Tokens used since the run last waited for a person.
    pub spent: Spent,
}

impl JournalFold for History {
    fn apply(&mut self, seq: Seq, event: &Event) {
        History::apply(self, seq, event);
    }
}

impl History {
    /// Folds a thread up to the event `until`.
    pub async fn read(engine: &Engine, thread: &ThreadId, until: Seq) -> Result<Self, EngineError> {
        let mut history = Self::default();
        history.read_on(engine, thread, until).await?;
        Ok(history)
    }

    /// Applies further events, up to the event `until`.
    pub async fn read_on(
        &mut self,
        engine: &Engine,
        thread: &ThreadId,
        until: Seq,
    ) -> Result<(), EngineError> {
        let mut room = ROOM_BYTES;
        loop {
            let page = engine.thread(thread).events(self.seq, PAGE).await?;
            let is_last = page.len() < PAGE;
            for Recorded { seq, mut event } in page {
                if seq > until {
                    return Ok(());
                }
                fill(engine, &mut event, &mut room).await;
                self.apply(seq, &event);
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Returns all messages except those of runs that were rolled back.
    pub fn messages(&self) -> Vec<Message> {
        self.messages.iter().map(|(_, message)| message.clone()).collect()
    }

    /// Whether the client has every message, by id.
    pub fn is_known_to(&self, has: impl Fn(&str) -> bool) -> bool {
        let mut ids = self.messages.iter().filter_map(|(_, message)| message.id_that_is_kept());
        ids.all(has)
    }

    /// Returns the newest run, unless it has ended.
    pub fn active(&self) -> Option<&RunId> {
        self.run.as_ref().filter(|run| !self.ended.contains_key(*run))
    }

    /// Applies the next event. The caller must fill in its offloaded texts first.
    pub fn apply(&mut self, seq: Seq, event: &Event) {
        self.seq = seq;
        match &event.fact {
            Fact::MessageReceived { id, message, .. } => {
                self.known.insert(id.clone(), event.run.clone());
                let content = plain(&message.blocks);
                self.push(event, Message::User { id: id.to_string(), content });
            }
            Fact::MessageQueued { id, queued } => {
                self.known.insert(id.clone(), Some(queued.run.clone()));
                let content = plain(&queued.message.blocks);
                let message = Message::User { id: id.to_string(), content };
                self.queued.insert(id.clone(), (queued.run.clone(), message));
            }
            Fact::MessageEdited { id, message, .. } => {
                if let Some((_, Message::User { content, .. })) = self.queued.get_mut(id) {
                    *content = plain(&message.blocks);
                }
            }
            Fact::MessageTaken { id } => {
                if let Some((_, message)) = self.queued.remove(id) {
                    self.known.insert(id.clone(), event.run.clone());
                    self.push(event, message);
                }
            }
            Fact::MessageWithdrawn { id, .. } => drop(self.queued.remove(id)),
            Fact::RunStarted { .. } => {
                self.run.clone_from(&event.run);
                (self.spent, self.step) = (Spent::default(), None);
                self.calls.clear();
            }
            Fact::RunFinished { .. } => self.finished(event),
            Fact::RunWithdrawn { .. } => self.messages.retain(|(run, _)| *run != event.run),
            Fact::Note { name, data } => {
                if let Some((outward, named)) = notes::read(name, data) {
                    let run = match named {
                        Named::Run(run) => Some(run),
                        Named::Message(id) => self.known.get(&id).cloned().flatten(),
                    };
                    self.outward.extend(run.map(|run| (outward, run)));
                }
            }
            _ => self.stepped(seq, event), // tidy: the other kinds are about steps
        }
    }

    fn stepped(&mut self, seq: Seq, event: &Event) {
        match &event.fact {
            Fact::StepStarted { attempt, model, .. } => {
                (self.step, self.model) = (Some((attempt.step, seq)), Some(model.clone()));
                self.is_calling = true;
            }
            Fact::StepFailed { .. } => self.is_calling = false,
            Fact::StepReplied { .. } => self.replied(event),
            Fact::InterruptOpened { interrupt, call: Some(call), .. } => {
                self.asked.insert(interrupt.clone(), *call);
            }
            Fact::InterruptClosed { interrupt, by, .. } => {
                self.closed.insert(interrupt.clone(), by.clone());
                self.spent = Spent::default();
            }
            Fact::ToolFinished { call, outcome, content, error, .. } => {
                if let Some(id) = self.calls.get(call).cloned() {
                    let metadata = remark(*outcome, *error);
                    let (content, message_id) = (plain(content), result_id(&id));
                    self.push(event, Message::Tool { id: message_id, tool_call_id: id, content, metadata });
                }
            }
            _ => {} // tidy: the other kinds change nothing that a client is shown
        }
    }

    fn replied(&mut self, event: &Event) {
        self.is_calling = false;
        let Fact::StepReplied { attempt, message, usage, .. } = &event.fact else { return };
        let (Some(run), Some((_, began))) = (&event.run, self.step) else { return };
        if let Some(model) = &self.model {
            self.spent.add(model, usage);
        }
        let id = reply_id(run, began);
        let (thought, said, calls) = parts(message);
        let keys = (0..calls.len()).filter_map(|index| u32::try_from(index).ok());
        self.calls =
            keys.map(|index| (CallKey { step: attempt.step, index }, call_id(&id, index as usize))).collect();
        if message.is_worth_keeping() {
            for message in (Whole { thought, said, calls }).messages(&id) {
                self.push(event, message);
            }
        }
    }

    fn finished(&mut self, event: &Event) {
        let Fact::RunFinished { status, output, error, .. } = &event.fact else { return };
        let Some(run) = event.run.clone() else { return };
        if let Some(words) = output.text.as_ref().map(text).filter(|words| !words.is_empty()) {
            let (id, content) = (last_words_id(&run), Some(words.to_owned()));
            self.push(event, Message::Assistant { id, content, tool_calls: Vec::new() });
        }
        (self.step, self.is_calling) = (None, false);
        let spent = std::mem::take(&mut self.spent);
        self.ended.insert(run, Ending { status: *status, error: error.clone(), spent });
    }

    fn push(&mut self, event: &Event, message: Message) {
        self.messages.push((event.run.clone(), message));
    }
}
