//! What silence means: nobody has replied in time.
//!
//! Time brings no policy along, so it lets nothing go on that was dispatched before.

use super::close;
use crate::event::{Answer, Fact, InterruptKind, Outcome};
use crate::id::InterruptId;
use crate::input::Party;
use crate::on::decision::Decision;
use crate::on::line::{Overlay, Place};
use crate::on::progress::after;
use crate::on::tool::MAX_ASKS;
use crate::policy::Expiry;
use crate::reject::Reject;
use crate::state::{Asked, POLICY};

/// Time has passed over open interrupts: somebody is reminded, others may reply, or silence is taken for an answer.
///
/// `confirmed` are those whose whole term has passed by a clock that never jumps.
pub(in crate::on) fn overdue(
    d: &mut Decision<'_>,
    mut overlay: Overlay<'_>,
    confirmed: &[InterruptId],
) -> Result<(), Reject> {
    let run = overlay.run;
    let due = |at: Option<crate::id::Timestamp>| at.is_some_and(|at| at <= d.now);
    let open: Vec<_> = run
        .open()
        .map(|(index, asked)| {
            let (reminds, escalates) = (due(asked.remind_at()), due(asked.escalate_at()));
            (index, asked, reminds, escalates, due(asked.expires_at()))
        })
        .collect();
    let mut expired = false;
    for (index, asked, reminds, escalates, expires) in open {
        let interrupt = || asked.interrupt.clone();
        if expires && let Some(index) = index {
            expire(d, &mut overlay, (index, asked), confirmed.contains(&asked.interrupt));
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
    if expired { after(d, run, overlay) } else { Ok(()) }
}

fn expire(
    d: &mut Decision<'_>,
    overlay: &mut Overlay<'_>,
    (index, asked): (usize, &Asked),
    is_confirmed: bool,
) {
    let policy = Party { principal: POLICY.into(), workspace: d.state.workspace.clone(), roles: Vec::new() };
    let approval = matches!(asked.kind, InterruptKind::Approval { .. } | InterruptKind::Hook { .. });
    let approves = approval && asked.terms.on_expiry == Expiry::Approve;
    if approves && !is_confirmed && overlay.seats[index].asks < MAX_ASKS {
        // A clock that jumped ahead must not approve anything: restart the term.
        close(d, asked, &Answer::Withdrawn, &policy);
        overlay.open(d, index, asked.kind.clone(), asked.terms.clone());
        return;
    }
    if approves && is_confirmed {
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
