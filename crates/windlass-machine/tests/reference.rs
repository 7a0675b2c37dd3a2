//! A naive reference model: an independent and simple statement of the permitted events.
//!
//! It reads the journal event by event and does not use the machine. It keeps everything in plain lists, and panics
//! if an event violates a rule.

mod asked;
mod call;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use windlass_machine::*;

pub use self::asked::ReferenceAsked;
pub use self::call::{Doing, ReferenceCall};

#[derive(Clone, Debug)]
pub struct ReferenceRun {
    pub id: RunId,
    pub agent: Arc<Agent>,
    pub options: RunOptions,
    pub from: usize,
    /// Start of the window when the run started.
    pub window: usize,
    pub attempt: Attempt,
    pub model: Option<ModelName>,
    pub next_model: ModelName,
    pub calling: bool,
    /// Attempts at the step whose process died.
    pub lost: u32,
    pub fallback: bool,
    pub retry_at: Option<Timestamp>,
    pub calls: Vec<ReferenceCall>,
    pub cancel: Option<CancelReason>,
    /// The open interrupt of the run as a whole.
    pub parked: Option<ReferenceAsked>,
    pub raised: HashMap<String, u64>,
    pub by: Principal,
    pub steps: u32,
    pub dispatched: u32,
    /// Calls that people approved, and calls that they denied.
    pub approved: u32,
    pub denied: u32,
    pub ttft_ms: Option<u64>,
    pub usage: Usage,
}

#[derive(Clone, Debug, Default)]
pub struct Reference {
    pub seq: Seq,
    pub at: Timestamp,
    pub owner: Option<Principal>,
    /// Agents by the position where they are recorded in full, and that of the newest run's.
    pub agents: HashMap<Seq, Arc<Agent>>,
    pub agent_at: Option<Seq>,
    /// Whether a budget has no room for the next step.
    pub refused: bool,
    pub history: Vec<Arc<Message>>,
    pub window: usize,
    pub queue: Vec<(InputId, Queued)>,
    /// The queued message that is taken before all others.
    pub promoted: Option<InputId>,
    pub run: Option<ReferenceRun>,
    /// The last run, its first message, and the start of the window when it started.
    pub last: Option<(RunId, usize, usize)>,
    pub ended: Vec<(RunId, RunStatus, Output)>,
    pub interrupts: HashSet<InterruptId>,
    pub runs: HashSet<RunId>,
    /// Recorded starts of each effect.
    pub starts: HashMap<EffectId, u32>,
    /// Number of retries that people requested for each effect.
    pub retries: HashMap<EffectId, u32>,
    /// Number of further starts of each effect after a question or a deferral of its tool.
    pub replies: HashMap<EffectId, u32>,
    /// Effects whose rest may be repeated.
    pub watched: HashSet<EffectId>,
    pub doubts: u32,
    /// Whether all attempts at a step were lost.
    pub is_lost_out: bool,
    /// Tool states of the thread, and those from before its newest run, for a rollback.
    pub kept: HashMap<String, Content>,
    pub kept_before: HashMap<String, Content>,
    /// The model that a person chose for the thread.
    pub model: Option<ModelName>,
}

impl ReferenceRun {
    pub fn is_waiting(&self) -> bool {
        let asks = self.calls.iter().any(|call| call.asked.is_some());
        self.parked.is_some() || asks && self.rests()
    }

    /// Whether the run only waits for a time.
    pub fn is_sleeping(&self) -> bool {
        let waits = |call: &ReferenceCall| matches!(call.doing, Doing::Sleeping(_));
        let asks = self.calls.iter().any(|call| call.asked.is_some());
        self.calls.iter().any(waits) && !asks && self.rests()
    }

    fn rests(&self) -> bool {
        self.calls.iter().all(|call| matches!(call.doing, Doing::Nothing | Doing::Sleeping(_)))
    }

    /// Returns the value of a limit, which people may have raised.
    fn figure(&self, limit: &str, usual: u64) -> u64 {
        self.raised.get(limit).map_or(usual, |raised| usual.max(*raised))
    }

    fn has_open_calls(&self) -> bool {
        self.calls.iter().any(|call| call.result.is_none())
    }

    /// Whether a call's turn in the line has come, and it may be dispatched.
    fn may_start(&self, index: usize, now: Timestamp) -> bool {
        let call = &self.calls[index];
        let pure = |call: &ReferenceCall| call.class == EffectClass::Pure;
        let earlier = self.calls[..index].iter().all(|before| {
            before.result.is_some() || (pure(before) && before.holds_its_place() && pure(call))
        });
        let beside = |(at, other): &(usize, &ReferenceCall)| *at != index && other.holds_its_place();
        let others = self.calls.iter().enumerate().filter(beside).count();
        let most = if self.options.serialized { 1 } else { self.agent.limits.max_parallel_calls as usize };
        let leave = match call.doing {
            Doing::Running => {
                let again = call.may_be_repeated() && !call.is_approved_as_shown();
                again && call.tries < self.agent.limits.max_call_starts
            }
            Doing::Sleeping(until) => until <= now && !call.is_approved_as_shown(),
            Doing::Nothing | Doing::Looking { again: true } => call.has_leave(),
            Doing::Looking { again: false } | Doing::Reading(_) | Doing::Unresolved => false,
        };
        let free = call.asked.is_none() && call.result.is_none();
        // A call that holds its place keeps it, whatever happens to its neighbours.
        let place = earlier || call.holds_its_place();
        leave && free && place && others < most && self.cancel.is_none() && !self.fallback
    }
}

impl Reference {
    /// Returns the wanted commands in short form: `model step.attempt` or `tool step/index#start`.
    pub fn wants(&self, lacks: impl Fn(&ToolName) -> bool) -> Vec<String> {
        let Some(run) = self.run.as_ref().filter(|run| run.cancel.is_none()) else { return Vec::new() };
        if run.calling {
            return vec![format!("model {}.{}", run.attempt.step, run.attempt.attempt)];
        }
        let step = run.attempt.step;
        // Calls of a missing tool are left to another process.
        let all = || run.calls.iter().enumerate().filter(|(_, call)| !lacks(&call.call.name));
        let running = all().filter(|(_, call)| call.doing == Doing::Running);
        let running = running.map(|(index, call)| format!("tool {step}/{index}#{}", call.starts));
        let looks = all().filter_map(|(index, call)| match call.doing {
            Doing::Looking { .. } => Some(format!("preview {step}/{index}#{}", call.looks)),
            Doing::Reading(attempt) => Some(format!("read {step}/{index}#{attempt}")),
            Doing::Nothing | Doing::Running | Doing::Sleeping(_) | Doing::Unresolved => None,
        });
        running.chain(looks).collect()
    }

    /// Returns the first user message with its index.
    fn first(&self) -> Option<(usize, &Arc<Message>)> {
        self.history.iter().enumerate().find(|(_, message)| message.role == Role::User)
    }

    /// Returns the messages of the next request.
    pub fn sent(&self) -> Vec<&Arc<Message>> {
        let first = self.first().filter(|(index, _)| *index < self.window).map(|(_, message)| message);
        first.into_iter().chain(&self.history[self.window..]).collect()
    }

    fn run(&mut self) -> &mut ReferenceRun {
        self.run.as_mut().expect("a run is active")
    }

    pub fn see(&mut self, event: &Event) {
        assert!(event.at >= self.at, "time runs backwards at {event:?}");
        (self.at, self.seq) = (event.at, self.seq.next());
        match &event.fact {
            Fact::ThreadCreated { owner, .. } => {
                assert!(self.runs.is_empty() && self.owner.is_none(), "created twice");
                self.owner = Some(owner.clone());
            }
            Fact::ThreadForked { .. } => unreachable!("no input forks a thread"),
            Fact::ThreadTitled { title, .. } => assert!(!title.is_empty() && title.chars().count() <= 60),
            Fact::MessageReceived { message, .. } => self.history.push(message.clone()),
            Fact::MessageQueued { id, queued } => self.queue.push((id.clone(), (**queued).clone())),
            Fact::MessageTaken { id } => {
                let first = self.promoted.take_if(|first| self.queue.iter().any(|(id, _)| id == first));
                assert!(first.is_none_or(|first| first == *id), "{id} was taken before what was promoted");
                let queued = self.unqueue(id);
                self.history.push(queued.message);
            }
            Fact::MessageWithdrawn { id, by } => {
                self.check_sender(id, by);
                drop(self.unqueue(id));
            }
            Fact::MessageEdited { id, message, by } => {
                let (_, queued) = self.queue.iter_mut().find(|(queued, _)| queued == id).expect("it waits");
                assert_eq!(queued.by, *by, "another principal changed it");
                assert_ne!(queued.message, *message, "edited to what it said");
                queued.message = message.clone();
            }
            Fact::MessagePromoted { id, by } => self.promoted(id, by),
            Fact::RunStarted { agent, options, by } => {
                let agent = self.resolved(agent);
                self.run_started(event, (&agent, options), by);
            }
            Fact::RunFinished { status, output, totals, .. } => self.run_finished(*status, output, totals),
            Fact::RunWithdrawn { .. } => {
                self.kept = self.kept_before.clone();
                let (run, from, window) = self.last.clone().expect("a run ended");
                assert_eq!(Some(run), event.run);
                assert!(self.run.is_none());
                // As if the run had never existed.
                self.history.truncate(from);
                self.window = window;
            }
            Fact::StepStarted { attempt, model, mode, nudge } => {
                self.step_started(*attempt, model, (*mode, nudge.as_deref()));
            }
            Fact::StepReplied { attempt, message, usage, ttft_ms, .. } => {
                let run = self.run();
                run.ttft_ms = run.ttft_ms.or(*ttft_ms);
                self.step_replied(*attempt, message, usage);
            }
            Fact::StepFailed { attempt, class, retry_at, .. } => {
                let run = self.run();
                run.lost += u32::from(*class == FailureClass::Lost);
                assert!(run.lost <= 3, "a step is lost without end");
                assert!(run.calling && run.attempt == *attempt);
                run.calling = false;
                run.retry_at = *retry_at;
                self.is_lost_out |= self.run().lost == 3;
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
            | Fact::GrantUsed { .. }
            | Fact::CallEdited { .. }
            | Fact::CallPreviewing { .. }
            | Fact::CallPreviewed { .. }
            | Fact::ToolStarted { .. }
            | Fact::ToolUndispatched { .. }
            | Fact::ToolFinished { .. }
            | Fact::ToolParked { .. }
            | Fact::ToolDeferred { .. }
            | Fact::ToolKept { .. }
            | Fact::FileChanging { .. }
            | Fact::ResultOffloaded { .. }
            | Fact::ToolReconciling { .. }
            | Fact::ToolUnresolved { .. }
            | Fact::ToolInDoubt { .. } => self.see_call(&event.fact),
            Fact::InterruptOpened { .. }
            | Fact::InterruptVoted { .. }
            | Fact::InterruptReminded { .. }
            | Fact::InterruptEscalated { .. }
            | Fact::InterruptClosed { .. } => self.see_interrupt(&event.fact),
            Fact::ModelSwitched { model, .. } => self.model_switched(model),
            Fact::LimitReached { refused, .. } => self.refused |= refused.is_some(),
            Fact::Note { .. } => {}
        }
    }

    fn promoted(&mut self, id: &InputId, by: &Principal) {
        self.check_sender(id, by);
        let mut queued = self.unqueue(id);
        queued.place = Place::AfterCancel;
        self.queue.insert(0, (id.clone(), queued));
        self.promoted = Some(id.clone());
    }

    fn model_switched(&mut self, model: &ModelName) {
        match &mut self.run {
            Some(run) => {
                run.next_model = model.clone();
                run.lost = 0;
            }
            None => self.model = Some(model.clone()),
        }
    }

    /// Checks that a person who changes a queued message is its sender or the thread's owner.
    fn check_sender(&self, id: &InputId, by: &Principal) {
        let (_, queued) = self.queue.iter().find(|(queued, _)| queued == id).expect("it waits");
        assert!(queued.by == *by || self.owner.as_ref() == Some(by), "{by} meddles with {id}");
    }

    fn unqueue(&mut self, id: &InputId) -> Queued {
        let at = self.queue.iter().position(|(queued, _)| queued == id).expect("it waits");
        self.queue.remove(at).1
    }

    /// The agent that the start of a run names; it is in full where it is another than that of the run before.
    fn resolved(&mut self, recorded: &RunAgent) -> Arc<Agent> {
        let before = self.agent_at.and_then(|at| self.agents.get(&at));
        let agent = match recorded {
            RunAgent::Full(agent) => {
                assert_ne!(before, Some(agent), "recorded again");
                agent.clone()
            }
            RunAgent::Same { same_as } => {
                assert_eq!(self.agent_at, Some(*same_as));
                return self.agents[same_as].clone();
            }
        };
        self.agent_at = Some(self.seq);
        self.agents.insert(self.seq, agent.clone());
        agent
    }

    fn run_started(&mut self, event: &Event, (agent, options): (&Arc<Agent>, &RunOptions), by: &Principal) {
        assert!(self.run.is_none(), "two runs at once");
        self.kept_before = self.kept.clone();
        let id = event.run.clone().expect("a run's event names its run");
        assert!(self.runs.insert(id.clone()), "run {id} twice");
        self.run = Some(ReferenceRun {
            id,
            agent: agent.clone(),
            options: options.clone(),
            from: self.history.len(),
            window: self.window,
            attempt: Attempt::default(),
            model: None,
            next_model: self.model.clone().unwrap_or_else(|| agent.models[0].clone()),
            calling: false,
            lost: 0,
            fallback: false,
            retry_at: None,
            calls: Vec::new(),
            cancel: None,
            parked: None,
            raised: HashMap::new(),
            by: by.clone(),
            steps: 0,
            dispatched: 0,
            approved: 0,
            denied: 0,
            ttft_ms: None,
            usage: Usage::default(),
        });
    }

    fn run_finished(&mut self, status: RunStatus, output: &Output, totals: &Totals) {
        let run = self.run.take().expect("a run is active");
        assert!(!run.has_open_calls() && !run.calling && run.parked.is_none(), "ended with something open");
        let refused = std::mem::take(&mut self.refused);
        assert!(run.retry_at.is_none() || run.cancel.is_some() || refused && status == RunStatus::Failed);
        assert_eq!(
            run.cancel.is_some_and(|why| !matches!(why, CancelReason::RunTimeout | CancelReason::Limit)),
            status == RunStatus::Cancelled
        );
        assert_eq!((totals.steps, totals.calls, totals.usage), (run.steps, run.dispatched, run.usage));
        let by_people = (totals.approved, totals.denied, totals.ttft_ms);
        assert_eq!(by_people, (run.approved, run.denied, run.ttft_ms));
        self.last = Some((run.id.clone(), run.from, run.window));
        self.ended.push((run.id, status, output.clone()));
    }

    fn step_started(&mut self, attempt: Attempt, model: &ModelName, (mode, nudge): (StepMode, Option<&str>)) {
        let refused = self.refused;
        let run = self.run();
        assert!(run.cancel.is_none() && !run.calling && !run.has_open_calls() && run.parked.is_none());
        assert!(!refused, "a step for which there is no room");
        let again = attempt.step == run.attempt.step && attempt.attempt == run.attempt.attempt + 1;
        let next = attempt.step == run.attempt.step + 1 && attempt.attempt == 1;
        assert!(again || next, "{:?} after {:?}", attempt, run.attempt);
        assert!(next || run.lost < 3, "another attempt after three that were lost");
        run.lost = if next { 0 } else { run.lost };
        run.fallback = mode == StepMode::Fallback;
        let most = run.figure("max_steps", u64::from(run.agent.limits.max_steps));
        assert!(u64::from(attempt.step) <= most + u64::from(run.fallback), "too many steps");
        run.steps = attempt.step;
        (run.attempt, run.calling, run.retry_at) = (attempt, true, None);
        run.calls.clear();
        assert_eq!(run.next_model, *model, "the model changed without an event");
        run.model = Some(model.clone());
        let nudges = match mode {
            StepMode::AfterEmpty(_) | StepMode::Continue | StepMode::Smaller => next,
            StepMode::Plain | StepMode::Fallback => false,
        };
        assert_eq!(nudge.is_some(), nudges, "{mode:?} of {attempt:?}");
        if let Some(text) = nudge {
            self.history.push(Arc::new(Message::text(Role::User, text)));
        }
    }

    fn step_replied(&mut self, attempt: Attempt, message: &Arc<Message>, usage: &Usage) {
        let run = self.run();
        assert!(run.calling && run.attempt == attempt);
        run.calling = false;
        run.usage.add(usage);
        run.calls = message.calls().map(ReferenceCall::new).collect();
        if message.is_worth_keeping() {
            self.history.push(message.clone());
        }
    }
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
