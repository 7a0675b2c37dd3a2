//! A server's responses to the first requests, for tests that simulate a server over any transport.
//!
//! Each test defines the responses to calls, and their failures.

use serde_json::{Value, json};

/// Returns the result of a request that every client sends first; `None` for other
/// requests. `tools` is the result of `tools/list`.
pub fn introduction(method: &str, tools: &Value) -> Option<Value> {
    match method {
        "server/discover" => Some(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
            "ttlMs": 0, "cacheScope": "private",
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "far", "version": "1" } },
        })),
        "tools/list" => Some(json!({
            "resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "private", "tools": tools,
        })),
        _ => None,
    }
}

/// Returns a tool in the shape of `tools/list`, with hints that it changes nothing.
pub fn reading_tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": true, "destructiveHint": false, "openWorldHint": false } })
}

/// Splits a server's output into messages, for fuzzing. A panic is a finding.
pub fn mcp_output(bytes: &[u8]) {
    let read = crate::wire::lines::count_lines(bytes);
    assert!(read <= bytes.len(), "no line is read twice");
}
