//! People answered interrupts of a run.
//!
//! Several answers are accepted together or not at all: all are checked before the first is recorded. The host
//! program has authenticated the sender; this module checks whether the sender may answer.

mod approval;
mod expiry;

use std::collections::BTreeSet;

pub(super) use self::expiry::overdue;
use super::line::{self, close, with_repair};
use super::progress::after;
use super::record::{Planned, Recorder, Situation, can_be_read, fits, is_not_null};
use super::{next, rejudge, verdict};
use crate::event::{Answer, Fact, InterruptKind, LimitAsked, Next, Outcome, Question, Reply, Verdict};
use crate::id::{CallKey, InterruptId, RunId, ToolName};
use crate::input::{ADMIN, Arguments, CallView, Given, KnownCall, NewGrant, Party, View};
use crate::message::{Block, Content};
use crate::policy::{Approver, check_json};
use crate::reject::Reject;
use crate::state::{Asked, Call, Phase, Run};

/// Maximum number of answers in one input. A step can open fewer interrupts.
const MAX_TOGETHER: usize = 256;

pub(super) fn answered<'i>(
    s: Situation<'_>,
    answers: &'i [Given],
    by: &'i Party,
    grants: &[NewGrant],
    view: &'i View,
) -> Planned<'i> {
    if answers.is_empty() || answers.len() > MAX_TOGETHER {
        let what = format!("{} answers; send 1 to {MAX_TOGETHER} together", answers.len());
        return Err(Reject::Invalid { what });
    }
    for (index, given) in answers.iter().enumerate() {
        check(&given.answer)?;
        find(s, by, &given.interrupt)?;
        if answers[..index].iter().any(|before| before.interrupt == given.interrupt) {
            return Err(twice(&given.interrupt));
        }
    }
    let run = s.active()?;
    if run.cancel.is_some() {
        return Err(Reject::Closed { what: "the run is being stopped; its interrupt".into() });
    }
    check_grants(run, answers, by, grants)?;
    match &run.phase {
        Phase::Parked(asked) => match answers {
            [given] => parked(asked, given, by),
            // No other interrupt is open while the run as a whole waits.
            [] | [_, ..] => Err(Reject::Invalid { what: "the run as a whole waits for one answer".into() }),
        },
        Phase::Calls(_) => {
            let checked = answers.iter().map(|given| check_one(s, given, by, view));
            let checked = checked.collect::<Result<Vec<_>, _>>()?;
            Ok(Box::new(move |r| {
                for (given, (index, means)) in answers.iter().zip(checked) {
                    take(r, index, given, means, by, view);
                }
                after(r);
            }))
        }
        Phase::Ready | Phase::Calling | Phase::Retrying(_) => Err(missing(&answers[0].interrupt)),
    }
}

/// Checks that each grant accompanies an approval, is given by its sender, and is for the user that the run works
/// for. Only that user and administrators may decide which later calls run without asking.
fn check_grants(run: &Run, answers: &[Given], by: &Party, grants: &[NewGrant]) -> Result<(), Reject> {
    let invalid = |what: String| Err(Reject::Invalid { what });
    let approves = |given: &Given| matches!(given.answer, Answer::Approve | Answer::Edit { .. });
    if !grants.is_empty() && !answers.iter().any(approves) {
        return invalid("a grant goes with an approval; none is among the answers".into());
    }
    if grants.len() > answers.len() {
        return invalid(format!(
            "{} grants go with {} answers; one each at most",
            grants.len(),
            answers.len()
        ));
    }
    for NewGrant { user, grant } in grants {
        let (who, whom) = (&by.principal, &run.by);
        if grant.by != *who {
            return invalid(format!("`{who}` cannot grant in the name of `{}`", grant.by));
        }
        if user != whom {
            return invalid(format!(
                "the run works for `{whom}`; a grant that goes along is not for `{user}`"
            ));
        }
        if who != whom && !is_admin(by) {
            let what = format!("`{who}` cannot grant for `{whom}`; `{whom}` or an administrator can");
            return Err(Reject::Forbidden { what });
        }
        // A grant contains only strings, numbers and JSON values, which always serialise.
        let value = serde_json::to_value(grant).unwrap_or_default();
        can_be_read("the grant", check_json(&value))?;
        fits("the grant", value.to_string().len())?;
    }
    Ok(())
}

fn missing(interrupt: &InterruptId) -> Reject {
    Reject::NotFound { what: format!("an open interrupt `{interrupt}`") }
}

fn twice(interrupt: &InterruptId) -> Reject {
    Reject::Closed { what: format!("interrupt `{interrupt}`, answered twice in one batch,") }
}

/// Checks the texts of an answer. They are recorded inline, so texts above the inline maximum are rejected.
fn check(answer: &Answer) -> Result<(), Reject> {
    match answer {
        Answer::Deny { reason: Some(reason) } | Answer::Fail { reason: Some(reason) } => {
            fits("the reason", reason.len())
        }
        Answer::Done { result } => fits("the result", result.len()),
        Answer::Reply(reply) => {
            fits("the choice", reply.selected.as_ref().map_or(0, String::len))?;
            fits("the reply", reply.text.as_ref().map_or(0, String::len))?;
            let Some(values) = &reply.values else { return Ok(()) };
            can_be_read("the values of the reply", check_json(values))?;
            is_not_null("the values of the reply", values)?;
            fits("the values", values.to_string().len())
        }
        Answer::Withdrawn => Err(Reject::Invalid { what: "only the engine takes a question back".into() }),
        Answer::Edit { arguments: Content::Inline(arguments) } => fits("the arguments", arguments.len()),
        Answer::Edit { arguments: Content::Blob(_) } => Ok(()),
        Answer::Deny { reason: None } | Answer::Fail { reason: None } => Ok(()),
        Answer::Approve | Answer::Retry | Answer::Raise { .. } | Answer::Stop => Ok(()),
    }
}

/// Finds an open interrupt that the sender may answer. Senders
/// of other workspaces do not learn that the interrupt exists.
fn find<'a>(
    s: Situation<'a>,
    by: &Party,
    interrupt: &InterruptId,
) -> Result<(Option<usize>, &'a Asked), Reject> {
    if by.workspace != s.state.workspace {
        return Err(missing(interrupt));
    }
    let found = s.state.run.as_ref().and_then(|run| Some((run, run.asking(interrupt)?)));
    let Some((run, (index, asked))) = found else {
        return Err(closed(s, interrupt).unwrap_or_else(|| missing(interrupt)));
    };
    may_answer(s, run, asked, by)?;
    Ok((index, asked))
}

/// Returns a reject if the interrupt belongs to the active or the last run and is not open.
fn closed(s: Situation<'_>, interrupt: &InterruptId) -> Option<Reject> {
    let active = s.state.run.as_ref().map(|run| &run.id);
    let last = s.state.last.as_ref().map(|last| &last.run);
    let of = |run: &RunId| interrupt.as_str().strip_prefix(run.as_str()).is_some_and(|n| n.starts_with('.'));
    let known = active.into_iter().chain(last).any(of);
    known.then(|| Reject::Closed { what: format!("interrupt `{interrupt}`") })
}

/// Checks that the sender may answer: the thread's owner, the user that the run works for, administrators, and
/// approvers that a rule names. The terms determine whose approval is valid.
fn may_answer(s: Situation<'_>, run: &Run, asked: &Asked, by: &Party) -> Result<(), Reject> {
    let own = s.state.owner.as_ref() == Some(&by.principal) || run.by == by.principal;
    if own || is_admin(by) || asked.terms.names(&by.principal, &by.roles) {
        return Ok(());
    }
    let (who, interrupt) = (&by.principal, &asked.interrupt);
    let others = ["the thread's owner".to_owned(), "an administrator".to_owned()];
    let others = one_of(others.into_iter().chain(named(asked)).collect());
    Err(Reject::Forbidden { what: format!("`{who}` may not answer interrupt `{interrupt}`; {others} may") })
}

fn is_admin(by: &Party) -> bool {
    by.roles.iter().any(|role| role == ADMIN)
}

/// Returns the approvers that the terms name, without duplicates.
fn named(asked: &Asked) -> BTreeSet<String> {
    asked.terms.quorums.iter().flat_map(|quorum| &quorum.of).map(Approver::to_string).collect()
}

/// Formats names as `a, b or c`.
fn one_of(mut names: Vec<String>) -> String {
    match (names.pop(), names.is_empty()) {
        (Some(last), false) => format!("{} or {last}", names.join(", ")),
        (last, _) => last.unwrap_or_default(),
    }
}

fn close_interrupt(r: &mut Recorder<'_>, interrupt: &InterruptId, answer: &Answer, by: &Party) {
    let (interrupt, answer) = (interrupt.clone(), answer.clone());
    let (by, roles) = (by.principal.clone(), by.roles.clone());
    r.record(Fact::InterruptClosed { interrupt, answer, by, roles });
}

/// Plans an answer to the interrupt of the run as a whole.
fn parked<'i>(asked: &Asked, given: &'i Given, by: &'i Party) -> Planned<'i> {
    let InterruptKind::Limit(limit) = &asked.kind else { return Err(missing(&given.interrupt)) };
    match &given.answer {
        Answer::Raise { to } => {
            raises(limit, *to)?;
            approval::may_approve(asked, by)?;
        }
        Answer::Retry if next::is_own(limit) => {
            let what = format!("`{}` is the run's own limit: raise it, or stop the run", limit.limit);
            return Err(Reject::Invalid { what });
        }
        Answer::Retry => {}
        Answer::Stop | Answer::Deny { .. } => {
            let limit = limit.clone();
            return Ok(Box::new(move |r| {
                close_interrupt(r, &given.interrupt, &given.answer, by);
                next::limit_ends(r, &limit);
            }));
        }
        Answer::Approve
        | Answer::Edit { .. }
        | Answer::Reply(_)
        | Answer::Done { .. }
        | Answer::Fail { .. }
        | Answer::Withdrawn => return Err(Reject::Invalid { what: LIMIT_TAKES.into() }),
    }
    let next = limit.next.unwrap_or(Next::Retry);
    Ok(Box::new(move |r| {
        close_interrupt(r, &given.interrupt, &given.answer, by);
        next::resume(r, next);
    }))
}

const LIMIT_TAKES: &str = "a limit takes `raise` with a higher figure, `retry` or `stop`";

fn raises(limit: &LimitAsked, to: u64) -> Result<(), Reject> {
    if to > limit.figure && to > limit.used {
        return Ok(());
    }
    let above = limit.figure.max(limit.used);
    Err(Reject::Invalid {
        what: format!("raise `{}` above {above}, or stop the run; {to} is not more", limit.limit),
    })
}

/// The checked meaning of an answer to a call.
#[derive(Clone, Copy)]
enum Means<'i> {
    Approve,
    Edit(&'i Content),
    Deny(Option<&'i str>),
    /// The text becomes the call's result.
    Replace(&'i str),
    /// A reply to a tool's question.
    Reply,
    /// The result that a person knows.
    Done(&'i str),
    Fail(Option<&'i str>),
    Retry,
    Raise,
    Stop,
}

/// Checks an answer to the interrupt of a call.
fn check_one<'i>(
    s: Situation<'_>,
    given: &'i Given,
    by: &Party,
    view: &View,
) -> Result<(usize, Means<'i>), Reject> {
    let (Some(index), asked) = find(s, by, &given.interrupt)? else { return Err(missing(&given.interrupt)) };
    if let (Some(seen), InterruptKind::Approval { approval, .. }) = (&given.approval, &asked.kind)
        && seen != approval
    {
        let what =
            format!("what interrupt `{}` is about is another call than the one approved", asked.interrupt);
        return Err(Reject::Stale { what });
    }
    let means = match (&asked.kind, &given.answer) {
        (InterruptKind::Approval { .. } | InterruptKind::Hook { .. }, Answer::Approve) => {
            approval::check_approve(s, index, asked, by, view)?;
            Means::Approve
        }
        (InterruptKind::Approval { .. } | InterruptKind::Hook { .. }, Answer::Edit { arguments }) => {
            approval::check_edit(s, index, asked, arguments, by, view)?;
            Means::Edit(arguments)
        }
        (InterruptKind::Approval { .. } | InterruptKind::Hook { .. }, Answer::Deny { reason }) => {
            Means::Deny(reason.as_deref())
        }
        (InterruptKind::Hook { .. }, Answer::Reply(reply)) => {
            let text = reply.text.as_deref();
            let what = "a reply in place of the call needs a text";
            Means::Replace(text.ok_or_else(|| Reject::Invalid { what: what.into() })?)
        }
        (
            InterruptKind::Question(_) | InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. },
            Answer::Reply(_) | Answer::Deny { .. },
        ) => {
            let tool = &open_call(s, index)?.tool;
            if s.lacks(tool) && matches!(given.answer, Answer::Reply(_)) {
                return Err(not_here(tool));
            }
            if let (InterruptKind::Question(question), Answer::Reply(reply)) = (&asked.kind, &given.answer) {
                fits_question(question, reply, known(view, index))?;
            }
            Means::Reply
        }
        (InterruptKind::InDoubt { .. }, Answer::Retry) => {
            check_retry(s, index, view)?;
            Means::Retry
        }
        (InterruptKind::InDoubt { .. }, Answer::Done { result }) => Means::Done(result),
        (InterruptKind::InDoubt { .. }, Answer::Fail { reason }) => Means::Fail(reason.as_deref()),
        (InterruptKind::Limit(limit), Answer::Raise { to }) => {
            raises(limit, *to)?;
            Means::Raise
        }
        (InterruptKind::Limit(_), Answer::Stop | Answer::Deny { .. }) => Means::Stop,
        (kind, _) => return Err(Reject::Invalid { what: takes(kind).into() }),
    };
    Ok((index, means))
}

/// Returns a call of the current step.
fn open_call(s: Situation<'_>, index: usize) -> Result<&Call, Reject> {
    s.call(CallKey { step: s.active()?.attempt.step, index: index as u32 })
}

/// Records an answer to the interrupt of a call.
fn take(r: &mut Recorder<'_>, index: usize, given: &Given, means: Means<'_>, by: &Party, view: &View) {
    let close_it = |r: &mut Recorder<'_>| close_interrupt(r, &given.interrupt, &given.answer, by);
    match means {
        Means::Approve => approval::approve(r, index, &given.interrupt, by, view),
        Means::Edit(arguments) => approval::edit(r, index, &given.interrupt, arguments, by, view),
        Means::Retry => retry(r, index, &given.interrupt, by, view),
        Means::Deny(reason) => {
            close_it(r);
            approval::deny(r, index, reason);
        }
        Means::Replace(text) => {
            close_it(r);
            close(r, index, Outcome::Told, text);
        }
        Means::Reply => {
            close_it(r);
            rejudge::replied(r, index, view);
        }
        Means::Done(result) => {
            close_it(r);
            let content = with_repair(r.call(index), &[Block::text(result)]);
            line::finish(r, index, Outcome::Told, content);
        }
        Means::Fail(reason) => {
            close_it(r);
            let why = reason.unwrap_or("a person checked and said that it failed");
            close(r, index, Outcome::InDoubt, format!("The call failed: {why}"));
        }
        Means::Raise => {
            close_it(r);
            line::admit(r, index, view);
        }
        Means::Stop => {
            close_it(r);
            r.is_over = true;
        }
    }
}

/// Checks that a call may be repeated.
fn check_retry(s: Situation<'_>, index: usize, view: &View) -> Result<(), Reject> {
    approval::check_verdict(s, index, view)?;
    if let Some(reason) = known(view, index).and_then(rejudge::unfit) {
        let what =
            format!("the tool has changed, and the call cannot be repeated: {reason}; say how it ended");
        return Err(Reject::Invalid { what });
    }
    Ok(())
}

/// Records a person's statement that a call in doubt did not take effect. The call's earlier permission applies
/// again. If the rules now require further approvers, the gate asks again.
fn retry(r: &mut Recorder<'_>, index: usize, interrupt: &InterruptId, by: &Party, view: &View) {
    let Some(known) = known(view, index) else { return };
    let call = r.call(index);
    let judged = verdict::judge(r, &call.tool, known, view);
    let mut approvals = if call.approved { call.approvals.clone() } else { Vec::new() };
    approvals.push((by.principal.clone(), by.roles.clone()));
    let enough = judged.approval == call.approval && judged.terms.are_met_by(&approvals);
    let may_start =
        judged.verdict == Verdict::Allow || enough || rejudge::still_stands(r, index, &judged, known, view);
    close_interrupt(r, interrupt, &Answer::Retry, by);
    if !may_start {
        line::judged(r, index, &judged, known, None, view);
        line::ask(r, index, judged);
    }
}

/// Rejects an answer if the tool is missing in this process and cannot validate the answer.
fn not_here(tool: &ToolName) -> Reject {
    let what =
        format!("the tool `{tool}` is the run's own, and this process does not have it; answer where it is");
    Reject::Stale { what }
}

fn takes(kind: &InterruptKind) -> &'static str {
    match kind {
        InterruptKind::Approval { .. } => "an approval takes `approve`, `edit` or `deny`",
        InterruptKind::Hook { .. } => "a call that a hook stopped takes `approve`, `edit`, `deny` or `reply`",
        InterruptKind::Question(_) => "a question takes `reply` or `deny`",
        InterruptKind::SignIn { .. } => "a sign-in takes `reply` once it is done, or `deny`",
        InterruptKind::Handoff { .. } => "a hand-off takes `reply` with its result, or `deny`",
        InterruptKind::InDoubt { .. } => "a call in doubt takes `done`, `retry` or `fail`",
        InterruptKind::Limit(_) => LIMIT_TAKES,
    }
}

fn known(view: &View, index: usize) -> Option<&KnownCall> {
    match view.calls.get(index)? {
        CallView::Known(known) => Some(known),
        CallView::Unknown | CallView::Withheld { .. } => None,
    }
}

/// Checks that a reply is valid for the question.
fn fits_question(question: &Question, reply: &Reply, known: Option<&KnownCall>) -> Result<(), Reject> {
    let invalid = |what: String| Err(Reject::Invalid { what });
    if let Some(selected) = &reply.selected
        && !question.options.contains(selected)
    {
        let options = question.options.join("`, `");
        return invalid(match options.is_empty() {
            true => format!("the question has no options; `{selected}` cannot be chosen"),
            false => format!("`{selected}` is no option; choose `{options}`"),
        });
    }
    if reply.text.is_some() && !question.free_input {
        return invalid("the question takes no answer in free words".into());
    }
    if let Some(Arguments::Invalid { reason }) = known.map(|known| &known.arguments)
        && reply.values.is_some()
    {
        return invalid(format!("the values do not fit: {reason}"));
    }
    Ok(())
}
