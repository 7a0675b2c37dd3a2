//! What is said to a client: the events of AG-UI 1.0 that are used here, and how they stand on the wire.
//!
//! What is absent is left out and never null. (AG-UI 1.0, schema.json)

use serde::Serialize;
use serde_json::{Map, Value};
use windlass::Position;
use windlass::machine::{ModelName, Usage};

use super::interrupt::Interrupt;
use super::message::Message;

/// The version that is spoken here, whatever the client speaks.
const PROTOCOL_VERSION: &str = "1.0";

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum Word {
    /// A run began.
    RunStarted {
        /// The client's id of the thread.
        thread_id: String,
        /// The client's id of the run.
        run_id: String,
        /// The version that is spoken here.
        protocol_version: &'static str,
    },
    /// A run ended and did not fail.
    RunFinished {
        /// As in the beginning.
        thread_id: String,
        /// As in the beginning.
        run_id: String,
        /// How.
        outcome: Outcome,
        /// What it used.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
    /// A run failed, or can no longer be told.
    RunError {
        /// For people.
        message: String,
        /// For programs.
        code: String,
        /// What it used.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
    /// A model call, with the tools that it asks for, begins.
    StepStarted {
        /// Its name.
        step_name: String,
    },
    /// It ends.
    StepFinished {
        /// Its name.
        step_name: String,
    },
    /// A message begins, or goes on.
    TextMessageStart {
        /// Its id.
        message_id: String,
        /// Who speaks.
        role: Role,
    },
    /// More of it.
    TextMessageContent {
        /// Its id.
        message_id: String,
        /// The fragment; never empty.
        delta: String,
    },
    /// It is whole.
    TextMessageEnd {
        /// Its id.
        message_id: String,
    },
    /// The model begins to think.
    ReasoningStart {
        /// The id of the message that follows.
        message_id: String,
    },
    /// What it thinks, as a message.
    ReasoningMessageStart {
        /// Its id.
        message_id: String,
        /// Always the same.
        role: Role,
    },
    /// More of it.
    ReasoningMessageContent {
        /// Its id.
        message_id: String,
        /// The fragment; never empty.
        delta: String,
    },
    /// It is whole, or pauses.
    ReasoningMessageEnd {
        /// Its id.
        message_id: String,
    },
    /// The model has thought.
    ReasoningEnd {
        /// The id of the message before.
        message_id: String,
    },
    /// A call begins.
    ToolCallStart {
        /// Its id.
        tool_call_id: String,
        /// The tool.
        tool_call_name: String,
        /// The message that it belongs to.
        parent_message_id: String,
    },
    /// More of its arguments.
    ToolCallArgs {
        /// Its id.
        tool_call_id: String,
        /// The fragment; never empty.
        delta: String,
    },
    /// Its arguments are whole.
    ToolCallEnd {
        /// Its id.
        tool_call_id: String,
    },
    /// It has its result.
    ToolCallResult {
        /// The id of the message that the result becomes.
        message_id: String,
        /// The call.
        tool_call_id: String,
        /// The result.
        content: String,
        /// Always the same.
        role: Role,
        /// How it came to it, where the tool did not simply answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Map<String, Value>>,
    },
    /// All messages; a client that has others forgets them.
    MessagesSnapshot {
        /// Those.
        messages: Vec<Message>,
    },
    /// Something that the protocol has no word for.
    Custom {
        /// What.
        name: &'static str,
        /// More of it.
        value: Value,
    },
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The agent.
    Assistant,
    /// A person.
    User,
    /// A tool.
    Tool,
    /// The model, to itself.
    Reasoning,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Outcome {
    /// It was done.
    Success,
    /// It waits for answers.
    Interrupt {
        /// To these.
        interrupts: Vec<Interrupt>,
    },
    /// It was stopped.
    Cancelled,
}

/// Tokens of one model. Totals contain their parts; absent is not zero.
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
    /// What a model has used.
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

/// What a run used, model by model in the order of their first replies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent(Vec<(ModelName, Usage)>);

impl Spent {
    /// Adds a reply.
    pub fn add(&mut self, model: &ModelName, usage: &Usage) {
        match self.0.iter_mut().find(|(known, _)| known == model) {
            Some((_, sum)) => sum.add(usage),
            None => self.0.push((model.clone(), *usage)),
        }
    }

    /// As a run's last event says it; nothing of a model that reported nothing.
    pub fn told(&self) -> Vec<TokenUsage> {
        let reported = self.0.iter().filter(|(_, usage)| usage.input.or(usage.output).is_some());
        reported.map(|(model, usage)| TokenUsage::new(model, usage)).collect()
    }
}

/// The run as the client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// The client's id of the thread.
    pub thread: String,
    /// The client's id of the run.
    pub run: String,
}

impl Scene {
    /// The run begins.
    pub fn started(&self) -> Word {
        Word::RunStarted {
            thread_id: self.thread.clone(),
            run_id: self.run.clone(),
            protocol_version: PROTOCOL_VERSION,
        }
    }

    /// The run ends.
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
    /// The event as it stands in the stream. `position` is where a reader stands after it; the protocol has no use for
    /// it, and a log does.
    pub fn frame(&self, position: Option<Position>) -> String {
        // Strings, numbers and JSON: nothing that the serialiser refuses.
        let data = serde_json::to_string(self).unwrap_or_default();
        match position {
            Some(position) => format!("id: {position}\ndata: {data}\n\n"),
            None => format!("data: {data}\n\n"),
        }
    }
}
