//! A run that is rolled back leaves no trace: later requests are the same as if it had never existed.

use std::sync::Arc;

use proptest::prelude::*;
use windlass_machine::*;

use crate::fixture::{self, as_asked, failure, known, reply};

/// A thread with a small window.
struct Thread {
    machine: Machine,
    agent: Arc<Agent>,
}

impl Thread {
    fn new(window: u32) -> Self {
        let mut agent = fixture::agent();
        agent.limits.window_messages = window;
        agent.limits.max_steps = u32::MAX;
        agent.limits.max_same_calls = 0;
        let machine = Machine::restore("t".into(), None, []).unwrap();
        Self { machine, agent: Arc::new(agent) }
    }

    fn take(&mut self, input: &Input) {
        self.machine.handle(input, Timestamp(1_000)).unwrap();
    }

    fn send(&mut self, name: &str, when_busy: WhenBusy) {
        let (id, run) = (format!("m-{name}"), format!("r-{name}"));
        let mut new = fixture::new_message(&id, name, &run, self.agent.clone());
        new.when_busy = when_busy;
        self.take(&Input::Message(Box::new(new)));
    }

    fn attempt(&self) -> Attempt {
        self.machine.state().run.as_ref().unwrap().attempt
    }

    /// One step of the active run: a text, a truncated text, a call, or a prompt that is too long.
    fn step(&mut self, kind: u8) {
        let attempt = self.attempt();
        match kind {
            0 => self.take(&Input::ModelFailed(Box::new(failure(attempt, FailureClass::Transient)))),
            1 => {
                let cut = vec![Block::text("cut")];
                self.take(&reply(attempt, cut, StopReason::MaxTokens, View::default()));
            }
            2 => self.take(&Input::ModelFailed(Box::new(failure(attempt, FailureClass::ContextTooLong)))),
            _ => {
                let view = fixture::view(vec![known(EffectClass::Pure, true, as_asked("{}"))]);
                let blocks = vec![fixture::call("c", "Read", "{}")];
                self.take(&reply(attempt, blocks, StopReason::ToolCalls, view));
                self.take(&fixture::returned(CallKey { step: attempt.step, index: 0 }));
            }
        }
    }

    /// Runs steps while the run is in a model call.
    fn steps(&mut self, kinds: &[u8]) {
        for kind in kinds {
            let is_calling = self.machine.state().run.as_ref().is_some_and(|run| run.phase == Phase::Calling);
            if is_calling {
                self.step(*kind);
            }
        }
    }

    fn finish(&mut self) {
        let attempt = self.attempt();
        self.take(&reply(attempt, vec![Block::text("done")], StopReason::End, View::default()));
    }

    /// Rolls the active run back and sends another message in its place.
    fn roll_back(&mut self, name: &str) {
        self.send(name, WhenBusy::Rollback);
        let state = self.machine.state();
        if let Some(attempt) = state.run.as_ref().filter(|run| run.cancel.is_some()).map(|run| run.attempt) {
            self.take(&Input::ModelStopped { attempt, partial: Some("so far".into()) });
        }
    }

    /// Returns the request's messages and the start of the window.
    fn sent(&self) -> (Vec<Arc<Message>>, u64) {
        (self.machine.request().unwrap().messages, self.machine.state().history.start)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_that_is_rolled_back_leaves_nothing_behind(
        window in 0u32..16,
        before in proptest::collection::vec(proptest::collection::vec(3u8..5, 0..6), 0..4),
        withdrawn in proptest::collection::vec(0u8..6, 0..24),
        again in proptest::collection::vec(1u8..6, 0..12),
    ) {
        let mut thread = Thread::new(if window < 6 { 0 } else { window });
        for (index, steps) in before.iter().enumerate() {
            thread.send(&index.to_string(), WhenBusy::Queue);
            thread.steps(steps);
            thread.finish();
        }
        let mut never = Thread { machine: thread.machine.clone(), agent: thread.agent.clone() };
        never.send("then", WhenBusy::Queue);
        thread.send("withdrawn", WhenBusy::Queue);
        thread.steps(&withdrawn);
        if thread.machine.state().run.is_some() {
            thread.roll_back("then");
            prop_assert_eq!(thread.sent(), never.sent());
            // Later requests are equal as well, including moves of the window.
            for kind in again {
                thread.steps(&[kind]);
                never.steps(&[kind]);
                if never.machine.state().run.is_none() {
                    break;
                }
                prop_assert_eq!(thread.sent(), never.sent());
            }
        }
    }
}

#[test]
fn a_conversation_that_left_the_window_in_a_run_is_sent_again_once_it_is_rolled_back() {
    let mut thread = Thread::new(8);
    for name in ["one", "two"] {
        thread.send(name, WhenBusy::Queue);
        thread.finish();
    }
    thread.send("withdrawn", WhenBusy::Queue);
    thread.steps(&[3; 6]);
    assert!(thread.sent().1 > 4, "the window starts within the run");
    thread.roll_back("then");
    let texts: Vec<String> = thread.sent().0.iter().map(|message| message.plain_text()).collect();
    assert_eq!(texts, ["one", "done", "two", "done", "then"]);
    thread.finish();
    let last = thread.machine.state().last.clone().unwrap();
    assert!(last.dropped.is_empty(), "a finished run leaves nothing big behind");
}
