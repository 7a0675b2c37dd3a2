//! A naive reference: what may happen and what must stand where, said a second time and simply.
//!
//! It reads the journal event by event and knows nothing of the machine. It keeps everything, looks
//! through plain lists, and panics where an event breaks a rule.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use windlass_machine::*;

/// A place of the history.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A message that the journal holds.
    Said(Arc<Message>),
    /// A user text of the engine's own.
    Nudge,
    /// Withdrawn, and already out of the window.
    Gap,
}

#[derive(Clone, Debug)]
pub struct ReferenceCall {
    pub call: ToolCall,
    pub class: EffectClass,
    pub allowed: bool,
    pub interrupt: Option<InterruptId>,
    pub in_doubt: bool,
    pub running: bool,
    pub starts: u32,
    pub result: Option<ToolResult>,
}

#[derive(Clone, Debug)]
pub struct ReferenceRun {
    pub id: RunId,
    pub agent: Arc<Agent>,
    pub options: RunOptions,
    pub from: usize,
    pub attempt: Attempt,
    pub model: Option<ModelName>,
    pub next_model: ModelName,
    pub calling: bool,
    pub fallback: bool,
    pub retry_at: Option<Timestamp>,
    pub calls: Vec<ReferenceCall>,
    pub cancel: Option<CancelReason>,
    pub steps: u32,
    pub dispatched: u32,
    pub usage: Usage,
}

#[derive(Clone, Debug, Default)]
pub struct Reference {
    pub at: Timestamp,
    pub history: Vec<Entry>,
    pub window: usize,
    pub queue: Vec<(InputId, Queued)>,
    pub run: Option<ReferenceRun>,
    pub last: Option<(RunId, usize)>,
    pub ended: Vec<(RunId, RunStatus, Output)>,
    pub interrupts: HashSet<InterruptId>,
    pub runs: HashSet<RunId>,
    /// Recorded starts of each effect.
    pub starts: HashMap<EffectId, u32>,
    /// How often a person said that an effect is to be repeated.
    pub retries: HashMap<EffectId, u32>,
    pub doubts: u32,
    /// The model that a person chose for the thread.
    pub model: Option<ModelName>,
}

impl ReferenceRun {
    pub fn is_waiting(&self) -> bool {
        self.calls.iter().any(|call| call.interrupt.is_some()) && !self.calls.iter().any(|call| call.running)
    }

    fn has_open_calls(&self) -> bool {
        self.calls.iter().any(|call| call.result.is_none())
    }

    /// Whether a call's place in the line has come.
    fn may_start(&self, index: usize) -> bool {
        let call = &self.calls[index];
        let pure = |call: &ReferenceCall| call.class == EffectClass::Pure;
        let earlier = self.calls[..index]
            .iter()
            .all(|before| before.result.is_some() || (pure(before) && before.running && pure(call)));
        let others =
            self.calls.iter().enumerate().filter(|(at, other)| *at != index && other.running).count();
        let most = if self.options.serialized { 1 } else { self.agent.limits.max_parallel_calls as usize };
        let once = !call.running
            || (call.class != EffectClass::Once && call.starts < self.agent.limits.max_call_starts);
        call.allowed
            && call.interrupt.is_none()
            && call.result.is_none()
            && earlier
            && others < most
            && once
            && self.cancel.is_none()
            && !self.fallback
    }
}

impl Reference {
    /// What should be in flight, in short: `model step.attempt` or `tool step/index#start`.
    pub fn wants(&self) -> Vec<String> {
        let Some(run) = self.run.as_ref().filter(|run| run.cancel.is_none()) else { return Vec::new() };
        if run.calling {
            return vec![format!("model {}.{}", run.attempt.step, run.attempt.attempt)];
        }
        let running = run.calls.iter().enumerate().filter(|(_, call)| call.running);
        running.map(|(index, call)| format!("tool {}/{index}#{}", run.attempt.step, call.starts)).collect()
    }

    /// The first message of a user, with its index.
    fn first(&self) -> Option<(usize, &Entry)> {
        self.history.iter().enumerate().find(|(_, entry)| match entry {
            Entry::Said(message) => message.role == Role::User,
            Entry::Nudge => true,
            Entry::Gap => false,
        })
    }

    /// The history that a request holds.
    pub fn sent(&self) -> Vec<&Entry> {
        let first = self.first().filter(|(index, _)| *index < self.window).map(|(_, entry)| entry);
        first.into_iter().chain(&self.history[self.window..]).collect()
    }

    fn run(&mut self) -> &mut ReferenceRun {
        self.run.as_mut().expect("a run is active")
    }

    pub fn see(&mut self, event: &Event) {
        assert!(event.at >= self.at, "time runs backwards at {event:?}");
        self.at = event.at;
        match &event.fact {
            Fact::ThreadCreated { .. } => assert!(self.runs.is_empty(), "created twice"),
            Fact::ThreadTitled { title, .. } => assert!(!title.is_empty() && title.chars().count() <= 60),
            Fact::MessageReceived { message, .. } => self.history.push(Entry::Said(message.clone())),
            Fact::MessageQueued { id, queued } => self.queue.push((id.clone(), (**queued).clone())),
            Fact::MessageTaken { id } => {
                let queued = self.unqueue(id);
                self.history.push(Entry::Said(queued.message));
            }
            Fact::MessageWithdrawn { id } => drop(self.unqueue(id)),
            Fact::RunStarted { agent, options } => self.run_started(event, agent, options),
            Fact::RunFinished { status, output, totals, .. } => self.run_finished(*status, output, totals),
            Fact::RunWithdrawn { .. } => {
                let (run, from) = self.last.clone().expect("a run ended");
                assert_eq!(Some(run), event.run);
                assert!(self.run.is_none());
                self.history.truncate(from);
                while self.history.len() < self.window {
                    self.history.push(Entry::Gap);
                }
            }
            Fact::StepStarted { attempt, model, mode } => self.step_started(*attempt, model, *mode),
            Fact::StepReplied { attempt, message, usage, .. } => self.step_replied(*attempt, message, usage),
            Fact::StepFailed { attempt, retry_at, .. } => {
                let run = self.run();
                assert!(run.calling && run.attempt == *attempt);
                run.calling = false;
                run.retry_at = *retry_at;
            }
            Fact::WindowMoved { start } => {
                let start = usize::try_from(*start).unwrap();
                assert!(start > self.window && start < self.history.len(), "window to {start}");
                self.window = start;
            }
            Fact::CancelRequested { reason, .. } => {
                let run = self.run();
                assert!(run.cancel.is_none() || *reason == CancelReason::RolledBack);
                run.cancel = Some(*reason);
            }
            Fact::CallJudged { .. }
            | Fact::InterruptOpened { .. }
            | Fact::InterruptClosed { .. }
            | Fact::ToolStarted { .. }
            | Fact::ToolFinished { .. }
            | Fact::ToolInDoubt { .. } => self.see_call(&event.fact),
            Fact::ModelSwitched { model, .. } => match &mut self.run {
                Some(run) => run.next_model = model.clone(),
                None => self.model = Some(model.clone()),
            },
            Fact::LimitReached { .. } | Fact::Note { .. } => {}
        }
    }

    fn unqueue(&mut self, id: &InputId) -> Queued {
        let at = self.queue.iter().position(|(queued, _)| queued == id).expect("it waits");
        self.queue.remove(at).1
    }

    fn run_started(&mut self, event: &Event, agent: &Arc<Agent>, options: &RunOptions) {
        assert!(self.run.is_none(), "two runs at once");
        let id = event.run.clone().expect("a run's event names its run");
        assert!(self.runs.insert(id.clone()), "run {id} twice");
        self.run = Some(ReferenceRun {
            id,
            agent: agent.clone(),
            options: options.clone(),
            from: self.history.len(),
            attempt: Attempt::default(),
            model: None,
            next_model: self.model.clone().unwrap_or_else(|| agent.models[0].clone()),
            calling: false,
            fallback: false,
            retry_at: None,
            calls: Vec::new(),
            cancel: None,
            steps: 0,
            dispatched: 0,
            usage: Usage::default(),
        });
    }

    fn run_finished(&mut self, status: RunStatus, output: &Output, totals: &Totals) {
        let run = self.run.take().expect("a run is active");
        assert!(!run.has_open_calls() && !run.calling, "ended with something open");
        assert!(run.retry_at.is_none() || run.cancel.is_some());
        assert_eq!(
            run.cancel.is_some_and(|why| why != CancelReason::RunTimeout),
            status == RunStatus::Cancelled
        );
        assert_eq!((totals.steps, totals.calls, totals.usage), (run.steps, run.dispatched, run.usage));
        self.last = Some((run.id.clone(), run.from));
        self.ended.push((run.id, status, output.clone()));
    }

    fn step_started(&mut self, attempt: Attempt, model: &ModelName, mode: StepMode) {
        let run = self.run();
        assert!(run.cancel.is_none() && !run.calling && !run.has_open_calls());
        let again = attempt.step == run.attempt.step && attempt.attempt == run.attempt.attempt + 1;
        let next = attempt.step == run.attempt.step + 1 && attempt.attempt == 1;
        assert!(again || next, "{:?} after {:?}", attempt, run.attempt);
        run.fallback = mode == StepMode::Fallback;
        assert!(attempt.step <= run.agent.limits.max_steps + u32::from(run.fallback), "too many steps");
        run.steps = attempt.step;
        (run.attempt, run.calling, run.retry_at) = (attempt, true, None);
        run.calls.clear();
        assert_eq!(run.next_model, *model, "the model changed without an event");
        run.model = Some(model.clone());
        let nudges = match mode {
            StepMode::AfterEmpty(_) | StepMode::Continue | StepMode::Smaller => next,
            StepMode::Plain | StepMode::Fallback => false,
        };
        if nudges {
            self.history.push(Entry::Nudge);
        }
    }

    fn step_replied(&mut self, attempt: Attempt, message: &Arc<Message>, usage: &Usage) {
        let run = self.run();
        assert!(run.calling && run.attempt == attempt);
        run.calling = false;
        run.usage.add(usage);
        let calls = message.calls().map(|call| ReferenceCall {
            call: call.clone(),
            class: EffectClass::Once,
            allowed: false,
            interrupt: None,
            in_doubt: false,
            running: false,
            starts: 0,
            result: None,
        });
        run.calls = calls.collect();
        if message.is_worth_keeping() {
            self.history.push(Entry::Said(message.clone()));
        }
    }

    fn see_call(&mut self, fact: &Fact) {
        let run = self.run.as_mut().expect("a run is active");
        match fact {
            Fact::CallJudged { call, verdict, class, .. } => {
                let call = open(run, *call);
                assert!(!call.running, "judged while it runs");
                (call.allowed, call.class) = (*verdict == Verdict::Allow, *class);
            }
            Fact::InterruptOpened { interrupt, kind, call } => {
                assert!(self.interrupts.insert(interrupt.clone()), "interrupt {interrupt} twice");
                let call = open(run, *call);
                assert_eq!(call.in_doubt, matches!(kind, InterruptKind::InDoubt { .. }));
                assert!(!call.running && call.interrupt.is_none());
                (call.interrupt, call.allowed) = (Some(interrupt.clone()), false);
            }
            Fact::InterruptClosed { interrupt, answer, .. } => {
                let step = run.attempt.step;
                let asks = |call: &ReferenceCall| call.interrupt.as_ref() == Some(interrupt);
                let index = run.calls.iter().position(asks).expect("an open interrupt");
                let key = CallKey { step, index: index as u32 };
                let call = &mut run.calls[index];
                call.interrupt = None;
                if *answer == Answer::Retry {
                    assert!(call.in_doubt);
                    *self.retries.entry(effect(&run.id, key)).or_default() += 1;
                }
                call.allowed = matches!(answer, Answer::Approve | Answer::Retry);
                call.in_doubt = false;
            }
            Fact::ToolStarted { call, effect: id, .. } => {
                let index = call.index as usize;
                assert!(run.may_start(index), "{call:?} may not start: {:?}", run.calls);
                assert_eq!(*id, effect(&run.id, *call));
                let call = &mut run.calls[index];
                (call.running, call.starts) = (true, call.starts + 1);
                run.dispatched += u32::from(call.starts == 1);
                *self.starts.entry(id.clone()).or_default() += 1;
            }
            Fact::ToolInDoubt { call, .. } => {
                let call = open(run, *call);
                assert!(call.running && call.class != EffectClass::Pure);
                (call.running, call.in_doubt) = (false, true);
                self.doubts += 1;
            }
            Fact::ToolFinished { call, outcome, content, error, .. } => {
                let call = open(run, *call);
                match outcome {
                    Outcome::Returned => assert!(call.running),
                    Outcome::Refused | Outcome::Denied => assert!(!call.running && call.starts == 0),
                    Outcome::Cancelled => assert!(call.starts == 0 || call.class == EffectClass::Pure),
                    Outcome::InDoubt | Outcome::Told => assert!(call.starts > 0 && !call.running),
                }
                assert!(call.interrupt.is_none(), "a result while it is asked");
                call.running = false;
                call.result = Some(ToolResult {
                    call_id: call.call.id.clone(),
                    name: call.call.name.clone(),
                    content: content.clone(),
                    error: *error,
                });
                if !run.has_open_calls() {
                    let results = run.calls.iter().filter_map(|call| call.result.clone());
                    let blocks = results.map(Block::ToolResult).collect();
                    self.history.push(Entry::Said(Arc::new(Message { role: Role::Tool, blocks })));
                }
            }
            other => unreachable!("{other:?} is not about a call"),
        }
    }
}

/// A call that has no result yet: a second result for it is a broken rule.
fn open(run: &mut ReferenceRun, key: CallKey) -> &mut ReferenceCall {
    assert_eq!(key.step, run.attempt.step);
    let call = &mut run.calls[key.index as usize];
    assert!(call.result.is_none(), "{key:?} has a result already");
    call
}

fn effect(run: &RunId, key: CallKey) -> EffectId {
    EffectId::from(format!("t/{run}/{}/{}", key.step, key.index))
}

/// Checks that a request's history is valid: calls and results in pairs, in order, without orphans.
pub fn check_pairs(messages: &[Arc<Message>]) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            let results: Vec<&str> = message
                .blocks
                .iter()
                .map(|block| match block {
                    Block::ToolResult(result) => result.call_id.as_str(),
                    other => panic!("{other:?} among results"),
                })
                .collect();
            assert_eq!(results, open, "results do not match their calls");
            open.clear();
        } else {
            assert!(open.is_empty(), "calls without results: {open:?}");
            open = message.calls().map(|call| call.id.as_str()).collect();
        }
    }
    assert!(open.is_empty(), "calls without results at the end: {open:?}");
}
