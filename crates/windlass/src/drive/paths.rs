//! The paths among a call's arguments: what they lead to when the call is judged, and whether they still do when it starts.
//!
//! It judges nothing, and opens nothing.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_machine::{Arguments, CallKey, PathArgument, Phase, State};

use super::Deps;
use super::call::ToolWork;
use super::execute::Place;
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

/// The folder for one call: it opens, under the paths of the arguments, what the call was judged for.
pub(super) fn bound(
    folder: &WorkingFolder,
    arguments: &Value,
    paths: Vec<PathArgument>,
) -> Arc<WorkingFolder> {
    let given = paths.into_iter().filter_map(|path| {
        let text = arguments.pointer(&path.argument)?.as_str()?;
        Some((text.to_owned(), path))
    });
    Arc::new(folder.bound_to(given))
}

/// A call at the moment of its dispatch.
pub(super) enum AtDispatch {
    /// It is the judged call. Its folder opens, under the paths of its arguments, only the judged files.
    AsJudged(Option<Arc<WorkingFolder>>),
    /// Its tool, server, schema, added arguments or the targets of its paths differ from the judged ones.
    Changed,
}

/// Compares a call with the digest that the gate judged. The set of tools may change while the model generates its reply
/// and while the start is appended; a link may change at any time.
pub(super) async fn at_dispatch(
    place: &Place,
    work: &ToolWork,
    arguments: &Value,
    folder: Option<Arc<WorkingFolder>>,
) -> AtDispatch {
    let Some(approval) = work.approval else { return AtDispatch::AsJudged(folder) };
    let Some(registered) = place.tools.registry.enabled(work.tool.as_str()) else {
        return AtDispatch::Changed;
    };
    let looked = Looked::in_place(place, work.call, work.tool.as_str());
    let sent = Arguments::AsAsked { digest: work.arguments.digest() };
    let known = place.deps.described(looked, registered, sent, Some(Arc::new(arguments.clone()))).await;
    match known.filter(|known| known.approval(&work.tool) == approval) {
        Some(known) if known.paths.is_empty() => AtDispatch::AsJudged(folder),
        Some(known) => AtDispatch::AsJudged(folder.map(|folder| bound(&folder, arguments, known.paths))),
        None => AtDispatch::Changed,
    }
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
