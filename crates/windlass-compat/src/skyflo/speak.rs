//! Encodes a thread's updates as events of the Skyflo engine.
//!
//! The mapping is pure, with one encoder per stream. It reads no clock and no store. The caller
//! fills in offloaded texts beforehand.

use serde_json::{Value, json};
use windlass::Update;
use windlass::machine::{
    Event, Fact, InputId, InterruptKind, LimitAsked, Run, RunError, RunId, RunStatus, Timestamp,
};
use windlass::port::journal::ThreadStatus;

use super::calls::Calls;
use super::reply::{Replied, Reply};
use super::word::{Scene, Word};
use crate::call::text;

/// Error code of a run that reached its step limit.
const OUT_OF_STEPS: &str = "ERR_MAX_TURNS";

/// The encoder of one stream.
#[derive(Debug)]
pub struct Speaker {
    scene: Scene,
    /// The run that the stream follows.
    run: RunId,
    /// The queued message that will start the run or join a running one.
    queued: Option<InputId>,
    /// The run that was active when the stream began.
    beside: Option<RunId>,
    /// Time from which the reported durations are measured.
    since: Timestamp,
    /// Number of tools offered to the model.
    tools: usize,
    /// The agent's step limit.
    max_steps: u32,
    /// Whether to report a title that the engine generates.
    tells_title: bool,
    told_ttft: bool,
    model: String,
    reply: Reply,
    calls: Calls,
    is_over: bool,
}

/// Data about the agent that the encoder reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Number of tools offered to the model.
    pub tools: usize,
    /// The agent's step limit.
    pub max_steps: u32,
}

impl Speaker {
    /// Creates an encoder for a run that a request has started or will start.
    pub fn new(scene: Scene, run: RunId, since: Timestamp, offer: Offer) -> Self {
        Self {
            scene,
            run,
            queued: None,
            beside: None,
            since,
            tools: offer.tools,
            max_steps: offer.max_steps,
            tells_title: true,
            told_ttft: false,
            model: String::new(),
            reply: Reply::default(),
            calls: Calls::default(),
            is_over: false,
        }
    }

    /// Adds an active run. An earlier stream sent its calls as pending.
    pub fn beside(mut self, run: &Run) -> Self {
        (self.calls, self.model) = (Calls::resumed(run), run.step_model.to_string());
        self.beside = Some(run.id.clone());
        self
    }

    /// Marks the conversation as titled. The encoder then does not report a title that the engine generates.
    pub fn titled(mut self) -> Self {
        self.tells_title = false;
        self
    }

    /// Sets the number of tools that the next steps offer.
    pub fn offer(&mut self, tools: usize) {
        self.tools = tools;
    }

    /// Returns the first events: `ready`, and the open approval requests of an active run.
    pub fn begin(&self, run: Option<&Run>) -> Vec<Word> {
        let mut words = vec![self.scene.ready()];
        words.extend(run.into_iter().flat_map(|run| self.calls.open(&self.scene, run)));
        words
    }

    /// Whether the stream's last event was sent.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Encodes an update.
    pub fn hear(&mut self, update: &Update, now: Timestamp) -> Vec<Word> {
        match update {
            Update::Event(recorded) => self.event(&recorded.event),
            Update::Delta { delta, .. } => {
                let mut words: Vec<Word> = self.ttft(now).into_iter().collect();
                words.extend(self.reply.fragment(&self.scene, delta, now));
                words
            }
            Update::Snapshot { parts, .. } => {
                let mut words: Vec<Word> = self.ttft(now).into_iter().collect();
                words.extend(self.reply.snapshot(&self.scene, parts, now));
                words
            }
            Update::Progress { .. } | Update::Status(ThreadStatus::Running | ThreadStatus::Sleeping) => {
                Vec::new()
            }
            Update::Status(ThreadStatus::Waiting) => self.waits(now),
            Update::Status(ThreadStatus::Idle) if self.queued.is_some() => {
                let why = "the previous run ended without taking the message, which is still queued";
                vec![self.fails(now, why)]
            }
            Update::Status(ThreadStatus::Idle) => Vec::new(),
            Update::Stopped { why } => {
                self.is_over = true;
                vec![self.scene.error(now, &format!("the run was interrupted and resumes later: {why}"))]
            }
        }
    }

    /// Returns the event for a thread that can no longer be followed.
    pub fn breaks(&self, now: Timestamp, why: &str) -> Word {
        self.scene.error(now, why)
    }

    fn event(&mut self, event: &Event) -> Vec<Word> {
        let at = event.at;
        match &event.fact {
            Fact::ThreadTitled { title, by, .. } if self.tells_title && by.as_str() == "engine" => {
                vec![self.scene.word("conversation.title.generated", at, json!({"title": title}))]
            }
            Fact::MessageQueued { id, queued } if queued.run == self.run => {
                self.queued = Some(id.clone());
                Vec::new()
            }
            Fact::MessageTaken { id } if self.queued.as_ref() == Some(id) => {
                self.queued = None;
                self.taken(event.run.as_ref())
            }
            Fact::MessageWithdrawn { id, .. } if self.queued.as_ref() == Some(id) => self.ends(at, "stopped"),
            Fact::RunStarted { .. } => {
                if event.run.as_ref() == Some(&self.run) {
                    self.since = at;
                }
                (self.reply, self.calls) = (Reply::default(), Calls::default());
                Vec::new()
            }
            Fact::StepStarted { attempt, model, .. } => {
                if attempt.attempt == 1 {
                    self.reply = Reply::default();
                }
                self.model = model.to_string();
                let data = json!({"model": self.model, "tools_available": self.tools});
                vec![self.scene.word("generation.start", at, data)]
            }
            Fact::StepReplied { attempt, message, .. } => {
                let mut words: Vec<Word> = self.ttft(at).into_iter().collect();
                if let Some(replied) = Replied::of(&event.fact, &self.model) {
                    words.extend(self.reply.finish(&self.scene, at, &replied));
                }
                self.calls.replied(event.run.as_ref().unwrap_or(&self.run), attempt.step, message);
                words
            }
            Fact::StepFailed { .. } => self.reply.retry(&self.scene, at, &event.fact).into_iter().collect(),
            Fact::InterruptOpened { kind: InterruptKind::Limit(limit), call: None, .. } => {
                vec![self.fails(at, &reached(limit))]
            }
            Fact::RunFinished { .. } => self.finished(event),
            _ => self.calls.hear(&self.scene, event), // tidy: other events of this dialect are about calls
        }
    }

    /// Handles a queued message that joined the active run or started another run. In the second case, a
    /// request to stop applies to the other run.
    fn taken(&mut self, run: Option<&RunId>) -> Vec<Word> {
        let Some(run) = run else { return Vec::new() };
        self.run = run.clone();
        if self.beside.as_ref() == Some(run) {
            return Vec::new();
        }
        self.scene.run = run.to_string();
        vec![self.scene.ready()]
    }

    /// Returns the time to the first fragment, once per request. (SK-E4)
    fn ttft(&mut self, now: Timestamp) -> Option<Word> {
        let told = std::mem::replace(&mut self.told_ttft, true);
        (!told).then(|| self.scene.word("ttft", now, json!({"duration": now.since(self.since)})))
    }

    /// Ends the stream because the thread waits for people. Sends no completion events. (SK-X10)
    fn waits(&mut self, at: Timestamp) -> Vec<Word> {
        self.is_over = true;
        vec![self.complete(at, json!({"done": false, "awaiting_approval": true}), "awaiting_approval")]
    }

    fn finished(&mut self, event: &Event) -> Vec<Word> {
        let Fact::RunFinished { status, output, error, .. } = &event.fact else { return Vec::new() };
        // Another run may end while the message is queued.
        if event.run.as_ref() != Some(&self.run) || self.queued.is_some() {
            return Vec::new();
        }
        let own = output.text.as_ref().map(text);
        let own = own.and_then(|text| self.reply.last_words(&self.scene, text));
        let mut words: Vec<Word> = own.into_iter().collect();
        match status {
            RunStatus::Done => words.extend(self.ends(event.at, "completed")),
            RunStatus::Cancelled => words.extend(self.ends(event.at, "stopped")),
            RunStatus::Failed => {
                let why = error.as_ref().map_or_else(|| "the run failed".into(), |error| self.explain(error));
                words.push(self.fails(event.at, &why));
            }
        }
        words
    }

    /// Ends a run that is done or was stopped. (SK-E23, SK-E24, SK-ST4)
    fn ends(&mut self, at: Timestamp, status: &str) -> Vec<Word> {
        self.is_over = true;
        let ms = at.since(self.since);
        let data = json!({"status": status, "duration": ms as f64 / 1e3, "duration_ms": ms});
        vec![self.scene.word("completed", at, data), self.complete(at, json!({"done": true}), status)]
    }

    fn complete(&self, at: Timestamp, result: Value, status: &str) -> Word {
        self.scene.word("workflow_complete", at, json!({"result": result, "status": status}))
    }

    /// Ends a run that failed. (SK-E25)
    fn fails(&mut self, at: Timestamp, why: &str) -> Word {
        self.is_over = true;
        self.scene.word("workflow.error", at, json!({"error": why, "status": "error"}))
    }

    /// Returns the text of an error, in the form that clients know if there is one. (SK-G19)
    fn explain(&self, error: &RunError) -> String {
        if error.code != OUT_OF_STEPS {
            return error.message.clone();
        }
        format!(
            "The AI Agent has reached the maximum number of iterations of {} for the current prompt. You can \
             continue the conversation. An administrator can raise `max_steps` (LLM_MAX_ITERATIONS).",
            self.max_steps
        )
    }
}

fn reached(limit: &LimitAsked) -> String {
    format!(
        "the run waits: {} of {} `{}` are used; raise the limit or stop the run",
        limit.used, limit.figure, limit.limit
    )
}
