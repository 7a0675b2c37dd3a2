//! Contents of events: stores long contents as blobs, and reads them back for models, tools and people.
//!
//! This module only transfers blobs: the store keeps them, and the machine references them.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use windlass_machine::{
    BlobRef, Block, Content, Digest, INLINE_MAX_BYTES, RESULT_MAX_PARTS, estimate_tokens, repair_arguments,
    shorten_result,
};

use super::cache::BlobCache;
use crate::port::blob::{APPEND_MAX_BYTES, Blobs};
use crate::port::journal::StoreError;
use crate::port::tool::{OutputPart, ToolOutput};

/// Estimated number of tokens of an image. The large providers charge this number for one megapixel.
pub(crate) const IMAGE_TOKENS: u64 = 1_600;

/// The store's blobs, with a cache of recently used blobs.
pub(crate) struct Contents {
    blobs: Arc<dyn Blobs>,
    cache: BlobCache,
}

impl Contents {
    pub(crate) fn new(blobs: Arc<dyn Blobs>) -> Self {
        Self { blobs, cache: BlobCache::default() }
    }

    pub(crate) async fn put(&self, blob: &BlobRef, bytes: Bytes) -> Result<(), StoreError> {
        self.blobs.put(blob, bytes).await
    }

    /// Deletes blobs that no event references.
    pub(super) async fn collect(&self) -> Result<(), StoreError> {
        self.blobs.collect().await
    }

    /// Reads a blob. A missing blob is an error that names it.
    pub(crate) async fn blob(&self, digest: &Digest) -> Result<Bytes, StoreError> {
        if let Some(bytes) = self.cache.get(digest) {
            return Ok(bytes);
        }
        let bytes = self.blobs.get(digest).await?;
        let bytes = bytes.ok_or_else(|| StoreError::NotFound { what: format!("blob {digest}") })?;
        self.cache.put(*digest, bytes.clone());
        Ok(bytes)
    }

    /// Returns the whole text of a content.
    pub(crate) async fn text_of(&self, content: &Content) -> Result<String, StoreError> {
        match content {
            Content::Inline(text) => Ok(text.clone()),
            Content::Blob(blob) => {
                let bytes = self.blob(&blob.digest).await?;
                String::from_utf8(bytes.to_vec())
                    .map_err(|_| StoreError::Corrupt { why: format!("blob {} is not UTF-8", blob.digest) })
            }
        }
    }

    /// Returns the arguments of a call that were validated before.
    pub(super) async fn arguments(&self, content: &Content) -> Option<Arc<Value>> {
        let text = self.text_of(content).await.ok()?;
        repair_arguments(&text).ok().map(|(value, _)| Arc::new(value))
    }
}

/// New blobs for an append.
#[derive(Default)]
pub(crate) struct NewBlobs(pub Vec<(BlobRef, Bytes)>);

impl NewBlobs {
    /// Adds bytes as a blob. Large blobs are stored immediately; the append that references the others stores them.
    pub(crate) async fn keep(
        &mut self,
        contents: &Contents,
        media_type: &str,
        tokens: u64,
        bytes: Bytes,
    ) -> Result<BlobRef, StoreError> {
        let digest = Digest::of(&bytes);
        let blob = BlobRef { digest, media_type: media_type.into(), size_bytes: bytes.len() as u64, tokens };
        contents.cache.put(digest, bytes.clone());
        if bytes.len() < APPEND_MAX_BYTES {
            self.0.push((blob.clone(), bytes));
        } else {
            contents.put(&blob, bytes).await?;
        }
        Ok(blob)
    }

    /// Converts a text for an event: inline, or as a blob if it is long.
    pub(crate) async fn text(&mut self, contents: &Contents, text: String) -> Result<Content, StoreError> {
        if text.len() <= INLINE_MAX_BYTES {
            return Ok(Content::Inline(text));
        }
        let tokens = estimate_tokens(text.len() as u64);
        Ok(Content::Blob(self.keep(contents, "text/plain", tokens, Bytes::from(text)).await?))
    }

    /// Like [`text`](Self::text), for an optional text.
    pub(crate) async fn text_if(
        &mut self,
        contents: &Contents,
        text: Option<String>,
    ) -> Result<Option<Content>, StoreError> {
        match text {
            Some(text) => self.text(contents, text).await.map(Some),
            None => Ok(None),
        }
    }

    /// Converts a content for an event.
    pub(crate) async fn content(
        &mut self,
        contents: &Contents,
        content: Content,
    ) -> Result<Content, StoreError> {
        match content {
            Content::Inline(text) => self.text(contents, text).await,
            Content::Blob(blob) => Ok(Content::Blob(blob)),
        }
    }

    /// Converts blocks for an event.
    pub(crate) async fn blocks(
        &mut self,
        contents: &Contents,
        blocks: Vec<Block>,
    ) -> Result<Vec<Block>, StoreError> {
        let mut kept = Vec::with_capacity(blocks.len());
        for block in blocks {
            kept.push(match block {
                Block::Text { text, native } => {
                    Block::Text { text: self.content(contents, text).await?, native }
                }
                Block::Reasoning { text, native } => {
                    Block::Reasoning { text: self.content(contents, text).await?, native }
                }
                Block::ToolCall(mut call) => {
                    call.asked = self.content(contents, call.asked).await?;
                    Block::ToolCall(call)
                }
                Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) | Block::Opaque { .. } => {
                    block
                }
            });
        }
        Ok(kept)
    }

    /// Converts a tool's output for an event. The number of parts and the total size of the texts are limited to the
    /// values that a model is shown.
    pub(crate) async fn output(
        &mut self,
        contents: &Contents,
        mut output: ToolOutput,
    ) -> Result<Vec<Block>, StoreError> {
        leave_out(&mut output.parts);
        shorten(&mut output.parts);
        let mut blocks = Vec::with_capacity(output.parts.len());
        for part in output.parts {
            blocks.push(match part {
                OutputPart::Text(text) => {
                    Block::Text { text: self.text(contents, text).await?, native: None }
                }
                OutputPart::Image { media_type, bytes } => {
                    Block::Image { blob: self.keep(contents, &media_type, IMAGE_TOKENS, bytes).await? }
                }
                OutputPart::File { name, media_type, bytes } => {
                    let tokens = estimate_tokens(bytes.len() as u64);
                    Block::File { name, blob: self.keep(contents, &media_type, tokens, bytes).await? }
                }
            });
        }
        Ok(blocks)
    }
}

/// Drops the last parts of a result that has too many, and adds a text that states their number.
fn leave_out(parts: &mut Vec<OutputPart>) {
    let total = parts.len();
    if total > RESULT_MAX_PARTS {
        parts.truncate(RESULT_MAX_PARTS - 1);
        let gone = total - parts.len();
        parts.push(OutputPart::Text(format!("[… {gone} of {total} parts left out …]")));
    }
}

/// Truncates the texts of a result to one shared budget; texts above the budget are removed.
fn shorten(parts: &mut Vec<OutputPart>) {
    let texts = parts.iter_mut().filter_map(|part| match part {
        OutputPart::Text(text) => Some(std::mem::take(text)),
        OutputPart::Image { .. } | OutputPart::File { .. } => None,
    });
    let mut texts = shorten_result(texts.collect()).into_iter();
    let several = texts.len() > 1;
    parts.retain_mut(|part| match part {
        OutputPart::Text(text) => {
            *text = texts.next().unwrap_or_default();
            !(several && text.is_empty())
        }
        OutputPart::Image { .. } | OutputPart::File { .. } => true,
    });
}
