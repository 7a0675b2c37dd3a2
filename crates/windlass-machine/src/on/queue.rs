//! What becomes of a message that waits: it is taken back, changed, or sent before its turn.
//!
//! That it waits at all is decided where it arrives, and when its turn has come where a run goes on or ends.

use std::sync::Arc;

use super::decision::Decision;
use super::next::start_queued;
use super::{cancel, message};
use crate::event::{CancelReason, Fact};
use crate::id::{InputId, Principal};
use crate::message::Message;
use crate::reject::Reject;
use crate::state::{State, Waiting};

pub(super) fn withdrawn(d: &mut Decision<'_>, id: &InputId, by: &Principal) -> Result<(), Reject> {
    waiting(d.state, id, by)?;
    d.record(Fact::MessageWithdrawn { id: id.clone(), by: by.clone() });
    Ok(())
}

/// Only its sender has a say in what it says: its run works for them, with what they may do.
pub(super) fn edited(
    d: &mut Decision<'_>,
    id: &InputId,
    new: &Arc<Message>,
    by: &Principal,
) -> Result<(), Reject> {
    let waiting = waiting(d.state, id, by)?;
    if waiting.queued.by != *by {
        let what = format!("message `{id}` is not `{by}`'s; only its sender changes it, you may withdraw it");
        return Err(Reject::Forbidden { what });
    }
    message::check_said(new)?;
    if waiting.queued.message != *new {
        d.record(Fact::MessageEdited { id: id.clone(), message: new.clone(), by: by.clone() });
    }
    Ok(())
}

/// Goes before all others, those that were promoted earlier included: the newest wish counts.
pub(super) fn sent_now(d: &mut Decision<'_>, id: &InputId, by: &Principal) -> Result<(), Reject> {
    let waiting = waiting(d.state, id, by)?;
    d.record(Fact::MessagePromoted { id: id.clone(), by: by.clone() });
    match d.state.run {
        Some(_) => cancel::begin(d, by, CancelReason::Replaced, None),
        None => {
            start_queued(d, id, &waiting.queued);
            Ok(())
        }
    }
}

/// A message that waits, where `by` has a say in it. One that was taken by now waits no more, and what became of it
/// stands in the journal.
fn waiting<'a>(state: &'a State, id: &InputId, by: &Principal) -> Result<&'a Waiting, Reject> {
    let waiting = state.queue.iter().find(|waiting| waiting.id == *id);
    let waiting = waiting.ok_or_else(|| Reject::NotFound { what: format!("a waiting message `{id}`") })?;
    if waiting.queued.by == *by || state.owner.as_ref() == Some(by) {
        return Ok(waiting);
    }
    let what = format!("message `{id}` is not `{by}`'s; ask its sender or the thread's owner");
    Err(Reject::Forbidden { what })
}
