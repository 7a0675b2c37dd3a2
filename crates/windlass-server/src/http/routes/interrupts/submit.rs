//! Submits answers to the engine and records each one in the audit log.
//!
//! Every route and dialect that answers an interrupt calls [`submit`]. The answers count by the time they are recorded,
//! so a failure to record one is logged and not returned.

use windlass::machine::{Answer, Asked, Given, Grant, InterruptId, Machine, Reject, Run, Timestamp};
use windlass::{Accepted, EngineError, FoldedThread, GrantDraft};

use crate::account::audit::Note;
use crate::account::audit::answer::{ANSWERED, entry_of, run_of};
use crate::http::Shared;
use crate::http::caller::Caller;

/// Answers interrupts of a thread, with grants and a note for the journal: all of it counts, or nothing. `folded` is the
/// thread as it was when the answers were read.
///
/// Returns what the answers led to and the grants that were written, each with its interrupt.
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
            tracing::error!(%interrupt, %error, "an answer is not in the audit log");
        }
    }
    Ok((accepted, written))
}

/// Refuses the approval of an account that another user may have taken since the run began, where a rule names approvers
/// or a quorum. An administrator could have made or taken the account to approve in its name.
fn require_settled(caller: &Caller, before_ms: u64, machine: &Machine, given: &Given) -> Result<(), Reject> {
    if !approves(&given.answer) {
        return Ok(());
    }
    let (run, asked) = asking(machine, &given.interrupt)?;
    if !asked.terms.names_approvers() || is_settled(caller, run.started_at, before_ms) {
        return Ok(());
    }
    let what = format!(
        "the account `{}` was made, promoted, or given a password or an address after the run began, or shortly before; \
         its approval does not count here",
        caller.user()
    );
    Err(Reject::Forbidden { what })
}

/// An open interrupt of a thread with its run. An approval of one that is not open yet is refused: the ids can be
/// predicted, and its terms are not known.
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

/// Whether an answer lets a call run.
pub fn approves(answer: &Answer) -> bool {
    matches!(answer, Answer::Approve | Answer::Edit { .. })
}

/// Whether the last change of an account by another user was at least `before_ms` before a time.
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
        // What lets no call run is for the engine to judge.
        assert!(judge("run_1.1.0.0", Answer::Deny { reason: None }).is_ok());
    }
}
