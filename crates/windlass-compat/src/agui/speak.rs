//! Encodes a thread's updates as AG-UI events.
//!
//! The mapping is pure, with one encoder per stream. It reads no clock and no store. The caller fills in offloaded
//! texts beforehand, and snapshots of the history afterwards.

use std::collections::{BTreeMap, HashMap};

use windlass::machine::{
    CallKey, Event, Fact, InputId, InterruptId, Message, ModelName, RunError, RunId, RunStatus, Seq,
};
use windlass::port::journal::{Recorded, ThreadStatus};
use windlass::{OpenInterrupt, Update};

use super::history::{Ending, History};
use super::interrupt::Interrupt;
use super::message::{call_id, last_words_id, parts, plain, remark, reply_id, result_id, text};
use super::reply::{Reply, Said, Whole};
use super::word::{Outcome, Role, Scene, Spent, Word};

/// Error code after which the run continues and the client may reconnect.
pub const DETACHED: &str = "detached";

/// The encoder of one stream.
#[derive(Debug)]
pub struct Speaker {
    scene: Scene,
    run: RunId,
    /// The queued message that will start the run.
    queued: Option<InputId>,
    /// The message that the client itself sent.
    own: Option<InputId>,
    /// Queued messages of other users.
    others: HashMap<InputId, String>,
    step: Option<u32>,
    /// The event at which the current attempt began.
    began: Option<Seq>,
    model: Option<ModelName>,
    reply: Reply,
    calls: BTreeMap<CallKey, String>,
    asked: HashMap<InterruptId, CallKey>,
    spent: Spent,
    is_over: bool,
}

impl Speaker {
    /// Creates an encoder for a run, starting at the end of `history`.
    pub fn new(scene: Scene, run: RunId, history: &History) -> Self {
        let mut speaker = Self {
            scene,
            queued: None,
            own: None,
            others: HashMap::new(),
            step: None,
            began: None,
            model: None,
            reply: Reply::new(String::new()),
            calls: BTreeMap::new(),
            asked: HashMap::new(),
            spent: Spent::default(),
            is_over: false,
            run,
        };
        let queued = history.queued.iter().find(|(_, (run, _))| *run == speaker.run);
        speaker.queued = queued.map(|(id, _)| id.clone());
        if history.active() == Some(&speaker.run) {
            speaker.model.clone_from(&history.model);
            speaker.calls.clone_from(&history.calls);
            speaker.asked.clone_from(&history.asked);
            speaker.spent.clone_from(&history.spent);
            if let Some((step, began)) = history.step {
                speaker.step = Some(step);
                speaker.began = history.is_calling.then_some(began);
                speaker.reply = Reply::new(reply_id(&speaker.run, began));
            }
        }
        speaker
    }

    /// Marks a message as one that the client already has.
    pub fn after(mut self, own: InputId) -> Self {
        self.own = Some(own);
        self
    }

    /// Returns the first events: the run's start, a special event if there is one, a snapshot if the client
    /// lacks messages, and the current step.
    pub fn begin(&self, special: Option<Word>, history: Option<&History>) -> Vec<Said> {
        let mut words = vec![self.scene.started()];
        words.extend(special);
        if let Some(history) = history {
            let mut messages = history.messages();
            // A queued message is not in the history yet, but the client has it.
            let waits = self.queued.as_ref().and_then(|id| history.queued.get(id));
            messages.extend(waits.map(|(_, message)| message.clone()));
            words.push(Word::MessagesSnapshot { messages });
        }
        words.extend(self.step.map(|step| Word::StepStarted { step_name: step_name(step) }));
        words.into_iter().map(Said::Word).collect()
    }

    /// Sets whether the client reconnects in the middle of the reply and has received
    /// no part of the reply on this stream.
    pub fn joins(&mut self, is_joined: bool) {
        self.reply.joins(is_joined);
    }

    /// Whether the stream's last event was sent.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Encodes an update.
    pub fn hear(&mut self, update: &Update) -> Vec<Said> {
        match update {
            Update::Event(Recorded { seq, event }) => self.event(*seq, event),
            Update::Delta { seq, delta, .. } if self.began == Some(*seq) => self.reply.fragment(delta),
            Update::Snapshot { seq, parts, .. } if self.began == Some(*seq) => self.reply.snapshot(parts),
            Update::Status(ThreadStatus::Idle) if self.queued.is_some() => {
                let why = "the previous run ended without taking the message, which is still queued";
                self.breaks("waiting", why)
            }
            Update::Stopped { why } => {
                self.breaks(DETACHED, &format!("the run was interrupted and resumes later: {why}"))
            }
            Update::Delta { .. } | Update::Snapshot { .. } | Update::Progress { .. } | Update::Status(_) => {
                Vec::new()
            }
        }
    }

    /// Ends the stream with the open interrupts.
    pub fn waits(&mut self, open: &[OpenInterrupt]) -> Vec<Said> {
        let call = |interrupt: &InterruptId| self.calls.get(self.asked.get(interrupt)?);
        let told = |open: &OpenInterrupt| Interrupt::new(open, call(&open.interrupt));
        let interrupts = open.iter().map(told).collect();
        self.ends(|scene, spent| scene.finished(Outcome::Interrupt { interrupts }, spent))
    }

    /// Encodes the end of a run that ended before the stream began.
    pub fn ended(&mut self, ending: &Ending) -> Vec<Said> {
        self.spent.clone_from(&ending.spent);
        self.ends_as(ending.status, ending.error.as_ref())
    }

    /// Ends the stream because the thread can no longer be followed.
    pub fn breaks(&mut self, code: &str, why: &str) -> Vec<Said> {
        self.ends(|_, spent| Word::RunError { message: why.into(), code: code.into(), usage: spent.told() })
    }

    fn event(&mut self, seq: Seq, event: &Event) -> Vec<Said> {
        match &event.fact {
            Fact::MessageQueued { id, queued } => {
                if queued.run == self.run {
                    self.queued = Some(id.clone());
                }
                self.others.insert(id.clone(), plain(&queued.message.blocks));
                return Vec::new();
            }
            Fact::MessageTaken { id } if self.queued.as_ref() == Some(id) => {
                // The client has this message, because the client sent it or displayed it in the queue.
                self.own = self.queued.take();
                self.run = event.run.clone().unwrap_or_else(|| self.run.clone());
            }
            Fact::MessageWithdrawn { id, .. } if self.queued.as_ref() == Some(id) => {
                return self.ends(|scene, spent| scene.finished(Outcome::Cancelled, spent));
            }
            _ => {} // tidy: the other kinds do not say whose run is heard
        }
        // Another run may be active while the message is queued.
        if event.run.as_ref() != Some(&self.run) || self.queued.is_some() {
            return Vec::new();
        }
        self.own_event(seq, event)
    }

    fn own_event(&mut self, seq: Seq, event: &Event) -> Vec<Said> {
        match &event.fact {
            Fact::MessageReceived { id, message, .. } => self.heard(id, plain(&message.blocks)),
            Fact::MessageTaken { id } => {
                let content = self.others.remove(id).unwrap_or_default();
                self.heard(id, content)
            }
            Fact::StepStarted { attempt, model, .. } => {
                (self.model, self.began) = (Some(model.clone()), Some(seq));
                self.reply = Reply::new(reply_id(&self.run, seq));
                let is_begun = self.step == Some(attempt.step);
                if is_begun { Vec::new() } else { self.steps(Some(attempt.step)) }
            }
            Fact::StepFailed { .. } => {
                self.began = None;
                self.reply.fail()
            }
            Fact::StepReplied { attempt, message, usage, .. } => {
                self.began = None;
                if let Some(model) = &self.model {
                    self.spent.add(model, usage);
                }
                self.replied(attempt.step, message)
            }
            Fact::InterruptOpened { interrupt, call: Some(call), .. } => {
                self.asked.insert(interrupt.clone(), *call);
                Vec::new()
            }
            Fact::ToolFinished { call, outcome, content, error, .. } => {
                let Some(id) = self.calls.get(call) else { return Vec::new() };
                vec![Said::Word(Word::ToolCallResult {
                    message_id: result_id(id),
                    tool_call_id: id.clone(),
                    content: plain(content),
                    role: Role::Tool,
                    metadata: remark(*outcome, *error),
                })]
            }
            Fact::RunFinished { status, output, error, .. } => {
                let words = output.text.as_ref().map(text).filter(|words| !words.is_empty());
                let mut said = words.map_or_else(Vec::new, |words| {
                    message(last_words_id(&self.run), Role::Assistant, words.to_owned())
                });
                said.extend(self.ends_as(*status, error.as_ref()));
                said
            }
            _ => Vec::new(), // tidy: events of other kinds are not part of this dialect
        }
    }

    /// Sends a person's message, unless this client sent it.
    fn heard(&self, id: &InputId, content: String) -> Vec<Said> {
        match self.own.as_ref() == Some(id) || content.is_empty() {
            true => Vec::new(),
            false => message(id.to_string(), Role::User, content),
        }
    }

    fn replied(&mut self, step: u32, message: &Message) -> Vec<Said> {
        let (thought, said, calls) = parts(message);
        let keys = (0..calls.len()).filter_map(|index| u32::try_from(index).ok());
        let id = self.reply.id().to_owned();
        self.calls = keys.map(|index| (CallKey { step, index }, call_id(&id, index as usize))).collect();
        match message.is_worth_keeping() {
            true => self.reply.finish(&Whole { thought, said, calls }),
            false => self.reply.fail(),
        }
    }

    fn steps(&mut self, next: Option<u32>) -> Vec<Said> {
        let finished = self.step.map(|step| Word::StepFinished { step_name: step_name(step) });
        let started = next.map(|step| Word::StepStarted { step_name: step_name(step) });
        self.step = next;
        finished.into_iter().chain(started).map(Said::Word).collect()
    }

    fn ends_as(&mut self, status: RunStatus, error: Option<&RunError>) -> Vec<Said> {
        match status {
            RunStatus::Done => self.ends(|scene, spent| scene.finished(Outcome::Success, spent)),
            RunStatus::Cancelled => self.ends(|scene, spent| scene.finished(Outcome::Cancelled, spent)),
            RunStatus::Failed => {
                let (code, why) = match error {
                    Some(error) => (error.code.as_str(), error.message.as_str()),
                    None => ("failed", "the run failed"),
                };
                self.breaks(code, why)
            }
        }
    }

    /// Closes all open items and sends the last event.
    fn ends(&mut self, last: impl FnOnce(&Scene, &Spent) -> Word) -> Vec<Said> {
        self.is_over = true;
        let mut said: Vec<Said> = self.reply.close().into_iter().map(Said::Word).collect();
        said.extend(self.steps(None));
        said.push(Said::Word(last(&self.scene, &self.spent)));
        said
    }
}

fn step_name(step: u32) -> String {
    format!("step {step}")
}

/// Returns the events of a message that arrived whole.
fn message(message_id: String, role: Role, delta: String) -> Vec<Said> {
    vec![
        Said::Word(Word::TextMessageStart { message_id: message_id.clone(), role }),
        Said::Word(Word::TextMessageContent { message_id: message_id.clone(), delta }),
        Said::Word(Word::TextMessageEnd { message_id }),
    ]
}
