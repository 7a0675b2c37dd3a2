//! The Anthropic messages wire: `POST /v1/messages` with a stream of server-sent events.
//!
//! Replies are read here; requests are encoded by the model library.

mod decode;
mod event;
#[cfg(all(test, feature = "testing"))]
mod tests;

pub(crate) use crate::messages::decode::MessagesDecoder;
