//! Answers to interrupts: validation, submission in one transaction per thread, and one result per answer.
//!
//! The native API submits all answers through [`give`].

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use windlass::GrantDraft;
use windlass::machine::{
    Answer, Condition, Content, Digest, Given, InterruptId, InterruptKind, Machine, Predicate, Principal,
    Reply, ToolName,
};
use windlass::port::journal::RunRow;

use super::submit::approves;
use super::{Snapshot, locate, submit};
use crate::http::Shared;
use crate::http::caller::Caller;
use crate::http::problem::Problem;
use crate::http::routes::grants::{ArgumentCondition, Grant, Offer, missing_tool};

/// Maximum number of answers of one request.
const ANSWERS_MAX: usize = 100;

/// An answer with its options.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"answer": {"kind": "deny", "reason": "not in this folder"}}))]
pub struct Wish {
    /// The answer.
    answer: Word,
    /// `approval` of the interrupt, as returned by the API. The answer then applies only to that call. It is required
    /// for an approval if a rule names approvers or a quorum.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    approval: Option<String>,
    /// Grant for similar calls in the future; only with an approval.
    grant: Option<Offered>,
}

/// The answer. The allowed kinds depend on the kind of the interrupt.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Word {
    /// Approves the call.
    Approve {},
    /// Approves the call with other arguments.
    Edit {
        /// The new arguments.
        #[schema(value_type = Object)]
        arguments: serde_json::Map<String, Value>,
    },
    /// Denies the call, or declines the question.
    Deny {
        /// Reason; the model receives it.
        reason: Option<String>,
    },
    /// Answers a question.
    Reply {
        /// One of the options.
        selected: Option<String>,
        /// Free text.
        text: Option<String>,
        /// The requested values, or those of `params` that should change.
        #[schema(value_type = Option<Object>)]
        values: Option<serde_json::Map<String, Value>>,
    },
    /// The call in doubt was executed.
    Done {
        /// Its result; the model receives it.
        result: String,
    },
    /// The call in doubt was not executed: dispatch it again. For a limit: it was raised elsewhere, so try again.
    Retry {},
    /// Treats the call in doubt as failed.
    Fail {
        /// Reason; the model receives it.
        reason: Option<String>,
    },
    /// Sets the limit for the rest of the run.
    Raise {
        /// The new limit.
        #[schema(minimum = 0)]
        to: u64,
    },
    /// Keeps the limit, which ends the run.
    Stop {},
}

/// The scope of a grant that is created with an approval.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Offered {
    /// Number of calls that it allows, including this one. Default: no limit.
    #[schema(minimum = 1)]
    count: Option<u32>,
    /// Lifetime in milliseconds. Default: no expiry.
    #[schema(minimum = 1)]
    expires_in_ms: Option<u64>,
    /// Conditions on the arguments. Default: exactly the arguments of this call.
    #[schema(value_type = Option<Vec<ArgumentCondition>>, max_items = 32)]
    arguments: Option<Vec<Condition>>,
}

/// A batch of answers.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"answers": [{"interrupt": "run_01k9w4q2x7c3m.1.0.0", "answer": {"kind": "approve"}}]}))]
pub struct Batch {
    /// At most 100.
    #[schema(min_items = 1, max_items = 100)]
    answers: Vec<OneOfSeveral>,
}

/// An answer of a batch.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct OneOfSeveral {
    /// Id of the interrupt.
    interrupt: String,
    /// The answer.
    answer: Word,
    /// `approval` of the interrupt, as returned by the API.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    approval: Option<String>,
    /// Grant for similar calls in the future; only with an approval.
    grant: Option<Offered>,
}

/// The result of an answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Answered {
    /// Id of the interrupt.
    interrupt: String,
    /// Id of its thread.
    thread: String,
    /// Id of its run.
    run: String,
    /// Whether the interrupt is closed, or the answer was counted as one of several votes.
    state: Settled,
    /// Position of the first event that the answers caused.
    seq: u64,
    /// The grant that was created. Null if none was requested, or if it covered only the approved call.
    grant: Option<Grant>,
}

/// State of an interrupt after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Settled {
    /// The interrupt is closed.
    Closed,
    /// More approvals are needed.
    Voted,
}

/// The results of a batch, one per thread, in the order of the first answer to each thread.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Results {
    /// One entry per thread, and one per interrupt that was not found.
    results: Vec<ThreadResult>,
}

/// The result of the answers to one thread.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct ThreadResult {
    /// Id of the thread; null for an interrupt that was not found.
    thread: Option<String>,
    /// Ids of the answered interrupts.
    interrupts: Vec<String>,
    /// The result of each answer; empty if they were rejected.
    answered: Vec<Answered>,
    /// Why the answers were rejected.
    problem: Option<Problem>,
}

impl Word {
    fn read(self) -> Answer {
        match self {
            Self::Approve {} => Answer::Approve,
            Self::Edit { arguments } => {
                Answer::Edit { arguments: Content::Inline(Value::Object(arguments).to_string()) }
            }
            Self::Deny { reason } => Answer::Deny { reason },
            Self::Reply { selected, text, values } => {
                Answer::Reply(Box::new(Reply { selected, text, values: values.map(Value::Object) }))
            }
            Self::Done { result } => Answer::Done { result },
            Self::Retry {} => Answer::Retry,
            Self::Fail { reason } => Answer::Fail { reason },
            Self::Raise { to } => Answer::Raise { to },
            Self::Stop {} => Answer::Stop,
        }
    }
}

impl Wish {
    fn given(&self, interrupt: &InterruptId) -> Result<Given, Problem> {
        let digest = |text: &String| {
            Digest::from_hex(text).ok_or_else(|| {
                Problem::invalid(format!("`approval` is `{text}`, which is not a digest"))
                    .hint("send `approval` of the interrupt unchanged, or omit it")
            })
        };
        let approval = self.approval.as_ref().map(digest).transpose()?;
        let answer = self.answer.clone().read();
        if self.grant.is_some() && answer != Answer::Approve {
            return Err(Problem::invalid("`grant` is allowed only with the answer `approve`"));
        }
        Ok(Given { interrupt: interrupt.clone(), answer, approval })
    }
}

/// A grant to create when its call is approved.
struct Granting {
    interrupt: InterruptId,
    draft: GrantDraft,
}

impl Granting {
    /// Builds the grant while the call is still open, because the call's arguments are unavailable afterwards. Returns
    /// `None` if the grant would cover only the approved call.
    async fn read(
        app: &Shared,
        caller: &Caller,
        row: &RunRow,
        snapshot: &Snapshot,
        id: &InterruptId,
        wish: &Offered,
    ) -> Result<Option<Self>, Problem> {
        let user = whom(caller, row, &snapshot.folded)?;
        let open = snapshot.open.iter().find(|open| open.interrupt == *id);
        let Some((tool, sent)) = open.and_then(|open| open.tool.as_ref().zip(open.arguments.as_ref())) else {
            return Err(Problem::invalid(format!(
                "interrupt `{id}` has no waiting call, so it cannot create a grant"
            )));
        };
        let exactly = || {
            let value = serde_json::from_str(sent).unwrap_or_default();
            vec![Condition { argument: String::new(), is: Predicate::Equals(value) }]
        };
        let offer = Offer {
            arguments: wish.arguments.clone().unwrap_or_else(exactly),
            count: wish.count,
            expires_in_ms: wish.expires_in_ms,
        };
        offer.check()?;
        // The approved call uses the first call of the grant.
        if offer.count == Some(1) {
            return Ok(None);
        }
        let offer = Offer { count: offer.count.map(|count| count - 1), ..offer };
        let draft = offer.draft(app, caller, user, ToolName::from(tool.clone())).await?;
        Ok(Some(Self { interrupt: id.clone(), draft }))
    }
}

/// Returns the owner of the run, who receives the grant. Any other caller must be an administrator.
fn whom(caller: &Caller, row: &RunRow, machine: &Machine) -> Result<Principal, Problem> {
    let run = machine.state().run.as_ref().filter(|run| run.id == row.view.run);
    let run = run.ok_or_else(|| Problem::invalid(format!("run `{}` has ended", row.view.run)))?;
    if run.by != *caller.user() {
        let words = || "only the user of the run and administrators may grant more than one call";
        caller.administers_or(words)?;
        caller.administers()?;
    }
    Ok(run.by.clone())
}

/// Rejects an approval without the call's digest if a rule names approvers or a quorum, because all approvers must
/// approve the same call. Other dialects do not transmit the digest. In these dialects, the id of the interrupt or
/// revision binds the answer: an edit creates a new id.
fn require_digest(snapshot: &Snapshot, given: &Given) -> Result<(), Problem> {
    let open = snapshot.open.iter().find(|open| open.interrupt == given.interrupt);
    let is_bound = open.is_some_and(|open| {
        matches!(open.kind, InterruptKind::Approval { .. }) && open.terms.names_approvers()
    });
    if !is_bound || given.approval.is_some() || !approves(&given.answer) {
        return Ok(());
    }
    let detail = format!("a rule names approvers or a quorum for interrupt `{}`", given.interrupt);
    Err(Problem::invalid(format!("{detail}, so the answer must have `approval`"))
        .hint("send `approval` of the interrupt, unchanged"))
}

/// Submits answers to interrupts of one thread with their grants. All of them take effect, or none.
pub async fn give(
    app: &Shared,
    caller: &Caller,
    row: &RunRow,
    snapshot: &Snapshot,
    wishes: Vec<(InterruptId, Wish)>,
) -> Result<Vec<Answered>, Problem> {
    let mut given = Vec::with_capacity(wishes.len());
    let (mut users, mut drafts) = (Vec::new(), Vec::new());
    for (id, wish) in &wishes {
        let one = wish.given(id)?;
        require_digest(snapshot, &one)?;
        given.push(one);
        let Some(offered) = &wish.grant else { continue };
        let granting = Granting::read(app, caller, row, snapshot, id, offered).await?;
        if let Some(Granting { interrupt, draft }) = granting {
            users.push(draft.user.clone());
            drafts.push((interrupt, draft));
        }
    }
    let submitted = submit(app, caller, &snapshot.folded, given, drafts, None).await;
    let (accepted, written) = submitted.map_err(|error| missing_tool(app, error))?;
    let written = users.into_iter().zip(written);
    let mut grants: Vec<(InterruptId, Grant)> =
        written.map(|(user, (interrupt, grant))| (interrupt, Grant::from((user, grant)))).collect();
    let state = |id: &InterruptId| {
        if accepted.closed.contains(id) { Settled::Closed } else { Settled::Voted }
    };
    let answered = wishes.iter().map(|(id, _)| Answered {
        interrupt: id.to_string(),
        thread: row.thread.to_string(),
        run: row.view.run.to_string(),
        state: state(id),
        seq: accepted.seq.0,
        grant: grants.iter().position(|(of, _)| of == id).map(|at| grants.swap_remove(at).1),
    });
    Ok(answered.collect())
}

/// The answers to one thread.
struct ThreadAnswers {
    row: RunRow,
    snapshot: Snapshot,
    wishes: Vec<(InterruptId, Wish)>,
}

/// Finds the entry for the thread of an interrupt that the caller may see. Folds each thread only once.
async fn find<'t>(
    app: &Shared,
    caller: &Caller,
    id: &InterruptId,
    threads: &'t mut Vec<ThreadAnswers>,
) -> Result<&'t mut ThreadAnswers, Problem> {
    let row = locate(app, caller, id).await?;
    let known = threads.iter().position(|known| known.row.thread == row.thread);
    let at = match known {
        Some(at) => {
            threads[at].snapshot.find(caller, &row, id)?;
            at
        }
        None => {
            let snapshot = Snapshot::read(app, &row.thread).await?;
            snapshot.find(caller, &row, id)?;
            threads.push(ThreadAnswers { row, snapshot, wishes: Vec::new() });
            threads.len() - 1
        }
    };
    Ok(&mut threads[at])
}

/// Submits answers to interrupts of several threads.
pub async fn give_all(app: &Shared, caller: &Caller, batch: Batch) -> Result<Results, Problem> {
    let count = batch.answers.len();
    if !(1..=ANSWERS_MAX).contains(&count) {
        return Err(Problem::invalid(format!("the request has {count} answers; send 1 to {ANSWERS_MAX}")));
    }
    let mut threads = Vec::new();
    let mut results = Vec::new();
    for OneOfSeveral { interrupt, answer, approval, grant } in batch.answers {
        let id = InterruptId::from(interrupt);
        let wish = Wish { answer, approval, grant };
        match find(app, caller, &id, &mut threads).await {
            Ok(thread) => thread.wishes.push((id, wish)),
            Err(problem) if problem.status.is_server_error() => return Err(problem),
            Err(problem) => results.push(ThreadResult {
                thread: None,
                interrupts: vec![id.to_string()],
                answered: Vec::new(),
                problem: Some(problem),
            }),
        }
    }
    for (index, ThreadAnswers { row, snapshot, wishes }) in threads.into_iter().enumerate() {
        let interrupts = wishes.iter().map(|(id, _)| id.to_string()).collect();
        let (answered, problem) = match give(app, caller, &row, &snapshot, wishes).await {
            Ok(answered) => (answered, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        let result = ThreadResult { thread: Some(row.thread.to_string()), interrupts, answered, problem };
        results.insert(index, result);
    }
    Ok(Results { results })
}
