//! Built-in tools: files, commands in a sandbox, the web and HTTP APIs, and the reader of documents.
//!
//! Whether a call may run is decided by the engine's gate. No tool asks for approval, waits for an answer or retries.

pub mod api;
pub mod builtin;
mod charset;
mod media;
pub mod reader;
#[cfg(target_os = "linux")]
pub mod sandbox;
#[cfg(target_os = "linux")]
mod shell;
#[cfg(feature = "testing")]
pub mod testing;
pub mod web;

pub use self::media::media_type;
