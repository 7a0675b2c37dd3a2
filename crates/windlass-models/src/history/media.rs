//! Images and documents for a model.
//!
//! A sentence replaces content that a wire does not support.

use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{BlobRef, FailureClass};

/// Returns a document as text; `None` for PDF, which the wires support.
pub(crate) fn as_text(name: &str, blob: &BlobRef, bytes: &[u8]) -> Option<String> {
    if blob.media_type == "application/pdf" {
        return None;
    }
    Some(match std::str::from_utf8(bytes) {
        Ok(text) => format!("<file name=\"{name}\">\n{text}\n</file>"),
        Err(_) => left_out(&format!("file `{name}`"), blob),
    })
}

/// Whether providers accept the blob as an image.
pub(crate) fn is_picture(blob: &BlobRef) -> bool {
    matches!(blob.media_type.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// Returns the bytes of a blob that the request refers to.
pub(crate) fn bytes<'a>(call: &'a ModelCall, blob: &BlobRef) -> Result<&'a [u8], ModelError> {
    call.blobs.get(&blob.digest).map(AsRef::as_ref).ok_or_else(|| {
        ModelError::new(FailureClass::MissingBlob, format!("blob {:?} is missing", blob.digest))
    })
}

/// Returns the sentence that replaces a blob that no provider accepts.
pub(crate) fn left_out(what: &str, blob: &BlobRef) -> String {
    format!("({what} omitted: models cannot read {})", blob.media_type)
}
