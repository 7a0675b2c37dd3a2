//! The Gemini wire: `POST …:streamGenerateContent` with a stream of server-sent events.
//!
//! Replies are read here; requests are encoded by the model library.

mod chunk;
mod decode;
#[cfg(all(test, feature = "testing"))]
mod tests;

pub(crate) use crate::generate::decode::GenerateDecoder;
