//! A model that follows a script. The reply is a function of the request, so the model needs no state, and a
//! restarted process continues the script.
//!
//! The model implements the model port, not a wire protocol; the provider server covers wire protocols.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use windlass_machine::{
    Block, Content, FailureClass, ModelName, Role, StopReason, ToolCall, ToolName, Usage,
};

use crate::port::model::{Delta, Model, ModelCall, ModelError, ModelEvent, ModelInfo, Models, Price, Reply};

/// A scripted reply to one request.
#[derive(Clone, Debug)]
pub enum Line {
    /// A text.
    Say(String),
    /// A text and tool calls, each with name and JSON arguments.
    Call(String, Vec<(String, String)>),
    /// A partial text, then a failure.
    Fail(String, ModelError),
    /// A complete reply.
    Reply(Reply),
    /// A partial text, then a stream that never continues.
    Hang(String),
    /// The stream ends without a reply, which is a defect of an adapter.
    Vanish,
}

impl Line {
    /// Creates a reply with one tool call and without text.
    pub fn tool(name: &str, arguments: &str) -> Self {
        Self::Call(String::new(), vec![(name.into(), arguments.into())])
    }

    /// Creates a failure before any text.
    pub fn fail(class: FailureClass) -> Self {
        Self::Fail(String::new(), ModelError::new(class, format!("{class:?}")))
    }
}

type Script = dyn Fn(&ModelCall) -> Line + Send + Sync;

/// Models that follow one script, under any name.
#[derive(Clone)]
pub struct ScriptedModels {
    script: Arc<Script>,
    info: Arc<ModelInfo>,
    calls: Arc<AtomicU64>,
}

impl ScriptedModels {
    /// Creates models from a script.
    pub fn new(script: impl Fn(&ModelCall) -> Line + Send + Sync + 'static) -> Self {
        let price = Price { input: 1.0, output: 2.0, cached: None, cache_written: None };
        let info = ModelInfo { name: "scripted".into(), price: Some(price), ..ModelInfo::default() };
        Self { script: Arc::new(script), info: Arc::new(info), calls: Arc::default() }
    }

    /// Sets the list price; `None` makes it unknown.
    pub fn priced(mut self, price: Option<Price>) -> Self {
        self.info = Arc::new(ModelInfo { price, ..(*self.info).clone() });
        self
    }

    /// Returns the number of received requests.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// Returns the number of tool results in a request, which identifies the turn of the script.
pub fn results(call: &ModelCall) -> usize {
    let messages = call.request.messages.iter().filter(|message| message.role == Role::Tool);
    messages.map(|message| message.blocks.len()).sum()
}

impl Models for ScriptedModels {
    fn resolve(&self, _name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(self.clone()))
    }
}

impl Model for ScriptedModels {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, call: ModelCall) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let usage = Usage { input: Some(10), output: Some(5), ..Usage::default() };
        let reply = |blocks, stop| Reply { blocks, stop, usage, model: None };
        let (text, end) = match (self.script)(&call) {
            Line::Say(text) => {
                let blocks = if text.is_empty() { Vec::new() } else { vec![Block::text(text.clone())] };
                (text, Some(Ok(reply(blocks, StopReason::End))))
            }
            Line::Call(text, calls) => {
                let mut blocks: Vec<Block> =
                    Some(text.clone()).filter(|text| !text.is_empty()).map(Block::text).into_iter().collect();
                blocks.extend(calls.into_iter().enumerate().map(|(index, (name, arguments))| {
                    Block::ToolCall(ToolCall {
                        id: format!("call_{}_{index}", results(&call)),
                        name: ToolName::from(name),
                        asked: Content::Inline(arguments),
                        native: None,
                    })
                }));
                (text, Some(Ok(reply(blocks, StopReason::ToolCalls))))
            }
            Line::Fail(text, error) => (text, Some(Err(error))),
            Line::Reply(reply) => (String::new(), Some(Ok(reply))),
            Line::Hang(text) => return stream::iter(deltas(&text)).chain(stream::pending()).boxed(),
            Line::Vanish => (String::new(), None),
        };
        let end = end.map(|end| end.map(|reply| ModelEvent::Finished(Box::new(reply))));
        stream::iter(deltas(&text).into_iter().chain(end)).boxed()
    }
}

/// Splits a text into one fragment per word.
fn deltas(text: &str) -> Vec<Result<ModelEvent, ModelError>> {
    let words = text.split_inclusive(' ');
    words.map(|word| Ok(ModelEvent::Delta(Delta::Text { part: 0, text: word.into() }))).collect()
}
