//! The paths among a call's arguments, and what they lead to now.
//!
//! It judges nothing, and opens nothing.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_machine::{Arguments, CallKey, PathArgument, Phase, State};

use super::Deps;
use super::folder::ThreadFolder;
use super::view::Looked;
use crate::port::tool::Tool;
use crate::tool::WorkingFolder;

/// The paths among a call's arguments as they are spelled, with the arguments' names.
pub(super) fn spelled(tool: &dyn Tool, arguments: &Value) -> Vec<(String, String)> {
    let texts = tool.path_arguments().iter().filter_map(|pointer| {
        let text = arguments.pointer(pointer)?.as_str()?;
        Some(((*pointer).to_owned(), text.to_owned()))
    });
    texts.collect()
}

/// How long the paths of one view may take to resolve: a file system that hangs must not keep a thread's driver from a
/// cancel.
pub(super) const RESOLVE_WITHIN_MS: u64 = 5_000;

/// Resolves paths. Those that are not resolved before `time` ends, and all if there is no folder, count as refused: the
/// call opens nothing under them, and is judged again once they can be resolved.
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

impl Deps {
    /// The indexes of those open calls that would be judged as another call, because a path leads elsewhere.
    pub(super) async fn led_elsewhere(
        &self,
        state: &State,
        folder: &ThreadFolder,
        calls: impl Iterator<Item = usize>,
    ) -> Vec<usize> {
        let (Some(run), Some(thread)) = (&state.run, &state.thread) else { return Vec::new() };
        let Phase::Calls(line) = &run.phase else { return Vec::new() };
        let tools = self.tools_of((&state.workspace, thread), run);
        let (mut found, until_ms) = (Vec::new(), self.resolve_until_ms());
        for index in calls {
            let call = &line.calls[index];
            let Some(registered) = tools.registry.enabled(call.tool.as_str()) else { continue };
            if registered.tool.path_arguments().is_empty() {
                continue;
            }
            let key = CallKey { step: run.attempt.step, index: index as u32 };
            let tool = call.tool.as_str();
            let looked = Looked { thread, run: &run.id, call: key, tool, tools: &tools, folder, until_ms };
            let sent = Arguments::AsAsked { digest: call.arguments.digest() };
            let value = self.value_of(&call.arguments).await;
            let known = self.described(looked, registered, sent, value).await;
            if known.is_some_and(|known| known.approval(&call.tool) != call.approval) {
                found.push(index);
            }
        }
        found
    }

    /// Resolves the paths of a call.
    pub(super) async fn paths_of(
        &self,
        looked: Looked<'_>,
        spelled: Vec<(String, String)>,
    ) -> Vec<PathArgument> {
        let left_ms = looked.until_ms.saturating_sub(self.clock.monotonic_ms());
        let time = self.clock.sleep_ms(left_ms);
        resolved(spelled, self.folder_for(looked), time).await
    }

    /// The moment, by the monotonic clock, until which the paths of a view that begins now are resolved.
    pub(super) fn resolve_until_ms(&self) -> u64 {
        self.clock.monotonic_ms().saturating_add(RESOLVE_WITHIN_MS)
    }

    /// Finds the working folder of a thread. Returns `None` if the folder cannot be found; the call fails with the reason
    /// at dispatch.
    async fn folder_for(&self, looked: Looked<'_>) -> Option<Arc<WorkingFolder>> {
        let found = looked.folder.find(self, looked.thread, &CancellationToken::new()).await;
        found.ok().flatten()
    }
}
