//! Detects images that models accept, from the first bytes of a file.
//!
//! This module examines neither the name nor the rest of the file.

/// Returns the media type of an image that every provider accepts; `None` for anything else.
pub fn image_type(start: &[u8]) -> Option<&'static str> {
    if start.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if start.starts_with(&[0xff, 0xd8, 0xff]) {
        Some("image/jpeg")
    } else if start.starts_with(b"GIF87a") || start.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}
