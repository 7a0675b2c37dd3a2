//! A history on its way to a provider: texts, pictures and documents, ids of calls, and turns.
//!
//! Each wire writes its own body from them.

pub(crate) mod ids;
pub(crate) mod media;
pub(crate) mod turn;

use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{Content, FailureClass};

/// The text of a content, or a typed error where its blob is missing or no text.
pub(crate) fn text<'a>(call: &'a ModelCall, content: &'a Content) -> Result<&'a str, ModelError> {
    call.text(content).ok_or_else(|| {
        let what = match content {
            Content::Blob(blob) => format!("blob {:?} is missing or no text", blob.digest),
            Content::Inline(_) => "a text is not there".to_owned(),
        };
        ModelError::new(FailureClass::MissingBlob, what)
    })
}
