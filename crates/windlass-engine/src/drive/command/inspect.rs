//! Builds the view for a decision: the properties of each call that the
//! thread's state does not contain, read just before the decision.
//!
//! This module gives no verdicts; the gate does.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_machine::{
    Answer, Arguments, Block, CallKey, CallStatus, CallView, Content, Digest, EffectId, Given, HookVerdict,
    InterruptKind, KnownCall, PathArgument, Phase, RunId, State, ThreadId, ToolSpec, Trust, View,
    repair_arguments,
};

use super::context::Place;
use super::folder::{Folders, ThreadFolder};
use super::paths::{RESOLVE_WITHIN_MS, resolved, spelled};
use crate::drive::catalog::ToolCatalog;
use crate::drive::catalog::tools::Offered;
use crate::drive::contents::Contents;
use crate::drive::policy::service::PolicyNow;
use crate::port::clock::Clock;
use crate::port::hook::{Hook, HookCall};
use crate::tool::{Registered, WorkingFolder, key_of};

/// A call whose properties are read.
#[derive(Clone, Copy)]
pub(in crate::drive) struct Looked<'a> {
    pub thread: &'a ThreadId,
    pub run: &'a RunId,
    pub call: CallKey,
    pub tool: &'a str,
    pub tools: &'a Offered,
    /// The working folder of the thread.
    pub folder: &'a ThreadFolder,
    /// Monotonic time in milliseconds at which the resolution of the call's paths must end.
    pub until_ms: u64,
}

impl<'a> Looked<'a> {
    /// Creates the input for a call of an active run, with the deadline counted from now.
    pub(in crate::drive) fn in_place(place: &'a Place, call: CallKey, tool: &'a str) -> Self {
        let Place { thread, run, tools, folder, .. } = place;
        Self { thread, run, call, tool, tools, folder, until_ms: place.services.inspector.resolve_until_ms() }
    }
}

/// Describes calls to the gate: tool, server, arguments, paths, and the verdict of the program's hook.
pub(crate) struct CallInspector {
    contents: Arc<Contents>,
    catalog: Arc<ToolCatalog>,
    folders: Arc<Folders>,
    clock: Arc<dyn Clock>,
    hook: Option<Arc<dyn Hook>>,
}

impl CallInspector {
    pub(crate) fn new(
        contents: &Arc<Contents>,
        catalog: &Arc<ToolCatalog>,
        folders: &Arc<Folders>,
        clock: &Arc<dyn Clock>,
        hook: Option<Arc<dyn Hook>>,
    ) -> Self {
        Self {
            contents: contents.clone(),
            catalog: catalog.clone(),
            folders: folders.clone(),
            clock: clock.clone(),
            hook,
        }
    }

    /// Returns the views of a reply's calls, which may use only the tools that the model was shown. The texts of the
    /// blocks are still inline.
    pub(in crate::drive) async fn known_of(
        &self,
        place: &Place,
        step: u32,
        blocks: &[Block],
        shown: &[ToolSpec],
    ) -> Vec<CallView> {
        let (mut calls, until_ms) = (Vec::new(), self.resolve_until_ms());
        for block in blocks {
            if let Block::ToolCall(call) = block {
                let key = CallKey { step, index: calls.len() as u32 };
                let looked = Looked { until_ms, ..Looked::in_place(place, key, call.name.as_str()) };
                calls.push(self.call_view(looked, call.asked.inline().unwrap_or_default(), shown).await);
            }
        }
        calls
    }

    /// Returns the view for the open calls of a thread's step, with the arguments that people edited.
    pub(in crate::drive) async fn view_again(
        &self,
        state: &State,
        folder: &ThreadFolder,
        policy: &PolicyNow,
        answers: &[Given],
    ) -> View {
        let (mut calls, until_ms) = (Vec::new(), self.resolve_until_ms());
        if let Some(run) = &state.run
            && let (Phase::Calls(line), Some(thread)) = (&run.phase, &state.thread)
        {
            let tools = &*self.catalog.of_run(&state.workspace, thread, run);
            for (index, call) in line.calls.iter().enumerate() {
                let key = CallKey { step: run.attempt.step, index: index as u32 };
                let tool = call.tool.as_str();
                let looked = Looked { thread, run: &run.id, call: key, tool, tools, folder, until_ms };
                if call.status == CallStatus::Done {
                    // The gate does not judge a finished call.
                    calls.push(CallView::Unknown);
                    continue;
                }
                let asked = call.status.asked().map(|asked| &asked.interrupt);
                let given = answers.iter().find(|given| Some(&given.interrupt) == asked);
                calls.push(match given.map(|given| &given.answer) {
                    Some(Answer::Edit { arguments }) => self.edited_view(looked, arguments).await,
                    Some(Answer::Reply(reply)) => {
                        let values = reply.values.as_ref().map(|values| (&call.status, values));
                        self.replied_view(looked, &call.arguments, values).await
                    }
                    Some(_) | None => self.settled_view(looked, &call.arguments).await,
                });
            }
        }
        policy.view(calls)
    }

    async fn call_view(&self, looked: Looked<'_>, text: &str, shown: &[ToolSpec]) -> CallView {
        let Some(registered) = looked.tools.registry.enabled(looked.tool) else { return CallView::Unknown };
        let is_shown = || shown.iter().any(|spec| spec.name == registered.spec.name);
        if let Some(reason) = looked.tools.shelf.missing(looked.tool).filter(|_| !is_shown()) {
            return CallView::Withheld { reason };
        }
        let (arguments, value) = check(looked, text, By::Model);
        self.known(looked, registered, arguments, value).await
    }

    /// Returns the view of a call whose arguments were validated
    /// before. The tool may have changed since the validation.
    async fn settled_view(&self, looked: Looked<'_>, arguments: &Content) -> CallView {
        let Some(registered) = looked.tools.registry.enabled(looked.tool) else { return CallView::Unknown };
        let (digest, value) = (arguments.digest(), self.contents.arguments(arguments).await);
        let checked =
            value.as_deref().map_or(Ok(()), |it| looked.tools.registry.check_arguments(looked.tool, it));
        let arguments = match checked {
            Ok(()) => Arguments::AsAsked { digest },
            Err(reason) => Arguments::Invalid { reason },
        };
        self.known(looked, registered, arguments, value).await
    }

    /// Returns the view of a call with arguments from a person. They are validated like the model's, but not
    /// repaired.
    async fn edited_view(&self, looked: Looked<'_>, arguments: &Content) -> CallView {
        let Some(registered) = looked.tools.registry.enabled(looked.tool) else { return CallView::Unknown };
        let (arguments, value) = match self.contents.text_of(arguments).await {
            Err(error) => (Arguments::Invalid { reason: error.to_string() }, None),
            Ok(text) => match check(looked, &text, By::Person) {
                (Arguments::Repaired { .. }, _) => {
                    let reason = "they are not valid JSON".to_owned();
                    (Arguments::Invalid { reason }, None)
                }
                checked => checked,
            },
        };
        self.known(looked, registered, arguments, value).await
    }

    /// Returns the view of a call that asked for values, with the values that were given.
    async fn replied_view(
        &self,
        looked: Looked<'_>,
        arguments: &Content,
        values: Option<(&CallStatus, &Value)>,
    ) -> CallView {
        let mut view = self.settled_view(looked, arguments).await;
        if let (CallView::Known(known), Some((status, values))) = (&mut view, values)
            && let Some(InterruptKind::Question(question)) = status.asked().map(|asked| &asked.kind)
            && let Some(schema) = &question.schema
            && let Err(reason) = self.catalog.now().registry.check_value(schema, values)
        {
            known.arguments = Arguments::Invalid { reason };
        }
        view
    }

    async fn known(
        &self,
        looked: Looked<'_>,
        registered: &Registered,
        arguments: Arguments,
        value: Option<Arc<Value>>,
    ) -> CallView {
        let asked = match (&self.hook, value.clone()) {
            (Some(hook), Some(arguments)) => Some((hook, arguments)),
            (Some(_), None) | (None, _) => None,
        };
        let Some(mut known) = self.described(looked, registered, arguments, value).await else {
            return CallView::Unknown;
        };
        if let Some((hook, arguments)) = asked {
            let (Looked { thread, run, call, .. }, spec) = (looked, &registered.spec);
            let call = HookCall { thread, run, call, tool: &spec.name, spec, arguments: &arguments };
            known.hook = Some(judged_by(&**hook, call, &*self.clock).await);
        }
        CallView::Known(Box::new(known))
    }

    /// Describes a call without the verdict of the host program's hook. Returns `None` if the tool panics.
    pub(in crate::drive) async fn described(
        &self,
        looked: Looked<'_>,
        registered: &Registered,
        arguments: Arguments,
        value: Option<Arc<Value>>,
    ) -> Option<KnownCall> {
        let tool = &registered.tool;
        // Without this, a tool that panics while it describes a call would
        // crash the thread's driver each time the thread is opened.
        let told = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let asks = value.as_deref().and_then(|value| tool.asks(value));
            // A call whose arguments cannot be parsed is never started.
            let value = value.as_deref().unwrap_or(&Value::Null);
            let spelled = spelled(&**tool, value);
            (asks, tool.traits().previews, tool.conduct(value), tool.server_for(value), spelled)
        }));
        let (ask, previews, conduct, server, spelled) = told.ok()?;
        let paths = self.paths_of(looked, spelled).await;
        let asks = ask.map(|ask| (ask.kind, ask.terms));
        let Looked { thread, run, call, tools: Offered { registry, .. }, .. } = looked;
        let key = |_: &String| Digest::of(key_of(&EffectId::derive(thread, run, call)).as_bytes());
        let filled = registered.key_argument.iter().map(|name| (name.clone(), key(name)));
        let added = filled.chain(conduct.added).collect();
        Some(KnownCall {
            class: registry.adjusted(registered, conduct.class),
            annotations: conduct.annotations,
            trust: if registry.is_trusted(registered) { Trust::Trusted } else { Trust::Untrusted },
            area: registered.tool.traits().area,
            server,
            schema: registered.schema_digest,
            arguments,
            value,
            paths,
            added,
            previews,
            asks,
            hook: None,
        })
    }

    /// Returns the indexes of open calls whose paths resolve to other files than at the verdict.
    pub(in crate::drive) async fn led_elsewhere(
        &self,
        state: &State,
        folder: &ThreadFolder,
        calls: impl Iterator<Item = usize>,
    ) -> Vec<usize> {
        let (Some(run), Some(thread)) = (&state.run, &state.thread) else { return Vec::new() };
        let Phase::Calls(line) = &run.phase else { return Vec::new() };
        let tools = self.catalog.of_run(&state.workspace, thread, run);
        let (mut found, until_ms) = (Vec::new(), self.resolve_until_ms());
        for index in calls {
            let call = &line.calls[index];
            let Some(registered) = tools.registry.enabled(call.tool.as_str()) else { continue };
            if registered.tool.traits().path_arguments.is_empty() {
                continue;
            }
            let key = CallKey { step: run.attempt.step, index: index as u32 };
            let tool = call.tool.as_str();
            let looked = Looked { thread, run: &run.id, call: key, tool, tools: &tools, folder, until_ms };
            let sent = Arguments::AsAsked { digest: call.arguments.digest() };
            let value = self.contents.arguments(&call.arguments).await;
            let known = self.described(looked, registered, sent, value).await;
            if known.is_some_and(|known| known.approval(&call.tool) != call.approval) {
                found.push(index);
            }
        }
        found
    }

    /// Resolves the paths of a call.
    async fn paths_of(&self, looked: Looked<'_>, spelled: Vec<(String, String)>) -> Vec<PathArgument> {
        let left_ms = looked.until_ms.saturating_sub(self.clock.monotonic_ms());
        let time = self.clock.sleep_ms(left_ms);
        resolved(spelled, self.folder_for(looked), time).await
    }

    /// Returns the monotonic time until which the paths of a new view may be resolved.
    pub(in crate::drive) fn resolve_until_ms(&self) -> u64 {
        self.clock.monotonic_ms().saturating_add(RESOLVE_WITHIN_MS)
    }

    /// Returns the working folder of a thread. Returns `None` if the folder
    /// cannot be found; the call then fails with the reason at dispatch.
    async fn folder_for(&self, looked: Looked<'_>) -> Option<Arc<WorkingFolder>> {
        let found = looked.folder.find(&self.folders, looked.thread, &CancellationToken::new()).await;
        found.ok().flatten()
    }
}

/// The author of arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Model,
    Person,
}

/// Parses, repairs and validates arguments.
fn check(looked: Looked<'_>, text: &str, by: By) -> (Arguments, Option<Arc<Value>>) {
    let (mut value, mut repaired) = match repair_arguments(text) {
        Ok(read) => read,
        Err(reason) => return (Arguments::Invalid { reason }, None),
    };
    // Null values from a person are intentional, so they are kept.
    repaired |= by == By::Model && looked.tools.registry.leave_out_nulls(looked.tool, &mut value);
    if let Err(reason) = looked.tools.registry.check_arguments(looked.tool, &value) {
        return (Arguments::Invalid { reason }, None);
    }
    let arguments = if repaired {
        let text = value.to_string();
        Arguments::Repaired { digest: Digest::of(text.as_bytes()), arguments: Content::Inline(text) }
    } else {
        Arguments::AsAsked { digest: Digest::of(text.as_bytes()) }
    };
    (arguments, Some(Arc::new(value)))
}

/// Timeout for a hook in milliseconds. After the timeout, the verdict is to ask.
const HOOK_WITHIN_MS: u64 = 10_000;

/// Returns the verdict of a hook. If the hook panics or hangs, the verdict is to ask.
pub(in crate::drive) async fn judged_by(
    hook: &dyn Hook,
    call: HookCall<'_>,
    clock: &dyn Clock,
) -> HookVerdict {
    let said = AssertUnwindSafe(hook.before_tool(call)).catch_unwind();
    tokio::select! {
        biased;
        said = said => said.unwrap_or_else(|_| HookVerdict::Ask { reason: "the hook crashed".into() }),
        () = clock.sleep_ms(HOOK_WITHIN_MS) => {
            HookVerdict::Ask { reason: format!("the hook took longer than {HOOK_WITHIN_MS} ms") }
        }
    }
}
