//! Parsers of requests for fuzzing: bodies, and headers that are read by hand.
//!
//! Serves no request.

use serde_json::{Map, Value};

use super::middleware::peer;
use super::start::timezone;
use super::{etag, input};

/// Parses a body as the routes do.
pub fn request(bytes: &[u8]) {
    let _ = input::parse::<Map<String, Value>>(bytes);
}

/// Parses the list of an address chain, of tags, and a time zone.
pub fn headers(text: &str) {
    for part in text.split(',') {
        let _ = (peer::address_in(part), timezone::offset_minutes(part.trim()));
    }
    assert!(etag::names(text).count() <= text.len());
}
