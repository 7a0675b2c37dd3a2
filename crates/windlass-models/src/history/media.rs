//! Pictures and documents on their way to a model.
//!
//! What a wire cannot carry is told to the model in words.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rig_core::message::{
    Document, DocumentMediaType, DocumentSourceKind, Image, ImageMediaType, Text, ToolResultContent,
    UserContent,
};
use serde_json::json;
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{BlobRef, FailureClass};

/// A picture, or a sentence in its place where no provider takes its type.
pub(crate) fn image(call: &ModelCall, blob: &BlobRef) -> Result<UserContent, ModelError> {
    Ok(match picture(call, blob)? {
        Some(image) => UserContent::Image(image),
        None => UserContent::text(left_out("picture", blob)),
    })
}

/// A picture inside a tool's result.
pub(crate) fn result_image(call: &ModelCall, blob: &BlobRef) -> Result<ToolResultContent, ModelError> {
    Ok(match picture(call, blob)? {
        Some(image) => ToolResultContent::Image(image),
        None => ToolResultContent::Text(Text::new(left_out("picture", blob))),
    })
}

/// A document: PDF as it is, text as text, and a sentence in the place of anything else.
pub(crate) fn file(call: &ModelCall, name: &str, blob: &BlobRef) -> Result<UserContent, ModelError> {
    let bytes = bytes(call, blob)?;
    Ok(match as_text(name, blob, bytes) {
        Some(text) => UserContent::text(text),
        None => UserContent::Document(Document {
            data: DocumentSourceKind::Base64(BASE64_STANDARD.encode(bytes)),
            media_type: Some(DocumentMediaType::PDF),
            additional_params: Some(json!({"title": name})),
        }),
    })
}

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
    image_type(blob).is_some()
}

fn image_type(blob: &BlobRef) -> Option<ImageMediaType> {
    match blob.media_type.as_str() {
        "image/png" => Some(ImageMediaType::PNG),
        "image/jpeg" => Some(ImageMediaType::JPEG),
        "image/gif" => Some(ImageMediaType::GIF),
        "image/webp" => Some(ImageMediaType::WEBP),
        _ => None,
    }
}

/// The bytes of a blob that the request names.
pub(crate) fn bytes<'a>(call: &'a ModelCall, blob: &BlobRef) -> Result<&'a [u8], ModelError> {
    call.blobs.get(&blob.digest).map(AsRef::as_ref).ok_or_else(|| {
        ModelError::new(FailureClass::MissingBlob, format!("blob {:?} is not there", blob.digest))
    })
}

fn picture(call: &ModelCall, blob: &BlobRef) -> Result<Option<Image>, ModelError> {
    let Some(media_type) = image_type(blob) else { return Ok(None) };
    Ok(Some(Image {
        data: DocumentSourceKind::Base64(BASE64_STANDARD.encode(bytes(call, blob)?)),
        media_type: Some(media_type),
        detail: None,
        native: None,
    }))
}

/// The sentence in the place of a blob that no provider accepts.
pub(crate) fn left_out(what: &str, blob: &BlobRef) -> String {
    format!("({what} left out: {} cannot be shown to a model)", blob.media_type)
}
