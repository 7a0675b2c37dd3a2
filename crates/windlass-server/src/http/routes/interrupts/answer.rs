//! Answers: read, given for each thread in one transaction, and told one by one.
//!
//! [`give`] is the one place where the server answers on somebody's behalf.

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

/// Answers of one request at most.
const ANSWERS_MAX: usize = 100;

/// An answer with what belongs to it.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"answer": {"kind": "deny", "reason": "not in this folder"}}))]
pub struct Wish {
    /// The answer.
    answer: Word,
    /// `approval` of the interrupt as it was looked at; another call is then not let through. An approval needs it where
    /// a rule names approvers or a quorum.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    approval: Option<String>,
    /// Lets calls like this one run without asking from now on; only with an approval.
    grant: Option<Offered>,
}

/// What is said. What fits depends on the kind of the interrupt.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Word {
    /// The call may run.
    Approve {},
    /// The call may run with other arguments.
    Edit {
        /// Those.
        #[schema(value_type = Object)]
        arguments: serde_json::Map<String, Value>,
    },
    /// The call may not run; the question is declined.
    Deny {
        /// Told to the model.
        reason: Option<String>,
    },
    /// What was asked for.
    Reply {
        /// One of the options.
        selected: Option<String>,
        /// In one's own words.
        text: Option<String>,
        /// The values that were asked for, or those of `params` that are to be others.
        #[schema(value_type = Option<Object>)]
        values: Option<serde_json::Map<String, Value>>,
    },
    /// The call in doubt was done.
    Done {
        /// Its result, told to the model.
        result: String,
    },
    /// The call in doubt was not done: it is dispatched again. The limit was raised elsewhere: it is tried again.
    Retry {},
    /// The call in doubt counts as failed.
    Fail {
        /// Told to the model.
        reason: Option<String>,
    },
    /// The limit is this for the rest of the run.
    Raise {
        /// The new figure.
        #[schema(minimum = 0)]
        to: u64,
    },
    /// The limit stays, and the run ends.
    Stop {},
}

/// How far a grant beside an approval goes.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Offered {
    /// How many calls it is good for, this one included; absent: any number.
    #[schema(minimum = 1)]
    count: Option<u32>,
    /// For how many milliseconds; absent: for ever.
    #[schema(minimum = 1)]
    expires_in_ms: Option<u64>,
    /// What has to hold of the arguments; absent: exactly those of this call.
    #[schema(value_type = Option<Vec<ArgumentCondition>>, max_items = 32)]
    arguments: Option<Vec<Condition>>,
}

/// Several answers.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"answers": [{"interrupt": "run_01k9w4q2x7c3m.1.0.0", "answer": {"kind": "approve"}}]}))]
pub struct Batch {
    /// At most 100.
    #[schema(min_items = 1, max_items = 100)]
    answers: Vec<OneOfSeveral>,
}

/// One of several answers.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct OneOfSeveral {
    /// The interrupt's id.
    interrupt: String,
    /// The answer.
    answer: Word,
    /// `approval` of the interrupt as it was looked at.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    approval: Option<String>,
    /// Lets calls like this one run without asking from now on; only with an approval.
    grant: Option<Offered>,
}

/// What became of an answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Answered {
    /// The interrupt.
    interrupt: String,
    /// Its thread.
    thread: String,
    /// Its run.
    run: String,
    /// Whether it is settled, or one vote of several was counted.
    state: Settled,
    /// Position of the first event that the answers led to.
    seq: u64,
    /// The grant that was written with it; null where the call that was approved is all that it was good for.
    grant: Option<Grant>,
}

/// How far an answer went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Settled {
    /// The interrupt is closed.
    Closed,
    /// More approvals are needed.
    Voted,
}

/// What became of several answers, thread by thread in the order of the first that was sent to each.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Results {
    /// One for each thread, and one for each interrupt that was not found.
    results: Vec<ThreadResult>,
}

/// What became of the answers to one thread.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct ThreadResult {
    /// The thread; null for an interrupt that was not found.
    thread: Option<String>,
    /// The interrupts that were answered in it.
    interrupts: Vec<String>,
    /// What became of each; empty where none of them counted.
    answered: Vec<Answered>,
    /// Why none of them counted.
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
                Problem::invalid(format!("`approval` is `{text}`, which is no digest"))
                    .hint("send `approval` of the interrupt, unchanged, or leave it away")
            })
        };
        let approval = self.approval.as_ref().map(digest).transpose()?;
        let answer = self.answer.clone().read();
        if self.grant.is_some() && answer != Answer::Approve {
            return Err(Problem::invalid("`grant` goes with the answer `approve` only"));
        }
        Ok(Given { interrupt: interrupt.clone(), answer, approval })
    }
}

/// A grant that is written once its call is approved.
struct Granting {
    interrupt: InterruptId,
    draft: GrantDraft,
}

impl Granting {
    /// Reads what is wished for while the call still waits: afterwards nobody could tell its arguments. `None` where
    /// the call that is approved is all that it is good for.
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
                "interrupt `{id}` is about no call that waits; nothing to grant"
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
        // The call that is approved is the first of them.
        if offer.count == Some(1) {
            return Ok(None);
        }
        let offer = Offer { count: offer.count.map(|count| count - 1), ..offer };
        let draft = offer.draft(app, caller, user, ToolName::from(tool.clone())).await?;
        Ok(Some(Self { interrupt: id.clone(), draft }))
    }
}

/// For whom the run works: who asks the next time. Nobody but them and administrators says what it need not ask.
fn whom(caller: &Caller, row: &RunRow, machine: &Machine) -> Result<Principal, Problem> {
    let run = machine.state().run.as_ref().filter(|run| run.id == row.view.run);
    let run = run.ok_or_else(|| Problem::invalid(format!("run `{}` has ended", row.view.run)))?;
    if run.by != *caller.user() {
        let words = || "only the user whom the run works for and administrators grant more than one call";
        caller.administers_or(words)?;
        caller.administers()?;
    }
    Ok(run.by.clone())
}

/// Refuses an approval without the digest of its call if others approve as well: each of them approves the same call.
/// In the other dialects, which do not transmit it, the id of the interrupt or of the revision binds the answer: an edit
/// makes a new one.
fn require_digest(snapshot: &Snapshot, given: &Given) -> Result<(), Problem> {
    let open = snapshot.open.iter().find(|open| open.interrupt == given.interrupt);
    let is_bound = open.is_some_and(|open| {
        matches!(open.kind, InterruptKind::Approval { .. }) && open.terms.names_approvers()
    });
    if !is_bound || given.approval.is_some() || !approves(&given.answer) {
        return Ok(());
    }
    let detail = format!("a rule names approvers or a quorum for interrupt `{}`", given.interrupt);
    Err(Problem::invalid(format!("{detail}, and the answer has no `approval`"))
        .hint("send `approval` of the interrupt, unchanged"))
}

/// Gives answers to interrupts of one thread, with the grants that go with them: all of it counts, or nothing.
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

/// Finds the answers to the thread of an interrupt that the caller may see. Each thread is folded once.
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

/// Gives answers to interrupts of several threads.
pub async fn give_all(app: &Shared, caller: &Caller, batch: Batch) -> Result<Results, Problem> {
    let count = batch.answers.len();
    if !(1..=ANSWERS_MAX).contains(&count) {
        return Err(Problem::invalid(format!("{count} answers; send 1 to {ANSWERS_MAX} together")));
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
