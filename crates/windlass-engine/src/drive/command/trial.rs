//! Trial calls: they are judged like a model's calls, then made outside any thread.
//!
//! This module makes no verdicts: they all come from the policy.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_machine::{
    Annotations, CallKey, Digest, EffectClass, EffectId, HookVerdict, InterruptKind, Party, PathArgument,
    RESULT_MAX_PARTS, Run, RunId, Subject, Surface, ThreadId, ToolName, Trust, Verdict, shorten_result,
};

use super::contain::{Patience, attend};
use super::dispatch::bound;
use super::folder::Folders;
use super::inspect::judged_by;
use super::let_go;
use super::paths::{RESOLVE_WITHIN_MS, resolved, spelled};
use crate::drive::catalog::ToolCatalog;
use crate::drive::policy::service::{PolicyNow, PolicyService};
use crate::error::EngineError;
use crate::port::clock::Clock;
use crate::port::hook::{Hook, HookCall};
use crate::port::journal::RunRow;
use crate::port::offload::OffloadedResults;
use crate::port::records::{RecordError, Records};
use crate::port::tool::{CallContext, Conduct, OutputPart, ProgressSender, ToolOutcome, ToolOutput};
use crate::tool::{Registered, Registry, WorkingFolder, key_of};
use crate::trial::{Consent, Standing, Supposed, Trial, TrialResult, Tried};

/// Key of the only call of a trial.
const CALL: CallKey = CallKey { step: 1, index: 0 };

/// Maximum size of a displayed preview in bytes.
const PREVIEW_MAX_BYTES: usize = 64 * 1024;

/// Makes trial calls, and evaluates the policy for hypothetical calls.
pub(crate) struct Trials {
    catalog: Arc<ToolCatalog>,
    policy: Arc<PolicyService>,
    records: Arc<dyn Records>,
    folders: Arc<Folders>,
    clock: Arc<dyn Clock>,
    hook: Option<Arc<dyn Hook>>,
}

impl Trials {
    pub(crate) fn new(
        catalog: &Arc<ToolCatalog>,
        policy: &Arc<PolicyService>,
        records: &Arc<dyn Records>,
        folders: &Arc<Folders>,
        clock: &Arc<dyn Clock>,
        hook: Option<Arc<dyn Hook>>,
    ) -> Self {
        Self {
            catalog: catalog.clone(),
            policy: policy.clone(),
            records: records.clone(),
            folders: folders.clone(),
            clock: clock.clone(),
            hook,
        }
    }

    /// Makes a trial call. `thread` is a new id that no thread has.
    pub(crate) async fn try_tool(&self, thread: &ThreadId, mut trial: Trial) -> Result<Tried, EngineError> {
        let offered = self.catalog.now();
        let Some(registered) = offered.registry.enabled(trial.tool.as_str()).cloned() else {
            return Ok(Tried::Unknown);
        };
        offered.registry.leave_out_nulls(trial.tool.as_str(), &mut trial.arguments);
        if let Err(reason) = offered.registry.check_arguments(trial.tool.as_str(), &trial.arguments) {
            return Ok(Tried::Unfit { reason });
        }
        let TrialCall { conduct, server, spelled } = match described(&registered, &trial.arguments) {
            Ok(call) => call,
            Err(reason) => return Ok(Tried::Unfit { reason: reason.into() }),
        };
        let paths = self.resolved_in(trial.folder.clone(), spelled).await;
        let mut policy = self.policy.policy_for(&trial.by.principal, thread).await?;
        let call = Considered {
            registry: &offered.registry,
            registered: &registered,
            conduct: &conduct,
            server: server.as_deref(),
            arguments: Some(&trial.arguments),
            paths: &paths,
            by: &trial.by,
        };
        let said = policy.view(Vec::new()).policy.judge(&self.subject(call));
        let run = RunId::from(thread.as_str());
        let hook = self.hook_on(thread, &run, &registered, &trial.arguments).await;
        let (verdict, by, reason) = match (said.verdict, hook) {
            (Verdict::Deny, _) => (Verdict::Deny, said.by.clone(), None),
            (_, HookVerdict::Deny { reason }) => (Verdict::Deny, "hook".into(), Some(reason)),
            (_, HookVerdict::Ask { reason }) => (Verdict::Ask, "hook".into(), Some(reason)),
            (verdict, HookVerdict::Allow) => (verdict, said.by.clone(), None),
        };
        let class = offered.registry.adjusted(&registered, conduct.class);
        trial.folder = trial.folder.map(|folder| bound(&folder, &trial.arguments, paths));
        let context = self.trial_context(thread, run, &trial, class);
        let approvals = [(trial.by.principal.clone(), trial.by.roles.clone())];
        let counts = trial.counts_as_approver || !said.terms.names_approvers();
        let yours = counts && said.terms.are_met_by(&approvals);
        match verdict {
            Verdict::Deny => return Ok(Tried::Denied { by, reason }),
            Verdict::Ask if trial.consent == Consent::NotYet || !yours => {
                let preview = preview(&*self.clock, &registered, context, &trial).await;
                return Ok(Tried::Asks { by, yours, preview });
            }
            Verdict::Ask => {
                let foreseen = self.trial_context(thread, context.run.clone(), &trial, class);
                if let Some(preview) = self.otherwise(&registered, foreseen, &trial).await {
                    return Ok(Tried::Asks { by, yours, preview });
                }
            }
            Verdict::Allow => {
                if let Some(grant) = &said.grant
                    && !self.use_up(&mut policy, grant).await?
                {
                    return Ok(Tried::Asks { by: "annotations".into(), yours, preview: None });
                }
            }
        }
        let by = if verdict == Verdict::Ask { format!("{by}, approved") } else { by };
        Ok(Tried::Ran(self.carried(&registered, context, trial, by).await))
    }

    /// Returns the current preview if it differs from the preview that the caller has approved.
    async fn otherwise(
        &self,
        registered: &Registered,
        context: CallContext,
        trial: &Trial,
    ) -> Option<Option<String>> {
        let Consent::AsShown(shown) = &trial.consent else { return None };
        let now = preview(&*self.clock, registered, context, trial).await;
        (now.as_ref() != Some(shown)).then_some(now)
    }

    /// Evaluates the policy for a hypothetical call.
    pub(crate) async fn standing(
        &self,
        thread: &ThreadId,
        call: &Supposed,
    ) -> Result<Option<Standing>, EngineError> {
        let offered = self.catalog.now();
        let Some(registered) = offered.registry.enabled(call.tool.as_str()) else { return Ok(None) };
        let policy = self.policy.policy_for(&call.by.principal, thread).await?;
        let mut policy = (*policy.view(Vec::new()).policy).clone();
        if let Some(rules) = &call.rules {
            policy.rules = rules.clone();
        }
        let usual = Conduct {
            annotations: registered.spec.annotations,
            class: registered.tool.traits().effect_class(registered.tool.spec()),
            added: Vec::new(),
        };
        // If the tool panics while it describes the call, its general traits apply.
        let tool = &registered.tool;
        let asked = AssertUnwindSafe(|| {
            let of = |it| (tool.conduct(it), tool.server_for(it), spelled(&**tool, it));
            call.arguments.as_ref().map(of)
        });
        let told = catch_unwind(asked).ok().flatten();
        let (conduct, server, spelled) =
            told.unwrap_or_else(|| (usual, tool.traits().server.map(str::to_owned), Vec::new()));
        // Without a thread, only a shared folder can be resolved.
        let paths = match self.folders.shared() {
            Some(folder) => self.resolved_in(Some(folder.clone()), spelled).await,
            None => Vec::new(),
        };
        let considered = Considered {
            registry: &offered.registry,
            registered,
            conduct: &conduct,
            server: server.as_deref(),
            arguments: call.arguments.as_ref(),
            paths: &paths,
            by: &call.by,
        };
        let said = policy.judge(&self.subject(considered));
        let yours = said.terms.are_met_by(&[(call.by.principal.clone(), call.by.roles.clone())]);
        Ok(Some(Standing { verdict: said.verdict, by: said.by, yours }))
    }

    async fn resolved_in(
        &self,
        folder: Option<Arc<WorkingFolder>>,
        spelled: Vec<(String, String)>,
    ) -> Vec<PathArgument> {
        resolved(spelled, std::future::ready(folder), self.clock.sleep_ms(RESOLVE_WITHIN_MS)).await
    }

    /// Evaluates the rules for a request that a server makes in a run.
    pub(crate) async fn wish(
        &self,
        wanted: &ToolName,
        server: &str,
        row: &RunRow,
        run: &Run,
    ) -> Result<Standing, EngineError> {
        let policy = self.policy.policy_for(&run.by, &row.thread).await?;
        let view = policy.view(Vec::new());
        let said = view.policy.judge(&Subject {
            tool: wanted,
            server: Some(server),
            schema: None,
            // The server is already permitted to make requests, so only rules that deny or ask remain.
            annotations: Annotations { read_only_hint: true, ..Annotations::default() },
            trust: Trust::Trusted,
            arguments: None,
            paths: &[],
            // The principal is the same as for the run's calls.
            principal: &run.by,
            roles: &view.roles,
            agent: &run.agent.name,
            surface: run.options.surface,
            workspace: &row.workspace,
            now: self.clock.now(),
        });
        Ok(Standing { verdict: said.verdict, by: said.by, yours: false })
    }

    fn subject<'a>(&self, call: Considered<'a>) -> Subject<'a> {
        let Considered { registry, registered, conduct, server, arguments, paths, by } = call;
        let trust = if registry.is_trusted(registered) { Trust::Trusted } else { Trust::Untrusted };
        Subject {
            tool: &registered.spec.name,
            server,
            schema: Some(registered.schema_digest),
            annotations: conduct.annotations,
            trust,
            arguments,
            paths,
            principal: &by.principal,
            roles: &by.roles,
            agent: "default",
            surface: Surface::Chat,
            workspace: &by.workspace,
            now: self.clock.now(),
        }
    }

    async fn hook_on(
        &self,
        thread: &ThreadId,
        run: &RunId,
        registered: &Registered,
        arguments: &Value,
    ) -> HookVerdict {
        let Some(hook) = &self.hook else { return HookVerdict::Allow };
        let spec = &registered.spec;
        let call = HookCall { thread, run, call: CALL, tool: &spec.name, spec, arguments };
        judged_by(&**hook, call, &*self.clock).await
    }

    /// Records a use of the grant that allows a call. Returns `false`
    /// if the grant was changed or revoked since the verdict.
    async fn use_up(&self, policy: &mut PolicyNow, grant: &str) -> Result<bool, EngineError> {
        let Some(change) = policy.use_up(grant) else { return Ok(false) };
        match self.records.apply(vec![change]).await {
            Ok(_) => {
                self.policy.changed();
                Ok(true)
            }
            Err(RecordError::Conflict { .. }) => Ok(false),
            Err(RecordError::Store(error)) => Err(error.into()),
        }
    }

    fn trial_context(&self, thread: &ThreadId, run: RunId, trial: &Trial, class: EffectClass) -> CallContext {
        CallContext {
            effect_id: EffectId::derive(thread, &run, CALL),
            thread: thread.clone(),
            workspace: trial.by.workspace.as_str().into(),
            run,
            call: CALL,
            class: Some(class),
            cancel: CancellationToken::new(),
            folder: trial.folder.clone(),
            now: self.clock.now(),
            utc_offset_minutes: None,
            kept: None,
            results: OffloadedResults::default(),
            reply: None,
            resumed: None,
            progress: ProgressSender::default(),
        }
    }

    async fn carried(
        &self,
        registered: &Registered,
        mut context: CallContext,
        trial: Trial,
        by: String,
    ) -> TrialResult {
        let progressed = Arc::new(Notify::new());
        let shown = progressed.clone();
        context.progress = ProgressSender::new(move |_| shown.notify_one());
        let (tool, mut arguments) = (registered.tool.clone(), trial.arguments);
        let at_most_ms = trial.at_most_ms;
        if let (Some(name), Some(members)) = (&registered.key_argument, arguments.as_object_mut()) {
            members.insert(name.clone(), Value::String(key_of(&context.effect_id)));
        }
        let (signal, cancel) = (context.cancel.clone(), trial.stop.child_token());
        let patience = Patience {
            timeout_ms: trial.timeout_ms,
            progressed,
            cancel: &cancel,
            signal,
            clock: &*self.clock,
        };
        let started = self.clock.monotonic_ms();
        let mut attended = pin!(attend(async move { tool.call(context, arguments).await }, patience));
        let late = async {
            match at_most_ms {
                Some(ms) => self.clock.sleep_ms(ms).await,
                None => pending().await,
            }
        };
        let ended = tokio::select! {
            biased;
            ended = &mut attended => ended,
            () = late => {
                cancel.cancel();
                let ms = at_most_ms.unwrap_or_default();
                attended.await.map_err(|_| format!("it took longer than {ms} ms in all"))
            }
        };
        let duration_ms = self.clock.monotonic_ms().saturating_sub(started);
        let (output, given_up) = match ended {
            Ok(ToolOutcome::Done(output)) => (output, false),
            Ok(ToolOutcome::Ask(ask)) => {
                (self.give_up(registered, &reason_of(&ask.kind), ask.state.as_deref()).await, true)
            }
            Ok(ToolOutcome::Defer(deferral)) => {
                let why = "The call had begun, and continues later, which takes a conversation.";
                (self.give_up(registered, why, deferral.state.as_deref()).await, true)
            }
            Ok(ToolOutcome::Unknown { reason }) | Err(reason) => {
                (ToolOutput::error(format!("The outcome of the call is unknown: {reason}")), false)
            }
        };
        TrialResult { by, error: output.error, given_up, parts: bounded(output.parts), duration_ms }
    }

    /// Abandons a call that waits for people or for a time, and explains why.
    async fn give_up(&self, registered: &Registered, why: &str, state: Option<&str>) -> ToolOutput {
        let Some(state) = state else { return ToolOutput::error(why) };
        let_go::tell(&*registered.tool, state, &*self.clock).await;
        ToolOutput::error(format!("{why}\nIt was given up, and its tool was informed."))
    }
}

/// Explains why a call with this question cannot be made outside a conversation.
fn reason_of(kind: &InterruptKind) -> String {
    match kind {
        InterruptKind::SignIn { server, url, message: None } => {
            format!("Sign in at the server `{server}` first, at {url}; then call it again.")
        }
        InterruptKind::SignIn { server, url, message: Some(message) } => {
            format!("The server `{server}` wants a page to be opened first, {url}: {message}")
        }
        InterruptKind::Question(question) => {
            format!("The call had begun, and asks people, which takes a conversation: {}", question.summary)
        }
        InterruptKind::Handoff { runner } => {
            format!("The runner `{runner}` has to do the call, which takes a conversation.")
        }
        InterruptKind::Approval { .. }
        | InterruptKind::Hook { .. }
        | InterruptKind::InDoubt { .. }
        | InterruptKind::Limit(_) => "The call asks people, which takes a conversation.".to_owned(),
    }
}

/// A call to judge.
struct Considered<'a> {
    registry: &'a Registry,
    registered: &'a Registered,
    conduct: &'a Conduct,
    server: Option<&'a str>,
    arguments: Option<&'a Value>,
    paths: &'a [PathArgument],
    by: &'a Party,
}

/// A tool's description of a trial call.
struct TrialCall {
    conduct: Conduct,
    server: Option<String>,
    /// The paths among the arguments, as written.
    spelled: Vec<(String, String)>,
}

/// Returns the tool's description of a call, or an error with the reason why the call cannot be tried.
fn described(registered: &Registered, arguments: &Value) -> Result<TrialCall, &'static str> {
    let asked = AssertUnwindSafe(|| {
        let tool = &registered.tool;
        let (conduct, server) = (tool.conduct(arguments), tool.server_for(arguments));
        let call = TrialCall { conduct, server, spelled: spelled(&**tool, arguments) };
        (call, tool.asks(arguments).is_some(), tool.outlives(arguments))
    });
    match catch_unwind(asked) {
        Err(_) => Err("the tool crashed when it was asked what the call does"),
        Ok((_, true, _)) => Err("the tool asks people, which takes a conversation"),
        // Background work of a trial call would belong to no thread.
        Ok((_, false, true)) => Err("it would continue in the background, which requires a conversation"),
        Ok((call, false, false)) => Ok(call),
    }
}

/// Limits the parts to the size that a model would be shown.
fn bounded(mut parts: Vec<OutputPart>) -> Vec<OutputPart> {
    parts.truncate(RESULT_MAX_PARTS);
    let texts = parts.iter_mut().filter_map(|part| match part {
        OutputPart::Text(text) => Some(text),
        OutputPart::Image { .. } | OutputPart::File { .. } => None,
    });
    let mut texts: Vec<&mut String> = texts.collect();
    let short = shorten_result(texts.iter_mut().map(|text| std::mem::take(*text)).collect());
    texts.into_iter().zip(short).for_each(|(text, short)| *text = short);
    parts
}

/// Returns the preview of a call, if its tool can make a preview in time.
async fn preview(
    clock: &dyn Clock,
    registered: &Registered,
    context: CallContext,
    trial: &Trial,
) -> Option<String> {
    if !registered.tool.traits().previews {
        return None;
    }
    let (tool, arguments) = (registered.tool.clone(), trial.arguments.clone());
    let (signal, cancel) = (context.cancel.clone(), CancellationToken::new());
    let progressed = Arc::new(Notify::new());
    let patience = Patience { timeout_ms: trial.timeout_ms, progressed, cancel: &cancel, signal, clock };
    let told = attend(async move { tool.preview(context, arguments).await }, patience).await.flatten();
    let mut text = told.unwrap_or_else(|why| format!("It cannot be told what the call would do: {why}"));
    if text.len() > PREVIEW_MAX_BYTES {
        // The text includes the digest of the whole preview, so that approving the shown part approves all of it.
        let (digest, all) = (Digest::of(text.as_bytes()), text.len());
        text.truncate(text.floor_char_boundary(PREVIEW_MAX_BYTES));
        text.push_str(&format!("\n[… {} bytes more; the digest of the whole is {digest}]", all - text.len()));
    }
    Some(text)
}
