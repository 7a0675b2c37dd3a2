//! Invariants of a tale, after each turn and at its end: the machine and the reference model agree.

use std::collections::HashMap;

use windlass_machine::*;

use super::{World, fold};
use crate::reference::check_pairs;

impl World {
    pub fn check(&mut self) {
        let wants: Vec<String> = self
            .machine
            .wants()
            .iter()
            .map(|command| match command {
                Command::CallModel { attempt, .. } => format!("model {}.{}", attempt.step, attempt.attempt),
                Command::CallTool { call, start, .. } => format!("tool {}/{}#{start}", call.step, call.index),
                Command::PreviewTool { call, round, .. } => {
                    format!("preview {}/{}#{round}", call.step, call.index)
                }
                Command::Reconcile { call, attempt, .. } => {
                    format!("read {}/{}#{attempt}", call.step, call.index)
                }
            })
            .collect();
        assert_eq!(wants, self.reference.wants(|tool| self.machine.lacks(tool)));
        let state = self.machine.state();
        assert_eq!(state.at, self.reference.at);
        let waiting = state.queue.iter().map(|waiting| (waiting.id.clone(), waiting.queued.clone()));
        assert_eq!(waiting.collect::<Vec<_>>(), self.reference.queue);
        let kept: HashMap<String, Content> = state.kept.clone().into_iter().collect();
        assert_eq!(kept, self.reference.kept);
        assert_eq!(state.run.as_ref().map(|run| &run.id), self.reference.run.as_ref().map(|run| &run.id));
        let Some((run, expected)) = state.run.as_ref().zip(self.reference.run.as_ref()) else { return };
        assert_eq!(run.is_waiting(), expected.is_waiting());
        assert_eq!(run.is_sleeping(), expected.is_sleeping());
        let flies = !self.machine.unfinished().is_empty() || !self.machine.wants().is_empty();
        let moves = flies || self.machine.deadline().is_some() || run.is_waiting();
        // A call that waits for its tool is resumed by another process, which then judges it.
        let judges = self.mail.iter().any(|input| matches!(input, Input::Rejudge { .. }));
        let moves = moves || judges || !self.machine.missing().is_empty();
        assert!(moves, "the run is stuck: {:?}", run.phase);
        if expected.calling && run.cancel.is_none() {
            self.check_request();
        }
    }

    /// Checks that the request is the reference's history, in pairs, within the window, and extends the previous one.
    fn check_request(&mut self) {
        let run = self.reference.run.as_ref().expect("a run is active");
        let request = self.machine.request().expect("a run is active");
        assert_eq!(Some(&request.model), run.model.as_ref());
        if run.fallback {
            assert!(request.tools.is_none());
            self.last_request = None;
            return;
        }
        check_pairs(&request.messages);
        let expected = self.reference.sent();
        assert_eq!(request.messages.len(), expected.len());
        for (message, said) in request.messages.iter().zip(expected) {
            assert_eq!(message, said);
        }
        let limit = run.agent.limits.window_messages as usize;
        let all = request.messages.len() + usize::from(!request.system.is_empty());
        assert!(limit == 0 || all <= limit, "{all} messages in a window of {limit}");
        if let Some((id, before)) = &self.last_request
            && *id == run.id
        {
            let kept = request.messages.iter().zip(&before.messages).all(|(now, then)| now == then);
            assert!(
                kept && request.messages.len() >= before.messages.len() || self.moved,
                "the prefix changed"
            );
        }
        self.moved = false;
        self.last_request = Some((run.id.clone(), request));
    }

    /// Checks independently that a decision only allows calls that the run's mode permits.
    pub fn check_mode(&self, input: &Input, decided: &[Event]) {
        let view = match input {
            Input::ModelReplied(replied) => &replied.view,
            Input::Answered { view, .. }
            | Input::Rejudge { view }
            | Input::Lost { view, .. }
            | Input::NotDispatched { view, .. } => view,
            _ => return, // tidy: the others bring no view
        };
        let Some(mode) = self.machine.state().run.as_ref().map(|run| run.options.mode()) else { return };
        for event in decided {
            if let Fact::CallJudged { call, verdict: Verdict::Allow | Verdict::Ask, .. } = &event.fact {
                let CallView::Known(known) = &view.calls[call.index as usize] else { panic!("{call:?}") };
                let hints = known.annotations;
                let writes = !is_repeatable(known.class)
                    || !hints.read_only_hint
                    || hints.destructive_hint
                    || known.trust == Trust::Untrusted;
                let has = match mode {
                    Mode::Agent => true,
                    Mode::Ask => !writes && known.area == Area::Work,
                    Mode::Plan => !writes && known.area != Area::Machine,
                };
                assert!(has, "{call:?} is let through in {mode:?}: {known:?}");
            }
        }
    }

    /// Checks that no call of a writing class starts in a mode that changes nothing.
    pub fn check_start(&self, call: CallKey, class: EffectClass) {
        let mode = self.reference.run.as_ref().expect("a run is active").options.mode();
        assert!(mode == Mode::Agent || is_repeatable(class), "{call:?} of {class:?} is started in {mode:?}");
    }

    pub fn check_end(&mut self) {
        if let Some(run) = &self.machine.state().run {
            let parked = run.is_waiting() && self.given_up;
            assert!(parked, "{:?}: neither ended nor waiting: {:?} {:?}", self.tale, run.cancel, run.phase);
        }
        let mut whole = fold(&self.journal);
        whole.lack(self.lacked());
        assert_eq!(whole, self.machine, "state is the fold of the journal");
        let cut = self.dice.below(self.journal.len() as u64 + 1) as usize;
        let snapshot = fold(&self.journal[..cut]).snapshot();
        let tail = self.journal[cut..].iter().cloned();
        let mut restored = Machine::restore("t".into(), Some(&snapshot), tail).expect("the journal of `t`");
        restored.lack(self.lacked());
        assert_eq!(restored, whole, "a snapshot at {cut} and the tail are the whole");
        if self.seed.is_multiple_of(16) {
            for event in &self.journal {
                assert_eq!(Event::decode(&event.encode()).expect("it reads what it wrote"), *event);
            }
        }
    }
}

fn is_repeatable(class: EffectClass) -> bool {
    match class {
        EffectClass::Pure | EffectClass::Idempotent => true,
        EffectClass::Keyed | EffectClass::Reconcile { .. } | EffectClass::Once => false,
    }
}
