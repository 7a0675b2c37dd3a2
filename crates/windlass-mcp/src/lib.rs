//! MCP client: tools, resources, prompts, questions and sign-ins of servers, in both protocol revisions.
//!
//! `rmcp` implements the protocol; its types are not exposed. This crate adds reconnection and
//! resumption: another process may answer a question days later. The crate never repeats a call if
//! the repetition could have a second effect. It does not decide whether a call may run, and starts
//! only the servers that the caller passes.

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
