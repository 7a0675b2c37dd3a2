//! The API representation of an interrupt: a flat object with common fields and those of its kind.

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

/// An open interrupt of a run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Interrupt {
    /// Id of the interrupt, for answers.
    id: String,
    /// Id of its thread.
    thread: String,
    /// Title of the thread; null if it has none or the caller may not read the thread.
    title: Option<String>,
    /// Owner of the thread.
    owner: Owner,
    /// Whether the caller may read the thread. A rule may name an approver who may not.
    readable: bool,
    /// Id of its run.
    run: String,
    /// Kind of the interrupt.
    kind: Kind,
    /// Name of the tool whose call waits; null if the whole run waits.
    tool: Option<String>,
    /// The complete arguments that will be sent, as JSON text.
    arguments: Option<String>,
    /// Digest of the call. If an answer contains it, the answer applies only to this exact call. It is required for an
    /// approval if `terms` name approvers or a quorum.
    approval: Option<String>,
    /// Preview of the call's effect, if the tool provides one.
    preview: Option<String>,
    /// Why a decision is needed: the reason of the host program's hook, or the message of a server that requests a
    /// sign-in. For a call in doubt: why its outcome is unknown.
    reason: Option<String>,
    /// The question.
    #[schema(value_type = Option<Object>)]
    question: Option<Value>,
    /// The limit that was reached.
    #[schema(value_type = Option<Object>)]
    limit: Option<Value>,
    /// MCP server that the call goes to or that requires a sign-in; null for a built-in tool.
    server: Option<String>,
    /// URL of the sign-in page.
    url: Option<String>,
    /// The runner that must execute the call.
    runner: Option<String>,
    /// Stable id of the effect of a call in doubt. The tool received it, to recognize a repeated call.
    effect: Option<String>,
    /// When a call in doubt was started, in milliseconds since the Unix epoch.
    begun_at: Option<u64>,
    /// When the interrupt was opened, in milliseconds since the Unix epoch.
    since: u64,
    /// When the interrupt times out, in milliseconds since the Unix epoch.
    expires_at: Option<u64>,
    /// Number of required approvals, allowed approvers, and the effect of a timeout.
    #[schema(value_type = Object)]
    terms: Value,
    /// Ids of the users who have approved so far.
    approved_by: Vec<String>,
    /// Whether an approval of the caller would count now.
    counts: bool,
}

/// Owner of the thread of an interrupt.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = InterruptOwner)]
struct Owner {
    /// Id of the user.
    id: String,
    /// Display name; empty if unknown.
    name: String,
}

/// The thread of an interrupt, as the caller sees it.
#[derive(Clone, Debug)]
pub struct Setting {
    thread: ThreadId,
    title: Option<String>,
    owner: Owner,
    readable: bool,
}

impl Setting {
    /// Collects the data about a thread of the caller's workspace that the caller may see.
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

/// The caller who views the interrupts of a run.
#[derive(Clone, Copy, Debug)]
pub struct Viewer<'a> {
    pub caller: &'a Caller,
    /// When the run started.
    pub run_started_at: Timestamp,
    /// Minimum time between another user's change of an account and the run's start, so that the account's vote is
    /// valid, in milliseconds.
    pub vote_after_ms: u64,
}

/// Kind of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Approval of a call.
    Approval,
    /// A hook of the host program requires a decision about a call.
    Hook,
    /// A question of the agent or of an MCP server.
    Question,
    /// A sign-in to an MCP server is required.
    SignIn,
    /// A runner of the host program must execute the call.
    Handoff,
    /// The outcome of a call is unknown.
    InDoubt,
    /// A limit was reached: raise it, or end the run.
    Limit,
}

impl Interrupt {
    /// Builds the representation of an open interrupt.
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
