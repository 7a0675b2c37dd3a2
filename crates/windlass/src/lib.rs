//! Windlass: a durable engine for LLM agents.

pub mod port;
pub mod tool;
