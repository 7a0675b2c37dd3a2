//! People replied to what a run waits for.
//!
//! Several replies count together or not at all. Whoever let the sender in says who they are; whether
//! they may reply is checked here.

use std::collections::BTreeSet;

use super::line::{Overlay, Place, digest_of};
use super::{Decision, fits, next, rejudge, tool, verdict};
use crate::event::{Answer, Fact, InterruptKind, LimitAsked, Outcome, Question, Reply, Verdict};
use crate::id::{InterruptId, RunId};
use crate::input::{ADMIN, Arguments, CallView, Given, KnownCall, NewGrant, Party, View};
use crate::message::{Block, Content};
use crate::policy::{Approver, Expiry};
use crate::reject::Reject;
use crate::state::{Asked, Call, Line, POLICY, Phase, Run};

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
            tool::after(d, run, overlay)
        }
        Phase::Ready | Phase::Calling | Phase::Retrying(_) => Err(missing(&answers[0].interrupt)),
    }
}

/// A grant goes with an approval, is its sender's own word, and is for whom the run works for.
fn check_grants(run: &Run, answers: &[Given], by: &Party, grants: &[NewGrant]) -> Result<(), Reject> {
    let invalid = |what: String| Err(Reject::Invalid { what });
    let approves = |given: &Given| matches!(given.answer, Answer::Approve | Answer::Edit { .. });
    if !grants.is_empty() && !answers.iter().any(approves) {
        return invalid("a grant goes with an approval; none is among the answers".into());
    }
    if grants.len() > answers.len() {
        return invalid(format!("{} grants go with {} answers; one each at most", grants.len(), answers.len()));
    }
    for NewGrant { user, grant } in grants {
        let (who, whom) = (&by.principal, &run.by);
        if grant.by != *who {
            return invalid(format!("`{who}` cannot grant in the name of `{}`", grant.by));
        }
        if user != whom {
            return invalid(format!("the run works for `{whom}`; a grant that goes along is not for `{user}`"));
        }
        fits("the grant", serde_json::to_string(grant).map_or(usize::MAX, |text| text.len()))?;
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
            fits("the values", reply.values.as_ref().map_or(0, |values| values.to_string().len()))
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
    let admin = by.roles.iter().any(|role| role == ADMIN);
    if own || admin || asked.terms.names(&by.principal, &by.roles) {
        return Ok(());
    }
    let (who, interrupt) = (&by.principal, &asked.interrupt);
    let others = ["the thread's owner".to_owned(), "an administrator".to_owned()];
    let others = one_of(others.into_iter().chain(named(asked)).collect());
    Err(Reject::Forbidden { what: format!("`{who}` may not answer interrupt `{interrupt}`; {others} may") })
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

/// Whether somebody's approval counts for what is asked.
fn may_approve(asked: &Asked, by: &Party) -> Result<(), Reject> {
    if asked.terms.may_approve(&by.principal, &by.roles) {
        return Ok(());
    }
    let (who, interrupt) = (&by.principal, &asked.interrupt);
    let others = one_of(named(asked).into_iter().collect());
    Err(Reject::Forbidden { what: format!("`{who}` may not approve interrupt `{interrupt}`; {others} may") })
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
            let raised = overlay.raised.entry(limit.limit.clone()).or_default();
            *raised = (*raised).max(*to);
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
        let content = tool::with_repair(call, &[Block::text(result.as_str())]);
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
        let what = format!("the tool has changed, and the call cannot be repeated: {reason}; say how it ended");
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
        CallView::Unknown => None,
    }
}

/// The verdict on a call that is about to be approved: a rule that denies it by now counts.
fn judged(
    d: &Decision<'_>,
    run: &Run,
    overlay: &Overlay<'_>,
    index: usize,
    view: &View,
) -> Result<verdict::Judged, Reject> {
    let Some(known) = known(view, index) else {
        return Err(Reject::Closed { what: "the tool is not available by now; the call's approval".into() });
    };
    let judged = verdict::judge(d, run, overlay.seats[index].tool, known, view);
    if judged.verdict == Verdict::Deny {
        return Err(Reject::Closed { what: "a rule denies the call by now; its approval".into() });
    }
    Ok(judged)
}

fn approve(
    d: &mut Decision<'_>,
    run: &Run,
    overlay: &mut Overlay<'_>,
    (index, asked): (usize, &Asked),
    (by, view): (&Party, &View),
) -> Result<(), Reject> {
    let judged = judged(d, run, overlay, index, view)?;
    if judged.approval != overlay.seats[index].approval {
        let what = format!("the tool has changed since interrupt `{}` was opened; the call", asked.interrupt);
        return Err(Reject::Stale { what });
    }
    may_approve(asked, by)?;
    if asked.votes.iter().any(|(voter, _)| *voter == by.principal) {
        let (interrupt, who) = (&asked.interrupt, &by.principal);
        let what = format!("interrupt `{interrupt}` has `{who}`'s approval already and needs another's; it");
        return Err(Reject::Closed { what });
    }
    let mut votes = asked.votes.clone();
    votes.push((by.principal.clone(), by.roles.clone()));
    // What the rules ask by now counts as well as what they asked when the interrupt was opened.
    let enough = judged.verdict == Verdict::Allow || judged.terms.are_met_by(&votes);
    if !enough || !asked.terms.are_met_by(&votes) {
        vote(d, &asked.interrupt, by);
        return Ok(());
    }
    close(d, asked, &Answer::Approve, by);
    (overlay.seats[index].place, overlay.seats[index].approved) = (Place::Ready, true);
    if matches!(asked.kind, InterruptKind::Hook { .. }) && overlay.seats[index].previews {
        // Whoever answers a hook has not seen what the call would do.
        overlay.look(d, index, false);
    }
    Ok(())
}

fn vote(d: &mut Decision<'_>, interrupt: &InterruptId, by: &Party) {
    let (interrupt, by, roles) = (interrupt.clone(), by.principal.clone(), by.roles.clone());
    d.record(Fact::InterruptVoted { interrupt, by, roles });
}

/// Other arguments are another call: where several or others have to approve it, or it can be shown what it would do, it
/// is asked anew. An editor who may approve it has approved what they wrote.
fn edit(
    d: &mut Decision<'_>,
    run: &Run,
    overlay: &mut Overlay<'_>,
    (index, asked, arguments): (usize, &Asked, &Content),
    (by, view): (&Party, &View),
) -> Result<(), Reject> {
    if overlay.may_have_changed_something(index) {
        let what = "the call was dispatched with its arguments; approve that it is repeated, or deny it";
        return Err(Reject::Invalid { what: what.into() });
    }
    match known(view, index).map(|known| &known.arguments) {
        Some(Arguments::AsAsked { digest }) if *digest == digest_of(arguments) => {}
        Some(Arguments::Invalid { reason }) => {
            return Err(Reject::Invalid { what: format!("the edited arguments do not fit: {reason}") });
        }
        Some(Arguments::AsAsked { .. } | Arguments::Repaired { .. }) => {
            return Err(Reject::Invalid {
                what: "the edited arguments are not valid JSON as they stand".into(),
            });
        }
        None => {}
    }
    let judged = judged(d, run, overlay, index, view)?;
    may_approve(asked, by)?;
    d.record(Fact::CallEdited {
        call: overlay.key(index),
        arguments: arguments.clone(),
        approval: judged.approval,
        by: by.principal.clone(),
    });
    close(d, asked, &Answer::Edit { arguments: arguments.clone() }, by);
    let seat = &mut overlay.seats[index];
    seat.arguments = std::borrow::Cow::Owned(arguments.clone());
    (seat.approval, seat.preview) = (judged.approval, None);
    (seat.place, seat.approved) = (Place::Ready, true);
    let terms = if judged.verdict == Verdict::Ask { judged.terms } else { asked.terms.clone() };
    if terms.are_met_by(&[(by.principal.clone(), by.roles.clone())]) && !seat.previews {
        return Ok(());
    }
    let approves = terms.may_approve(&by.principal, &by.roles);
    seat.terms = terms;
    if seat.previews {
        // Nobody has seen yet what the other arguments would do.
        overlay.look(d, index, false);
        return Ok(());
    }
    let interrupt = overlay.ask_for_approval(d, index, None);
    if approves {
        vote(d, &interrupt, by);
    }
    Ok(())
}

/// Closes a call that a person does not let through.
fn deny(d: &mut Decision<'_>, overlay: &mut Overlay<'_>, index: usize, reason: Option<&str>) {
    let why = reason.map(|reason| format!(" Their reason: {reason}")).unwrap_or_default();
    if overlay.may_have_changed_something(index) {
        // What was denied is the repeat.
        let text = format!("Outcome unknown: repeating the call was denied by the user.{why}");
        return overlay.close(d, index, Outcome::InDoubt, text);
    }
    let text = format!("Tool call was denied by the user. Do not retry it; find another way or ask.{why}");
    overlay.close(d, index, Outcome::Denied, text);
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

/// Time has passed over open interrupts: somebody is reminded, others may reply, or silence is taken for an answer.
pub(super) fn overdue(d: &mut Decision<'_>, run: &Run) -> Result<(), Reject> {
    let due = |at: Option<crate::id::Timestamp>| at.is_some_and(|at| at <= d.now);
    let open: Vec<_> = run
        .open()
        .map(|(index, asked)| {
            let (reminds, escalates) = (due(asked.remind_at()), due(asked.escalate_at()));
            (index, asked, reminds, escalates, due(asked.expires_at()))
        })
        .collect();
    let mut overlay = super::line::overlay(run);
    let mut expired = false;
    for (index, asked, reminds, escalates, expires) in open {
        let interrupt = || asked.interrupt.clone();
        if expires && let (Some(index), Some(overlay)) = (index, &mut overlay) {
            expire(d, overlay, index, asked);
            expired = true;
            continue;
        }
        if reminds {
            d.record(Fact::InterruptReminded { interrupt: interrupt() });
        }
        if escalates {
            d.record(Fact::InterruptEscalated {
                interrupt: interrupt(),
                to: asked.terms.escalate_to.clone(),
            });
        }
    }
    match overlay {
        Some(overlay) if expired => tool::after(d, run, overlay),
        Some(_) | None => Ok(()),
    }
}

fn expire(d: &mut Decision<'_>, overlay: &mut Overlay<'_>, index: usize, asked: &Asked) {
    let policy = Party { principal: POLICY.into(), workspace: d.state.workspace.clone(), roles: Vec::new() };
    let approval = matches!(asked.kind, InterruptKind::Approval { .. } | InterruptKind::Hook { .. });
    if approval && asked.terms.on_expiry == Expiry::Approve {
        close(d, asked, &Answer::Approve, &policy);
        (overlay.seats[index].place, overlay.seats[index].approved) = (Place::Ready, true);
        return;
    }
    let reason = "nobody answered in time".to_owned();
    close(d, asked, &Answer::Deny { reason: Some(reason.clone()) }, &policy);
    match &asked.kind {
        // Time brings no policy along, so a call that was dispatched is not dispatched again by it.
        InterruptKind::Question(_) | InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. }
            if overlay.may_have_changed_something(index) =>
        {
            overlay.close(d, index, Outcome::InDoubt, format!("Outcome unknown: {reason}"));
        }
        InterruptKind::Question(_) | InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. } => {
            overlay.seats[index].place = Place::Ready;
        }
        InterruptKind::Approval { .. } | InterruptKind::Hook { .. }
            if overlay.may_have_changed_something(index) =>
        {
            let text = format!("Outcome unknown: repeating the call was not approved: {reason}");
            overlay.close(d, index, Outcome::InDoubt, text);
        }
        InterruptKind::Approval { .. } | InterruptKind::Hook { .. } => {
            let text =
                format!("Tool call was not approved: {reason}. Do not retry it; find another way or ask.");
            overlay.close(d, index, Outcome::Denied, text);
        }
        InterruptKind::InDoubt { .. } => {
            overlay.close(d, index, Outcome::InDoubt, format!("Outcome unknown: {reason}"));
        }
        InterruptKind::Limit(_) => overlay.give_up(index),
    }
}
