//! Windlass: a durable engine for LLM agents.

pub mod adapter;
pub mod port;
pub mod tool;
