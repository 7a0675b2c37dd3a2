//! An interrupt as the API tells it: flat, with the fields of its kind beside what all have.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass::machine::{Content, InterruptKind, Principal, ThreadId, Timestamp};
use windlass::{Evidence, OpenInterrupt};

use super::submit::is_settled;
use crate::account::audit::answer::run_of;
use crate::account::people::user::People;
use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::problem::Problem;

/// Something that a run waits for.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Interrupt {
    /// Its id: what an answer names.
    id: String,
    /// Its thread.
    thread: String,
    /// The thread's title; null where it has none, and where the caller may not read the thread.
    title: Option<String>,
    /// Whose thread it is.
    owner: Owner,
    /// Whether the caller may read the thread: a rule may name somebody who may not.
    readable: bool,
    /// Its run.
    run: String,
    /// What is asked.
    kind: Kind,
    /// The tool of the call that waits; null where the run as a whole does.
    tool: Option<String>,
    /// The arguments that will be sent, whole, as JSON text.
    arguments: Option<String>,
    /// What an approval is bound to: send it back with the answer, and only this very call runs. An approval needs it
    /// where `terms` name approvers or a quorum.
    approval: Option<String>,
    /// What the call would do, where the tool can tell.
    preview: Option<String>,
    /// Why somebody has to look at it, in the words of the host program, or of a server that wants a page opened; why the
    /// outcome of a call is unknown.
    reason: Option<String>,
    /// The question.
    #[schema(value_type = Option<Object>)]
    question: Option<Value>,
    /// The limit that is reached.
    #[schema(value_type = Option<Object>)]
    limit: Option<Value>,
    /// The tool server that the call goes to, or the one to sign in at; null for a tool of the engine.
    server: Option<String>,
    /// Where to sign in.
    url: Option<String>,
    /// The runner that the call is for.
    runner: Option<String>,
    /// The stable id of the effect of a call that is in doubt: what its tool was given to be known again by.
    effect: Option<String>,
    /// When a call that is in doubt was begun, in milliseconds since the Unix epoch.
    begun_at: Option<u64>,
    /// Since when it waits, in milliseconds since the Unix epoch.
    since: u64,
    /// When silence is taken for an answer.
    expires_at: Option<u64>,
    /// How many approvals are needed, out of whom, and what silence means.
    #[schema(value_type = Object)]
    terms: Value,
    /// Who has approved so far.
    approved_by: Vec<String>,
    /// Whether the caller's approval would count for anything now.
    counts: bool,
}

/// Whose run asks.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = InterruptOwner)]
struct Owner {
    /// Its id.
    id: String,
    /// How people call it; empty where that is not known.
    name: String,
}

/// The thread of an interrupt, as somebody sees it.
#[derive(Clone, Debug)]
pub struct Setting {
    thread: ThreadId,
    title: Option<String>,
    owner: Owner,
    readable: bool,
}

impl Setting {
    /// A thread of the caller's workspace, with what the caller may know of it.
    pub async fn of(
        app: &Shared,
        caller: &Caller,
        people: &People,
        thread: &ThreadId,
        owner: &Principal,
        title: Option<String>,
    ) -> Result<Self, Problem> {
        let readable = caller.may_read(app, thread, caller.workspace(), owner).await?;
        let known = people.find(owner);
        let name = known.map(|user| user.name.clone()).unwrap_or_default();
        Ok(Self {
            thread: thread.clone(),
            title: title.filter(|_| readable),
            owner: Owner { id: owner.to_string(), name },
            readable,
        })
    }
}

/// The caller who looks at the interrupts of a run.
#[derive(Clone, Copy, Debug)]
pub struct Viewer<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// When the run began.
    pub run_started_at: Timestamp,
    /// How long before it the caller's account must have been settled, to vote beside others.
    pub vote_after_ms: u64,
}

/// What an interrupt asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// May this call run?
    Approval,
    /// The host program wants somebody to look at this call.
    Hook,
    /// The agent or a tool's server asks something.
    Question,
    /// Somebody has to sign in at a tool's server first.
    SignIn,
    /// A runner of the host program does the call.
    Handoff,
    /// Was the call done? Its outcome is unknown.
    InDoubt,
    /// A limit is reached: go on with a higher one, or stop?
    Limit,
}

impl Interrupt {
    /// An open interrupt of a thread, as somebody sees it.
    pub fn new(setting: &Setting, open: OpenInterrupt, viewer: &Viewer<'_>) -> Self {
        let Viewer { caller, run_started_at, vote_after_ms } = *viewer;
        let party = caller.party();
        let is_settled = !open.terms.names_approvers() || is_settled(caller, run_started_at, vote_after_ms);
        let voted = open.approved_by.contains(&party.principal);
        let mut shown = Self {
            run: run_of(&open.interrupt).to_string(),
            id: open.interrupt.to_string(),
            thread: setting.thread.to_string(),
            title: setting.title.clone(),
            owner: setting.owner.clone(),
            readable: setting.readable,
            kind: Kind::Approval,
            tool: open.tool,
            arguments: open.arguments,
            approval: None,
            preview: open.preview,
            reason: None,
            question: None,
            limit: None,
            server: open.server,
            url: None,
            runner: None,
            effect: None,
            begun_at: None,
            since: open.since.0,
            expires_at: open.expires_at.map(|at| at.0),
            counts: !voted && is_settled && open.terms.may_approve(&party.principal, &party.roles),
            terms: serde_json::to_value(&open.terms).unwrap_or_default(),
            approved_by: open.approved_by.iter().map(Principal::to_string).collect(),
        };
        shown.tell(open.kind);
        if let Some(Evidence { reason, effect, begun_at }) = open.evidence {
            (shown.reason, shown.effect) = (Some(reason), Some(effect.to_string()));
            shown.begun_at = Some(begun_at.0);
        }
        shown
    }

    fn tell(&mut self, kind: InterruptKind) {
        self.kind = match kind {
            InterruptKind::Approval { approval, preview, .. } => {
                self.approval = Some(approval.to_string());
                let here = preview.as_ref().and_then(Content::inline).map(str::to_owned);
                self.preview = self.preview.take().or(here);
                Kind::Approval
            }
            InterruptKind::Hook { reason, .. } => {
                self.reason = Some(reason);
                Kind::Hook
            }
            InterruptKind::Question(question) => {
                self.question = serde_json::to_value(question).ok();
                Kind::Question
            }
            InterruptKind::SignIn { server, url, message } => {
                (self.server, self.url, self.reason) = (Some(server), Some(url), message);
                Kind::SignIn
            }
            InterruptKind::Handoff { runner } => {
                self.runner = Some(runner);
                Kind::Handoff
            }
            InterruptKind::InDoubt { .. } => Kind::InDoubt,
            InterruptKind::Limit(limit) => {
                self.limit = serde_json::to_value(limit).ok();
                Kind::Limit
            }
        };
    }
}
