//! People replied to what a run waits for.
//!
//! Several replies count together or not at all. Whoever let the sender in says who they are; whether
//! they may reply is checked here.

mod approval;
mod expiry;

use std::collections::BTreeSet;

use self::approval::{approve, deny, edit, judged, may_approve};
pub(super) use self::expiry::overdue;
use super::decision::{Decision, can_be_read, fits, is_not_null};
use super::line::{Overlay, Place, with_repair};
use super::progress::after;
use super::{next, rejudge};
use crate::event::{Answer, Fact, InterruptKind, LimitAsked, Outcome, Question, Reply, Verdict};
use crate::id::{InterruptId, RunId, ToolName};
use crate::input::{ADMIN, Arguments, CallView, Given, KnownCall, NewGrant, Party, View};
use crate::message::{Block, Content};
use crate::policy::{Approver, check_json};
use crate::reject::Reject;
use crate::state::{Asked, Call, Line, Phase, Run};

/// Replies taken together at most: more than a step can ask.
const MAX_TOGETHER: usize = 256;

pub(super) fn answered(
    d: &mut Decision<'_>,
    answers: &[Given],
    by: &Party,
    (grants, view): (&[NewGrant], &View),
) -> Result<(), Reject> {
    if answers.is_empty() || answers.len() > MAX_TOGETHER {
        let what = format!("{} answers; send 1 to {MAX_TOGETHER} together", answers.len());
        return Err(Reject::Invalid { what });
    }
    for (index, given) in answers.iter().enumerate() {
        check(&given.answer)?;
        find(d, by, &given.interrupt)?;
        if answers[..index].iter().any(|before| before.interrupt == given.interrupt) {
            return Err(twice(&given.interrupt));
        }
    }
    let run = d.active()?;
    if run.cancel.is_some() {
        return Err(Reject::Closed { what: "the run is being stopped; its interrupt".into() });
    }
    check_grants(run, answers, by, grants)?;
    match &run.phase {
        Phase::Parked(asked) => match answers {
            [given] => parked(d, run, asked, given, by),
            // Nothing else is open beside it.
            [] | [_, ..] => Err(Reject::Invalid { what: "the run as a whole waits for one answer".into() }),
        },
        Phase::Calls(line) => {
            let mut overlay = Overlay::of(run, line);
            for given in answers {
                to_call(d, line, &mut overlay, given, (by, view))?;
            }
            after(d, run, overlay)
        }
        Phase::Ready | Phase::Calling | Phase::Retrying(_) => Err(missing(&answers[0].interrupt)),
    }
}

/// A grant goes with an approval, is its sender's own word, and is for whom the run works for: only they and
/// administrators have a say in what runs without asking from now on.
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
        // A grant holds only strings, numbers and JSON values: nothing that the serialiser refuses.
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

/// What a person says is recorded in one piece; it is for them to shorten it.
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

/// Finds an open interrupt that somebody may reply to. Who does not belong here is not told that it exists.
fn find<'a>(
    d: &Decision<'a>,
    by: &Party,
    interrupt: &InterruptId,
) -> Result<(Option<usize>, &'a Asked), Reject> {
    if by.workspace != d.state.workspace {
        return Err(missing(interrupt));
    }
    let found = d.state.run.as_ref().and_then(|run| Some((run, run.asking(interrupt)?)));
    let Some((run, (index, asked))) = found else {
        return Err(closed(d, interrupt).unwrap_or_else(|| missing(interrupt)));
    };
    may_answer(d, run, asked, by)?;
    Ok((index, asked))
}

/// An interrupt of the active run or the last one that is not open is closed.
fn closed(d: &Decision<'_>, interrupt: &InterruptId) -> Option<Reject> {
    let active = d.state.run.as_ref().map(|run| &run.id);
    let last = d.state.last.as_ref().map(|last| &last.run);
    let of = |run: &RunId| interrupt.as_str().strip_prefix(run.as_str()).is_some_and(|n| n.starts_with('.'));
    let known = active.into_iter().chain(last).any(of);
    known.then(|| Reject::Closed { what: format!("interrupt `{interrupt}`") })
}

/// The thread's owner, whoever the run works for, administrators, and those whom the rule names may reply at all.
/// Whose approval counts, the terms say.
fn may_answer(d: &Decision<'_>, run: &Run, asked: &Asked, by: &Party) -> Result<(), Reject> {
    let own = d.state.owner.as_ref() == Some(&by.principal) || run.by == by.principal;
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

/// Those whom the terms name, each once.
fn named(asked: &Asked) -> BTreeSet<String> {
    asked.terms.quorums.iter().flat_map(|quorum| &quorum.of).map(Approver::to_string).collect()
}

/// `a, b or c`.
fn one_of(mut names: Vec<String>) -> String {
    match (names.pop(), names.is_empty()) {
        (Some(last), false) => format!("{} or {last}", names.join(", ")),
        (last, _) => last.unwrap_or_default(),
    }
}

fn close(d: &mut Decision<'_>, asked: &Asked, answer: &Answer, by: &Party) {
    let (by, roles) = (by.principal.clone(), by.roles.clone());
    d.record(Fact::InterruptClosed { interrupt: asked.interrupt.clone(), answer: answer.clone(), by, roles });
}

/// A reply to what the run as a whole waits for.
fn parked(d: &mut Decision<'_>, run: &Run, asked: &Asked, given: &Given, by: &Party) -> Result<(), Reject> {
    let InterruptKind::Limit(limit) = &asked.kind else { return Err(missing(&given.interrupt)) };
    let next = limit.next.unwrap_or(crate::event::Next::Retry);
    match &given.answer {
        Answer::Raise { to } => {
            raises(limit, *to)?;
            may_approve(asked, by)?;
        }
        Answer::Retry if next::is_own(limit) => {
            let what = format!("`{}` is the run's own limit: raise it, or stop the run", limit.limit);
            return Err(Reject::Invalid { what });
        }
        Answer::Retry => {}
        Answer::Stop | Answer::Deny { .. } => {
            close(d, asked, &given.answer, by);
            next::limit_ends(d, run, limit, &run.totals);
            return Ok(());
        }
        Answer::Approve
        | Answer::Edit { .. }
        | Answer::Reply(_)
        | Answer::Done { .. }
        | Answer::Fail { .. }
        | Answer::Withdrawn => return Err(Reject::Invalid { what: LIMIT_TAKES.into() }),
    }
    close(d, asked, &given.answer, by);
    next::resume(d, run, next);
    Ok(())
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

/// A reply to what a call waits for.
fn to_call(
    d: &mut Decision<'_>,
    line: &Line,
    overlay: &mut Overlay<'_>,
    given: &Given,
    (by, view): (&Party, &View),
) -> Result<(), Reject> {
    let (Some(index), asked) = find(d, by, &given.interrupt)? else { return Err(missing(&given.interrupt)) };
    let (run, call) = (overlay.run, &line.calls[index]);
    if let (Some(seen), InterruptKind::Approval { approval, .. }) = (&given.approval, &asked.kind)
        && seen != approval
    {
        let what =
            format!("what interrupt `{}` is about is another call than the one approved", asked.interrupt);
        return Err(Reject::Stale { what });
    }
    let answer = &given.answer;
    match (&asked.kind, answer) {
        (InterruptKind::Approval { .. } | InterruptKind::Hook { .. }, Answer::Approve) => {
            approve(d, run, overlay, (index, asked), (by, view))
        }
        (InterruptKind::Approval { .. } | InterruptKind::Hook { .. }, Answer::Edit { arguments }) => {
            edit(d, run, overlay, (index, asked, arguments), (by, view))
        }
        (InterruptKind::Approval { .. } | InterruptKind::Hook { .. }, Answer::Deny { reason }) => {
            close(d, asked, answer, by);
            deny(d, overlay, index, reason.as_deref());
            Ok(())
        }
        (InterruptKind::Hook { .. }, Answer::Reply(reply)) => {
            let Some(text) = &reply.text else {
                return Err(Reject::Invalid { what: "a reply in place of the call needs a text".into() });
            };
            close(d, asked, answer, by);
            overlay.close(d, index, Outcome::Told, text.clone());
            Ok(())
        }
        (
            InterruptKind::Question(_) | InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. },
            Answer::Reply(_) | Answer::Deny { .. },
        ) => {
            if d.lacks(&call.tool) && matches!(answer, Answer::Reply(_)) {
                return Err(not_here(&call.tool));
            }
            if let (InterruptKind::Question(question), Answer::Reply(reply)) = (&asked.kind, answer) {
                fits_question(question, reply, known(view, index))?;
            }
            close(d, asked, answer, by);
            rejudge::replied(d, overlay, (index, call), view);
            Ok(())
        }
        (InterruptKind::InDoubt { .. }, Answer::Retry | Answer::Done { .. } | Answer::Fail { .. }) => {
            resolve(d, (call, index, asked), overlay, (answer, by), view)
        }
        (InterruptKind::Limit(limit), Answer::Raise { to }) => {
            raises(limit, *to)?;
            close(d, asked, answer, by);
            overlay.raise(index, &limit.limit, *to);
            overlay.admit(d, index, view);
            Ok(())
        }
        (InterruptKind::Limit(_), Answer::Stop | Answer::Deny { .. }) => {
            close(d, asked, answer, by);
            overlay.give_up(index);
            Ok(())
        }
        (kind, _) => Err(Reject::Invalid { what: takes(kind).into() }),
    }
}

/// A person says what became of a dispatched call.
fn resolve(
    d: &mut Decision<'_>,
    (call, index, asked): (&Call, usize, &Asked),
    overlay: &mut Overlay<'_>,
    (answer, who): (&Answer, &Party),
    view: &View,
) -> Result<(), Reject> {
    if *answer == Answer::Retry {
        return retry(d, (call, index, asked), overlay, who, view);
    }
    close(d, asked, answer, who);
    if let Answer::Done { result } = answer {
        let content = with_repair(call, &[Block::text(result.as_str())]);
        overlay.finish(d, index, Outcome::Told, content);
    } else if let Answer::Fail { reason } = answer {
        let why = reason.as_deref().unwrap_or("a person checked and said that it failed");
        overlay.close(d, index, Outcome::InDoubt, format!("The call failed: {why}"));
    }
    Ok(())
}

/// A person says that a call was not done. What let it through then lets it through again; where the rules ask for
/// more by now, and the person is not enough, it is asked about anew.
fn retry(
    d: &mut Decision<'_>,
    (call, index, asked): (&Call, usize, &Asked),
    overlay: &mut Overlay<'_>,
    who: &Party,
    view: &View,
) -> Result<(), Reject> {
    let judged = judged(d, overlay.run, overlay, index, view)?;
    if let Some(reason) = known(view, index).and_then(rejudge::unfit) {
        let what =
            format!("the tool has changed, and the call cannot be repeated: {reason}; say how it ended");
        return Err(Reject::Invalid { what });
    }
    close(d, asked, &Answer::Retry, who);
    let mut approvals = if call.approved { call.approvals.clone() } else { Vec::new() };
    approvals.push((who.principal.clone(), who.roles.clone()));
    let enough = judged.approval == call.approval && judged.terms.are_met_by(&approvals);
    let stands = || known(view, index).is_some_and(|it| rejudge::still_stands(d, call, &judged, (it, view)));
    if judged.verdict == Verdict::Allow || enough || stands() {
        (overlay.seats[index].place, overlay.seats[index].approved) = (Place::Ready, true);
        return Ok(());
    }
    if let Some(known) = known(view, index) {
        overlay.judged(d, index, &judged, known, (None, view.version));
        overlay.ask(d, index, judged);
    }
    Ok(())
}

/// Nobody answers for a tool that cannot check what it would get.
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

/// Whether a reply is one that the question takes.
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
