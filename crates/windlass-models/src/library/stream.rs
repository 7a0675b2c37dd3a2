//! A reply as decoded by the model library.
//!
//! Dropping it closes the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::future::BoxFuture;
use rig_core::completion::CompletionResponse;
use rig_core::error::ProviderError;
use rig_core::message::AssistantContent;
use rig_core::streaming::{CompletionStream, Item, StreamEvent};
use windlass_engine::port::model::{Delta, ModelError, ModelEvent, Reply};
use windlass_machine::{Origin, StopReason, Usage};

use crate::config::WireKind;
use crate::library::failure;
use crate::library::reply::{self, Streamed};

/// The stream of one call. Dropping it closes the connection.
pub(crate) struct ReplyStream {
    kind: WireKind,
    origin: Arc<Origin>,
    /// Argument text by part.
    calls: Vec<(usize, Streamed)>,
    state: State,
}

enum State {
    Reading(Box<CompletionStream>),
    Finishing(BoxFuture<'static, Result<CompletionResponse, ProviderError>>),
    Done,
}

impl ReplyStream {
    /// Wraps the library's stream.
    pub(crate) fn new(stream: CompletionStream, kind: WireKind, origin: Arc<Origin>) -> Self {
        Self { kind, origin, calls: Vec::new(), state: State::Reading(Box::new(stream)) }
    }

    fn delta(&mut self, event: StreamEvent) -> Option<Delta> {
        // Parts count a reply's blocks; no reply has 2³² of them.
        match event {
            StreamEvent::Text { part, text } => {
                Some(Delta::Text { part: part.index() as u32, text: text.into() })
            }
            StreamEvent::Reasoning { part, text } => {
                Some(Delta::Reasoning { part: part.index() as u32, text: text.into() })
            }
            StreamEvent::Arguments { part, json } => {
                self.call(part.index()).arguments.push_str(&json);
                Some(Delta::Call { part: part.index() as u32, name: None, arguments: json.into() })
            }
            StreamEvent::Start { part, name: Some(name), .. } => Some(Delta::Call {
                part: part.index() as u32,
                name: Some(name.as_str().into()),
                arguments: "".into(),
            }),
            StreamEvent::Start { name: None, .. } => None,
            StreamEvent::End { part, content: AssistantContent::ToolCall(call) } => {
                self.call(part.index()).id = Some(call.id);
                None
            }
            StreamEvent::End { .. } => None,
        }
    }

    fn call(&mut self, part: usize) -> &mut Streamed {
        let at = self.calls.iter().rposition(|(known, _)| *known == part).unwrap_or_else(|| {
            self.calls.push((part, Streamed { id: None, arguments: String::new() }));
            self.calls.len() - 1
        });
        &mut self.calls[at].1
    }

    fn finished(
        &mut self,
        outcome: Result<CompletionResponse, ProviderError>,
    ) -> Result<ModelEvent, ModelError> {
        let response = outcome.map_err(|error| failure::typed(&error))?;
        let streamed: Vec<Streamed> = self.calls.drain(..).map(|(_, call)| call).collect();
        let reply = reply::build(self.kind, &self.origin, response, &streamed)?;
        Ok(ModelEvent::Finished(Box::new(reply)))
    }
}

impl Stream for ReplyStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            match &mut this.state {
                State::Done => return Poll::Ready(None),
                State::Finishing(finish) => {
                    let outcome = ready!(finish.as_mut().poll(context));
                    this.state = State::Done;
                    return Poll::Ready(Some(this.finished(outcome)));
                }
                State::Reading(stream) => match ready!(Pin::new(&mut **stream).poll_next(context)) {
                    Some(Ok(Item::Event(event))) => {
                        if let Some(delta) = this.delta(event) {
                            return Poll::Ready(Some(Ok(ModelEvent::Delta(delta))));
                        }
                    }
                    // The library logs events that the wire does not model.
                    Some(Ok(Item::Unknown(_))) => {}
                    Some(Err(error)) => {
                        this.state = State::Done;
                        let event = if failure::refused(&error) {
                            Ok(refusal())
                        } else {
                            Err(failure::typed(&error))
                        };
                        return Poll::Ready(Some(event));
                    }
                    None => {
                        // The library consumes the stream to finish it, so it is moved out of the state.
                        if let State::Reading(stream) = std::mem::replace(&mut this.state, State::Done) {
                            this.state = State::Finishing(Box::pin(stream.finish()));
                        }
                    }
                },
            }
        }
    }
}

/// Creates the reply of a provider that refused the prompt before the model read it: a reply without content.
fn refusal() -> ModelEvent {
    ModelEvent::Finished(Box::new(Reply {
        blocks: Vec::new(),
        stop: StopReason::Refusal,
        usage: Usage::default(),
        model: None,
    }))
}
