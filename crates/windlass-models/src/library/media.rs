//! Converts images and documents to the library's form.
//!
//! A sentence replaces content that a wire does not support.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rig_core::message::{
    Document, DocumentMediaType, DocumentSourceKind, Image, ImageMediaType, Text, ToolResultContent,
    UserContent,
};
use serde_json::json;
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::BlobRef;

use crate::history::media::{as_text, bytes, left_out};

/// Converts an image, or returns a sentence if no provider accepts its type.
pub(crate) fn image(call: &ModelCall, blob: &BlobRef) -> Result<UserContent, ModelError> {
    Ok(match picture(call, blob)? {
        Some(image) => UserContent::Image(image),
        None => UserContent::text(left_out("picture", blob)),
    })
}

/// Converts an image inside a tool's result.
pub(crate) fn result_image(call: &ModelCall, blob: &BlobRef) -> Result<ToolResultContent, ModelError> {
    Ok(match picture(call, blob)? {
        Some(image) => ToolResultContent::Image(image),
        None => ToolResultContent::Text(Text::new(left_out("picture", blob))),
    })
}

/// Converts a document: PDF unchanged, text as text. A sentence replaces any other type.
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

fn image_type(blob: &BlobRef) -> Option<ImageMediaType> {
    match blob.media_type.as_str() {
        "image/png" => Some(ImageMediaType::PNG),
        "image/jpeg" => Some(ImageMediaType::JPEG),
        "image/gif" => Some(ImageMediaType::GIF),
        "image/webp" => Some(ImageMediaType::WEBP),
        _ => None,
    }
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
