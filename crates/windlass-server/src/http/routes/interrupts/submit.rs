//! Submits answers to the engine and records each one in the audit log.
//!
//! Every route and dialect that answers an interrupt calls [`submit`]. Answers have taken effect before the audit entry
//! is written, so a failure of the audit log is logged and not returned.

use windlass::machine::{Answer, Asked, Given, Grant, InterruptId, Machine, Reject, Run, Timestamp};
use windlass::{Accepted, EngineError, FoldedThread, GrantDraft};

use crate::account::audit::Note;
use crate::account::audit::answer::{ANSWERED, entry_of, run_of};
use crate::http::Shared;
use crate::http::caller::Caller;

/// Answers interrupts of a thread, with grants and a note for the journal. Either all answers take effect, or none of
/// them. `folded` is the thread at the time when the answers were validated.
///
/// Returns the accepted answers and the created grants, each with its interrupt.
pub async fn submit(
    app: &Shared,
    caller: &Caller,
    folded: &FoldedThread,
    given: Vec<Given>,
    grants: Vec<(InterruptId, GrantDraft)>,
    beside: Option<windlass::machine::Note>,
) -> Result<(Accepted, Vec<(InterruptId, Grant)>), EngineError> {
    let (thread, before_ms) = (folded.thread(), app.config.settings.vote_after_ms);
    given.iter().try_for_each(|given| require_settled(caller, before_ms, folded, given))?;
    let by = Note::by(&caller.0, ANSWERED);
    let notes: Vec<_> = given.iter().map(|given| entry_of(by.clone(), thread, folded, given)).collect();
    let (granted, drafts): (Vec<_>, Vec<_>) = grants.into_iter().unzip();
    let (accepted, written) =
        app.engine.answer_and_grant(folded, given, drafts, beside, caller.party()).await?;
    tracing::info!(%thread, by = %caller.user(), answers = notes.len(), "answered");
    let written: Vec<_> = granted.into_iter().zip(written).collect();
    for (interrupt, mut note) in notes {
        if let Some((_, grant)) = written.iter().find(|(of, _)| *of == interrupt) {
            note = note.with("grant", grant.id.as_str());
        }
        if let Err(error) = app.accounts.record(note).await {
            tracing::error!(%interrupt, %error, "an answer is missing from the audit log");
        }
    }
    Ok((accepted, written))
}

/// Rejects an approval if a rule names approvers or a quorum, and another user may have taken over the caller's account
/// since the run started. Otherwise, an administrator could create or take over an account to approve in its name.
fn require_settled(caller: &Caller, before_ms: u64, machine: &Machine, given: &Given) -> Result<(), Reject> {
    if !approves(&given.answer) {
        return Ok(());
    }
    let (run, asked) = asking(machine, &given.interrupt)?;
    if !asked.terms.names_approvers() || is_settled(caller, run.started_at, before_ms) {
        return Ok(());
    }
    let what = format!(
        "the approval of `{}` does not count: the account was created, promoted, or given a password or an \
         address after the run started, or shortly before",
        caller.user()
    );
    Err(Reject::Forbidden { what })
}

/// Finds an open interrupt and its run. Rejects interrupts that are not open yet: clients can predict their ids, but
/// their terms are not known.
fn asking<'m>(machine: &'m Machine, interrupt: &InterruptId) -> Result<(&'m Run, &'m Asked), Reject> {
    let state = machine.state();
    if let Some(run) = &state.run
        && let Some((_, asked)) = run.asking(interrupt)
    {
        return Ok((run, asked));
    }
    let runs = state.run.iter().map(|run| &run.id).chain(state.last.iter().map(|last| &last.run));
    let of = run_of(interrupt);
    if runs.into_iter().any(|run| *run == of) {
        return Err(Reject::Closed { what: format!("interrupt `{interrupt}`") });
    }
    Err(Reject::NotFound { what: format!("an open interrupt `{interrupt}`") })
}

/// Returns whether an answer approves a call.
pub fn approves(answer: &Answer) -> bool {
    matches!(answer, Answer::Approve | Answer::Edit { .. })
}

/// Returns whether the last change of the account by another user was at least `before_ms` before `at`.
pub fn is_settled(caller: &Caller, at: Timestamp, before_ms: u64) -> bool {
    caller.0.settled_at.plus_ms(before_ms) <= at
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass::machine::{Content, Event};

    use super::*;
    use crate::account::{Credential, Identity, Role};

    #[test]
    fn an_approval_of_an_interrupt_that_is_not_open_yet_is_refused() {
        let agent = json!({"name": "default", "models": ["test/a"]});
        let events = [
            json!({"at": 1, "type": "thread.created", "thread": "thr_1", "workspace": "default", "owner": "ann"}),
            json!({"at": 1, "type": "run.started", "run": "run_1", "agent": agent, "by": "ann"}),
        ];
        let events = events.map(|event| Event::decode(&event.to_string()).unwrap());
        let machine = Machine::restore("thr_1".into(), None, events).unwrap();
        let caller = Caller(Identity {
            user: "eve".into(),
            workspace: "default".into(),
            role: Role::Member,
            credential: Credential::Session("s".into()),
            settled_at: Timestamp(2),
            from: None,
        });
        let judge = |interrupt: &str, answer: Answer| {
            require_settled(
                &caller,
                0,
                &machine,
                &Given { interrupt: interrupt.into(), answer, approval: None },
            )
        };
        let edit = Answer::Edit { arguments: Content::Inline("{}".into()) };
        for answer in [Answer::Approve, edit] {
            assert!(matches!(judge("run_1.1.0.0", answer.clone()), Err(Reject::Closed { .. })));
            assert!(matches!(judge("run_2.1.0.0", answer), Err(Reject::NotFound { .. })));
        }
        // The check does not apply to answers that do not approve a call; the engine validates them.
        assert!(judge("run_1.1.0.0", Answer::Deny { reason: None }).is_ok());
    }
}
