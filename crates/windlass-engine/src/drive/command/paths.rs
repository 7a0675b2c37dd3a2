//! The paths among a call's arguments, and the files that they currently resolve to.
//!
//! This module evaluates no policy and opens no files.

use std::sync::Arc;

use serde_json::Value;
use windlass_machine::PathArgument;

use crate::port::tool::Tool;
use crate::tool::WorkingFolder;

/// Returns the paths among a call's arguments as written, with the arguments' JSON pointers.
pub(super) fn spelled(tool: &dyn Tool, arguments: &Value) -> Vec<(String, String)> {
    let texts = tool.traits().path_arguments.iter().filter_map(|pointer| {
        let text = arguments.pointer(pointer)?.as_str()?;
        Some(((*pointer).to_owned(), text.to_owned()))
    });
    texts.collect()
}

/// Timeout in milliseconds for resolving all paths of one view, the gate's input for the calls of a step. A hanging
/// file system must not delay the cancellation of a run.
pub(super) const RESOLVE_WITHIN_MS: u64 = 5_000;

/// Resolves paths. Paths that are not resolved before `time` completes are treated as refused, like all paths without a
/// folder. The tool opens no refused path. The gate evaluates the call again when the paths can be resolved.
pub(super) async fn resolved(
    spelled: Vec<(String, String)>,
    folder: impl Future<Output = Option<Arc<WorkingFolder>>>,
    time: impl Future<Output = ()>,
) -> Vec<PathArgument> {
    if spelled.is_empty() {
        return Vec::new();
    }
    let names = spelled.clone();
    let found = async {
        let folder = folder.await?;
        let looked = tokio::task::spawn_blocking(move || {
            let target =
                |(argument, text): (String, String)| PathArgument { argument, target: folder.target(&text) };
            spelled.into_iter().map(target).collect()
        });
        looked.await.ok()
    };
    let found: Option<Vec<PathArgument>> = tokio::select! {
        biased;
        found = found => found,
        () = time => {
            tracing::warn!("paths could not be resolved within {RESOLVE_WITHIN_MS} ms");
            None
        }
    };
    let refused = |(argument, _): (String, String)| PathArgument { argument, target: None };
    found.unwrap_or_else(|| names.into_iter().map(refused).collect())
}
