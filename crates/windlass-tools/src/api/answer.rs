//! Formats a service's response for the model: status, useful headers and body, without secrets.
//!
//! A status of 400 and above is an error result that the model can react to.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use windlass_engine::port::tool::{OutputPart, ToolOutput};
use windlass_engine::tool::image_type;
use windlass_outbound::secret::Mask;
use windlass_outbound::{End, Response};

use crate::charset::{Decoded, decode, is_text, media_type};

/// Response headers that are useful to a model.
const SHOWN: &[&str] = &[
    "content-type",
    "content-range",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
    "allow",
    "x-request-id",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "ratelimit",
    "x-total-count",
];
/// Maximum length of a displayed header value, in characters.
const MAX_VALUE_CHARS: usize = 500;
/// Maximum size of a displayed image, in bytes; the same limit as for files.
const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024;

/// Formats a response.
pub(super) fn show(response: Response, left_out: &[String], mask: &Mask) -> ToolOutput {
    let Response { status, headers, body, .. } = response;
    let mut text = format!("HTTP {} {}\n", status.as_u16(), status.canonical_reason().unwrap_or_default());
    for name in SHOWN {
        for value in headers.get_all(*name) {
            // The value is redacted before it is truncated: the mask would not recognize part of a secret.
            let value = mask.text(&String::from_utf8_lossy(value.as_bytes()));
            let value: String = value.chars().take(MAX_VALUE_CHARS).collect();
            text.push_str(&format!("{name}: {value}\n"));
        }
    }
    if !left_out.is_empty() {
        text.push_str(&format!("[headers not sent, because they are reserved: {}]\n", left_out.join(", ")));
    }
    let is_cut = body.end != End::Whole;
    let end = match &body.end {
        End::Whole => String::new(),
        End::Cut => format!("\n[truncated after {} bytes]", body.bytes.len()),
        End::Broken(why) => {
            format!("\n[incomplete after {} bytes: {}]", body.bytes.len(), mask.text(why))
        }
    };
    let (shown, image) = match image_type(&body.bytes) {
        Some(media_type) if !is_cut && body.bytes.len() <= MAX_IMAGE_BYTES => {
            let bytes = Bytes::from(mask.bytes(&body.bytes));
            (String::new(), Some(OutputPart::Image { media_type: media_type.to_owned(), bytes }))
        }
        Some(_) | None => (of_bytes(&body.bytes, &headers, is_cut, mask), None),
    };
    if !shown.is_empty() {
        text.push('\n');
        text.push_str(&shown);
    }
    text.push_str(&end);
    let parts = [OutputPart::Text(text)].into_iter().chain(image).collect();
    ToolOutput { parts, error: status.is_client_error() || status.is_server_error(), ..ToolOutput::default() }
}

fn of_bytes(bytes: &[u8], headers: &HeaderMap, is_cut: bool, mask: &Mask) -> String {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let media_type = kind.map(media_type).unwrap_or_default();
    let has_zero = bytes.iter().take(8000).any(|byte| *byte == 0);
    let Decoded { text, is_lossy } = decode(bytes, kind);
    if !is_text(&media_type) && (has_zero || is_lossy) {
        return format!("[{} bytes of binary data, not shown]", bytes.len());
    }
    let text = match is_cut {
        // If the truncation splits a character, the rest of the character is removed: it
        // would hide the text before it from the mask.
        true => String::from_utf8_lossy(&mask.cut_bytes(text.trim_end_matches('\u{fffd}').as_bytes()))
            .into_owned(),
        false => mask.text(&text),
    };
    if is_lossy && !is_cut { format!("{text}\n[invalid bytes are shown as \u{fffd}]") } else { text }
}
