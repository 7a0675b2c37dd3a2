//! The AG-UI 1.0 events that this server sends, and their encoding.
//!
//! Absent members are omitted, never null. (AG-UI 1.0, schema.json)

use serde::Serialize;
use serde_json::{Map, Value};
use windlass::Position;
use windlass::machine::{ModelName, Usage};

use super::interrupt::Interrupt;
use super::message::Message;

/// The protocol version that the server speaks to every client.
const PROTOCOL_VERSION: &str = "1.0";

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum Word {
    RunStarted {
        thread_id: String,
        run_id: String,
        protocol_version: &'static str,
    },
    /// A run ended without failing.
    RunFinished {
        thread_id: String,
        run_id: String,
        outcome: Outcome,
        /// Token usage by model.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
    /// A run failed, or its stream ends early.
    RunError {
        /// Text for people.
        message: String,
        /// Code for programs.
        code: String,
        /// Token usage by model.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
    /// A step started: a model call with its tool calls.
    StepStarted {
        step_name: String,
    },
    StepFinished {
        step_name: String,
    },
    /// A message starts, or resumes after a snapshot.
    TextMessageStart {
        message_id: String,
        role: Role,
    },
    TextMessageContent {
        message_id: String,
        /// The fragment; never empty.
        delta: String,
    },
    TextMessageEnd {
        message_id: String,
    },
    /// The model starts to reason.
    ReasoningStart {
        /// The id of the reasoning message that follows.
        message_id: String,
    },
    /// A reasoning message starts.
    ReasoningMessageStart {
        message_id: String,
        /// Always `reasoning`.
        role: Role,
    },
    ReasoningMessageContent {
        message_id: String,
        /// The fragment; never empty.
        delta: String,
    },
    /// The reasoning message ends or pauses.
    ReasoningMessageEnd {
        message_id: String,
    },
    /// The model has finished reasoning.
    ReasoningEnd {
        /// The id of the reasoning message.
        message_id: String,
    },
    ToolCallStart {
        tool_call_id: String,
        tool_call_name: String,
        /// The reply that contains the call.
        parent_message_id: String,
    },
    /// A fragment of the call's arguments.
    ToolCallArgs {
        tool_call_id: String,
        /// The fragment; never empty.
        delta: String,
    },
    /// The call's arguments are complete.
    ToolCallEnd {
        tool_call_id: String,
    },
    ToolCallResult {
        /// The id of the tool message.
        message_id: String,
        tool_call_id: String,
        content: String,
        /// Always `tool`.
        role: Role,
        /// The outcome, if the tool did not return normally.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Map<String, Value>>,
    },
    /// All messages of the thread. Replaces the client's messages.
    MessagesSnapshot {
        messages: Vec<Message>,
    },
    /// An event that AG-UI does not define.
    Custom {
        name: &'static str,
        value: Value,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Assistant,
    User,
    Tool,
    /// Reasoning of the model.
    Reasoning,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Outcome {
    Success,
    /// The run waits for answers.
    Interrupt {
        /// The open interrupts.
        interrupts: Vec<Interrupt>,
    },
    Cancelled,
}

/// Number of tokens used with one model. Totals contain their parts; an absent figure is unknown, not zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    provider: String,
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_input_tokens: Option<u64>,
}

impl TokenUsage {
    /// Converts one model's token usage to AG-UI's shape.
    pub fn new(model: &ModelName, usage: &Usage) -> Self {
        let whole = model.to_string();
        let (provider, model) = whole.split_once('/').unwrap_or(("", &whole));
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            input_tokens: usage.input,
            output_tokens: usage.output,
            total_tokens: usage.input.zip(usage.output).map(|(input, output)| input.saturating_add(output)),
            reasoning_tokens: usage.reasoning,
            cached_input_tokens: usage.cached,
            cache_write_input_tokens: usage.cache_written,
        }
    }
}

/// A run's token usage by model, in the order of the models' first replies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent(Vec<(ModelName, Usage)>);

impl Spent {
    /// Adds the tokens of a reply.
    pub fn add(&mut self, model: &ModelName, usage: &Usage) {
        match self.0.iter_mut().find(|(known, _)| known == model) {
            Some((_, sum)) => sum.add(usage),
            None => self.0.push((model.clone(), *usage)),
        }
    }

    /// Encodes the usage for a run's last event. Omits models that reported none.
    pub fn told(&self) -> Vec<TokenUsage> {
        let reported = self.0.iter().filter(|(_, usage)| usage.input.or(usage.output).is_some());
        reported.map(|(model, usage)| TokenUsage::new(model, usage)).collect()
    }
}

/// The client's ids of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    pub thread: String,
    pub run: String,
}

impl Scene {
    pub fn started(&self) -> Word {
        Word::RunStarted {
            thread_id: self.thread.clone(),
            run_id: self.run.clone(),
            protocol_version: PROTOCOL_VERSION,
        }
    }

    pub fn finished(&self, outcome: Outcome, spent: &Spent) -> Word {
        Word::RunFinished {
            thread_id: self.thread.clone(),
            run_id: self.run.clone(),
            outcome,
            usage: spent.told(),
        }
    }
}

impl Word {
    /// Encodes the event as a server-sent event. `position` is the journal position after the event. AG-UI
    /// ignores this field, but it helps in logs.
    pub fn frame(&self, position: Option<Position>) -> String {
        // Cannot fail: the event contains only strings, numbers and JSON.
        let data = serde_json::to_string(self).unwrap_or_default();
        match position {
            Some(position) => format!("id: {position}\ndata: {data}\n\n"),
            None => format!("data: {data}\n\n"),
        }
    }
}
