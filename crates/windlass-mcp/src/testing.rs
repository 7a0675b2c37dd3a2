//! What a server of tools says of itself, for tests that play one over any transport.
//!
//! How it answers calls, and what goes wrong with them, is each test's own.

use serde_json::{Value, json};

/// The result of what every client asks first; `None`: something else is asked. `tools` are those of `tools/list`.
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

/// A tool that is known to change nothing, as `tools/list` has it.
pub fn reading_tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": true, "destructiveHint": false, "openWorldHint": false } })
}

/// Splits the output of a server into messages, for fuzzing: a panic is a finding.
pub fn mcp_output(bytes: &[u8]) {
    let read = crate::wire::lines::count_lines(bytes);
    assert!(read <= bytes.len(), "no line is read twice");
}
