//! The output of an MCP server: no bytes make the parser panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| windlass::testing::mcp::mcp_output(bytes));
