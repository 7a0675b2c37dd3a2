//! Parts of a history that all wires share: texts, images and documents, call ids, and turns.
//!
//! Each wire encodes its body from these parts.

pub(crate) mod ids;
pub(crate) mod media;
pub(crate) mod turn;

use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{Content, FailureClass};

/// Returns the text of a content. Fails if its blob is missing or is not text.
pub(crate) fn text<'a>(call: &'a ModelCall, content: &'a Content) -> Result<&'a str, ModelError> {
    call.text(content).ok_or_else(|| {
        let what = match content {
            Content::Blob(blob) => format!("blob {:?} is missing or not text", blob.digest),
            Content::Inline(_) => "a text is missing".to_owned(),
        };
        ModelError::new(FailureClass::MissingBlob, what)
    })
}
