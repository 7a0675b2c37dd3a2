//! A tiny world around a tiny driver: a model, tools and people whose story a seed decides, and processes that die.
//!
//! The driver follows the contract in the crate's documentation and nothing else: decide, append, apply, act.

mod check;
mod lack;
mod store;
mod wants;

use std::collections::{HashMap, HashSet, VecDeque};

use windlass_machine::*;

use self::wants::Wants;
use crate::fixture::{self, Dice, dice, failure};
use crate::people::refill;
use crate::reference::Reference;
use crate::story::{self, hash};

/// The variant of a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tale {
    /// No process dies, and people do not change their decisions.
    Calm,
    /// Like `Calm`, but processes die and appends have unknown outcomes.
    Crashing,
    /// Everything can happen.
    Wild,
}

pub struct World {
    pub seed: u64,
    pub tale: Tale,
    pub dice: Dice,
    pub now: u64,
    pub journal: Vec<Event>,
    pub reference: Reference,
    /// Inputs from outside, which outlive a process until an append has consumed them.
    pub outside: VecDeque<Input>,
    pub machine: Machine,
    pub mail: VecDeque<Input>,
    flying: Vec<Command>,
    stopping: bool,
    dispatched: HashMap<EffectId, u32>,
    failures: HashMap<(RunId, u32), u32>,
    pub messages: u64,
    pub sent: u64,
    pub answered: HashSet<(InterruptId, &'static str)>,
    /// The current policy, and the number of its changes.
    pub policy: Policy,
    pub version: u64,
    /// Current views of the calls of each step.
    pub known: HashMap<(RunId, u32), Vec<CallView>>,
    /// Effects that took place in the outside world, with the result that a read finds.
    done: HashMap<EffectId, Vec<Block>>,
    /// Steps that a budget refused once.
    pub refused: HashSet<(RunId, Attempt)>,
    last_request: Option<(RunId, ModelRequest)>,
    given_up: bool,
    moved: bool,
    /// Whether a call was judged by a later process than the one that received the reply.
    pub judges_late: bool,
}

/// Returns the final result of a call, from its tool or from a read.
fn result_of(effect: &EffectId, answer: Option<&Answer>) -> Vec<Block> {
    let answer = answer.map(|answer| serde_json::to_string(answer).expect("an answer is JSON"));
    vec![Block::text(format!("result of {effect} {}", answer.unwrap_or_default()))]
}

fn fold(journal: &[Event]) -> Machine {
    Machine::restore("t".into(), None, journal.iter().cloned()).expect("the journal of `t`")
}

impl World {
    fn new(seed: u64, tale: Tale) -> Self {
        let mut dice = dice(&[seed, tale as u64]);
        let messages = 1 + fixture::dice(&[seed, 79]).below(4);
        World {
            seed,
            tale,
            now: 1_000 + dice.below(1_000),
            dice,
            journal: Vec::new(),
            reference: Reference::default(),
            outside: VecDeque::new(),
            machine: fold(&[]),
            mail: VecDeque::new(),
            flying: Vec::new(),
            stopping: false,
            dispatched: HashMap::new(),
            failures: HashMap::new(),
            messages,
            sent: 0,
            answered: HashSet::new(),
            policy: story::policy(seed, tale),
            version: 1,
            known: HashMap::new(),
            done: HashMap::new(),
            refused: HashSet::new(),
            last_request: None,
            given_up: false,
            moved: false,
            judges_late: false,
        }
    }

    fn crashes(&mut self, one_in: u64) -> bool {
        self.tale != Tale::Calm && self.dice.one_in(one_in)
    }

    fn step(&mut self) -> bool {
        if self.crashes(12) {
            self.crash();
        }
        self.people();
        if !self.turn() {
            return true;
        }
        self.fly();
        if self.mail.is_empty() && self.outside.is_empty() && self.flying.is_empty() {
            return self.idle();
        }
        true
    }

    /// Handles some inputs, appends once, then acts.
    fn turn(&mut self) -> bool {
        let before = self.machine.clone();
        let mut batch = Vec::new();
        let mut taken = Vec::new();
        let mut outside = 0;
        for _ in 0..1 + self.dice.below(3) {
            let input = match self.mail.pop_front() {
                Some(input) => {
                    taken.push(input.clone());
                    input
                }
                None => match self.outside.get(outside) {
                    Some(input) => {
                        outside += 1;
                        input.clone()
                    }
                    None => break,
                },
            };
            let input = refill(self, input);
            // The clock of another process may be behind.
            let now = Timestamp(self.now.saturating_sub(self.dice.below(20)));
            let mut decider = self.machine.clone();
            let decided = decider.handle(&input, now);
            if self.dice.one_in(8) {
                assert_eq!(self.machine.clone().handle(&input, now), decided, "handle is a function");
            }
            self.check_mode(&input, decided.as_deref().unwrap_or_default());
            self.check_lacks(&self.machine, decided.as_deref().unwrap_or_default());
            for event in decided.into_iter().flatten() {
                self.machine.apply(&event);
                batch.push(event);
            }
            // A reject has no events, so the state is the previous one.
            assert_eq!(decider, self.machine, "the state after a decision is the fold of its events");
        }
        if self.crashes(30) {
            // Decided but never appended.
            self.crash();
            return false;
        }
        if let Some(refused) = self.refusal(&batch) {
            // A budget has no room: nothing was written, and the machine receives the refusal first.
            self.machine = before;
            taken.into_iter().rev().for_each(|input| self.mail.push_front(input));
            self.mail.push_front(refused);
            return false;
        }
        let unknown = self.crashes(20);
        if unknown && self.dice.one_in(2) {
            // The append failed: nothing of the batch was written, and the inputs are still pending.
            self.machine = before;
            taken.into_iter().rev().for_each(|input| self.mail.push_front(input));
            return false;
        }
        for event in &batch {
            self.journal.push(event.clone());
            self.reference.see(event);
            if let Fact::GrantUsed { grant, .. } = &event.fact {
                self.use_grant(grant);
            }
            self.moved |= matches!(event.fact, Fact::WindowMoved { .. });
            if let Fact::RunFinished { output: Output { replies: Some((first, last)), .. }, .. } = event.fact
            {
                assert!(first <= last, "an answer of the replies {first} to {last}");
            }
        }
        self.outside.drain(..outside);
        if unknown {
            // The append was written although the call failed: the journal shows it.
            let mut restored = fold(&self.journal);
            restored.lack(self.lacked());
            assert_eq!(restored, self.machine, "state is the fold of the journal");
            self.machine = restored;
        }
        if self.crashes(25) {
            // Appended but never acted on.
            self.crash();
            return false;
        }
        self.check();
        self.act(&batch);
        true
    }

    fn is_lost(&self, command: &Command) -> bool {
        self.mail.iter().any(|input| matches!(input, Input::Lost { command: lost, .. } if lost == command))
    }

    /// Starts the commands that the batch made wanted, and cancels those that are no longer wanted.
    fn act(&mut self, batch: &[Event]) {
        let wants = self.machine.wants();
        let begun = self.machine.unfinished();
        self.flying.retain(|command| begun.contains(command) || wants.contains(command));
        self.stopping = wants.is_empty();
        let is_fresh = |command: &Command| {
            batch.iter().any(|event| match (&event.fact, command) {
                (Fact::StepStarted { attempt, .. }, Command::CallModel { attempt: wanted, .. }) => {
                    attempt == wanted
                }
                (Fact::ToolStarted { call, .. }, Command::CallTool { call: wanted, .. }) => call == wanted,
                _ => false,
            })
        };
        // A command that a cancel in the same batch overtook was never started, and only this driver can report it.
        for command in begun {
            if self.flying.contains(&command)
                || wants.contains(&command)
                || self.is_lost(&command)
                || self.ending(&command)
            {
                continue;
            }
            self.mail.push_back(match &command {
                Command::CallTool { call, start, .. } if is_fresh(&command) => {
                    Input::NotDispatched { call: *call, start: *start, view: View::default() }
                }
                _ => Input::Lost { command, view: View::default() },
            });
        }
        for command in wants {
            if self.flying.contains(&command) || self.is_lost(&command) || self.ending(&command) {
                continue;
            }
            let fresh = is_fresh(&command);
            // Commands without effects are started whenever they are wanted.
            let changes_nothing = matches!(command, Command::PreviewTool { .. } | Command::Reconcile { .. });
            assert!(
                fresh || changes_nothing,
                "{command:?} is wanted, not in flight, and was not just recorded"
            );
            if let Command::CallTool { call, start, .. } = &command
                && self.tale == Tale::Wild
                && self.dice.one_in(30)
            {
                // The tool has changed since the verdict.
                let (call, start) = (*call, *start);
                self.mail.push_back(Input::NotDispatched { call, start, view: View::default() });
                continue;
            }
            if let Command::CallTool { call, effect, class, reply, resumed, .. } = &command {
                self.check_start(*call, *class);
                let count = self.dispatched.entry(effect.clone()).or_default();
                *count += 1;
                let said = |times: &HashMap<EffectId, u32>| times.get(effect).copied().unwrap_or(0);
                assert!(*count <= said(&self.reference.starts), "more dispatches than recorded starts");
                let again = said(&self.reference.retries) + said(&self.reference.replies);
                let repeats = !matches!(class, EffectClass::Once | EffectClass::Reconcile { .. })
                    || self.reference.watched.contains(effect);
                assert!(repeats || *count <= 1 + again, "{effect} repeated unasked");
                // A tool that only asks has had no effect yet.
                let kept = Wants::of(reply.as_deref(), resumed.as_deref());
                let does = self.will_ask(effect, kept).is_none() && self.will_defer(effect, kept).is_none();
                if self.dice.one_in(2) && does {
                    let found = result_of(effect, reply.as_ref().map(|reply| &reply.answer));
                    self.done.insert(effect.clone(), found);
                }
            }
            self.flying.push(command);
        }
    }

    /// Whether the result of a command is in the mailbox.
    fn ending(&self, command: &Command) -> bool {
        self.mail.iter().any(|input| match (input, command) {
            (Input::ModelReplied(reply), Command::CallModel { attempt, .. }) => reply.attempt == *attempt,
            (Input::ModelFailed(failed), Command::CallModel { attempt, .. }) => failed.attempt == *attempt,
            (Input::ModelStopped { attempt: ended, .. }, Command::CallModel { attempt, .. }) => {
                ended == attempt
            }
            (
                Input::ToolReturned { call: ended, .. }
                | Input::ToolStopped { call: ended, .. }
                | Input::ToolAsked { call: ended, .. }
                | Input::NotDispatched { call: ended, .. }
                | Input::ToolDeferred { call: ended, .. },
                Command::CallTool { call, .. },
            )
            | (Input::Previewed { call: ended, .. }, Command::PreviewTool { call, .. })
            | (Input::Reconciled { call: ended, .. }, Command::Reconcile { call, .. }) => ended == call,
            _ => false,
        })
    }

    /// The process dies, and another one opens the journal.
    fn crash(&mut self) {
        self.machine = if self.dice.one_in(4) {
            let cut = self.dice.below(self.journal.len() as u64 + 1) as usize;
            let snapshot = fold(&self.journal[..cut]).snapshot();
            let tail = self.journal[cut..].iter().cloned();
            Machine::restore("t".into(), Some(&snapshot), tail).expect("the journal of `t`")
        } else {
            fold(&self.journal)
        };
        self.flying.clear();
        let lost = |command| Input::Lost { command, view: View::default() };
        self.mail = self.machine.unfinished().into_iter().map(lost).collect();
        self.lack();
    }

    /// Completes a random command in flight.
    fn fly(&mut self) {
        self.now += self.dice.below(300);
        if self.flying.is_empty() || self.dice.one_in(3) {
            return;
        }
        let command = self.flying.remove(self.dice.below(self.flying.len() as u64) as usize);
        let input = match command {
            Command::CallModel { attempt, .. } => self.model_ends(attempt),
            Command::CallTool { call, effect, reply, resumed, .. } => {
                self.tool_ends(call, &effect, (reply.as_deref(), resumed.as_deref()))
            }
            Command::PreviewTool { call, round, arguments, .. } => {
                // The preview may have changed since the last one.
                let now = if self.tale == Tale::Wild && self.dice.one_in(4) { round } else { 0 };
                let preview = format!("it would do {:?} {now}", arguments.inline());
                let digest = Digest::of(preview.as_bytes());
                Input::Previewed { call, round, preview: preview.into(), digest }
            }
            Command::Reconcile { call, attempt, effect, .. } => {
                let found = self.done.get(&effect).filter(|_| self.dice.one_in(2)).cloned();
                Input::Reconciled { call, attempt, found, reason: "nothing there".into() }
            }
        };
        self.mail.push_back(input);
    }

    fn tool_ends(
        &mut self,
        call: CallKey,
        effect: &EffectId,
        (reply, resumed): (Option<&Replied>, Option<&Resumed>),
    ) -> Input {
        let kept = Wants::of(reply, resumed);
        let killed = self.stopping && self.dice.one_in(2) || self.tale == Tale::Wild && self.dice.one_in(20);
        if killed {
            let by_tool = self.dice.one_in(2);
            return Input::ToolStopped { call, reason: "it hung".into(), by_tool, view: View::default() };
        }
        if let Some(after_ms) = self.will_defer(effect, kept) {
            let state = Some(Wants { deferred: kept.deferred + 1, ..kept }.state());
            let rest = if after_ms % 2 == 0 { Rest::Repeatable } else { Rest::AsTheCall };
            return Input::ToolDeferred { call, after_ms, state, rest };
        }
        if let Some(asked) = self.will_ask(effect, kept) {
            let url = "https://mail/in".into();
            let kind = match asked {
                0 => InterruptKind::SignIn { server: "mail".into(), url, message: None },
                _ => InterruptKind::Handoff { runner: "clerk".into() },
            };
            let state = Some(Wants { asked: asked + 1, ..kept }.state());
            return Input::ToolAsked { call, kind: Box::new(kind), terms: Terms::default(), state };
        }
        let content = result_of(effect, reply.map(|reply| &reply.answer));
        // The result of a read is never offloaded; if it were, a crash would change the history.
        let dice = fixture::dice(&[self.seed, hash(effect.as_str()), 300]).one_in(3);
        let offloads = dice && self.tale == Tale::Wild;
        let offloaded = offloads.then(|| {
            let (digest, size_bytes) = (Digest::of(effect.as_str().as_bytes()), 9_000);
            let payload = BlobRef { digest, media_type: "text/plain".into(), size_bytes, tokens: 9 };
            let summary = format!("a summary of {effect}").into();
            Box::new(Offloaded { reference: effect.to_string(), payload, summary })
        });
        // Some calls change a file first.
        if self.tale == Tale::Wild && fixture::dice(&[self.seed, hash(effect.as_str()), 400]).one_in(3) {
            self.mail.push_back(Input::FileChanging { call, change: fixture::file_change() });
        }
        // Some tools store state: the last writer.
        let keeps = fixture::dice(&[self.seed, hash(effect.as_str()), 200]).one_in(3);
        let kept = || Box::new(Kept { name: "tasks".into(), value: effect.to_string().into() });
        Input::ToolReturned {
            call,
            content,
            error: false,
            unavailable: false,
            duration_ms: 3,
            kept: keeps.then(kept),
            offloaded,
        }
    }

    /// Whether a tool asks something before it has an effect; after a reply it may ask once more.
    fn will_ask(&self, effect: &EffectId, kept: Wants) -> Option<u64> {
        let asks = fixture::dice(&[self.seed, hash(effect.as_str()), kept.asked]).one_in(10);
        (kept.asked < 2 && asks).then_some(kept.asked)
    }

    /// Returns how long a tool defers its call, if it does.
    fn will_defer(&self, effect: &EffectId, kept: Wants) -> Option<u64> {
        let mut dice = fixture::dice(&[self.seed, hash(effect.as_str()), 100 + kept.deferred]);
        let defers = kept.deferred < 3 && dice.one_in(6);
        defers.then(|| [0, 1, 1_000, 60_001, 8_000_000][dice.below(5) as usize])
    }

    fn model_ends(&mut self, attempt: Attempt) -> Input {
        let run = self.machine.state().run.as_ref().expect("a run is active").id.clone();
        if self.stopping && self.dice.one_in(2) {
            let partial = self.dice.one_in(2).then(|| "so far".into());
            return Input::ModelStopped { attempt, partial };
        }
        let failures = self.failures.entry((run.clone(), attempt.step)).or_default();
        let wild = self.tale == Tale::Wild;
        if (wild || *failures < 2) && self.dice.one_in(6) {
            *failures += 1;
            let class = match self.dice.below(if wild { 10 } else { 3 }) {
                0 => FailureClass::RateLimited,
                1 => FailureClass::Transient,
                2 | 3 => FailureClass::Overloaded,
                4 | 5 => FailureClass::Truncated,
                6 | 7 => FailureClass::ContextTooLong,
                8 => FailureClass::Auth,
                _ => FailureClass::Malformed,
            };
            let mut failed = failure(attempt, class);
            failed.retry_after_ms = self.dice.one_in(3).then_some(1_500);
            failed.partial = self.dice.one_in(3).then(|| "partial".into());
            return Input::ModelFailed(Box::new(failed));
        }
        let mut input = self.model_says(&run, attempt);
        if let Input::ModelReplied(replied) = &mut input {
            self.known.entry((run, attempt.step)).or_insert_with(|| replied.view.calls.clone());
            let message = Message { role: Role::Assistant, blocks: replied.blocks.clone() };
            let names = message.calls().map(|call| call.name.clone());
            replied.view.calls = self.seen(std::mem::take(&mut replied.view.calls), names);
        }
        input
    }

    /// Nothing is in flight: time passes, a person acts, or the tale ends.
    fn idle(&mut self) -> bool {
        if let Some(deadline) = self.machine.deadline() {
            self.now = self.now.max(deadline.0 + 20);
            // Clocks only jump in wild tales.
            let is_sure = self.tale != Tale::Wild || self.dice.one_in(2);
            let open = self.machine.state().run.iter().flat_map(Run::open);
            let confirmed = open.filter(|_| is_sure).map(|(_, asked)| asked.interrupt.clone()).collect();
            self.mail.push_back(Input::Tick { confirmed });
            return true;
        }
        if self.find_tools() {
            return true;
        }
        if self.tale == Tale::Wild && self.dice.one_in(10) {
            // No person ever answers, so the run waits indefinitely.
            self.given_up = true;
            return false;
        }
        // People whose answers were rejected answer again.
        self.answered.clear();
        if self.answer() {
            return true;
        }
        if self.sent < self.messages {
            let message = self.message();
            self.outside.push_back(message);
            return true;
        }
        false
    }
}

/// Plays a story to its end.
pub fn tell(seed: u64, tale: Tale) -> World {
    let mut world = World::new(seed, tale);
    for _ in 0..5_000 {
        if !world.step() {
            world.check_end();
            return world;
        }
    }
    panic!("no end: {:?}", world.machine.state().run);
}
