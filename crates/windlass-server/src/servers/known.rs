//! A persistent cache of servers' tools. A server that is unavailable at startup still has the tools of its last
//! connection, under the same names.
//!
//! The cache contains only data that the servers sent. Permissions and approvals are recorded in the journals.

use std::collections::BTreeMap;

use windlass::mcp::{KnownServer, McpHub};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange, RecordError, Records, VALUE_MAX_BYTES};

/// Record kind. Each record is a part of a server's tools; the owner is the server's name.
const KNOWN: &str = "mcp_known";
/// Maximum number of parts of all servers: enough for several thousand tools with long schemas.
const MAX: usize = 1_000;

/// Returns the tools that an earlier process has stored.
pub async fn recalled(records: &dyn Records) -> Result<Vec<KnownServer>, StoreError> {
    let records = records.list(KNOWN, None, None, MAX).await?;
    // Skip unreadable records; the server lists its tools again.
    Ok(records.into_iter().filter_map(|record| serde_json::from_value(record.value).ok()).collect())
}

/// Returns the server that provided a tool in an earlier process.
pub async fn server_of(records: &dyn Records, tool: &str) -> Result<Option<String>, StoreError> {
    Ok(recalled(records).await?.into_iter().find(|known| known.has_tool(tool)).map(|known| known.server))
}

/// Returns the servers that provided these tools in an earlier process, by tool.
pub async fn servers_of(
    records: &dyn Records,
    tools: impl Iterator<Item = &str>,
) -> Result<BTreeMap<String, String>, StoreError> {
    let known = recalled(records).await?;
    let server =
        |tool: &str| known.iter().find(|known| known.has_tool(tool)).map(|known| known.server.clone());
    Ok(tools.filter_map(|tool| Some((tool.to_owned(), server(tool)?))).collect())
}

/// Stores changed tool lists of connected servers. A failure for one server is logged, and does not affect the other
/// servers.
pub async fn keep(records: &dyn Records, hub: &McpHub) {
    for known in hub.known() {
        let server = known.server.clone();
        if let Err(error) = keep_one(records, known).await {
            tracing::warn!(server, %error, "the metadata of a tool server could not be stored");
        }
    }
}

async fn keep_one(records: &dyn Records, known: KnownServer) -> Result<(), RecordError> {
    let server = known.server.clone();
    let parts = known.parts(VALUE_MAX_BYTES);
    if parts.is_empty() {
        return Ok(());
    }
    let before = records.list(KNOWN, Some(&server), None, MAX).await?;
    let mut before: BTreeMap<String, serde_json::Value> =
        before.into_iter().map(|record| (record.key, record.value)).collect();
    let mut changes = Vec::new();
    for (number, part) in parts.into_iter().enumerate() {
        let key = format!("{server}/{number:04}");
        let value = serde_json::to_value(part).map_err(|error| StoreError::Refused {
            why: format!("the metadata of `{server}` cannot be encoded: {error}"),
        })?;
        if before.remove(&key).as_ref() != Some(&value) {
            changes.push(RecordChange::put(KNOWN, &key, &server, value, Expect::Any));
        }
    }
    changes.extend(before.into_keys().map(|key| RecordChange::delete(KNOWN, &key, Expect::Any)));
    if changes.is_empty() {
        return Ok(());
    }
    records.apply(changes).await.map(drop)
}

/// Deletes the stored tools of a server.
pub async fn forget(records: &dyn Records, server: &str) -> Result<(), RecordError> {
    let parts = records.list(KNOWN, Some(server), None, MAX).await?;
    let changes = parts.iter().map(|part| RecordChange::delete(KNOWN, &part.key, Expect::Any)).collect();
    records.apply(changes).await.map(drop)
}
