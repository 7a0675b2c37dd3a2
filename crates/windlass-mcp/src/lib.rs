//! Tool servers over MCP, in both revisions: their tools, resources and prompts, their questions, their sign-ins.
//!
//! The protocol is `rmcp`'s, whose types stay in here. What is added is what a durable engine needs: servers that come
//! and go without stopping anything, calls that are never sent twice where that may do something twice, questions that
//! may be answered days later by another process.
//!
//! It does not decide whether a call may run, never believes a server that nobody trusts, and starts no server that it
//! was not given.

mod call;
mod client;
mod config;
mod core;
mod error;
mod health;
mod hub;
mod list;
mod mask;
mod oauth;
mod result;
#[cfg(feature = "testing")]
pub mod testing;
mod wire;

pub use client::{OAuth, Secrets};
pub use config::{HeadersFor, HeadersProvider, Http, McpServer, Prefix, Stdio, Timeouts, Transport};
pub use core::sampling::{
    SAMPLING_MAX_DEPTH, SamplingContext, SamplingHandler, SamplingReply, SamplingRequest,
};
pub use error::McpError;
pub use health::{Health, LeftOut, ListedTool, ServerStatus};
pub use hub::McpHub;
pub use hub::known::KnownServer;
pub use hub::prompt::{McpPrompt, PromptArgument, PromptMessage};
pub use hub::resource::{McpResource, ResourceTools};
pub use hub::settings::HubConfig;
pub use oauth::{MemoryTokens, SignInPage, SignInReturn, TokenLock, TokenStore};
pub use wire::child::kill_servers;
