//! Forks a thread: a copy of its history becomes the beginning of another thread.
//!
//! The fork does not execute or charge the copied calls again. Queued messages remain in the original thread.

use crate::event::{Event, Fact, RunAgent};
use crate::id::{Principal, Seq, Timestamp};
use crate::input::Fork;
use crate::reject::Reject;
use crate::state::{ENGINE, State};

pub(crate) fn decide(origin: &[Event], fork: &Fork, now: Timestamp) -> Result<Vec<Event>, Reject> {
    let missing = || Reject::NotFound { what: format!("event {}", fork.until) };
    let copied = usize::try_from(fork.until.0).ok().and_then(|until| origin.get(..until));
    let copied = copied.ok_or_else(missing)?;
    let State { thread, workspace, title, queue, at: last, .. } = rested(copied)?;
    let (from, first) = thread.zip(copied.first()).ok_or_else(missing)?;
    let created = Fact::ThreadCreated {
        thread: fork.thread.clone(),
        workspace,
        folder: fork.folder.clone(),
        owner: fork.by.clone(),
    };
    let forked = Fact::ThreadForked { from, until: fork.until, by: fork.by.clone(), when: now };
    let mut events = Vec::with_capacity(copied.len() + 2 + queue.len());
    events.extend([created, forked].map(|fact| Event { at: first.at, wall: None, run: None, fact }));
    // The origin's own creation and fork are not part of the new thread.
    let origins =
        |event: &&Event| matches!(event.fact, Fact::ThreadCreated { .. } | Fact::ThreadForked { .. });
    let left_out = copied.iter().filter(origins).count() as u64;
    // The fork's own first events replace the omitted events.
    let moved = |at: Seq| Seq(at.0.saturating_add(events.len() as u64).saturating_sub(left_out));
    let copies =
        copied.iter().filter(|event| !origins(event)).map(|event| copy(event, moved)).collect::<Vec<_>>();
    events.extend(copies);
    let at = now.max(last);
    events.extend(queue.into_iter().map(|waiting| {
        let fact = Fact::MessageWithdrawn { id: waiting.id, by: Principal::from(ENGINE) };
        Event { at, wall: None, run: None, fact }
    }));
    if let Some(title) = fork.title.clone().filter(|now| title.as_ref() != Some(now)) {
        events.push(Event {
            at,
            wall: None,
            run: None,
            fact: Fact::ThreadTitled { title, by: fork.by.clone(), made: None },
        });
    }
    Ok(events)
}

/// Copies an event and shifts the position that it refers to.
fn copy(event: &Event, moved: impl Fn(Seq) -> Seq) -> Event {
    let mut copy = event.clone();
    if let Fact::RunStarted { agent: RunAgent::Same { same_as }, .. } = &mut copy.fact {
        *same_as = moved(*same_as);
    }
    copy
}

/// Folds the copied events. Fails if a run is active at their end.
fn rested(copied: &[Event]) -> Result<State, Reject> {
    let mut state = State::default();
    let mut nearest = Seq::default();
    for event in copied {
        state.apply(event);
        if state.run.is_none() {
            nearest = state.seq;
        }
    }
    match state.run {
        None => Ok(state),
        Some(_) => Err(Reject::RunActive { at: state.seq, nearest }),
    }
}
