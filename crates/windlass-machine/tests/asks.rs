//! The limit on interrupts of one call, and the changes that require a new approval.

use std::sync::Arc;

use windlass_machine::*;

use crate::fixture::{agent, answered, as_asked, call, known_call, new_message, reply, view};

/// Runs a call whose preview changes after each approval until the machine gives it up. Returns the outcome, the text
/// and the number of interrupts. `started` says whether the call was dispatched before.
fn given_up(started: bool) -> (Outcome, String, u32) {
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let mut known = known_call(EffectClass::Idempotent, false, as_asked("{}"));
    known.previews = true;
    let view = || view(vec![CallView::Known(Box::new(known.clone()))]);
    let mut take = |input: &Input| {
        let events = machine.handle(input, Timestamp(1_000)).unwrap();
        (events, machine.unfinished())
    };
    take(&Input::Message(Box::new(new_message("m", "Do it", "r", Arc::new(agent())))));
    let attempt = Attempt { step: 1, attempt: 1 };
    take(&reply(attempt, vec![call("c", "Put", "{}")], StopReason::ToolCalls, view()));
    let key = CallKey { step: 1, index: 0 };
    let (mut round, mut asked) = (0, 0);
    let mut look = |text: String| {
        round += 1;
        Input::Previewed { call: key, round, digest: Digest::of(text.as_bytes()), preview: text.into() }
    };
    if started {
        take(&look("first".into()));
        take(&answered("r.1.0.0", Answer::Approve, view()));
        let (_, begun) = take(&look("first".into()));
        asked += 1;
        take(&Input::Lost { command: begun[0].clone(), view: view() });
    }
    for nth in 0..100 {
        let (events, _) = take(&look(nth.to_string()));
        for event in events {
            if let Fact::ToolFinished { outcome, content, .. } = event.fact {
                let Block::Text { text, .. } = &content[0] else { panic!("{content:?}") };
                return (outcome, text.inline().unwrap().to_owned(), asked);
            }
        }
        take(&answered(&format!("r.1.0.{asked}"), Answer::Approve, view()));
        asked += 1;
    }
    panic!("it never ends");
}

#[test]
fn a_preview_that_never_holds_still_is_given_up() {
    let why = "what the call would do has changed 64 times while it was asked about";
    assert_eq!(given_up(false), (Outcome::Denied, format!("Not run: {why}"), 64));
    let repeated = format!("Outcome unknown: not repeated, because {why}");
    assert_eq!(given_up(true), (Outcome::InDoubt, repeated, 64));
}

/// An approval is bound to the file that the path resolved to.
#[test]
fn a_path_that_leads_elsewhere_is_asked_about_again() {
    let to = |resolved: &str| {
        let mut known = known_call(EffectClass::Once, false, as_asked("{}"));
        let target =
            PathTarget { folders: vec!["/w".into()], lexical: "l/a".into(), resolved: resolved.into() };
        known.paths = vec![PathArgument { argument: "/path".into(), target: Some(target) }];
        view(vec![CallView::Known(Box::new(known))])
    };
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let mut take = |input: &Input| -> Result<Vec<Fact>, Reject> {
        let events = machine.handle(input, Timestamp(1_000))?;
        Ok(events.into_iter().map(|event| event.fact).collect())
    };
    take(&Input::Message(Box::new(new_message("m", "Do it", "r", Arc::new(agent()))))).unwrap();
    let attempt = Attempt { step: 1, attempt: 1 };
    take(&reply(attempt, vec![call("c", "Put", "{}")], StopReason::ToolCalls, to("docs/a"))).unwrap();
    assert!(take(&Input::Rejudge { view: to("docs/a") }).unwrap().is_empty());
    let stale = take(&answered("r.1.0.0", Answer::Approve, to("src/a")));
    assert!(matches!(stale, Err(Reject::Stale { .. })), "{stale:?}");
    let facts = take(&Input::Rejudge { view: to("src/a") }).unwrap();
    let kinds: Vec<&str> = facts
        .iter()
        .map(|fact| match fact {
            Fact::InterruptClosed { answer: Answer::Withdrawn, .. } => "closed",
            Fact::CallJudged { .. } => "judged",
            Fact::InterruptOpened { .. } => "opened",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["closed", "judged", "opened"]);
    let facts = take(&answered("r.1.0.1", Answer::Approve, to("src/a"))).unwrap();
    assert!(facts.iter().any(|fact| matches!(fact, Fact::ToolStarted { .. })), "{facts:?}");
}
