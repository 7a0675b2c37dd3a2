//! Every dispatch requires a decision about exactly this call by enough permitted people, and uses that decision up.
//! This holds despite races, replays, edits, errors and crashes.
//!
//! The oracle compares the sent and accepted inputs, not the recorded events.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use windlass_machine::*;

use crate::fixture::{self, Dice, approval, as_asked, known_call, person, reply, roles_of};

/// A tool with a rule that requires approval.
const NAMED_TOOL: &str = "Pay";

/// Permitted approvers if a rule names some, and otherwise.
const NAMED: &[&str] = &["ann", "cy", "dee"];
const USUAL: &[&str] = &["ann", "bob"];

/// The decisions of people about one call so far.
struct Decided {
    known: KnownCall,
    tool: &'static str,
    /// The arguments that people saw last.
    arguments: String,
    /// The digest that the votes are bound to, with their interrupt and voters.
    about: Digest,
    interrupt: Option<InterruptId>,
    votes: BTreeSet<String>,
    is_retry: bool,
}

impl Decided {
    fn new(tool: &'static str) -> Self {
        let known = known_call(EffectClass::Once, false, as_asked("{}"));
        let about = approval(tool, &known);
        let (arguments, votes) = ("{}".into(), BTreeSet::new());
        Self { known, tool, arguments, about, votes, is_retry: false, interrupt: None }
    }

    /// Returns who may approve the call.
    fn approvers(&self) -> &'static [&'static str] {
        if self.tool == NAMED_TOOL { NAMED } else { USUAL }
    }

    fn said(&mut self, answer: &Answer, by: &Party, asked: &Asked) {
        let now = approval(self.tool, &self.known);
        let elsewhere = self.interrupt.as_ref().is_some_and(|interrupt| *interrupt != asked.interrupt);
        if now != self.about || elsewhere || matches!(answer, Answer::Edit { .. } | Answer::Retry) {
            self.votes.clear();
        }
        // An edited call may be asked about again; the editor's vote counts there as well.
        let edited = matches!(answer, Answer::Edit { .. });
        self.interrupt = (!edited).then(|| asked.interrupt.clone());
        self.about = now;
        if let Answer::Edit { arguments } = answer {
            self.arguments = arguments.inline().unwrap().into();
        }
        self.is_retry = *answer == Answer::Retry;
        match answer {
            Answer::Approve | Answer::Edit { .. } | Answer::Retry => {
                self.votes.insert(by.principal.to_string());
            }
            _ => self.votes.clear(),
        }
    }

    /// A dispatch uses the decision up.
    fn started(&mut self, arguments: Digest, quorum: usize) {
        let need = if self.is_retry || self.tool != NAMED_TOOL { 1 } else { quorum };
        assert!(self.votes.len() >= need, "{:?} of {need} approved", self.votes);
        // Everyone who may answer may request the retry of a lost call.
        let may = |who: &String| {
            self.approvers().contains(&who.as_str()) || self.is_retry && USUAL.contains(&who.as_str())
        };
        assert!(self.votes.iter().all(may), "{:?} may not approve it", self.votes);
        assert!(self.is_retry || self.about == approval(self.tool, &self.known), "another call was approved");
        assert_eq!(arguments, Digest::of(self.arguments.as_bytes()), "other arguments were approved");
        self.votes.clear();
    }
}

struct Case {
    machine: Machine,
    journal: Vec<Event>,
    calls: Vec<Decided>,
    quorum: u32,
    said: Vec<Vec<(Given, Party)>>,
    /// Whether a tool has changed without a rejudgement yet, and the number of changes.
    changed: bool,
    version: u64,
    starts: u32,
}

impl Case {
    fn new(quorum: u32) -> Self {
        let calls = vec![Decided::new(NAMED_TOOL), Decided::new("Tool")];
        let machine = Machine::restore("t".into(), None, []).unwrap();
        let (journal, said) = (Vec::new(), Vec::new());
        let mut case = Self { machine, journal, calls, quorum, said, changed: false, version: 1, starts: 0 };
        let message = fixture::new_message("m0", "Do it", "r0", Arc::new(fixture::agent()));
        assert!(case.take(&Input::Message(Box::new(message))));
        let blocks = vec![fixture::call("c0", NAMED_TOOL, "{}"), fixture::call("c1", "Tool", "{}")];
        let attempt = Attempt { step: 1, attempt: 1 };
        assert!(case.take(&reply(attempt, blocks, StopReason::ToolCalls, case.view())));
        case
    }

    fn view(&self) -> View {
        let calls = self.calls.iter().map(|call| CallView::Known(Box::new(call.known.clone()))).collect();
        let terms = fixture::terms(self.quorum, &["user:ann", "role:ops"], None);
        let rules = vec![fixture::rule(Verdict::Ask, NAMED_TOOL, terms)];
        let policy = Arc::new(Policy { rules, ..Policy::default() });
        View { version: self.version, policy, ..fixture::view(calls) }
    }

    fn open(&self) -> Vec<Asked> {
        self.machine.state().run.iter().flat_map(Run::open).map(|(_, asked)| asked.clone()).collect()
    }

    /// Digest of the arguments with which the machine wants a call to be carried out.
    fn sent(&self, index: u32) -> Digest {
        let sent = self.machine.wants().into_iter().find_map(|command| match command {
            Command::CallTool { call, arguments, .. } if call.index == index => Some(arguments.digest()),
            _ => None,
        });
        sent.expect("a started call is wanted")
    }

    /// Returns whether the input was accepted. Checks that every started call was decided.
    fn take(&mut self, input: &Input) -> bool {
        let open: Vec<Asked> = self.open();
        let Ok(events) = self.machine.handle(input, Timestamp(1_000)) else { return false };
        if let Input::Answered { answers, by, .. } = input {
            for given in answers {
                let index: usize = given.interrupt.as_str().split('.').nth(2).unwrap().parse().unwrap();
                if let Answer::Edit { arguments } = &given.answer {
                    self.calls[index].known.arguments = as_asked(arguments.inline().unwrap());
                }
                let asked = open.iter().find(|asked| asked.interrupt == given.interrupt);
                self.calls[index].said(&given.answer, by, asked.expect("an open interrupt"));
            }
        }
        for event in &events {
            if let Fact::ToolStarted { call } = &event.fact {
                let arguments = self.sent(call.index);
                self.calls[call.index as usize].started(arguments, self.quorum as usize);
                self.starts += 1;
            }
        }
        self.journal.extend(events);
        true
    }

    /// A random person answers, possibly about a closed or unknown interrupt.
    fn answer(&mut self, dice: &mut Dice) {
        let who = fixture::PEOPLE[dice.below(fixture::PEOPLE.len() as u64) as usize];
        let mut by = person(who, roles_of(who));
        if dice.one_in(8) {
            by.workspace = "elsewhere".into();
        }
        let open = self.open();
        let mut answers = Vec::new();
        for _ in 0..1 + dice.below(2) {
            let interrupt = match open.is_empty() || dice.one_in(8) {
                true => {
                    InterruptId::from(format!("r{}.1.{}.{}", dice.below(2), dice.below(2), dice.below(4)))
                }
                false => open[dice.below(open.len() as u64) as usize].interrupt.clone(),
            };
            let answer = match dice.below(10) {
                0 => Answer::Deny { reason: None },
                1 => Answer::Edit { arguments: format!("{{\"n\":{}}}", dice.below(3)).into() },
                2 | 3 => Answer::Retry,
                _ => Answer::Approve,
            };
            let seen = self.calls[dice.below(2) as usize].about;
            answers.push((Given { interrupt, answer, approval: dice.one_in(3).then_some(seen) }, by.clone()));
        }
        self.send(answers.clone());
        self.said.push(answers);
    }

    fn send(&mut self, answers: Vec<(Given, Party)>) {
        // Before a previously approved call starts, the driver reports what has changed since.
        if self.changed && self.is_ready() {
            self.rejudge();
        }
        let by = answers[0].1.clone();
        let mut view = self.view();
        for (given, _) in &answers {
            let index = given.interrupt.as_str().split('.').nth(2).and_then(|index| index.parse().ok());
            if let (Answer::Edit { arguments }, Some(CallView::Known(known))) =
                (&given.answer, index.and_then(|index: usize| view.calls.get_mut(index)))
            {
                known.arguments = as_asked(arguments.inline().unwrap());
            }
        }
        let answers = answers.into_iter().map(|(given, _)| given).collect();
        self.take(&Input::Answered { answers, by, grants: Vec::new(), note: None, view });
    }

    fn is_ready(&self) -> bool {
        match self.machine.state().run.as_ref().map(|run| &run.phase) {
            Some(Phase::Calls(line)) => line.calls.iter().any(|call| call.status == CallStatus::Ready),
            _ => false, // tidy: there are no calls
        }
    }

    fn rejudge(&mut self) {
        self.changed = false;
        self.take(&Input::Rejudge { view: self.view() });
    }

    fn step(&mut self, dice: &mut Dice) {
        match dice.below(10) {
            // Replays an earlier answer.
            0 if !self.said.is_empty() => {
                let again = self.said[dice.below(self.said.len() as u64) as usize].clone();
                self.send(again);
            }
            1 => {
                let schema = Digest::of(&dice.roll().to_le_bytes());
                self.calls[dice.below(2) as usize].known.schema = schema;
                (self.changed, self.version) = (true, self.version + 1);
                if dice.one_in(2) {
                    self.rejudge();
                }
            }
            2 => {
                self.machine = Machine::restore("t".into(), None, self.journal.iter().cloned()).unwrap();
                for command in self.machine.unfinished() {
                    self.take(&Input::Lost { command, view: self.view() });
                }
            }
            3 => {
                if self.changed {
                    self.rejudge();
                }
                if let Some(Command::CallTool { call, .. }) = self.machine.wants().first() {
                    self.take(&fixture::returned(*call));
                }
            }
            _ => self.answer(dice),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    // rows: SK-A3, SK-X7, WT-X2
    #[test]
    fn no_call_is_dispatched_without_a_decision_of_its_own(seed: u64, quorum in 1u32..4) {
        let mut dice = Dice(seed);
        let mut case = Case::new(quorum);
        for _ in 0..60 {
            // All calls are finished: nothing is left to decide.
            if case.machine.state().run.as_ref().is_none_or(|run| run.attempt.step > 1) {
                break;
            }
            case.step(&mut dice);
        }
    }
}

#[test]
fn decisions_are_made_often_enough_to_tell() {
    let started = (0..200).filter(|seed| {
        let (mut dice, mut case) = (Dice(*seed), Case::new(2));
        for _ in 0..60 {
            if case.machine.state().run.as_ref().is_none_or(|run| run.attempt.step > 1) {
                break;
            }
            case.step(&mut dice);
        }
        case.starts > 0
    });
    assert!(started.count() > 50);
}
