//! The tool servers of the settings, started for those who run agents.
//!
//! What they are is the library's; here stands how long anybody waits for them.

use std::sync::Arc;

use windlass::adapter::mcp::{HubConfig, McpHub, McpServer};
use windlass::tool::Registry;

use crate::config::Settings;
use crate::trouble::Trouble;

/// How long a test of servers waits: longer than any of them may take to answer.
pub const TEST_MS: u64 = 60_000;
/// How long a start waits for servers that it does not require. Their tools come when they answer.
const START_MS: u64 = 5_000;

/// The servers that are configured, with their secrets read.
pub fn configured(settings: &Settings) -> Result<Vec<McpServer>, Trouble> {
    settings.mcp.iter().map(|(name, server)| server.server(name)).collect()
}

/// A hub whose tools take none of these names.
pub fn hub(reserved: Vec<String>) -> McpHub {
    McpHub::new(HubConfig { reserved, ..HubConfig::default() })
}

/// Starts the servers of the settings, beside the engine's own tools.
pub async fn started(settings: &Settings, own: &Registry) -> anyhow::Result<Arc<McpHub>> {
    let reserved = own.catalogue().iter().map(|tool| tool.name.to_string()).collect();
    let hub = Arc::new(hub(reserved));
    let servers = configured(settings)?;
    if !servers.is_empty() {
        hub.start(servers).await.map_err(|error| {
            Trouble::usage(error.to_string())
                .hint("`windlass mcp test` says more; `required = false` starts without it")
        })?;
        hub.settled(START_MS).await;
    }
    Ok(hub)
}
