//! For tests: entry points for fuzzing, and the rights of a reader process.
//!
//! Each entry point parses bytes from outside; a panic is a finding. PDF is excluded: its parser can end its process,
//! which is why the reader process exists.

use tokio_util::sync::CancellationToken;

use crate::api::is_description;
use crate::charset::decode;
use crate::reader::{Format, Reader, Request, is_readable};

/// A change of valid bytes: the position, the number of bytes to remove, and the bytes to insert.
pub type Change = (usize, usize, Vec<u8>);

/// Parses a web page, a Word document, and a page of search results.
pub fn documents(bytes: &[u8]) {
    for format in [Format::Word, Format::Html, Format::BareHtml, Format::Results] {
        let _ = is_readable(&Request::whole(format), bytes);
    }
}

/// Decodes the body of an HTTP response. The first line is the content type.
pub fn body(bytes: &[u8]) {
    let (head, body) = bytes.split_at(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0));
    let decoded = decode(body, std::str::from_utf8(head).ok());
    assert!(decoded.text.len() <= 3 * body.len(), "at most U+FFFD for each byte");
}

/// Parses an OpenAPI description, JSON or YAML.
pub fn api_description(bytes: &[u8]) {
    let _ = is_description(&String::from_utf8_lossy(bytes));
}

/// Applies changes to valid bytes. A position beyond the end wraps around.
pub fn change(bytes: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for (place, removed, inserted) in changes {
        let start = place % (changed.len() + 1);
        let end = (start + removed).min(changed.len());
        changed.splice(start..end, inserted.iter().copied());
    }
    changed
}

/// Returns the forbidden rights that a reader process still has.
pub fn rights_of(reader: &Reader) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let read = runtime.map(|runtime| {
        runtime.block_on(reader.read(&Request::whole(Format::Rights), b"", &CancellationToken::new()))
    });
    match read {
        Ok(Ok(document)) => document.text,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    }
}
