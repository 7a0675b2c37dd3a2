//! Windlass: a durable engine for LLM agents.

pub mod adapter;
pub mod port;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tool;
