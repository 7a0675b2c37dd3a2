//! The people of the tales: they answer, and in a wild tale they also interfere, make errors and exceed their rights.

use std::sync::Arc;

use windlass_machine::*;

use crate::fixture::{self, Dice, as_asked, person, roles_of};
use crate::story::{self, hash};
use crate::world::{Tale, World};

impl World {
    /// People and programs outside: they answer, and in a wild tale they interfere.
    pub fn people(&mut self) {
        if self.sent < self.messages && (self.sent == 0 || self.dice.one_in(10)) {
            let message = self.message();
            self.outside.push_back(message);
        }
        if self.dice.one_in(4) {
            self.answer();
        }
        if self.tale != Tale::Wild || !self.dice.one_in(12) {
            return;
        }
        let by = Principal::from("ann");
        let input = match self.dice.below(12) {
            0 | 1 => Input::Cancel { run: None, by },
            2 => Input::SwitchModel { model: "test/c".into(), by },
            3 => Input::Title { title: "A title".into(), by },
            4 => Input::Withdraw { id: self.some_message(), by: self.some_principal() },
            10 => {
                let message = Arc::new(Message::text(Role::User, "Do it otherwise."));
                Input::EditQueued { id: self.some_message(), message, by: self.some_principal() }
            }
            11 => Input::SendNow { id: self.some_message(), by: self.some_principal() },
            5 => Input::Note { name: "n".into(), data: serde_json::json!({ "a": 1.5 }) },
            6..=8 => Input::Rejudge { view: View::default() },
            _ => Input::Tick { confirmed: Vec::new() },
        };
        self.outside.push_back(input);
    }

    /// Returns the id of a queued message if there is one, or another id.
    fn some_message(&mut self) -> InputId {
        let queue = &self.machine.state().queue;
        match queue.get(self.dice.below(2) as usize) {
            Some(waiting) => waiting.id.clone(),
            None => format!("m{}", self.dice.below(self.messages)).into(),
        }
    }

    /// Returns the owner and sender in most cases, otherwise a person without rights.
    fn some_principal(&mut self) -> Principal {
        if self.dice.one_in(4) { "eve".into() } else { "ann".into() }
    }

    /// A person answers an open interrupt, or several together.
    pub fn answer(&mut self) -> bool {
        let Some(run) = &self.machine.state().run else { return false };
        let mut open: Vec<Asked> = run.open().map(|(_, asked)| asked.clone()).collect();
        let run = run.id.clone();
        let wild = self.tale == Tale::Wild;
        // In a wild tale, a person may answer twice, and people without rights try to.
        let who = open.first().map(|asked| match wild && self.dice.one_in(2) {
            true => fixture::PEOPLE[self.dice.below(fixture::PEOPLE.len() as u64) as usize],
            false => self.whose(asked),
        });
        let Some(who) = who else { return false };
        open.retain(|asked| {
            wild || may(who, asked) && !self.answered.contains(&(asked.interrupt.clone(), who))
        });
        if self.dice.one_in(2) {
            open.truncate(1);
        }
        if open.is_empty() {
            return false;
        }
        let mut by = person(who, roles_of(who));
        if wild && self.dice.one_in(20) {
            by.workspace = "elsewhere".into();
        }
        let mut answers = Vec::new();
        for asked in open {
            self.answered.insert((asked.interrupt.clone(), who));
            answers.push(self.say(&run, &asked));
        }
        if wild && self.dice.one_in(10) {
            answers.extend(answers.first().cloned());
        }
        self.outside.push_back(Input::Answered {
            answers,
            by,
            grants: Vec::new(),
            note: None,
            view: View::default(),
        });
        true
    }

    /// Returns the first person who may answer and has not.
    fn whose(&self, asked: &Asked) -> &'static str {
        let fits =
            |who: &&&str| may(who, asked) && !self.answered.contains(&(asked.interrupt.clone(), **who));
        fixture::PEOPLE.iter().find(fits).copied().unwrap_or("ann")
    }

    /// Returns the answer to an interrupt. Except in a wild tale, it depends on seed and interrupt alone.
    fn say(&mut self, run: &RunId, asked: &Asked) -> Given {
        let wild = self.tale == Tale::Wild;
        let mut dice = match &asked.kind {
            // The id contains the sequence number, which differs between tales.
            InterruptKind::Limit(limit) => fixture::dice(&[self.seed, hash(run.as_str()), limit.used]),
            _ => fixture::dice(&[self.seed, hash(asked.interrupt.as_str())]),
        };
        if wild && self.dice.one_in(4) {
            dice = Dice(self.dice.roll());
        }
        let answer = match said(&mut dice, &asked.kind, wild) {
            _ if wild && self.dice.one_in(20) => Answer::Edit { arguments: "bad".into() },
            // A dispatched call keeps its arguments.
            Answer::Edit { .. } if !wild && self.was_dispatched(asked) => Answer::Approve,
            answer => answer,
        };
        let seen = match &asked.kind {
            InterruptKind::Approval { approval, .. } if dice.one_in(2) => Some(*approval),
            _ if wild && self.dice.one_in(10) => Some(Digest::of(b"another call")),
            _ => None,
        };
        Given { interrupt: asked.interrupt.clone(), answer, approval: seen }
    }

    fn was_dispatched(&self, asked: &Asked) -> bool {
        let Some(Phase::Calls(line)) = self.machine.state().run.as_ref().map(|run| &run.phase) else {
            return false;
        };
        let is_about = |call: &&Call| call.status.asked().is_some_and(|it| it.interrupt == asked.interrupt);
        line.calls.iter().find(is_about).is_some_and(|call| call.starts > 0)
    }

    /// Returns the driver's view of the open calls; edited calls have their new arguments.
    fn view(&self, answers: &[Given]) -> View {
        let Some(run) = &self.machine.state().run else { return View::default() };
        let calls = self.known.get(&(run.id.clone(), run.attempt.step)).cloned().unwrap_or_default();
        let Phase::Calls(line) = &run.phase else { return self.with_policy(calls) };
        let mut calls = self.seen(calls, line.calls.iter().map(|call| call.tool.clone()));
        for (known, call) in calls.iter_mut().zip(&line.calls) {
            let CallView::Known(known) = known else { continue };
            let mut arguments = (call.changed == Some(Changed::Edited)).then_some(&call.arguments);
            for given in answers {
                if let Answer::Edit { arguments: edited } = &given.answer
                    && call.status.asked().is_some_and(|asked| asked.interrupt == given.interrupt)
                {
                    arguments = Some(edited);
                }
            }
            match arguments.and_then(Content::inline) {
                Some("bad") => known.arguments = Arguments::Invalid { reason: "it does not fit".into() },
                Some(sent) => known.arguments = as_asked(sent),
                None => {}
            }
        }
        self.with_policy(calls)
    }

    /// Returns a view with the current policy and these calls.
    pub fn with_policy(&self, calls: Vec<CallView>) -> View {
        let (version, policy) = (self.version, Arc::new(self.policy.clone()));
        View { version, policy, ..fixture::view(calls) }
    }

    /// Adds or removes a rule or a grant.
    fn change_rules(&mut self) {
        let mut policy = std::mem::take(&mut self.policy);
        match self.dice.below(8) {
            0 => policy.auto_run = AutoRun::Everything,
            1 => policy.auto_run = AutoRun::Ask,
            2 | 3 => policy = story::policy(self.seed, self.tale),
            4 => policy.rules.push(fixture::rule(Verdict::Deny, self.some_tool(), Terms::default())),
            5 => {
                let terms = story::some_terms(&mut self.dice, self.tale);
                policy.rules.push(fixture::rule(Verdict::Ask, self.some_tool(), terms));
            }
            6 => drop(policy.rules.pop()),
            _ => drop(policy.grants.pop()),
        }
        self.policy = policy;
    }

    fn some_tool(&mut self) -> &'static str {
        story::GUARDED[self.dice.below(story::GUARDED.len() as u64) as usize]
    }

    /// Changes the policy, a tool, or the verdict of a hook.
    fn change_policy(&mut self) {
        self.change_rules();
        let Some(run) = &self.machine.state().run else { return };
        let Some(calls) = self.known.get_mut(&(run.id.clone(), run.attempt.step)) else { return };
        for call in calls {
            let CallView::Known(known) = call else { continue };
            match self.dice.below(12) {
                0 | 1 => known.annotations.read_only_hint ^= true,
                2 => known.hook = None,
                3 => known.hook = Some(HookVerdict::Ask { reason: "an odd hour".into() }),
                4 => known.hook = Some(HookVerdict::Deny { reason: "not at night".into() }),
                5 => known.schema = Digest::of(&self.dice.roll().to_le_bytes()),
                6 if self.dice.one_in(3) => *call = CallView::Unknown,
                7 => known.previews ^= true,
                _ => {}
            }
        }
    }
}

/// Adds the current policy and calls, which the driver reads when it takes an input.
pub fn refill(world: &mut World, input: Input) -> Input {
    match input {
        Input::Answered { answers, by, grants, note, view: _ } => {
            let view = world.view(&answers);
            Input::Answered { answers, by, grants, note, view }
        }
        Input::Lost { command, view: _ } => Input::Lost { command, view: world.view(&[]) },
        Input::ToolStopped { call, reason, by_tool, view: _ } => {
            Input::ToolStopped { call, reason, by_tool, view: world.view(&[]) }
        }
        Input::NotDispatched { call, start, view: _ } => {
            Input::NotDispatched { call, start, view: world.view(&[]) }
        }
        Input::Rejudge { view } if view.version > 0 => Input::Rejudge { view: world.view(&[]) },
        Input::Rejudge { view: _ } => {
            world.change_policy();
            world.version += 1;
            Input::Rejudge { view: world.view(&[]) }
        }
        other => other,
    }
}

/// Whether a person may answer and approve.
fn may(who: &str, asked: &Asked) -> bool {
    let roles = roles_of(who);
    fixture::may_answer(&["ann"], who, roles, &asked.terms) && fixture::may_approve(who, roles, &asked.terms)
}

fn said(dice: &mut Dice, kind: &InterruptKind, wild: bool) -> Answer {
    let reply = |reply| Answer::Reply(Box::new(reply));
    match kind {
        InterruptKind::Approval { .. } | InterruptKind::Hook { .. } => match dice.below(7) {
            0 | 1 => Answer::Deny { reason: None },
            2 => Answer::Edit { arguments: format!("{{\"n\":{}}}", 100 + dice.below(9)).into() },
            _ => Answer::Approve,
        },
        InterruptKind::Question(question) => match dice.below(3) {
            0 => Answer::Deny { reason: Some("ask later".into()) },
            1 => reply(Reply { text: Some("blue".into()), ..Reply::default() }),
            _ => reply(Reply { selected: question.options.first().cloned(), ..Reply::default() }),
        },
        InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. } => match dice.one_in(4) {
            true => Answer::Deny { reason: None },
            false => reply(Reply { text: Some("done".into()), ..Reply::default() }),
        },
        InterruptKind::InDoubt { .. } => match dice.below(3) {
            0 => Answer::Retry,
            1 => Answer::Done { result: "it was done".into() },
            _ => Answer::Fail { reason: None },
        },
        InterruptKind::Limit(limit) => match dice.below(4) {
            0 => Answer::Stop,
            1 if limit.limit.starts_with("day") => Answer::Retry,
            2 if wild && dice.one_in(2) => Answer::Retry,
            _ => Answer::Raise { to: limit.figure.max(limit.used) + 1 + dice.below(3) },
        },
    }
}
