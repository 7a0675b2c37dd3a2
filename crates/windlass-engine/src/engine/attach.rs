//! Files attached to messages, and the images of a thread.
//!
//! The bytes of a file determine whether it is an image: a model never receives other bytes as an image.

use bytes::Bytes;
use windlass_machine::{BlobRef, Block, Digest, Seq, estimate_tokens};

use crate::drive::IMAGE_TOKENS;
use crate::engine::Engine;
use crate::engine::handle::FilesHandle;
use crate::error::EngineError;
use crate::tool::image_type;

/// Maximum size of a displayed image in bytes; models only accept smaller images.
const PICTURE_MAX_BYTES: usize = 20 * 1024 * 1024;

impl Engine {
    /// Stores a file's bytes and returns a block for a message: an image if every provider accepts the format, else a
    /// file with the given media type.
    ///
    /// If no message references the bytes, they are deleted after a day.
    pub async fn attach(&self, name: &str, media_type: &str, bytes: Bytes) -> Result<Block, EngineError> {
        if let Some(media_type) = image_type(&bytes) {
            return Ok(Block::Image { blob: self.keep(media_type, IMAGE_TOKENS, bytes).await? });
        }
        let tokens = estimate_tokens(bytes.len() as u64);
        let blob = self.keep(media_type, tokens, bytes).await?;
        Ok(Block::File { name: name.to_owned(), blob })
    }

    async fn keep(&self, media_type: &str, tokens: u64, bytes: Bytes) -> Result<BlobRef, EngineError> {
        let digest = Digest::of(&bytes);
        let blob = BlobRef { digest, media_type: media_type.into(), size_bytes: bytes.len() as u64, tokens };
        self.services.contents.put(&blob, bytes).await?;
        Ok(blob)
    }
}

impl FilesHandle<'_> {
    /// Returns the images and files of a message, by its position in the thread, for use in another message. Returns
    /// an empty list if the thread has no message at that position.
    ///
    /// The bytes are stored again, as by [`Engine::attach`], because the thread may be deleted.
    pub async fn attached(self, message: Seq) -> Result<Vec<Block>, EngineError> {
        let Self { engine, id: thread } = self;
        let newest = engine.thread(thread).messages(Some(Seq(message.0.saturating_add(1))), 1).await?;
        let said = newest.into_iter().filter(|said| said.seq == message);
        let mut files = Vec::new();
        for block in said.flat_map(|said| said.blocks) {
            let (Block::Image { blob } | Block::File { blob, .. }) = &block else { continue };
            engine.services.contents.put(blob, engine.blob(&blob.digest).await?).await?;
            files.push(block);
        }
        Ok(files)
    }

    /// Returns an image that a thread's journal references, with the media type of its bytes. Returns `None` if the
    /// journal does not reference it, models do not accept it, or it is larger than 20 MiB.
    pub async fn picture(self, digest: &Digest) -> Result<Option<(&'static str, Bytes)>, EngineError> {
        let Self { engine, id: thread } = self;
        if !engine.thread(thread).files().names(digest).await? {
            return Ok(None);
        }
        let bytes = engine.blob(digest).await?;
        let is_shown = bytes.len() <= PICTURE_MAX_BYTES;
        Ok(image_type(&bytes).filter(|_| is_shown).map(|media_type| (media_type, bytes)))
    }

    /// Whether a thread's journal references a blob.
    pub async fn names(self, digest: &Digest) -> Result<bool, EngineError> {
        let Self { engine, id: thread } = self;
        Ok(engine.services.store.journal.names_blob(thread, digest).await?)
    }
}
