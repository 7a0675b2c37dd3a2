//! The library's face: start runs, watch them, answer them, stop them, and pick them up again.
//!
//! Every call goes through the driver or reads the journal; nothing is decided here.

pub(super) mod answer;
pub(super) mod attach;
pub(super) mod export;
pub(super) mod handle;
pub(super) mod messages;
pub(super) mod offer;
pub(super) mod policy;
pub(super) mod prompt;
pub(super) mod queue;
pub(super) mod status;
pub(super) mod title;
pub(super) mod wait;
pub(super) mod whose;

use std::sync::Arc;

use futures_util::stream::BoxStream;
use windlass_machine::{
    Agent, BlobRef, Content, Digest, Fork, Input, InputId, Message, ModelName, NewMessage, Principal, RunId,
    Seq, ThreadId, ToolName,
};

use crate::drive::catalog::tools::Offered;
use crate::drive::watch::{Begin, Update};
use crate::drive::{FoldedThread, Letter, NewBlobs, Services};
use crate::engine::handle::{RunHandle, ThreadHandle};
use crate::engine::whose::Whose;
use crate::error::EngineError;
use crate::outcome::Outcome;
use crate::port::background::BackgroundCommand;
use crate::port::bus::{Backlog, Position};
use crate::port::journal::{
    Accepted, Recorded, RunQuery, RunRow, StoreError, ThreadCounts, ThreadQuery, ThreadRow, ThreadStatus,
    Usage, UsageQuery,
};
use crate::port::model::Ability;
use crate::port::records::Records;
use crate::port::tool::Tool;
use crate::task::{AgentConfig, RunTools, Task};

/// How long a run that is picked up may take to read its inbox: a driver elsewhere looks each second.
const TAKEN_WITHIN_MS: u64 = 3_000;

/// How often that is looked at.
const TAKEN_LOOK_EVERY_MS: u64 = 10;

/// How often it is looked whether every thread was left.
const LEFT_LOOK_EVERY_MS: u64 = 5;

/// A durable engine over one store. Cheap to clone. Runs in progress go on until the
/// runtime ends; whatever is then unfinished is found in the journal.
#[derive(Clone)]
pub struct Engine {
    pub(crate) services: Arc<Services>,
}

/// How the tools of a run differ from the engine's.
struct Replacement {
    /// Names of the engine's tools that the run does not have.
    names: Vec<ToolName>,
    /// The tools that it has besides.
    tools: Vec<Arc<dyn Tool>>,
}

/// A run that was started, or waits behind another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Started {
    /// Its thread.
    pub thread: ThreadId,
    /// The run.
    pub run: RunId,
    /// The message's id.
    pub id: InputId,
    /// Position of the first event that the message led to; watch from before it.
    pub seq: Seq,
    /// The run that was active when the message was queued; `None` if it was not queued.
    pub behind: Option<RunId>,
    /// Whether the message waits. `false` if the active run has taken it at once.
    pub waits: bool,
    /// Position of the event that has the message.
    pub message: Seq,
}

impl Engine {
    /// Starts a run and waits until it has ended or waits for a person.
    pub async fn run_task(&self, task: Task) -> Result<Outcome, EngineError> {
        let started = self.start(task).await?;
        self.run(&started.run).wait().await
    }

    /// Starts a run; it goes on by itself.
    pub async fn start(&self, task: Task) -> Result<Started, EngineError> {
        let thread = task.thread.clone().unwrap_or_else(|| self.fresh_thread());
        self.start_in(thread, task).await
    }

    /// Starts a run and watches its thread from the run's first event on, without a gap.
    pub async fn start_watched(
        &self,
        task: Task,
    ) -> Result<(Started, BoxStream<'static, Result<Update, StoreError>>), EngineError> {
        let (thread, head) = match &task.thread {
            Some(thread) => (thread.clone(), self.services.store.journal.head(thread).await?),
            None => (self.fresh_thread(), None),
        };
        let head = head.map(|head| head.seq).unwrap_or_default();
        // Follows before it sends: whatever comes is told, and a head that has moved meanwhile is caught up with.
        let updates = self.services.watch.watch(&thread, head.into(), Begin::Live, Backlog::Fragments);
        Ok((self.start_in(thread, task).await?, updates))
    }

    /// Refuses an agent whose model is known to lack what it asks for. A name that does not resolve is for the run
    /// to record. (SK-L13)
    fn check(&self, agent: &AgentConfig) -> Result<(), EngineError> {
        let Some(name) = agent.models.first() else { return Ok(()) };
        let Ok(model) = self.services.models.resolve(name) else { return Ok(()) };
        let tools = !self.services.catalog.now().catalogue.is_empty();
        let needed =
            Ability::needed(&agent.settings).filter(|ability| tools || *ability != Ability::ToolCalls);
        match model.info().lacks(needed) {
            Some(lacking) => Err(EngineError::Config(lacking.refusal(name))),
            None => Ok(()),
        }
    }

    async fn start_in(&self, thread: ThreadId, task: Task) -> Result<Started, EngineError> {
        self.check(&task.agent)?;
        let run = RunId::from(self.fresh("run"));
        let (named, is_fresh) = (task.id.is_some(), task.thread.is_none());
        let id = task.id.unwrap_or_else(|| InputId::from(self.fresh("msg")));
        let mut blobs = NewBlobs::default();
        let mut options = task.options;
        let unsent = self.services.catalog.own.unsent(&run);
        let tools = match self.replacement(task.tools) {
            None => self.services.catalog.now_in(&task.workspace),
            Some(Replacement { names, tools }) => {
                let given = self.services.catalog.give(&task.workspace, &run, &names, tools);
                let (tools, names) = given.map_err(|error| EngineError::Config(error.to_string()))?;
                options.own_tools = names;
                tools
            }
        };
        let agent = self.pin(task.agent, &tools, &mut blobs).await?;
        let message = Message {
            role: task.message.role,
            blocks: blobs.blocks(&self.services.contents, task.message.blocks).await?,
        };
        let input = Input::Message(Box::new(NewMessage {
            id: id.clone(),
            message: Arc::new(message),
            by: task.by,
            workspace: task.workspace,
            folder: self.services.folders.recorded(task.folder),
            run: run.clone(),
            agent: Arc::new(agent),
            options,
            when_busy: task.when_busy,
            note: task.note.map(Box::new),
        }));
        let letter = Letter { blobs: blobs.0, ..Letter::plain(input) };
        // From here on the run may begin, whatever becomes of this call.
        unsent.keep();
        let sent = match (named, is_fresh) {
            (true, _) => self.services.registry.post(&thread, &id, letter).await,
            (false, true) => self.services.registry.send_first(&thread, letter).await,
            (false, false) => self.services.registry.send(&thread, &id, letter).await,
        };
        let accepted = self.services.catalog.own.settled(&run, sent)?;
        // A message that was sent before belongs to the run of that time.
        if accepted.run.as_ref().is_some_and(|begun| *begun != run) {
            self.services.catalog.own.forget(&run);
        }
        let Accepted { seq, run: begun, behind, waits, message, closed: _ } = accepted;
        let (run, message) = (begun.unwrap_or(run), message.unwrap_or(seq));
        Ok(Started { thread, run, id, seq, behind, waits, message })
    }

    pub(crate) fn fresh_thread(&self) -> ThreadId {
        ThreadId::from(self.fresh("thr"))
    }

    /// An agent as a run is pinned to it.
    async fn pin(
        &self,
        agent: AgentConfig,
        tools: &Offered,
        blobs: &mut NewBlobs,
    ) -> Result<Agent, EngineError> {
        let mut instructions = Vec::with_capacity(agent.instructions.len());
        for text in agent.instructions {
            instructions.push(blobs.text(&self.services.contents, text).await?);
        }
        Ok(Agent {
            name: agent.name,
            models: agent.models,
            instructions,
            tools: self.catalogue(tools, blobs).await?,
            settings: agent.settings,
            limits: agent.limits,
            mode: agent.mode,
        })
    }

    /// How a run's tools differ from the engine's; `None` if they do not.
    fn replacement(&self, tools: RunTools) -> Option<Replacement> {
        match tools {
            RunTools::Usual => None,
            RunTools::Replacing { names, tools } => Some(Replacement { names, tools }),
            RunTools::Nothing => {
                let catalogue = self.services.catalog.now().registry.catalogue();
                let names = catalogue.iter().map(|spec| spec.name.clone()).collect();
                Some(Replacement { names, tools: Vec::new() })
            }
        }
    }

    async fn catalogue(&self, tools: &Offered, blobs: &mut NewBlobs) -> Result<Option<BlobRef>, StoreError> {
        let bytes = tools.catalogue.clone();
        if bytes.is_empty() {
            return Ok(None);
        }
        blobs.keep(&self.services.contents, "application/json", tools.tokens, bytes).await.map(Some)
    }

    /// Whether a driver still finds out what a thread waits for: from its inbox, or by a policy that has changed.
    async fn is_looked_at(&self, thread: &ThreadId) -> Result<bool, EngineError> {
        let view = self.thread(thread).row().await?.view;
        // One that also waits for a time stays.
        let looks = view.status == ThreadStatus::Waiting
            && view.deadline.is_none()
            && self.thread(thread).is_driven();
        Ok(looks || !self.services.store.journal.inbox(thread, 1).await?.is_empty())
    }

    /// Picks up every thread that needs a driver and has none; says which, and which could not be opened and why.
    pub async fn recover(&self) -> Result<Vec<(ThreadId, Result<(), EngineError>)>, EngineError> {
        self.services.registry.open_all().await
    }

    /// Stops driving: no more threads are taken, model calls are dropped and repeated by the next process, and tools at
    /// work may end within a time, so that no outcome is lost. Commands in the background are ended. Returns how many
    /// threads had a tool at work even then; those end with the process, as in a crash.
    pub async fn hand_over(&self, within_ms: u64) -> usize {
        self.services.registry.leaving.cancel();
        // They have no time of their own beside the threads.
        self.services.background.end_soon(|_| true);
        let clock = &self.services.store.clock;
        let until_ms = clock.monotonic_ms().saturating_add(within_ms);
        loop {
            let driven = self.services.registry.actors().len();
            if driven == 0 || clock.monotonic_ms() >= until_ms {
                // A call that was still at work may have begun one.
                self.services.background.end_all().await;
                return driven;
            }
            clock.sleep_ms(LEFT_LOOK_EVERY_MS).await;
        }
    }

    /// What runs used, by time, model and agent.
    pub async fn usage(&self, query: &UsageQuery) -> Result<Usage, EngineError> {
        Ok(self.services.store.journal.usage(query).await?)
    }

    /// The whole text of a content, also where it is stored apart.
    pub async fn text(&self, content: &Content) -> Result<String, EngineError> {
        Ok(self.services.contents.text_of(content).await?)
    }

    /// A blob that an event names.
    pub async fn blob(&self, digest: &Digest) -> Result<bytes::Bytes, EngineError> {
        Ok(self.services.contents.blob(digest).await?)
    }

    /// Threads, newest activity first.
    pub async fn threads(&self, query: &ThreadQuery) -> Result<Vec<ThreadRow>, EngineError> {
        Ok(self.services.store.journal.threads(query).await?)
    }

    /// Runs, newest first: by when they began, those of one thread by where they stand in its journal.
    pub async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, EngineError> {
        Ok(self.services.store.journal.runs(query).await?)
    }

    /// Counts the runs of an owner that have begun and not ended, up to `limit`.
    pub async fn active_runs(&self, owner: &Principal, limit: usize) -> Result<usize, EngineError> {
        Ok(self.services.store.journal.active_runs(owner, limit).await?)
    }

    /// Counts threads by what they do.
    pub async fn thread_counts(&self) -> Result<ThreadCounts, EngineError> {
        Ok(self.services.store.journal.thread_counts().await?)
    }

    /// Checks the store; the text says what was checked.
    pub async fn check_store(&self) -> Result<String, EngineError> {
        Ok(self.services.store.journal.check().await?)
    }

    /// The records beside the threads: grants, modes and what a program keeps there.
    pub fn records(&self) -> &Arc<dyn Records> {
        &self.services.records
    }

    /// A fresh id with a readable prefix: the time in milliseconds and 35 random bits, five bits a letter, so that ids
    /// are short and sort by time.
    pub(crate) fn fresh(&self, prefix: &str) -> String {
        const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let mut id = format!("{prefix}_");
        let mut put = |number: u64, letters: u32| {
            (0..letters)
                .rev()
                .for_each(|at| id.push(char::from(LETTERS[(number >> (5 * at)) as usize % 32])));
        };
        put(self.services.store.clock.now().0, 9);
        put(self.services.store.clock.random(), 7);
        id
    }
}

impl ThreadHandle<'_> {
    /// Whether a thread was left to other processes just now, because its calls wait for tools that this one lacks.
    pub fn is_left_to_others(self) -> bool {
        let Self { engine, id: thread } = self;
        engine.services.catalog.own.is_put_by(thread, engine.services.store.clock.monotonic_ms())
            && !self.is_driven()
    }

    /// Makes sure that a thread whose run is active has a driver.
    pub async fn tend(self) -> Result<(), EngineError> {
        let Self { engine, id: thread } = self;
        if self.is_left_to_others() {
            return Ok(());
        }
        let view = self.row().await?.view;
        let is_due = || view.deadline.is_some_and(|at| at <= engine.services.store.clock.now());
        match view.status {
            ThreadStatus::Running => drop(engine.services.registry.open(thread).await?),
            ThreadStatus::Sleeping if is_due() => drop(engine.services.registry.open(thread).await?),
            ThreadStatus::Sleeping | ThreadStatus::Waiting | ThreadStatus::Idle => {}
        }
        Ok(())
    }

    /// Whether this engine drives a thread at this moment.
    pub fn is_driven(self) -> bool {
        let Self { engine, id: thread } = self;
        engine.services.registry.actors().contains_key(thread)
    }

    /// The commands that a thread has in the background, in whichever process they run; those of this one first.
    pub async fn commands(self) -> Result<Vec<BackgroundCommand>, EngineError> {
        let Self { engine, id: thread } = self;
        Ok(engine.services.background.of_thread(thread).await?)
    }

    /// Ends a command that a thread has in the background, with all that it has started, in whichever process it runs, and
    /// waits until it has ended.
    pub async fn end_command(self, id: &str) -> Result<(), EngineError> {
        let Self { engine, id: thread } = self;
        engine.services.background.end_one(thread, id).await
    }

    /// Sends an input to a thread's owner and waits until its outcome is durable.
    pub async fn send(self, input: Input) -> Result<Seq, EngineError> {
        let Self { engine, id: thread } = self;
        if input.is_the_drivers() {
            let what = "only a thread's driver may report that".to_owned();
            return Err(windlass_machine::Reject::Invalid { what }.into());
        }
        if engine.services.store.journal.head(thread).await?.is_none() {
            return Err(EngineError::NoThread(thread.clone()));
        }
        let id = InputId::from(engine.fresh("inp"));
        Ok(engine.services.registry.send(thread, &id, Letter::plain(input)).await??.seq)
    }

    /// Watches a thread from after a position: events in order, live fragments between them.
    pub fn watch(self, after: Seq) -> BoxStream<'static, Result<Update, StoreError>> {
        self.watch_from(after.into(), Backlog::Fragments)
    }

    /// Watches a thread from where a watcher stood, also in the middle of a reply: neither an event nor a fragment that
    /// it has is told again. Fragments that can no longer be told one by one come as a snapshot of the reply so far.
    /// With [`Backlog::Snapshot`], the fragments that exist at the time of the call come as a snapshot, too.
    pub fn watch_from(
        self,
        after: Position,
        backlog: Backlog,
    ) -> BoxStream<'static, Result<Update, StoreError>> {
        let Self { engine, id: thread } = self;
        engine.services.watch.watch(thread, after, Begin::Journal, backlog)
    }

    /// Reads events after a position.
    pub async fn events(self, after: Seq, limit: usize) -> Result<Vec<Recorded>, EngineError> {
        let Self { engine, id: thread } = self;
        Ok(engine.services.store.journal.read(thread, after, limit).await?)
    }

    /// Reads the last events before a position, in the order of the journal; `Seq(u64::MAX)` begins at its end.
    pub async fn events_before(self, before: Seq, limit: usize) -> Result<Vec<Recorded>, EngineError> {
        let Self { engine, id: thread } = self;
        Ok(engine.services.store.journal.read_back(thread, before, limit).await?)
    }

    /// One thread.
    pub async fn row(self) -> Result<ThreadRow, EngineError> {
        let Self { engine, id: thread } = self;
        engine
            .services
            .store
            .journal
            .thread(thread)
            .await?
            .ok_or_else(|| EngineError::NoThread(thread.clone()))
    }

    /// Makes a new thread that begins with the history of another one up to event `at`, in the other one's workspace
    /// and with its title; `by` owns it, and its tools work in `folder`. Refused with
    /// [`RunActive`](windlass_machine::Reject::RunActive), which names the nearest place, where a run is active at
    /// `at`. Nothing of the history is done or charged again: its runs stay the other thread's. What waits in the
    /// other thread stays there.
    pub async fn fork(self, at: Seq, by: Principal, folder: Option<String>) -> Result<ThreadId, EngineError> {
        let Self { engine, id: thread } = self;
        let folder = engine.services.folders.recorded(folder);
        let title = self.row().await?.view.title;
        let fork = Fork { thread: engine.fresh_thread(), until: at, by, folder, title };
        engine.services.registry.fork(thread, &fork).await?;
        Ok(fork.thread)
    }

    /// Deletes a thread; refused while a run is active in it. Its commands in the background are ended; those of another
    /// process by that one, within a second or two.
    pub async fn delete(self) -> Result<(), EngineError> {
        let Self { engine, id: thread } = self;
        engine.services.store.journal.delete(thread).await?;
        engine.services.background.end(|command| command.thread == *thread).await;
        // Where the process dies in between, the mode is found later to be of no thread.
        engine.policy().set_auto_run(&Whose::Thread(thread.clone()), None).await
    }

    /// Folds a thread's journal as it is now, without driving the thread.
    pub async fn folded(self) -> Result<FoldedThread, EngineError> {
        let Self { engine, id: thread } = self;
        engine.services.store.folded(thread).await
    }
}

impl RunHandle<'_> {
    /// Picks a run up where it stands, unless another live process has it. An answer that was left for it and a policy
    /// that has changed count first, so that what it seems to wait for is what it waits for.
    pub async fn resume(self) -> Result<RunRow, EngineError> {
        let engine = self.engine;
        let row = self.row().await?;
        if row.view.status.is_none() {
            engine.services.registry.open(&row.thread).await?;
            let clock = &engine.services.store.clock;
            let until = clock.now().plus_ms(TAKEN_WITHIN_MS);
            while engine.is_looked_at(&row.thread).await? && clock.now() < until {
                clock.sleep_ms(TAKEN_LOOK_EVERY_MS).await;
            }
        }
        Ok(row)
    }

    /// Asks a run to end.
    pub async fn cancel(self, by: Principal) -> Result<Seq, EngineError> {
        let Self { engine, id: run } = self;
        let row = self.row().await?;
        engine.thread(&row.thread).send(Input::Cancel { run: Some(run.clone()), by }).await
    }
}

/// An agent that is nothing but a model.
impl From<&str> for AgentConfig {
    fn from(model: &str) -> Self {
        Self { name: "default".into(), models: vec![ModelName::from(model)], ..Self::default() }
    }
}
