//! The verdict on a call: the policy's verdict, combined with the verdict of the host program's hook.
//!
//! This module records no facts.

use super::record::{Recorder, Situation};
use crate::event::Verdict;
use crate::id::{Digest, ToolName};
use crate::input::{Arguments, HookVerdict, KnownCall, View};
use crate::policy::{Subject, Terms, only_reads};
use crate::state::Run;

/// A verdict with its reason and terms.
pub(super) struct Judged {
    pub verdict: Verdict,
    /// Name of the rule or default that decided.
    pub by: String,
    /// The hook's reason, if the hook decided.
    pub reason: Option<String>,
    /// The grant that allowed the call.
    pub grant: Option<String>,
    /// Whether neither a rule nor the hook asks, so that a grant would allow the call.
    pub is_grantable: bool,
    pub terms: Terms,
    pub approval: Digest,
}

/// Judges a call of the active run by a view, after the facts recorded so far.
pub(super) fn judge(r: &Recorder<'_>, tool: &ToolName, known: &KnownCall, view: &View) -> Judged {
    let used: Vec<&str> = r.grants_used().iter().map(String::as_str).collect();
    judge_after(r.situation(), r.run(), tool, known, view, &used)
}

/// Judges a call by a view, with the grants that were used since the view was created.
pub(super) fn judge_after(
    s: Situation<'_>,
    run: &Run,
    tool: &ToolName,
    known: &KnownCall,
    view: &View,
    used: &[&str],
) -> Judged {
    let subject = Subject {
        tool,
        server: known.server.as_deref(),
        schema: Some(known.schema),
        annotations: known.annotations,
        trust: known.trust,
        arguments: known.value.as_deref(),
        paths: &known.paths,
        principal: &run.by,
        roles: &view.roles,
        agent: &run.agent.name,
        surface: run.options.surface,
        workspace: &s.state.workspace,
        now: s.now,
    };
    let said = view.policy.judge_after(&subject, used);
    let mut judged = Judged {
        verdict: said.verdict,
        by: said.by,
        reason: None,
        grant: said.grant,
        is_grantable: said.is_grantable,
        terms: said.terms,
        approval: known.approval(tool),
    };
    if let Some(reason) = withheld(run, tool, known) {
        (judged.verdict, judged.by, judged.reason) =
            (Verdict::Deny, run.options.mode().label(), Some(reason));
        return judged;
    }
    match &known.hook {
        Some(HookVerdict::Deny { reason }) if judged.verdict != Verdict::Deny => {
            (judged.verdict, judged.by, judged.reason) = (Verdict::Deny, HOOK.into(), Some(reason.clone()));
        }
        Some(HookVerdict::Ask { reason }) if judged.verdict != Verdict::Deny => {
            (judged.verdict, judged.by, judged.reason) = (Verdict::Ask, HOOK.into(), Some(reason.clone()));
            judged.is_grantable = false;
        }
        Some(HookVerdict::Deny { .. } | HookVerdict::Ask { .. } | HookVerdict::Allow) | None => {}
    }
    judged
}

/// Returns why the run's mode withholds the call, worded for the model; `None` if the mode permits the call.
pub(super) fn withheld(run: &Run, tool: &ToolName, known: &KnownCall) -> Option<String> {
    let reads = only_reads(known.class, known.annotations, known.trust);
    let mode = run.options.mode();
    (!mode.has(known.area, reads)).then(|| mode.refusal(tool, known.area, reads))
}

const HOOK: &str = "hook";

impl KnownCall {
    /// Returns the digest that an approval is bound to. A change in any part of it makes another call.
    pub fn approval(&self, tool: &ToolName) -> Digest {
        let arguments = match &self.arguments {
            Arguments::AsAsked { digest } | Arguments::Repaired { digest, .. } => *digest,
            Arguments::Invalid { .. } => Digest::default(),
        };
        let call = Digest::default().chain(&(tool, &self.server, self.schema, arguments, &self.added));
        if self.paths.is_empty() { call } else { call.chain(&self.paths) }
    }
}
