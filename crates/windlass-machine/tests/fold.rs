//! The fold is part of what is kept for ever: its version stands for exactly one fold.
//!
//! `journal_v1/fold.txt` holds a digest of the State after each event of the golden tales. `UPDATE=1` rewrites it, but only
//! for a new version of the fold.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use windlass_machine::*;

use crate::fixture;
use crate::journal::{KINDS, golden, kind};
use crate::world::{Tale, tell};

/// Short tales that together tell of everything that a thread does by itself.
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

/// What the fold is after each event, in a few digits: a line for each tale.
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

/// A build with other words: what was said counts, and where nothing was recorded nothing was said.
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
