//! The fold is part of what is kept for ever: a journal of today folds to the same state in a later build.

use std::sync::Arc;

use windlass_machine::*;

use crate::fixture;

/// A build with other words: what was said counts, and where nothing was recorded nothing was said.
#[test]
fn the_words_of_a_nudge_are_those_of_the_journal() {
    let folded = |nudge: Option<&str>| {
        let mut machine = Machine::restore("t".into(), None, []).unwrap();
        let new = fixture::new_message("m", "Do it", "r", Arc::new(fixture::agent()));
        for event in machine.handle(&Input::Message(Box::new(new)), Timestamp(1)).unwrap() {
            machine.apply(&event);
        }
        let (attempt, nudge) = (Attempt { step: 2, attempt: 1 }, nudge.map(str::to_owned));
        let fact = Fact::StepStarted { attempt, model: "test/a".into(), mode: StepMode::Continue, nudge };
        let line = Event { at: Timestamp(2), run: Some("r".into()), fact }.encode();
        machine.apply(&Event::decode(&line).unwrap());
        let messages = machine.request().unwrap().messages;
        messages.iter().map(|message| message.plain_text()).collect::<Vec<_>>()
    };
    assert_eq!(folded(Some("Words of another build")), ["Do it", "Words of another build"]);
    assert_eq!(folded(None), ["Do it"]);
}
