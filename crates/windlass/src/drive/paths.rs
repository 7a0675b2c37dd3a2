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

/// What paths lead to now. Without a folder the tool refuses them.
pub(super) async fn resolved(
    spelled: Vec<(String, String)>,
    folder: Option<&Arc<WorkingFolder>>,
) -> Vec<PathArgument> {
    let refused = |(argument, _): (String, String)| PathArgument { argument, target: None };
    let Some(folder) = folder.filter(|_| !spelled.is_empty()).cloned() else {
        return spelled.into_iter().map(refused).collect();
    };
    let names = spelled.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let target =
            |(argument, text): (String, String)| PathArgument { argument, target: folder.target(&text) };
        spelled.into_iter().map(target).collect()
    });
    looked.await.unwrap_or_else(|_| names.into_iter().map(refused).collect())
}

impl Deps {
    /// Which of some open calls would be judged as another call by now, because a path leads elsewhere.
    pub(super) async fn led_elsewhere(
        &self,
        state: &State,
        folder: &ThreadFolder,
        calls: impl Iterator<Item = usize>,
    ) -> Vec<usize> {
        let (Some(run), Some(thread)) = (&state.run, &state.thread) else { return Vec::new() };
        let Phase::Calls(line) = &run.phase else { return Vec::new() };
        let tools = self.tools_of((&state.workspace, thread), run);
        let mut found = Vec::new();
        for index in calls {
            let call = &line.calls[index];
            let Some(registered) = tools.registry.enabled(call.tool.as_str()) else { continue };
            if registered.tool.path_arguments().is_empty() {
                continue;
            }
            let key = CallKey { step: run.attempt.step, index: index as u32 };
            let looked =
                Looked { thread, run: &run.id, call: key, tool: call.tool.as_str(), tools: &tools, folder };
            let sent = Arguments::AsAsked { digest: call.arguments.digest() };
            let value = self.value_of(&call.arguments).await;
            let known = self.described(looked, registered, sent, value).await;
            if known.is_some_and(|known| known.approval(&call.tool) != call.approval) {
                found.push(index);
            }
        }
        found
    }

    /// The folder of a thread, to look up what paths lead to; `None` also where it cannot be found, as the call then finds
    /// out itself.
    pub(super) async fn folder_for(&self, looked: Looked<'_>) -> Option<Arc<WorkingFolder>> {
        let found = looked.folder.find(self, looked.thread, &CancellationToken::new()).await;
        found.ok().flatten()
    }
}
