//! The fold is part of the permanent format: each version identifies exactly one fold.
//!
//! `journal_v1/fold.txt` has a digest of the state after each event of the golden tales. `UPDATE=1` rewrites it, but
//! only for a new version of the fold.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use windlass_machine::*;

use crate::fixture;
use crate::journal::{KINDS, golden, kind};
use crate::world::{Tale, tell};

/// Short tales that together contain every kind of fact that a thread can record.
fn tales() -> Vec<Event> {
    let journals: Vec<Vec<Event>> = (0..1_000).map(|seed| tell(seed, Tale::Wild).journal).collect();
    let mut missing: BTreeSet<&str> = KINDS.iter().copied().filter(|kind| *kind != "ThreadForked").collect();
    let mut tales = Vec::new();
    while !missing.is_empty() {
        let news = |journal: &Vec<Event>| {
            let kinds: BTreeSet<&str> = journal.iter().map(|event| kind(&event.fact)).collect();
            kinds.intersection(&missing).count() * 10_000 / journal.len()
        };
        let best = journals.iter().max_by_key(|journal| news(journal)).expect("a tale");
        let before = missing.len();
        for event in best {
            missing.remove(kind(&event.fact));
        }
        assert!(missing.len() < before, "no tale tells of {missing:?}");
        tales.extend(best.iter().cloned());
    }
    tales
}

/// Returns a short digest of the fold after each event, one line per tale.
fn folded() -> String {
    let text = golden("tales.jsonl", tales);
    let events: Vec<Event> = text.lines().map(|line| Event::decode(line).unwrap()).collect();
    let mut lines = format!("fold {FOLD}");
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    for event in &events {
        if matches!(event.fact, Fact::ThreadCreated { .. }) {
            machine = Machine::restore("t".into(), None, []).unwrap();
            lines.push('\n');
        }
        machine.apply(event);
        let digest = Digest::of(&machine.snapshot().bytes).to_string();
        lines.push_str(&digest[..8]);
        lines.push(' ');
    }
    lines + "\n"
}

#[test]
fn a_fold_that_changes_has_another_number() {
    let (path, now) = (PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/journal_v1/fold.txt"), folded());
    let version = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let then = std::fs::read_to_string(&path).unwrap_or_default();
    if version(&then) != version(&now) {
        assert!(std::env::var_os("UPDATE").is_some(), "`{}` has another fold: UPDATE=1", path.display());
        std::fs::write(&path, now).unwrap();
        return;
    }
    for (tale, (now, then)) in now.lines().zip(then.lines()).enumerate() {
        let differs = now.split(' ').zip(then.split(' ')).position(|(now, then)| now != then);
        assert_eq!(differs, None, "tale {tale} folds to something else: give `FOLD` the next number");
    }
    assert_eq!(now, then);
}

/// A build with other texts: recorded texts are used, and an unrecorded nudge adds no text.
#[test]
fn the_words_of_a_nudge_are_those_of_the_journal() {
    let folded = |nudge: Option<&str>| {
        let mut machine = Machine::restore("t".into(), None, []).unwrap();
        let new = fixture::new_message("m", "Do it", "r", Arc::new(fixture::agent()));
        machine.handle(&Input::Message(Box::new(new)), Timestamp(1)).unwrap();
        let (attempt, nudge) = (Attempt { step: 2, attempt: 1 }, nudge.map(str::to_owned));
        let fact = Fact::StepStarted { attempt, model: "test/a".into(), mode: StepMode::Continue, nudge };
        let line = Event { at: Timestamp(2), wall: None, run: Some("r".into()), fact }.encode();
        machine.apply(&Event::decode(&line).unwrap());
        let messages = machine.request().unwrap().messages;
        messages.iter().map(|message| message.plain_text()).collect::<Vec<_>>()
    };
    assert_eq!(folded(Some("Words of another build")), ["Do it", "Words of another build"]);
    assert_eq!(folded(None), ["Do it"]);
}

/// The journal with every agent in full, as if no run referred to the run before it; and how many did.
fn with_full_agents(journal: &[Event]) -> (Vec<Event>, usize) {
    let mut full = journal.to_vec();
    let mut count = 0;
    for event in &mut full {
        let Fact::RunStarted { agent, .. } = &mut event.fact else { continue };
        let RunAgent::Same { same_as } = agent else { continue };
        let Fact::RunStarted { agent: RunAgent::Full(named), .. } = &journal[same_as.0 as usize - 1].fact
        else {
            panic!("event {same_as} has no agent");
        };
        *agent = RunAgent::Full(named.clone());
        count += 1;
    }
    (full, count)
}

/// The fold after each event, without the positions at which agents are recorded in full.
fn states(thread: &str, journal: &[Event]) -> Vec<State> {
    let mut machine = Machine::restore(thread.into(), None, []).unwrap();
    let after = journal.iter().map(|event| {
        machine.apply(event);
        let mut state = machine.state().clone();
        state.agent.iter_mut().for_each(|known| known.at = Seq(0));
        state.run.iter_mut().for_each(|run| run.agent_at = Seq(0));
        state
    });
    after.collect()
}

#[test]
fn a_reference_to_an_agent_folds_to_the_agent() {
    let (mut in_journals, mut in_forks) = (0, 0);
    for seed in 0..100 {
        let journal = tell(seed, Tale::Wild).journal;
        let (full, count) = with_full_agents(&journal);
        assert_eq!(states("t", &journal), states("t", &full));
        in_journals += count;
        // A snapshot between the two runs knows the agent as well.
        let half = Machine::restore("t".into(), None, journal[..journal.len() / 2].iter().cloned()).unwrap();
        let rest = journal[journal.len() / 2..].iter().cloned();
        let restored = Machine::restore("t".into(), Some(&half.snapshot()), rest).unwrap();
        assert_eq!(restored.state().newest_agent(), whole(&journal).newest_agent());
        let rests = whole(&journal).run.is_none();
        let fork = Fork {
            thread: "f".into(),
            until: Seq(journal.len() as u64),
            by: "fay".into(),
            folder: None,
            title: None,
        };
        let forked =
            if rests { Machine::fork(&journal, &fork, Timestamp(9_000_000_000)).unwrap() } else { continue };
        let (full, count) = with_full_agents(&forked);
        assert_eq!(states("f", &forked), states("f", &full));
        let again = Fork { thread: "g".into(), until: Seq(forked.len() as u64), ..fork };
        let again = Machine::fork(&forked, &again, Timestamp(9_000_000_000)).unwrap();
        assert_eq!(with_full_agents(&again).1, count);
        in_forks += count;
    }
    assert!(in_journals > 20 && in_forks > 20, "{in_journals} references, {in_forks} in forks");
}

/// The fold of a whole journal.
fn whole(journal: &[Event]) -> State {
    Machine::restore("t".into(), None, journal.iter().cloned()).unwrap().state().clone()
}

#[test]
fn a_run_has_the_agent_of_its_message() {
    let named = |name: &str| Arc::new(Agent { name: name.into(), ..fixture::agent() });
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let mut recorded = Vec::new();
    for (number, name) in ["a", "a", "b", "b", "a"].into_iter().enumerate() {
        let (message, run) = (format!("m{number}"), format!("r{number}"));
        let new = fixture::new_message(&message, "Do it", &run, named(name));
        let events = machine.handle(&Input::Message(Box::new(new)), Timestamp(1)).unwrap();
        recorded.extend(events.iter().filter_map(|event| match &event.fact {
            Fact::RunStarted { agent, .. } => Some(agent.full().map(|agent| agent.name.clone())),
            _ => None,
        }));
        assert_eq!(machine.state().run.as_ref().unwrap().agent, named(name));
        let first = Attempt { step: 1, attempt: 1 };
        let said = fixture::reply(
            first,
            vec![Block::Text { text: "Done".into(), native: None }],
            StopReason::End,
            fixture::view(vec![]),
        );
        machine.handle(&said, Timestamp(1)).unwrap();
        assert_eq!(machine.state().run, None);
    }
    assert_eq!(recorded, [Some("a"), None, Some("b"), None, Some("a")].map(|name| name.map(str::to_owned)));
}
