//! The last check before a tool is called: whether the call is unchanged since its verdict.
//!
//! This module gives no verdicts. A changed call is not dispatched, and the machine judges it again.

use std::sync::Arc;

use serde_json::Value;
use windlass_machine::{Arguments, PathArgument};

use super::context::Place;
use super::inspect::Looked;
use super::tool::ToolWork;
use crate::tool::WorkingFolder;

/// Returns the folder for one call. Under the paths of the arguments, the folder opens only the judged files.
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

/// Result of the check before a call is dispatched.
pub(super) enum AtDispatch {
    /// The call is unchanged since its verdict. Under the paths of
    /// its arguments, its folder opens only the judged files.
    AsJudged(Option<Arc<WorkingFolder>>),
    /// The call's tool, server, schema, added arguments or path targets have changed since the verdict.
    Changed,
}

/// Compares a call with the digest that the gate judged. The tools may change while the model generates its reply and
/// while the start is appended; a link may change at any time.
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
    let known =
        place.services.inspector.described(looked, registered, sent, Some(Arc::new(arguments.clone()))).await;
    match known.filter(|known| known.approval(&work.tool) == approval) {
        Some(known) if known.paths.is_empty() => AtDispatch::AsJudged(folder),
        Some(known) => AtDispatch::AsJudged(folder.map(|folder| bound(&folder, arguments, known.paths))),
        None => AtDispatch::Changed,
    }
}
