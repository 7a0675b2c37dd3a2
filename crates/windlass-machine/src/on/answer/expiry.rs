//! Handles interrupts that were not answered in time.
//!
//! A tick has no policy view, so it never repeats a call that was dispatched before.

use super::close_interrupt;
use crate::event::{Answer, Fact, InterruptKind, Outcome};
use crate::id::{InterruptId, Timestamp};
use crate::input::Party;
use crate::on::line::{self, close};
use crate::on::progress::after;
use crate::on::record::Recorder;
use crate::on::tool::MAX_ASKS;
use crate::policy::Expiry;
use crate::state::{Asked, POLICY};

/// Handles the deadlines of open interrupts: reminders, escalations and expiry.
///
/// `confirmed` are the interrupts whose whole term has passed by a monotonic clock.
pub(in crate::on) fn overdue(r: &mut Recorder<'_>, confirmed: &[InterruptId]) {
    let now = r.now();
    let is_due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
    let open = r.run().open().filter(|(_, asked)| is_due(asked.deadline()));
    let open: Vec<_> = open.map(|(index, asked)| (index, asked.clone())).collect();
    let mut expired = false;
    for (index, asked) in open {
        if is_due(asked.expires_at())
            && let Some(index) = index
        {
            expire(r, index, &asked, confirmed.contains(&asked.interrupt));
            expired = true;
            continue;
        }
        if is_due(asked.remind_at()) {
            r.record(Fact::InterruptReminded { interrupt: asked.interrupt.clone() });
        }
        if is_due(asked.escalate_at()) {
            r.record(Fact::InterruptEscalated { interrupt: asked.interrupt, to: asked.terms.escalate_to });
        }
    }
    if expired {
        after(r);
    }
}

fn expire(r: &mut Recorder<'_>, index: usize, asked: &Asked, is_confirmed: bool) {
    let workspace = r.state().workspace.clone();
    let policy = Party { principal: POLICY.into(), workspace, roles: Vec::new() };
    let approval = matches!(asked.kind, InterruptKind::Approval { .. } | InterruptKind::Hook { .. });
    let approves = approval && asked.terms.on_expiry == Expiry::Approve;
    if approves && !is_confirmed && r.call(index).asks < MAX_ASKS {
        // A wall clock that jumped ahead must not approve a call: restart the term.
        close_interrupt(r, &asked.interrupt, &Answer::Withdrawn, &policy);
        line::open(r, index, asked.kind.clone(), asked.terms.clone());
        return;
    }
    if approves && is_confirmed {
        return close_interrupt(r, &asked.interrupt, &Answer::Approve, &policy);
    }
    let reason = "nobody answered in time".to_owned();
    close_interrupt(r, &asked.interrupt, &Answer::Deny { reason: Some(reason.clone()) }, &policy);
    let was_dispatched = r.call(index).may_have_changed_something();
    match &asked.kind {
        // A tick has no policy view, so it does not repeat a call that was dispatched before.
        InterruptKind::Question(_) | InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. }
            if was_dispatched =>
        {
            close(r, index, Outcome::InDoubt, format!("Outcome unknown: {reason}"));
        }
        // The tool receives the denial as its reply.
        InterruptKind::Question(_) | InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. } => {}
        InterruptKind::Approval { .. } | InterruptKind::Hook { .. } if was_dispatched => {
            let text = format!("Outcome unknown: repeating the call was not approved: {reason}");
            close(r, index, Outcome::InDoubt, text);
        }
        InterruptKind::Approval { .. } | InterruptKind::Hook { .. } => {
            let text =
                format!("Tool call was not approved: {reason}. Do not retry it; find another way or ask.");
            close(r, index, Outcome::Denied, text);
        }
        InterruptKind::InDoubt { .. } => {
            close(r, index, Outcome::InDoubt, format!("Outcome unknown: {reason}"));
        }
        InterruptKind::Limit(_) => r.is_over = true,
    }
}
