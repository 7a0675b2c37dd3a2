//! Threads that start with the history of another.

use std::sync::Arc;

use windlass_machine::*;

use crate::fixture;
use crate::told::told;
use crate::world::{Tale, tell};

fn restored(thread: &str, journal: &[Event]) -> Machine {
    Machine::restore(thread.into(), None, journal.iter().cloned()).unwrap()
}

fn fork(thread: &str, until: u64) -> Fork {
    Fork {
        thread: thread.into(),
        until: Seq(until),
        by: "fay".into(),
        folder: Some("/fay".into()),
        title: None,
    }
}

/// At every position of a journal: an idle thread is forked with its whole state, and every other position names the
/// nearest idle one before it.
#[test]
fn a_thread_is_forked_wherever_it_rests() {
    let (mut rested, mut waited) = (0, 0);
    for seed in 0..150 {
        let journal = tell(seed, Tale::Wild).journal;
        let mut nearest = Seq(0);
        for until in 1..=journal.len() {
            let prefix = restored("t", &journal[..until]);
            let (seq, now) = (Seq(until as u64), Timestamp(9_000_000_000));
            let forked = Machine::fork(&journal, &fork("f", seq.0), now);
            if prefix.state().run.is_some() {
                assert_eq!(forked, Err(Reject::RunActive { at: seq, nearest }));
                continue;
            }
            nearest = seq;
            if prefix.state().thread.is_none() {
                assert!(matches!(forked, Err(Reject::NotFound { .. })));
                continue;
            }
            rested += 1;
            waited += prefix.state().queue.len();
            let forked = forked.unwrap();
            check(&prefix, &forked, now);
            // A fork of a fork has the same history.
            let until = forked.len() as u64;
            let again = Machine::fork(&forked, &fork("g", until), now).unwrap();
            check(&restored("f", &forked), &again, now);
            assert_eq!(again[2..], forked[2..]);
            let named = told(&again[1].fact);
            assert_eq!(named, format!("thread.forked f {until} by fay"));
        }
    }
    assert!(rested > 300 && waited > 10, "{rested} places, {waited} messages");
}

fn check(prefix: &Machine, forked: &[Event], now: Timestamp) {
    let machine = restored(
        match &forked[0].fact {
            Fact::ThreadCreated { thread, .. } => thread.as_str(),
            other => panic!("{other:?} comes first"),
        },
        forked,
    );
    let (state, origin) = (machine.state(), prefix.state());
    assert_eq!(state.history, origin.history);
    assert_eq!((&state.title, &state.model, &state.last), (&origin.title, &origin.model, &origin.last));
    assert_eq!((&state.workspace, state.owner.as_ref()), (&origin.workspace, Some(&"fay".into())));
    assert_eq!(state.folder.as_deref(), Some("/fay"));
    // Queued messages remain with the origin, and nothing is executed again.
    assert!(state.queue.is_empty() && state.run.is_none());
    assert_eq!((machine.wants(), machine.unfinished(), machine.deadline()), (vec![], vec![], None));
    assert!(forked.is_sorted_by_key(|event| event.at), "time runs backwards");
    let expected = if origin.queue.is_empty() { origin.at } else { now };
    // The state is older if the last copied event is the origin's own creation.
    assert!(state.at <= expected);
}

#[test]
fn a_fork_continues_the_history_with_its_own_effects() {
    let journal = tell(7, Tale::Calm).journal;
    let until = journal.len() as u64;
    let mut machine = restored("f", &Machine::fork(&journal, &fork("f", until), Timestamp(1)).unwrap());
    let before = machine.state().history.end();
    let new = fixture::new_message("n1", "And now?", "rn", Arc::new(fixture::agent()));
    machine.handle(&Input::Message(Box::new(new)), Timestamp(1)).unwrap();
    assert_eq!(machine.state().history.end(), before + 1);
    assert_eq!(machine.request().unwrap().messages.last().unwrap().plain_text(), "And now?");
}

#[test]
fn a_fork_has_the_title_that_its_origin_has_by_now() {
    let journal = tell(7, Tale::Calm).journal;
    let titled = |title: &str| {
        let fork = Fork { title: Some(title.into()), ..fork("f", journal.len() as u64) };
        Machine::fork(&journal, &fork, Timestamp(9_000_000_000)).unwrap()
    };
    let events = titled("Renamed since");
    assert_eq!(told(&events.last().unwrap().fact), "thread.titled \"Renamed since\" by fay");
    let title = restored("t", &journal).state().title.clone().unwrap();
    assert_eq!(titled(&title).len(), events.len() - 1, "it says so already");
}

#[test]
fn a_place_that_is_not_there_is_refused() {
    let journal = tell(1, Tale::Calm).journal;
    for until in [0, journal.len() as u64 + 1, u64::MAX] {
        let refused = Machine::fork(&journal, &fork("f", until), Timestamp(1));
        assert_eq!(refused, Err(Reject::NotFound { what: format!("event {until}") }));
    }
    // A journal that does not start with its thread is invalid.
    assert!(Machine::fork(&journal[1..], &fork("f", 1), Timestamp(1)).is_err());
}
