//! Blobs in and out: large parts leave what is recorded, and come back into what a model or a tool gets.
//!
//! Blobs are only moved here; the store keeps them and the machine names them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use windlass_machine::{
    BlobRef, Block, Content, Digest, INLINE_MAX_BYTES, ModelRequest, RESULT_MAX_PARTS, RunId, ToolName,
    ToolSpec, estimate_tokens, shorten_result,
};

use super::Deps;
use crate::port::blob::APPEND_MAX_BYTES;
use crate::port::journal::StoreError;
use crate::port::model::ModelCall;
use crate::port::tool::{OutputPart, ToolOutput};
use crate::tool::toolset::Loaded;

/// Estimated tokens of a picture: what the large providers charge for one of a million pixels.
pub(crate) const IMAGE_TOKENS: u64 = 1_600;

/// New blobs on their way into an append.
#[derive(Default)]
pub(crate) struct NewBlobs(pub Vec<(BlobRef, Bytes)>);

impl NewBlobs {
    /// Keeps bytes as a blob; large ones are stored at once, the others travel in the append that names them.
    pub(crate) async fn keep(
        &mut self,
        deps: &Deps,
        media_type: &str,
        tokens: u64,
        bytes: Bytes,
    ) -> Result<BlobRef, StoreError> {
        let digest = Digest::of(&bytes);
        let blob = BlobRef { digest, media_type: media_type.into(), size_bytes: bytes.len() as u64, tokens };
        deps.cache.put(digest, bytes.clone());
        if bytes.len() < APPEND_MAX_BYTES {
            self.0.push((blob.clone(), bytes));
        } else {
            deps.blobs.put(&blob, bytes).await?;
        }
        Ok(blob)
    }

    /// A text as it is recorded: itself, or a blob where it is long.
    pub(crate) async fn text(&mut self, deps: &Deps, text: String) -> Result<Content, StoreError> {
        if text.len() <= INLINE_MAX_BYTES {
            return Ok(Content::Inline(text));
        }
        let tokens = estimate_tokens(text.len() as u64);
        Ok(Content::Blob(self.keep(deps, "text/plain", tokens, Bytes::from(text)).await?))
    }

    /// The same of a text that may be missing.
    pub(crate) async fn text_if(
        &mut self,
        deps: &Deps,
        text: Option<String>,
    ) -> Result<Option<Content>, StoreError> {
        match text {
            Some(text) => self.text(deps, text).await.map(Some),
            None => Ok(None),
        }
    }

    /// A content as it is recorded.
    pub(crate) async fn content(&mut self, deps: &Deps, content: Content) -> Result<Content, StoreError> {
        match content {
            Content::Inline(text) => self.text(deps, text).await,
            Content::Blob(blob) => Ok(Content::Blob(blob)),
        }
    }

    /// Blocks as they are recorded.
    pub(crate) async fn blocks(&mut self, deps: &Deps, blocks: Vec<Block>) -> Result<Vec<Block>, StoreError> {
        let mut kept = Vec::with_capacity(blocks.len());
        for block in blocks {
            kept.push(match block {
                Block::Text { text, native } => Block::Text { text: self.content(deps, text).await?, native },
                Block::Reasoning { text, native } => {
                    Block::Reasoning { text: self.content(deps, text).await?, native }
                }
                Block::ToolCall(mut call) => {
                    call.asked = self.content(deps, call.asked).await?;
                    Block::ToolCall(call)
                }
                Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) | Block::Opaque { .. } => {
                    block
                }
            });
        }
        Ok(kept)
    }

    /// A tool's answer as it is recorded: its parts, and its texts together, shortened to what a model is shown.
    pub(crate) async fn output(
        &mut self,
        deps: &Deps,
        mut output: ToolOutput,
    ) -> Result<Vec<Block>, StoreError> {
        leave_out(&mut output.parts);
        shorten(&mut output.parts);
        let mut blocks = Vec::with_capacity(output.parts.len());
        for part in output.parts {
            blocks.push(match part {
                OutputPart::Text(text) => Block::Text { text: self.text(deps, text).await?, native: None },
                OutputPart::Image { media_type, bytes } => {
                    Block::Image { blob: self.keep(deps, &media_type, IMAGE_TOKENS, bytes).await? }
                }
                OutputPart::File { name, media_type, bytes } => {
                    let tokens = estimate_tokens(bytes.len() as u64);
                    Block::File { name, blob: self.keep(deps, &media_type, tokens, bytes).await? }
                }
            });
        }
        Ok(blocks)
    }
}

/// Leaves out the last parts of a result that has too many; a text in their place tells of it.
fn leave_out(parts: &mut Vec<OutputPart>) {
    let total = parts.len();
    if total > RESULT_MAX_PARTS {
        parts.truncate(RESULT_MAX_PARTS - 1);
        let gone = total - parts.len();
        parts.push(OutputPart::Text(format!("[… {gone} of {total} parts left out …]")));
    }
}

/// Shortens the texts of a result to one budget; those that are left out whole leave.
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

impl Deps {
    /// Reads a blob; a missing one is an error that names it.
    pub(crate) async fn blob(&self, digest: &Digest) -> Result<Bytes, StoreError> {
        if let Some(bytes) = self.cache.get(digest) {
            return Ok(bytes);
        }
        let bytes = self.blobs.get(digest).await?;
        let bytes = bytes.ok_or_else(|| StoreError::NotFound { what: format!("blob {digest}") })?;
        self.cache.put(*digest, bytes.clone());
        Ok(bytes)
    }

    /// The whole text of a content.
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

    /// The tool catalogue that a run is pinned to.
    pub(crate) async fn catalogue(&self, blob: Option<&BlobRef>) -> Result<Arc<[ToolSpec]>, StoreError> {
        let Some(blob) = blob else { return Ok(Arc::from([])) };
        if let Some(known) = self.catalogues.get(&blob.digest) {
            return Ok(known);
        }
        let bytes = self.blob(&blob.digest).await?;
        let specs: Vec<ToolSpec> = serde_json::from_slice(&bytes).map_err(|error| StoreError::Corrupt {
            why: format!("tool catalogue {}: {error}", blob.digest),
        })?;
        let specs: Arc<[ToolSpec]> = specs.into();
        self.catalogues.put(blob.digest, specs.clone());
        Ok(specs)
    }

    /// The tools that the model of a run's request is shown. `own` are the names of the run's own tools.
    pub(crate) async fn tools_shown(
        &self,
        request: &ModelRequest,
        (run, own): (&RunId, &[ToolName]),
    ) -> Result<Arc<[ToolSpec]>, StoreError> {
        let mut tools = self.catalogue(request.tools.as_ref()).await?;
        if let Some(loaded) = &request.loaded {
            let loaded = Loaded::read(Some(&self.text_of(loaded).await?), run);
            let pinned: HashSet<_> = tools.iter().map(|spec| &spec.name).collect();
            let more = loaded.shown(own).filter(|spec| !pinned.contains(&spec.name));
            tools = tools.iter().chain(more).cloned().collect();
        }
        // What an administrator has taken out since is shown no more.
        let offered = self.tools.now();
        let is_disabled = |spec: &ToolSpec| offered.registry.is_disabled(&spec.name);
        if tools.iter().any(is_disabled) {
            tools = tools.iter().filter(|spec| !is_disabled(spec)).cloned().collect();
        }
        if tools.iter().any(|spec| spec.withheld.contains(&request.mode)) {
            tools = tools.iter().map(|spec| spec.in_mode(request.mode).into_owned()).collect();
        }
        Ok(tools)
    }

    /// A run's request with the bytes that it names. `own` are the names of the run's own tools.
    pub(crate) async fn fill(
        &self,
        request: ModelRequest,
        (run, own): (&RunId, &[ToolName]),
    ) -> Result<ModelCall, StoreError> {
        let tools = self.tools_shown(&request, (run, own)).await?;
        let mut named = Vec::new();
        request.system.iter().for_each(|content| name(content, &mut named));
        for message in &request.messages {
            message.blocks.iter().for_each(|block| name_in(block, &mut named));
        }
        let mut blobs = HashMap::with_capacity(named.len());
        for digest in named {
            if let Entry::Vacant(vacant) = blobs.entry(digest) {
                vacant.insert(self.blob(&digest).await?);
            }
        }
        Ok(ModelCall { request, tools, blobs })
    }
}

fn name(content: &Content, into: &mut Vec<Digest>) {
    if let Content::Blob(blob) = content {
        into.push(blob.digest);
    }
}

fn name_in(block: &Block, into: &mut Vec<Digest>) {
    match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => name(text, into),
        Block::Image { blob } | Block::File { blob, .. } => into.push(blob.digest),
        Block::ToolCall(call) => name(&call.asked, into),
        Block::ToolResult(result) => result.content.iter().for_each(|block| name_in(block, into)),
        Block::Opaque { .. } => {}
    }
}
