//! Approves calls that a caller has edited and whose tool then requests approval again, with a preview of the edited
//! call. (ZE-H6)
//!
//! In this dialect, `modified` approves the call with its new parameters. The server therefore answers the interrupt in
//! the caller's name, through the same gate. It does so only if the digest of tool and arguments equals the edited
//! call's. The client must answer any other interrupt, and any interrupt of a server that stops before it has answered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use windlass::machine::{
    Answer, CallKey, Digest, Event, Fact, Given, InterruptId, InterruptKind, Principal, Seq, ThreadId,
};
use windlass::{EngineError, Update};
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::routes::interrupts::submit;

/// Maximum wait for previews of the edited calls. The response stream begins after this wait.
const WITHIN: Duration = Duration::from_secs(20);

/// Edited calls that have neither started nor opened another interrupt.
struct Edited<'a> {
    by: &'a Principal,
    open: BTreeSet<CallKey>,
    /// The digest of each edited call.
    approvals: BTreeMap<CallKey, Digest>,
}

impl Edited<'_> {
    /// Applies an event. Returns the interrupt if the event opens one for a call exactly as the caller edited it.
    fn hear(&mut self, event: &Event) -> Option<(InterruptId, Digest)> {
        match &event.fact {
            Fact::CallEdited { call, approval, by, .. } if by == self.by && self.open.contains(call) => {
                self.approvals.insert(*call, *approval);
            }
            Fact::InterruptOpened { interrupt, kind, call: Some(call), .. } if self.open.remove(call) => {
                let InterruptKind::Approval { approval, .. } = kind else { return None };
                let is_edited = self.approvals.get(call) == Some(approval);
                return is_edited.then(|| (interrupt.clone(), *approval));
            }
            Fact::ToolStarted { call, .. } | Fact::ToolFinished { call, .. } => {
                self.open.remove(call);
            }
            Fact::RunFinished { .. } => self.open.clear(),
            _ => {} // tidy: the other kinds neither start a call nor ask about one
        }
        None
    }
}

/// Answers the interrupts of the calls edited at a position. Returns the answered interrupts.
pub async fn confirm(
    app: &Shared,
    caller: &Caller,
    thread: &ThreadId,
    from: Seq,
    calls: BTreeSet<CallKey>,
) -> Vec<InterruptId> {
    let mut confirmed = Vec::new();
    let mut edited = Edited { by: caller.user(), open: calls, approvals: BTreeMap::new() };
    let follow = async {
        let mut updates = app.engine.thread(thread).watch(Seq(from.0.saturating_sub(1)));
        while !edited.open.is_empty() {
            let Some(Ok(update)) = updates.next().await else { return };
            let Update::Event(recorded) = update else { continue };
            let Some((interrupt, approval)) = edited.hear(&recorded.event) else { continue };
            match approve(app, caller, thread, interrupt.clone(), approval).await {
                Ok(Settled::Closed) => confirmed.push(interrupt),
                // Other people still have to approve the call.
                Ok(Settled::Open) => {}
                // The call has changed, or this vote was recorded already. The client decides.
                Err(error) => tracing::debug!(%error, %interrupt, "an edited call requires approval again"),
            }
        }
    };
    if tokio::time::timeout(WITHIN, follow).await.is_err() {
        tracing::debug!(%thread, "edited calls require approval again: their tools have no preview yet");
    }
    confirmed
}

/// Whether an interrupt is still open after an approval.
enum Settled {
    Closed,
    Open,
}

async fn approve(
    app: &Shared,
    caller: &Caller,
    thread: &ThreadId,
    interrupt: InterruptId,
    approval: Digest,
) -> Result<Settled, EngineError> {
    let folded = app.engine.thread(thread).folded().await?;
    let given = Given { interrupt: interrupt.clone(), answer: Answer::Approve, approval: Some(approval) };
    let (accepted, _) = submit(app, caller, &folded, vec![given], Vec::new(), None).await?;
    Ok(if accepted.closed.contains(&interrupt) { Settled::Closed } else { Settled::Open })
}

#[cfg(test)]
mod tests {
    use windlass::machine::Terms;

    use super::*;

    fn event(fact: Fact) -> Event {
        let mut event = Event::decode(r#"{"at": 1, "run": "run_1", "type": "run.started", "agent": {"name": "a", "models": ["test/a"]}, "by": "ann"}"#).unwrap();
        event.fact = fact;
        event
    }

    fn edit(index: u32, approval: &[u8], by: &str) -> Event {
        let call = CallKey { step: 1, index };
        let approval = Digest::of(approval);
        event(Fact::CallEdited { call, arguments: "{}".into(), approval, by: by.into() })
    }

    fn asks(index: u32, approval: &[u8]) -> Event {
        let approval = Digest::of(approval);
        event(Fact::InterruptOpened {
            interrupt: format!("run_1.1.{index}.1").as_str().into(),
            kind: InterruptKind::Approval { tool: "Write".into(), approval, preview: None },
            call: Some(CallKey { step: 1, index }),
            terms: Terms::default(),
        })
    }

    // rows: ZE-H6
    #[test]
    fn only_the_call_that_the_caller_edited_is_confirmed() {
        let ann = Principal::from("ann");
        let open = (0..4).map(|index| CallKey { step: 1, index }).collect();
        let mut edited = Edited { by: &ann, open, approvals: BTreeMap::new() };
        for event in [edit(0, b"a", "ann"), edit(1, b"b", "ann"), edit(2, b"c", "bob")] {
            assert_eq!(edited.hear(&event), None);
        }
        assert_eq!(edited.hear(&asks(0, b"a")), Some(("run_1.1.0.1".into(), Digest::of(b"a"))));
        // Another call, one that another user edited, one without an edit, and a repeated confirmation.
        for event in [asks(1, b"other"), asks(2, b"c"), asks(3, b"d"), asks(0, b"a")] {
            assert_eq!(edited.hear(&event), None);
        }
        assert!(edited.open.is_empty());
    }
}
