//! Detects media types of files from their bytes and names.
//!
//! This module reads no file.

use windlass_engine::tool::image_type;

/// Returns the media type of a file, from its bytes and the extension of its name. The
/// extension is used only if it does not contradict the bytes: a text file named `a.docx` is
/// plain text. Returns `None` for unknown binary data.
pub fn media_type(name: &str, bytes: &[u8]) -> Option<&'static str> {
    if let Some(image) = image_type(bytes) {
        return Some(image);
    }
    if bytes.starts_with(b"%PDF-") {
        return Some("application/pdf");
    }
    let has_controls = bytes.iter().any(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31));
    let is_text = !has_controls && std::str::from_utf8(bytes).is_ok();
    // The bytes above already identified files of these types.
    let is_known_by_bytes = |guess: &str| IMAGES.contains(&guess) || guess == "application/pdf";
    // A text may have an encoding other than UTF-8.
    let fits = |guess: &str| if is_textual(guess) { !has_controls } else { !is_text };
    let mut guesses = mime_guess::from_path(name).iter_raw();
    let guess = guesses.find(|guess| fits(guess) && !is_known_by_bytes(guess));
    guess.or(is_text.then_some("text/plain"))
}

/// The images that [`image_type`] recognizes.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Whether files of a media type are text.
fn is_textual(media_type: &str) -> bool {
    const TEXTS: [&str; 12] = [
        "application/javascript",
        "application/json",
        "application/rtf",
        "application/sql",
        "application/toml",
        "application/x-httpd-php",
        "application/x-javascript",
        "application/x-sh",
        "application/x-sql",
        "application/x-tex",
        "application/x-yaml",
        "application/xml",
    ];
    let is_format = media_type.ends_with("+xml") || media_type.ends_with("+json");
    media_type.starts_with("text/") || is_format || TEXTS.contains(&media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_as_far_as_bytes_allow() {
        let cases: [(&str, &[u8], Option<&str>); 20] = [
            ("a.csv", b"a,b\n1,2\n", Some("text/csv")),
            ("A.CSV", b"a,b\n", Some("text/csv")),
            ("latin.csv", b"caf\xe9,1\n", Some("text/csv")),
            ("a.json", b"{}", Some("application/json")),
            ("a.md", b"# A\n", Some("text/markdown")),
            ("a.html", b"<p>", Some("text/html")),
            ("a.svg", b"<svg/>", Some("image/svg+xml")),
            ("a.ts", b"let a: number\n", Some("text/plain")),
            ("Makefile", b"all:\n", Some("text/plain")),
            ("", b"plain", Some("text/plain")),
            ("a.docx", b"not a document", Some("text/plain")),
            (
                "a.docx",
                b"PK\x03\x04\x00",
                Some("application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
            ),
            ("a.zip", b"PK\x03\x04\x00", Some("application/zip")),
            ("a.mp3", b"ID3\x03\x00", Some("audio/mpeg")),
            ("a.csv", b"\x00\x01", None),
            ("a.png", b"\x00\x01", None),
            ("a.pdf", b"\x00\x01", None),
            ("a.txt", b"%PDF-1.7", Some("application/pdf")),
            ("a.txt", b"\x89PNG\r\n\x1a\n", Some("image/png")),
            ("a", b"\xff\xfe\x00", None),
        ];
        for (name, bytes, wanted) in cases {
            assert_eq!(media_type(name, bytes), wanted, "{name}");
        }
    }
}
