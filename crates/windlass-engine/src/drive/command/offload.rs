//! Offloaded results: the model gets a summary that describes the result and how to fetch the rest. (LM-O)
//!
//! Errors and the results of fetching tools are never offloaded. A summary is recorded and never changes.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use serde_json::Value;
use windlass_machine::{
    BlobRef, Block, Content, Digest, EffectId, Offload, Offloaded, estimate_tokens, shorten_result,
};

use super::context::Place;
use crate::drive::contents::{Contents, NewBlobs};
use crate::port::journal::StoreError;
use crate::port::offload::{OffloadedResults, Summarizer, SummaryOf};
use crate::port::tool::{OutputPart, ToolOutput};

/// Maximum length of a summary in characters.
const SUMMARY_MAX_CHARS: usize = 8_000;

/// The settings for offloading results.
pub(crate) struct Offloading {
    /// Default for runs without their own setting.
    pub default: Option<Offload>,
    /// The host program's summarizer.
    pub summarizer: Option<Arc<Summarizer>>,
}

/// The call whose answer is summarized.
pub(in crate::drive) struct Answered<'a> {
    pub tool: &'a str,
    pub effect: &'a EffectId,
    pub arguments: &'a Value,
}

/// Moves the texts of a long answer out of the result, if the run offloads
/// results. The returned block replaces the texts in the event.
pub(in crate::drive) async fn offload(
    place: &Place,
    answered: Answered<'_>,
    output: &mut ToolOutput,
    blobs: &mut NewBlobs,
) -> Result<Option<(Box<Offloaded>, Block)>, StoreError> {
    let Offloading { default, summarizer } = &place.services.offloading;
    let contents = &*place.services.contents;
    let wanted = place.offload.or(*default).filter(|offload| offload.enabled && !output.error);
    let (Some(offload), Some(fetcher)) = (wanted, place.tools.registry.fetcher()) else { return Ok(None) };
    if place.tools.registry.get(answered.tool).is_some_and(|tool| tool.traits().fetches) {
        return Ok(None);
    }
    let size: usize = texts(output).map(str::len).sum();
    if size as u64 <= offload.threshold_bytes {
        return Ok(None);
    }
    let text = texts(output).collect::<Vec<_>>().join("\n");
    output.parts.retain(|part| !matches!(part, OutputPart::Text(_)));
    let digest = Digest::of(answered.effect.as_str().as_bytes()).to_string();
    let reference = format!("res_{}", &digest[..12]);
    let Answered { tool, arguments, .. } = answered;
    let max_preview_chars = offload.max_preview_chars;
    let fetcher = fetcher.as_str();
    let summary = summed_up(
        summarizer.as_deref(),
        &SummaryOf { tool, arguments, text: &text, reference: &reference, fetcher, max_preview_chars },
    );
    // A reader of the journal sees the text that the model would see without offloading.
    let shown = shorten_result(vec![text.clone()]).into_iter().next().unwrap_or_default();
    let shown = kept(contents, blobs, shown).await?;
    let payload = kept(contents, blobs, text).await?;
    let summary = blobs.text(contents, summary).await?;
    let block = Block::Text { text: Content::Blob(shown), native: None };
    Ok(Some((Box::new(Offloaded { reference, payload, summary }), block)))
}

fn texts(output: &ToolOutput) -> impl Iterator<Item = &str> {
    output.parts.iter().filter_map(|part| match part {
        OutputPart::Text(text) => Some(text.as_str()),
        OutputPart::Image { .. } | OutputPart::File { .. } => None,
    })
}

async fn kept(contents: &Contents, blobs: &mut NewBlobs, text: String) -> Result<BlobRef, StoreError> {
    let tokens = estimate_tokens(text.len() as u64);
    blobs.keep(contents, "text/plain", tokens, Bytes::from(text)).await
}

/// Returns the host program's summary if it contains the reference; otherwise the engine's.
fn summed_up(summarizer: Option<&Summarizer>, of: &SummaryOf<'_>) -> String {
    let own = summarizer.and_then(|summarizer| {
        let said = std::panic::catch_unwind(AssertUnwindSafe(|| summarizer(of))).ok()?;
        let fits = said.contains(of.reference) && said.chars().count() <= SUMMARY_MAX_CHARS;
        fits.then_some(said)
    });
    own.unwrap_or_else(|| summary(of))
}

/// Describes a result: shape, size, beginning, and how to fetch the rest. (LM-O3)
fn summary(of: &SummaryOf<'_>) -> String {
    let SummaryOf { tool, text, reference, fetcher, max_preview_chars, .. } = *of;
    let size = size(text.len());
    let (shape, preview, what) = match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(items)) => {
            let first = items.first().map(Value::to_string).unwrap_or_default();
            (format!("Array of {} items", items.len()), ("First item preview", first), "array")
        }
        Ok(Value::Object(members)) => {
            let mut keys: String = members.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            if keys.len() > KEYS_MAX_BYTES {
                keys.truncate(keys.floor_char_boundary(KEYS_MAX_BYTES));
                keys.push('…');
            }
            (format!("Object with {} keys: {keys}", members.len()), ("Preview", text.to_owned()), "object")
        }
        Ok(_) | Err(_) => {
            (format!("Text of {} lines", text.lines().count()), ("Preview", text.to_owned()), "text")
        }
    };
    let (name, preview) = preview;
    let shown: String = preview.chars().take(max_preview_chars).collect();
    let more = if shown.len() < preview.len() { "…" } else { "" };
    format!(
        "[{tool}] {shape} ({size}).\n{name}: {shown}{more}\nUse {fetcher} with ref=\"{reference}\" to read the full {what}."
    )
}

/// Maximum total size of member names in a summary, in bytes.
const KEYS_MAX_BYTES: usize = 500;

/// Formats a size for people.
fn size(bytes: usize) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{:.1} KB", bytes as f64 / 1_024.0),
        _ => format!("{:.1} MB", bytes as f64 / 1_048_576.0),
    }
}

/// Returns access to the results of a thread that a fetching tool may read.
pub(in crate::drive) fn results(contents: &Arc<Contents>, known: Vec<(String, BlobRef)>) -> OffloadedResults {
    let contents = contents.clone();
    OffloadedResults(Some(Arc::new(move |reference: String| {
        let found = known.iter().find(|(known, _)| *known == reference).map(|(_, payload)| payload.clone());
        let contents = contents.clone();
        async move {
            let Some(payload) = found else {
                return Err(format!("there is no result `{reference}` in this conversation"));
            };
            let text = contents.text_of(&Content::Blob(payload)).await;
            text.map_err(|error| format!("the result `{reference}` cannot be read: {error}"))
        }
        .boxed()
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(text: &str, max_preview_chars: usize) -> String {
        let (arguments, reference) = (Value::Null, "res_1");
        summary(&SummaryOf {
            tool: "WebSearch",
            arguments: &arguments,
            text,
            reference,
            fetcher: "FetchData",
            max_preview_chars,
        })
    }

    // rows: LM-O3
    #[test]
    fn a_summary_tells_the_shape() {
        let items = format!("[{}]", vec![r#"{"title":"a"}"#; 200].join(","));
        let wanted = "[WebSearch] Array of 200 items (2.7 KB).\nFirst item preview: {\"title\":\"a\"}\n\
                      Use FetchData with ref=\"res_1\" to read the full array.";
        assert_eq!(says(&items, 500), wanted);
        let wanted = "[WebSearch] Object with 2 keys: b, a (16 B).\nPreview: {\"b\":…\n\
                      Use FetchData with ref=\"res_1\" to read the full object.";
        assert_eq!(says("{\"b\":1,\"a\":[1]}", 5), wanted.replace("16 B", "15 B"));
        let wanted = "[WebSearch] Text of 2 lines (9 B).\nPreview: zwölf\na…\n\
                      Use FetchData with ref=\"res_1\" to read the full text.";
        assert_eq!(says("zwölf\nab", 7), wanted);
        assert!(says("[]", 5).starts_with("[WebSearch] Array of 0 items (2 B).\nFirst item preview: \n"));
    }
}
