//! Withdraws, edits and promotes queued messages.
//!
//! `message` decides whether a message is queued; `next` decides when the message enters the history.

use std::sync::Arc;

use crate::event::{CancelReason, Fact};
use crate::id::{InputId, Principal};
use crate::message::Message;
use crate::on::cancel;
use crate::on::message;
use crate::on::next::start_queued;
use crate::on::record::{Planned, Situation, nothing};
use crate::reject::Reject;
use crate::state::{State, Waiting};

pub(in crate::on) fn withdrawn<'i>(s: Situation<'_>, id: &'i InputId, by: &'i Principal) -> Planned<'i> {
    waiting(s.state, id, by)?;
    Ok(Box::new(move |r| r.record(Fact::MessageWithdrawn { id: id.clone(), by: by.clone() })))
}

/// Only the sender may edit a message: its run works for the sender, with the sender's permissions.
pub(in crate::on) fn edited<'i>(
    s: Situation<'_>,
    id: &'i InputId,
    new: &'i Arc<Message>,
    by: &'i Principal,
) -> Planned<'i> {
    let waiting = waiting(s.state, id, by)?;
    if waiting.queued.by != *by {
        let what = format!("message `{id}` is not `{by}`'s; only its sender changes it, you may withdraw it");
        return Err(Reject::Forbidden { what });
    }
    message::check_said(new)?;
    if waiting.queued.message == *new {
        return Ok(nothing());
    }
    Ok(Box::new(move |r| {
        r.record(Fact::MessageEdited { id: id.clone(), message: new.clone(), by: by.clone() });
    }))
}

/// Moves a message to the front of the queue, also before messages that were promoted earlier.
pub(in crate::on) fn sent_now<'i>(s: Situation<'_>, id: &'i InputId, by: &'i Principal) -> Planned<'i> {
    waiting(s.state, id, by)?;
    let is_active = s.state.run.is_some();
    Ok(Box::new(move |r| {
        r.record(Fact::MessagePromoted { id: id.clone(), by: by.clone() });
        match is_active {
            true => cancel::begin(r, by, CancelReason::Replaced),
            false => start_queued(r, id),
        }
    }))
}

/// Returns a queued message that `by` may change. Fails if the message is no longer queued.
fn waiting<'a>(state: &'a State, id: &InputId, by: &Principal) -> Result<&'a Waiting, Reject> {
    let waiting = state.queue.iter().find(|waiting| waiting.id == *id);
    let waiting = waiting.ok_or_else(|| Reject::NotFound { what: format!("a waiting message `{id}`") })?;
    if waiting.queued.by == *by || state.owner.as_ref() == Some(by) {
        return Ok(waiting);
    }
    let what = format!("message `{id}` is not `{by}`'s; ask its sender or the thread's owner");
    Err(Reject::Forbidden { what })
}
