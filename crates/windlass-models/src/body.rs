//! A request body, written as JSON text.
//!
//! This module validates nothing: the caller writes the punctuation.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Serialize;

/// The bytes so far.
pub(crate) struct Body(Vec<u8>);

impl Body {
    /// Creates a body with these first bytes and the capacity for `more` further bytes.
    pub(crate) fn new(beginning: &[u8], more: usize) -> Self {
        let mut bytes = Vec::with_capacity(beginning.len() + more);
        bytes.extend_from_slice(beginning);
        Self(bytes)
    }

    /// Appends JSON text unchanged.
    pub(crate) fn raw(&mut self, json: &str) {
        self.0.extend_from_slice(json.as_bytes());
    }

    /// Appends bytes of JSON text unchanged.
    pub(crate) fn bytes(&mut self, json: &[u8]) {
        self.0.extend_from_slice(json);
    }

    /// Appends a string.
    pub(crate) fn string(&mut self, text: &str) {
        self.value(text);
    }

    /// Appends a value whose keys are strings.
    pub(crate) fn value(&mut self, value: &(impl Serialize + ?Sized)) {
        // Writing to memory does not fail, and such a value has a JSON form.
        serde_json::to_writer(&mut self.0, value).unwrap_or_default();
    }

    /// Appends a comma and the name of an object's next field.
    pub(crate) fn field(&mut self, name: &str) {
        self.raw(",");
        self.string(name);
        self.raw(":");
    }

    /// Appends bytes as a string in base64, which needs no escape.
    pub(crate) fn base64(&mut self, bytes: &[u8]) {
        self.raw("\"");
        self.raw(&BASE64_STANDARD.encode(bytes));
        self.raw("\"");
    }

    /// Appends a `data:` URL. Neither base64 nor the supported media types need escaping.
    pub(crate) fn data_url(&mut self, media_type: &str, bytes: &[u8]) {
        self.raw("\"data:");
        self.raw(media_type);
        self.raw(";base64,");
        self.raw(&BASE64_STANDARD.encode(bytes));
        self.raw("\"");
    }
}

impl From<Body> for Bytes {
    fn from(body: Body) -> Self {
        body.0.into()
    }
}
