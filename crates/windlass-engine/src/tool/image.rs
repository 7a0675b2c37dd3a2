//! What the first bytes of a file say of it: whether it is a picture that models see.
//!
//! It looks at no name and no more of the file.

/// The media type of a picture that every provider takes; `None` for anything else.
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
