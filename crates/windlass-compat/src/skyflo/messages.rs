//! A conversation's messages in the clients' shape: people's messages, and the agent's text and calls in segments.
//!
//! The messages are a fold of the journal. No data is stored twice, so no two copies can differ. (SK-P1, SK-P2..P5)

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use windlass::machine::{
    CallKey, Event, Fact, InputId, InterruptId, Message, MicroUsd, RunId, Seq, Timestamp, Usage, Verdict,
};

use super::super::call::is_failure;
use super::super::flow::said;
use super::calls::{Said, said as answered};
use super::find::CHANGED;
use super::reply::{Replied, dollars, thought};
use crate::call::{Call, args, blocks, plain, text};
use crate::folds::JournalFold;

/// The fold of a conversation.
#[derive(Clone, Debug, Default)]
pub struct Fold {
    /// The messages, oldest first.
    pub messages: Vec<Value>,
    /// Queued messages.
    queued: HashMap<InputId, Value>,
    run: Option<RunId>,
    /// Number of messages before the newest run.
    before_run: usize,
    started_at: Timestamp,
    step_at: Timestamp,
    usage: Spent,
    /// Each call of the step with the indices of its message and segment.
    calls: HashMap<CallKey, (Call, (usize, usize))>,
    asked: HashMap<InterruptId, CallKey>,
}

/// Usage of a run's replies. (SK-P5)
#[derive(Clone, Debug, Default)]
struct Spent {
    model: String,
    usage: Usage,
    cost: MicroUsd,
    ttft_ms: Option<u64>,
    ttr_ms: Option<u64>,
}

impl Spent {
    fn told(&self) -> Value {
        let (prompt, completion) = (self.usage.input.unwrap_or(0), self.usage.output.unwrap_or(0));
        json!({
            "model": self.model,
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt.saturating_add(completion),
            "cached_tokens": self.usage.cached.unwrap_or(0),
            "cost": dollars(self.cost),
            "ttft_ms": self.ttft_ms,
            "ttr_ms": self.ttr_ms,
        })
    }
}

impl JournalFold for Fold {
    fn apply(&mut self, seq: Seq, event: &Event) {
        match &event.fact {
            Fact::MessageReceived { id, message, .. } => self.user(users(id, message, event.at)),
            Fact::MessageQueued { id, queued } => {
                self.queued.insert(id.clone(), users(id, &queued.message, event.at));
            }
            Fact::MessageTaken { id } => {
                if let Some(message) = self.queued.remove(id) {
                    self.user(message);
                }
            }
            Fact::MessageEdited { id, message, .. } => {
                if let Some(waiting) = self.queued.get_mut(id) {
                    waiting["content"] = said(message).into();
                }
            }
            Fact::MessageWithdrawn { id, .. } => {
                self.queued.remove(id);
            }
            Fact::RunStarted { .. } => {
                self.run.clone_from(&event.run);
                (self.before_run, self.started_at) = (self.messages.len(), event.at);
                self.usage = Spent::default();
            }
            Fact::RunWithdrawn { .. } => self.messages.truncate(self.before_run),
            Fact::StepStarted { model, .. } => {
                self.step_at = event.at;
                self.usage.model = model.to_string();
            }
            Fact::StepReplied { .. } => self.replied(seq, event),
            Fact::RunFinished { output, totals, .. } => {
                self.usage.ttr_ms = Some(totals.duration_ms);
                if let Some(own) = output.text.as_ref().map(text).filter(|own| !own.is_empty()) {
                    self.say(seq, event.at, own);
                }
                self.spend();
            }
            Fact::Note { name, data } if name == CHANGED => self.replace(data),
            _ => self.call(event), // tidy: other visible events are about calls
        }
    }
}

impl Fold {
    /// Adds a person's message. Merges an immediate repetition. (SK-R1)
    fn user(&mut self, message: Value) {
        let is_repeat = self
            .messages
            .last()
            .is_some_and(|last| last["type"] == "user" && last["content"] == message["content"]);
        if !is_repeat {
            self.messages.push(message);
        }
    }

    /// Replaces the displayed messages with those a client sent. The model's history is unchanged. (SK-R6)
    fn replace(&mut self, changed: &Value) {
        if let Value::Array(messages) = &changed["messages_json"] {
            self.messages.clone_from(messages);
            self.calls.clear();
            self.before_run = self.before_run.min(self.messages.len());
        }
    }

    fn replied(&mut self, seq: Seq, event: &Event) {
        let Fact::StepReplied { attempt, message, ttft_ms, .. } = &event.fact else { return };
        let model = self.usage.model.clone();
        let Some(replied) = Replied::of(&event.fact, &model) else { return };
        let spent = &mut self.usage;
        spent.usage.add(replied.usage);
        spent.cost.0 = spent.cost.0.saturating_add(replied.cost.unwrap_or_default().0);
        if let (None, Some(ttft)) = (spent.ttft_ms, ttft_ms) {
            spent.ttft_ms = Some(self.step_at.since(self.started_at) + ttft);
        }
        let (thought, said) = (thought(message), said(message));
        if !thought.is_empty() {
            let segment = json!({
                "kind": "thinking",
                "id": format!("{seq}-thinking"),
                "text": thought,
                "isComplete": true,
                "durationMs": replied.thinking_ms,
                "timestamp": event.at.0,
            });
            self.segment(seq, event.at, segment);
        }
        if !said.is_empty() {
            self.say(seq, event.at, &said);
        }
        self.calls.clear();
        let run = self.run.clone().unwrap_or_else(|| RunId::from(""));
        for (key, call) in Call::of_reply(&run, attempt.step, message).filter(|(_, call)| !call.is_meta()) {
            let mut execution = call.data();
            execution.insert("requires_approval".into(), false.into());
            execution.insert("status".into(), "pending".into());
            execution.insert("timestamp".into(), event.at.0.into());
            let segment =
                json!({"kind": "tool", "id": call.id, "toolExecution": execution, "timestamp": event.at.0});
            let place = self.segment(seq, event.at, segment);
            self.calls.insert(key, (call, place));
        }
        self.spend();
    }

    /// Adds a text to the agent's current message.
    fn say(&mut self, seq: Seq, at: Timestamp, said: &str) {
        let id = format!("{seq}-text");
        let segment = json!({"kind": "text", "id": id, "text": said, "timestamp": at.0});
        let (message, _) = self.segment(seq, at, segment);
        let message = &mut self.messages[message];
        let content = format!("{}{said}", message["content"].as_str().unwrap_or_default());
        message["content"] = content.into();
    }

    /// Adds a segment to the agent's current message, which extends until a person writes. Returns the
    /// indices of the message and the segment.
    fn segment(&mut self, seq: Seq, at: Timestamp, segment: Value) -> (usize, usize) {
        if self.messages.last().is_none_or(|last| last["type"] != "assistant") {
            let run = self.run.as_ref().map_or("", |run| run.as_str());
            self.messages.push(json!({
                "id": format!("{run}-{seq}"),
                "type": "assistant",
                "content": "",
                "timestamp": at.0,
                "segments": [],
            }));
        }
        let index = self.messages.len() - 1;
        let segments = &mut self.messages[index]["segments"];
        // A client's replacement message may have no segments.
        if !segments.is_array() {
            *segments = json!([]);
        }
        let Value::Array(segments) = segments else { return (index, 0) };
        segments.push(segment);
        (index, segments.len() - 1)
    }

    /// Writes the run's usage to the agent's newest message.
    fn spend(&mut self) {
        let told = self.usage.told();
        if let Some(last) = self.messages.last_mut().filter(|last| last["type"] == "assistant") {
            last["token_usage"] = told;
        }
    }

    fn call(&mut self, event: &Event) {
        match &event.fact {
            Fact::CallJudged { call, verdict, arguments, .. } => {
                let asks = *verdict == Verdict::Ask;
                self.revise(*call, &event.fact);
                let arguments = arguments.as_ref().map(args);
                self.change(*call, |shown| {
                    if asks {
                        shown.insert("requires_approval".into(), true.into());
                    }
                    if let Some(arguments) = arguments {
                        shown.insert("args".into(), arguments);
                    }
                });
            }
            Fact::CallEdited { call, arguments, .. } => {
                self.revise(*call, &event.fact);
                self.change(*call, |shown| drop(shown.insert("args".into(), args(arguments))));
            }
            Fact::InterruptOpened { interrupt, call: Some(call), .. } => {
                self.asked.insert(interrupt.clone(), *call);
                self.revise(*call, &event.fact);
                self.change(*call, |shown| {
                    shown.insert("requires_approval".into(), true.into());
                    stands(shown, "awaiting_approval");
                });
            }
            Fact::InterruptClosed { interrupt, answer, .. } => {
                let (Some(call), Some(said)) = (self.asked.get(interrupt), answered(answer)) else { return };
                let status = match said {
                    Said::Yes => "approved",
                    Said::No => "denied",
                };
                self.change(*call, |shown| stands(shown, status));
            }
            Fact::ToolStarted { call, .. } => self.change(*call, |shown| stands(shown, "executing")),
            Fact::ToolFinished { call, outcome, content, error, .. } => {
                let is_denied = *outcome == windlass::machine::Outcome::Denied;
                let failed = is_failure(*outcome, *error);
                self.change(*call, |shown| {
                    stands(
                        shown,
                        if is_denied {
                            "denied"
                        } else if failed {
                            "error"
                        } else {
                            "completed"
                        },
                    );
                    if failed && !is_denied {
                        shown.insert("error".into(), plain(content).into());
                    } else {
                        shown.insert("result".into(), blocks(content).into());
                    }
                });
            }
            _ => {} // tidy: the other kinds change nothing that clients are shown
        }
    }

    fn change(&mut self, call: CallKey, change: impl FnOnce(&mut Map<String, Value>)) {
        let Some((_, (message, segment))) = self.calls.get(&call) else { return };
        let shown = self.messages.get_mut(*message).map(|it| &mut it["segments"][*segment]["toolExecution"]);
        if let Some(Value::Object(shown)) = shown {
            change(shown);
        }
    }

    /// Updates the call's id to the one that an answer must name.
    fn revise(&mut self, key: CallKey, fact: &Fact) {
        let Some((call, (message, segment))) = self.calls.get_mut(&key) else { return };
        let before = call.id.clone();
        call.apply(fact);
        if call.id == before {
            return;
        }
        let id = Value::from(call.id.as_str());
        if let Some(message) = self.messages.get_mut(*message) {
            message["segments"][*segment]["id"] = id.clone();
        }
        self.change(key, |shown| drop(shown.insert("call_id".into(), id)));
    }
}

fn stands(shown: &mut Map<String, Value>, status: &str) {
    shown.insert("status".into(), status.into());
}

fn users(id: &InputId, message: &Message, at: Timestamp) -> Value {
    json!({"id": id.as_str(), "type": "user", "content": said(message), "timestamp": at.0})
}
