//! Files that people attach to a message, as the blocks of it; and the pictures of a thread, to be shown.
//!
//! Bytes decide what a file is, and its name only among what the bytes allow: a model is sent a picture only where there
//! is one.

use bytes::Bytes;
use windlass_machine::{BlobRef, Block, Digest, Seq, ThreadId, estimate_tokens};

use crate::drive::IMAGE_TOKENS;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::tool::image_type;

/// Bytes of a picture that is shown at most; models see none that are as large.
const PICTURE_MAX_BYTES: usize = 20 * 1024 * 1024;

impl Engine {
    /// Keeps a file's bytes and makes a block of them: an image where they are one that models see, else a file of the
    /// [`media_type`] that its name and bytes stand for. `said` is the sender's word for bytes that are none of these.
    ///
    /// The bytes stay for a day where no message names them.
    pub async fn attach(&self, name: &str, said: &str, bytes: Bytes) -> Result<Block, EngineError> {
        if let Some(media_type) = image_type(&bytes) {
            return Ok(Block::Image { blob: self.keep(media_type, IMAGE_TOKENS, bytes).await? });
        }
        let tokens = estimate_tokens(bytes.len() as u64);
        let media_type = media_type(name, &bytes).unwrap_or(said);
        let blob = self.keep(media_type, tokens, bytes).await?;
        Ok(Block::File { name: name.to_owned(), blob })
    }

    /// The pictures and files of a message of a thread, by the message's position, to go with another message. Empty
    /// where no message stands at that position.
    ///
    /// Their bytes are kept anew, as [`Engine::attach`] keeps them: the thread may be deleted meanwhile.
    pub async fn attached(&self, thread: &ThreadId, message: Seq) -> Result<Vec<Block>, EngineError> {
        let newest = self.messages(thread, Some(Seq(message.0.saturating_add(1))), 1).await?;
        let said = newest.into_iter().filter(|said| said.seq == message);
        let mut files = Vec::new();
        for block in said.flat_map(|said| said.blocks) {
            let (Block::Image { blob } | Block::File { blob, .. }) = &block else { continue };
            self.deps.blobs.put(blob, self.blob(&blob.digest).await?).await?;
            files.push(block);
        }
        Ok(files)
    }

    /// A picture that a thread's journal names, with its media type, told by its own bytes. `None` for everything else:
    /// what the thread does not name, what is no picture that models see, and what is larger than
    /// 20 MiB.
    pub async fn picture(
        &self,
        thread: &ThreadId,
        digest: &Digest,
    ) -> Result<Option<(&'static str, Bytes)>, EngineError> {
        if !self.names(thread, digest).await? {
            return Ok(None);
        }
        let bytes = self.blob(digest).await?;
        let is_shown = bytes.len() <= PICTURE_MAX_BYTES;
        Ok(image_type(&bytes).filter(|_| is_shown).map(|media_type| (media_type, bytes)))
    }

    /// Whether a thread's journal names a blob.
    pub async fn names(&self, thread: &ThreadId, digest: &Digest) -> Result<bool, EngineError> {
        Ok(self.deps.journal.names_blob(thread, digest).await?)
    }

    async fn keep(&self, media_type: &str, tokens: u64, bytes: Bytes) -> Result<BlobRef, EngineError> {
        let digest = Digest::of(&bytes);
        let blob = BlobRef { digest, media_type: media_type.into(), size_bytes: bytes.len() as u64, tokens };
        self.deps.blobs.put(&blob, bytes).await?;
        Ok(blob)
    }
}

/// The media type of a file, by its bytes and the end of its name. A name counts only if the bytes can be what it says:
/// a text that is called `a.docx` is plain text. `None` for binary data of which neither says anything.
pub fn media_type(name: &str, bytes: &[u8]) -> Option<&'static str> {
    if let Some(image) = image_type(bytes) {
        return Some(image);
    }
    if bytes.starts_with(b"%PDF-") {
        return Some("application/pdf");
    }
    let has_controls = bytes.iter().any(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31));
    let is_text = !has_controls && std::str::from_utf8(bytes).is_ok();
    // Bytes of a file that is one of these have said so above.
    let is_known_by_bytes = |guess: &str| IMAGES.contains(&guess) || guess == "application/pdf";
    // A text may be in another encoding than UTF-8.
    let fits = |guess: &str| if is_textual(guess) { !has_controls } else { !is_text };
    let mut guesses = mime_guess::from_path(name).iter_raw();
    let guess = guesses.find(|guess| fits(guess) && !is_known_by_bytes(guess));
    guess.or(is_text.then_some("text/plain"))
}

/// The pictures that [`image_type`] recognizes.
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
