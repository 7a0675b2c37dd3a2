//! Entry points for fuzzing: each parses bytes from outside. A panic is a finding.
//!
//! The fuzzer in `fuzz/` calls them, as do tests that change valid bytes at random. PDF is not among them: its parser
//! is known to end its process, which is why a reader process exists.

use crate::reader::{Format, Request, is_readable};
use crate::tool::{decode, is_description};

/// A change of valid bytes: at a place, remove some bytes and insert others.
pub type Change = (usize, usize, Vec<u8>);

/// Parses a page of the web, a Word document, and a page of search results.
pub fn documents(bytes: &[u8]) {
    for format in [Format::Word, Format::Html, Format::BareHtml, Format::Results] {
        let _ = is_readable(&Request::whole(format), bytes);
    }
}

/// Decodes the body of an HTTP answer; the first line is its content type.
pub fn body(bytes: &[u8]) {
    let (head, body) = bytes.split_at(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0));
    let decoded = decode(body, std::str::from_utf8(head).ok());
    assert!(decoded.text.len() <= 3 * body.len(), "at most U+FFFD for each byte");
}

/// Parses an OpenAPI description, JSON or YAML.
pub fn api_description(bytes: &[u8]) {
    let _ = is_description(&String::from_utf8_lossy(bytes));
}

/// Splits the output of an MCP server into messages.
#[cfg(feature = "mcp")]
pub fn mcp_output(bytes: &[u8]) {
    let read = crate::adapter::mcp::count_lines(bytes);
    assert!(read <= bytes.len(), "no line is read twice");
}

/// Applies changes to valid bytes; a place beyond the end counts from the start again.
pub fn change(bytes: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for (place, removed, inserted) in changes {
        let start = place % (changed.len() + 1);
        let end = (start + removed).min(changed.len());
        changed.splice(start..end, inserted.iter().copied());
    }
    changed
}
