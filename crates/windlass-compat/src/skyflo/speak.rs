//! What happens in a thread, said in the words of the Skyflo engine: updates in, outward events out.
//!
//! A pure mapping, one for each stream: it reads no clock and no store, and decides nothing. Texts that are stored
//! apart are filled in before.

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

/// The code of a run that has used up its steps.
const OUT_OF_STEPS: &str = "ERR_MAX_TURNS";

/// One stream's end of a thread.
#[derive(Debug)]
pub struct Speaker {
    scene: Scene,
    /// The run that the stream is about.
    run: RunId,
    /// The message that is to start it or to go into a running one, while it waits.
    queued: Option<InputId>,
    /// The run that went on when the stream began.
    beside: Option<RunId>,
    /// From when durations count.
    since: Timestamp,
    /// Tools that the model is offered.
    tools: usize,
    /// The steps that the agent may take.
    max_steps: u32,
    /// Whether a title that the engine makes is news.
    tells_title: bool,
    told_ttft: bool,
    model: String,
    reply: Reply,
    calls: Calls,
    is_over: bool,
}

/// What a speaker is to know of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Tools that the model is offered.
    pub tools: usize,
    /// The steps that it may take.
    pub max_steps: u32,
}

impl Speaker {
    /// Speaks of a run that a request has just started, or wants to.
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

    /// The same beside a run that goes on: its open calls are known, and were told as pending before.
    pub fn beside(mut self, run: &Run) -> Self {
        (self.calls, self.model) = (Calls::resumed(run), run.step_model.to_string());
        self.beside = Some(run.id.clone());
        self
    }

    /// The same in a conversation that has a title, which stays.
    pub fn titled(mut self) -> Self {
        self.tells_title = false;
        self
    }

    /// The tools that the model is offered from the next step on.
    pub fn offer(&mut self, tools: usize) {
        self.tools = tools;
    }

    /// What is said before anything has happened: that it is ready, and what a run asks already.
    pub fn begin(&self, run: Option<&Run>) -> Vec<Word> {
        let mut words = vec![self.scene.ready()];
        words.extend(run.into_iter().flat_map(|run| self.calls.open(&self.scene, run)));
        words
    }

    /// Whether everything was said.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// What is said of an update.
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
                let why = "the run before it ended without taking the message, which still waits";
                vec![self.fails(now, why)]
            }
            Update::Status(ThreadStatus::Idle) => Vec::new(),
            Update::Stopped { why } => {
                self.is_over = true;
                vec![self.scene.error(now, &format!("the run was interrupted and goes on later: {why}"))]
            }
        }
    }

    /// What is said where the thread can no longer be followed.
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
            _ => self.calls.hear(&self.scene, event), // tidy: what else clients are told is about calls
        }
    }

    /// The message that has waited goes into the run beside it, or starts its own: then that one is to be stopped.
    fn taken(&mut self, run: Option<&RunId>) -> Vec<Word> {
        let Some(run) = run else { return Vec::new() };
        self.run = run.clone();
        if self.beside.as_ref() == Some(run) {
            return Vec::new();
        }
        self.scene.run = run.to_string();
        vec![self.scene.ready()]
    }

    /// The time to the first fragment, once for each request. (SK-E4)
    fn ttft(&mut self, now: Timestamp) -> Option<Word> {
        let told = std::mem::replace(&mut self.told_ttft, true);
        (!told).then(|| self.scene.word("ttft", now, json!({"duration": now.since(self.since)})))
    }

    /// The thread waits for people. Nothing was completed. (SK-X10)
    fn waits(&mut self, at: Timestamp) -> Vec<Word> {
        self.is_over = true;
        vec![self.complete(at, json!({"done": false, "awaiting_approval": true}), "awaiting_approval")]
    }

    fn finished(&mut self, event: &Event) -> Vec<Word> {
        let Fact::RunFinished { status, output, error, .. } = &event.fact else { return Vec::new() };
        // Another run may end while the message waits.
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

    /// The run is over, in the words for done and stopped. (SK-E23, SK-E24, SK-ST4)
    fn ends(&mut self, at: Timestamp, status: &str) -> Vec<Word> {
        self.is_over = true;
        let ms = at.since(self.since);
        let data = json!({"status": status, "duration": ms as f64 / 1e3, "duration_ms": ms});
        vec![self.scene.word("completed", at, data), self.complete(at, json!({"done": true}), status)]
    }

    fn complete(&self, at: Timestamp, result: Value, status: &str) -> Word {
        self.scene.word("workflow_complete", at, json!({"result": result, "status": status}))
    }

    /// The run cannot go on. (SK-E25)
    fn fails(&mut self, at: Timestamp, why: &str) -> Word {
        self.is_over = true;
        self.scene.word("workflow.error", at, json!({"error": why, "status": "error"}))
    }

    /// What went wrong, in the words that clients know where they know any. (SK-G19)
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
