//! The OpenAI responses wire: `POST /responses` with a stream of server-sent events.
//!
//! Replies are read here; requests are encoded by the model library.

mod decode;
mod draft;
mod event;
#[cfg(all(test, feature = "testing"))]
mod tests;

pub(crate) use crate::responses::decode::ResponsesDecoder;
