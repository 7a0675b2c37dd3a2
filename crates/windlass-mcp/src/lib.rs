//! Tool servers over MCP, in both revisions: their tools, resources and prompts, their questions, their sign-ins.
//!
//! The protocol is `rmcp`'s, whose types stay in here. What is added is what a durable engine needs: servers that come
//! and go without stopping anything, calls that are never sent twice where that may do something twice, questions that
//! may be answered days later by another process.
//!
//! It does not decide whether a call may run, never believes a server that nobody trusts, and starts no server that it
//! was not given.

mod ask;
mod calls;
mod changes;
mod child;
mod client;
mod config;
mod connect;
mod connection;
mod core;
mod error;
mod events;
mod exchange;
// What the protocol has deprecated is still what servers of today ask for.
#[expect(deprecated)]
mod handler;
mod health;
mod held;
mod http;
mod hub;
mod hub_config;
mod known;
mod lines;
mod list;
mod mask;
mod name;
mod oauth;
mod offer;
mod own;
mod pause;
mod pending;
mod prompt;
mod resource;
mod result;
mod resume;
#[expect(deprecated)]
mod sampling;
mod sse;
mod task;
#[cfg(feature = "testing")]
pub mod testing;
mod tool;

pub use child::kill_servers;
pub use client::{OAuth, Secrets};
pub use config::{HeadersFor, HeadersProvider, Http, McpServer, Prefix, Stdio, Timeouts, Transport};
pub use error::McpError;
pub use health::{Health, LeftOut, ListedTool, ServerStatus};
pub use hub::McpHub;
pub use hub_config::HubConfig;
pub use known::KnownServer;
pub use oauth::{MemoryTokens, SignInPage, SignInReturn, TokenLock, TokenStore};
pub use prompt::{McpPrompt, PromptArgument, PromptMessage};
pub use resource::{McpResource, ResourceTools};
pub use sampling::{SAMPLING_MAX_DEPTH, SamplingContext, SamplingHandler, SamplingReply, SamplingRequest};
