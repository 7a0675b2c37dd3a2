//! What is known of the servers' tools, kept from one start to the next: a server that is down at a start shows its tools
//! as they were, under the names that they had.
//!
//! It is a memory of what servers said and of nothing else: what may run, and what an approval was for, is recorded in the
//! journals.

use std::collections::BTreeMap;

use windlass::mcp::{KnownServer, McpHub};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange, RecordError, Records, VALUE_MAX_BYTES};

/// The kind of the records: parts of what is known of a server, whose owner is the server's name.
const KNOWN: &str = "mcp_known";
/// Parts of all servers at most: some thousand tools with long schemas.
const MAX: usize = 1_000;

/// Reads what an earlier process knew.
pub async fn recalled(records: &dyn Records) -> Result<Vec<KnownServer>, StoreError> {
    let records = records.list(KNOWN, None, None, MAX).await?;
    // What cannot be read any more is asked of the server again.
    Ok(records.into_iter().filter_map(|record| serde_json::from_value(record.value).ok()).collect())
}

/// The server that an earlier process knew a tool of.
pub async fn server_of(records: &dyn Records, tool: &str) -> Result<Option<String>, StoreError> {
    Ok(recalled(records).await?.into_iter().find(|known| known.has_tool(tool)).map(|known| known.server))
}

/// The servers that an earlier process knew these tools of, by tool.
pub async fn servers_of(
    records: &dyn Records,
    tools: impl Iterator<Item = &str>,
) -> Result<BTreeMap<String, String>, StoreError> {
    let known = recalled(records).await?;
    let server =
        |tool: &str| known.iter().find(|known| known.has_tool(tool)).map(|known| known.server.clone());
    Ok(tools.filter_map(|tool| Some((tool.to_owned(), server(tool)?))).collect())
}

/// Keeps what is known now of servers that have said something, where it is something else than what is kept. What
/// cannot be kept of one is said in the log, and the others are.
pub async fn keep(records: &dyn Records, hub: &McpHub) {
    for known in hub.known() {
        let server = known.server.clone();
        if let Err(error) = keep_one(records, known).await {
            tracing::warn!(server, %error, "what is known of a tool server is not kept");
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
        let value = serde_json::to_value(part)
            .map_err(|error| StoreError::Refused { why: format!("what is known of `{server}`: {error}") })?;
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

/// Forgets what is known of a server.
pub async fn forget(records: &dyn Records, server: &str) -> Result<(), RecordError> {
    let parts = records.list(KNOWN, Some(server), None, MAX).await?;
    let changes = parts.iter().map(|part| RecordChange::delete(KNOWN, &part.key, Expect::Any)).collect();
    records.apply(changes).await.map(drop)
}
