//! Pictures and documents on their way to a model.
//!
//! What a wire cannot carry is replaced by a sentence.

use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{BlobRef, FailureClass};

/// The text that a document is sent as; `None` for PDF, which the wires carry.
pub(crate) fn as_text(name: &str, blob: &BlobRef, bytes: &[u8]) -> Option<String> {
    if blob.media_type == "application/pdf" {
        return None;
    }
    Some(match std::str::from_utf8(bytes) {
        Ok(text) => format!("<file name=\"{name}\">\n{text}\n</file>"),
        Err(_) => left_out(&format!("file `{name}`"), blob),
    })
}

/// Whether providers accept the blob as a picture.
pub(crate) fn is_picture(blob: &BlobRef) -> bool {
    matches!(blob.media_type.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// The bytes of a blob that the request names.
pub(crate) fn bytes<'a>(call: &'a ModelCall, blob: &BlobRef) -> Result<&'a [u8], ModelError> {
    call.blobs.get(&blob.digest).map(AsRef::as_ref).ok_or_else(|| {
        ModelError::new(FailureClass::MissingBlob, format!("blob {:?} is not there", blob.digest))
    })
}

/// The sentence in the place of a blob that no provider accepts.
pub(crate) fn left_out(what: &str, blob: &BlobRef) -> String {
    format!("({what} left out: {} cannot be shown to a model)", blob.media_type)
}
