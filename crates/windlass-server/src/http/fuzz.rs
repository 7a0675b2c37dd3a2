//! Fuzzing entry points for request parsers: bodies, and headers that we parse by hand.
//!
//! The server itself does not call them.

use serde_json::{Map, Value};

use super::middleware::peer;
use super::start::timezone;
use super::{etag, input};

/// Parses a body as the routes do.
pub fn request(bytes: &[u8]) {
    let _ = input::parse::<Map<String, Value>>(bytes);
}

/// Parses forwarding chains, lists of entity tags, and time zones.
pub fn headers(text: &str) {
    for part in text.split(',') {
        let _ = (peer::address_in(part), timezone::offset_minutes(part.trim()));
    }
    assert!(etag::names(text).count() <= text.len());
}
