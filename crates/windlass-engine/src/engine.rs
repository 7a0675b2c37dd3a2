//! The public API: start, watch, answer, cancel and resume runs.
//!
//! Every method calls the driver or reads the journal; it makes no decisions.

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

/// Timeout in milliseconds for `resume` to wait until the driver has read the run's inbox. A driver in another
/// process polls the inbox each second.
const TAKEN_WITHIN_MS: u64 = 3_000;

/// Interval of the checks whether the driver has read the inbox, in milliseconds.
const TAKEN_LOOK_EVERY_MS: u64 = 10;

/// Interval of the checks whether all drivers have ended, in milliseconds.
const LEFT_LOOK_EVERY_MS: u64 = 5;

/// A durable engine over one store. Cheap to clone. Active runs continue until the runtime ends; another engine
/// resumes unfinished runs from the journal.
#[derive(Clone)]
pub struct Engine {
    pub(crate) services: Arc<Services>,
}

/// The difference between the tools of a run and the engine's tools.
struct Replacement {
    /// Names of the engine's tools that the run does not have.
    names: Vec<ToolName>,
    /// Tools that the run has in addition.
    tools: Vec<Arc<dyn Tool>>,
}

/// A run that was started or queued.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Started {
    /// Thread of the run; new if the task named none.
    pub thread: ThreadId,
    /// Id of the run, also if it is queued.
    pub run: RunId,
    /// Id of the message; a repeated send with this id returns the same run.
    pub id: InputId,
    /// Position of the first event that the message caused. To see
    /// all of these events, watch from the previous position.
    pub seq: Seq,
    /// The run that was active when the message was queued; `None` if it was not queued.
    pub behind: Option<RunId>,
    /// Whether the message is queued. `false` if the active run accepted the message immediately.
    pub waits: bool,
    /// Position of the event that contains the message.
    pub message: Seq,
}

impl Engine {
    /// Starts a run and waits until it ends or waits for a person.
    pub async fn run_task(&self, task: Task) -> Result<Outcome, EngineError> {
        let started = self.start(task).await?;
        self.run(&started.run).wait().await
    }

    /// Starts a run and returns. The run continues in the background.
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
        // Subscribes before sending, so that no update is missed.
        // If the head has moved since, the watcher catches up.
        let updates = self.services.watch.watch(&thread, head.into(), Begin::Live, Backlog::Fragments);
        Ok((self.start_in(thread, task).await?, updates))
    }

    /// Rejects an agent if its model is known to lack a required ability. An unknown model name is not rejected here:
    /// the run records that failure. (SK-L13)
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
        // From here on the run may start, even if this function fails.
        unsent.keep();
        let sent = match (named, is_fresh) {
            (true, _) => self.services.registry.post(&thread, &id, letter).await,
            (false, true) => self.services.registry.send_first(&thread, letter).await,
            (false, false) => self.services.registry.send(&thread, &id, letter).await,
        };
        let accepted = self.services.catalog.own.settled(&run, sent)?;
        // A repeated message belongs to the run of its first send.
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

    /// Creates the agent definition that a run is pinned to.
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

    /// Returns the difference between a run's tools and the engine's tools; `None` if they are equal.
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

    /// Whether a driver still has to process the thread's inbox or a changed policy, so that its status may change.
    async fn has_pending_work(&self, thread: &ThreadId) -> Result<bool, EngineError> {
        let view = self.thread(thread).row().await?.view;
        // A thread that also waits for a deadline keeps its driver.
        let looks = view.status == ThreadStatus::Waiting
            && view.deadline.is_none()
            && self.thread(thread).is_driven();
        Ok(looks || !self.services.store.journal.inbox(thread, 1).await?.is_empty())
    }

    /// Opens every thread that needs a driver and has none. Returns
    /// each thread, with the error if it could not be opened.
    pub async fn recover(&self) -> Result<Vec<(ThreadId, Result<(), EngineError>)>, EngineError> {
        self.services.registry.open_all().await
    }

    /// Stops driving threads before the process ends. The engine claims no more threads and drops model calls, which
    /// the next process repeats. Running tools get `within_ms` milliseconds to finish, so that their outcomes are not
    /// lost. Background commands are ended. Returns the number of threads whose tools were still running; those calls
    /// end with the process, as in a crash.
    pub async fn hand_over(&self, within_ms: u64) -> usize {
        self.services.registry.leaving.cancel();
        // Background commands get no grace period beyond that of the threads.
        self.services.background.end_soon(|_| true);
        let clock = &self.services.store.clock;
        let until_ms = clock.monotonic_ms().saturating_add(within_ms);
        loop {
            let driven = self.services.registry.actors().len();
            if driven == 0 || clock.monotonic_ms() >= until_ms {
                // A tool call that was still running may have started another command.
                self.services.background.end_all().await;
                return driven;
            }
            clock.sleep_ms(LEFT_LOOK_EVERY_MS).await;
        }
    }

    /// Sums up the usage of runs, by time, model and agent.
    pub async fn usage(&self, query: &UsageQuery) -> Result<Usage, EngineError> {
        Ok(self.services.store.journal.usage(query).await?)
    }

    /// Returns the whole text of a content, also if it is stored as a blob.
    pub async fn text(&self, content: &Content) -> Result<String, EngineError> {
        Ok(self.services.contents.text_of(content).await?)
    }

    /// Reads a blob that an event references.
    pub async fn blob(&self, digest: &Digest) -> Result<bytes::Bytes, EngineError> {
        Ok(self.services.contents.blob(digest).await?)
    }

    /// Lists threads, most recently active first.
    pub async fn threads(&self, query: &ThreadQuery) -> Result<Vec<ThreadRow>, EngineError> {
        Ok(self.services.store.journal.threads(query).await?)
    }

    /// Lists runs by start time, newest first; runs of one thread by their position in its journal.
    pub async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, EngineError> {
        Ok(self.services.store.journal.runs(query).await?)
    }

    /// Counts the unfinished runs of an owner, up to `limit`.
    pub async fn active_runs(&self, owner: &Principal, limit: usize) -> Result<usize, EngineError> {
        Ok(self.services.store.journal.active_runs(owner, limit).await?)
    }

    /// Counts threads by status.
    pub async fn thread_counts(&self) -> Result<ThreadCounts, EngineError> {
        Ok(self.services.store.journal.thread_counts().await?)
    }

    /// Checks the integrity of the store. Returns a description of the checks.
    pub async fn check_store(&self) -> Result<String, EngineError> {
        Ok(self.services.store.journal.check().await?)
    }

    /// Returns the records outside the threads: grants, modes and data of the host program.
    pub fn records(&self) -> &Arc<dyn Records> {
        &self.services.records
    }

    /// Generates an id with a readable prefix. The id encodes the time in milliseconds and 35 random bits with five
    /// bits per character, so that ids are short and sort by time.
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
    /// Whether this process has just released the thread, because its calls wait for tools that only other processes
    /// have.
    pub fn is_left_to_others(self) -> bool {
        let Self { engine, id: thread } = self;
        engine.services.catalog.own.is_put_by(thread, engine.services.store.clock.monotonic_ms())
            && !self.is_driven()
    }

    /// Makes sure that a thread with an active run has a driver.
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

    /// Whether this engine is driving the thread now.
    pub fn is_driven(self) -> bool {
        let Self { engine, id: thread } = self;
        engine.services.registry.actors().contains_key(thread)
    }

    /// Lists the background commands of a thread in all processes, those of this process first.
    pub async fn commands(self) -> Result<Vec<BackgroundCommand>, EngineError> {
        let Self { engine, id: thread } = self;
        Ok(engine.services.background.of_thread(thread).await?)
    }

    /// Ends a background command of a thread, with all processes that it started, and waits until it has ended. The
    /// command may run in another process.
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

    /// Watches a thread from after a position: events in order, with live fragments between them.
    pub fn watch(self, after: Seq) -> BoxStream<'static, Result<Update, StoreError>> {
        self.watch_from(after.into(), Backlog::Fragments)
    }

    /// Watches a thread from a previous watcher's position, which may be within a reply. Events and fragments up to
    /// that position are not repeated. If the bus no longer has the fragments one by one, the stream delivers a
    /// snapshot of the received part of the reply. With [`Backlog::Snapshot`], all fragments that exist at the time
    /// of the call are delivered as a snapshot as well.
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

    /// Returns the thread's row.
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

    /// Creates a thread whose history is a copy of this thread's up to event `at`. The new thread keeps the workspace
    /// and title. `by` owns the new thread, and its tools work in `folder`. If a run is active at `at`, the call
    /// fails with [`RunActive`](windlass_machine::Reject::RunActive), which names the nearest possible position. The
    /// copied history is not executed or charged again, and its runs still belong to the original thread. Queued
    /// messages remain in the original thread.
    pub async fn fork(self, at: Seq, by: Principal, folder: Option<String>) -> Result<ThreadId, EngineError> {
        let Self { engine, id: thread } = self;
        let folder = engine.services.folders.recorded(folder);
        let title = self.row().await?.view.title;
        let fork = Fork { thread: engine.fresh_thread(), until: at, by, folder, title };
        engine.services.registry.fork(thread, &fork).await?;
        Ok(fork.thread)
    }

    /// Deletes a thread. Fails while a run is active in it. The call ends the thread's background commands in this
    /// process. Other processes end theirs within two seconds.
    pub async fn delete(self) -> Result<(), EngineError> {
        let Self { engine, id: thread } = self;
        engine.services.store.journal.delete(thread).await?;
        engine.services.background.end(|command| command.thread == *thread).await;
        // If the process dies before this call, a later cleanup removes the auto-run choice of the deleted thread.
        engine.policy().set_auto_run(&Whose::Thread(thread.clone()), None).await
    }

    /// Folds a thread's current journal without driving the thread.
    pub async fn folded(self) -> Result<FoldedThread, EngineError> {
        let Self { engine, id: thread } = self;
        engine.services.store.folded(thread).await
    }
}

impl RunHandle<'_> {
    /// Resumes a run, unless another live process drives it. Returns after the driver
    /// has processed pending inbox answers and policy changes, so that a status read
    /// afterwards is current. The returned row was read before that processing.
    pub async fn resume(self) -> Result<RunRow, EngineError> {
        let engine = self.engine;
        let row = self.row().await?;
        if row.view.status.is_none() {
            engine.services.registry.open(&row.thread).await?;
            let clock = &engine.services.store.clock;
            let until = clock.now().plus_ms(TAKEN_WITHIN_MS);
            while engine.has_pending_work(&row.thread).await? && clock.now() < until {
                clock.sleep_ms(TAKEN_LOOK_EVERY_MS).await;
            }
        }
        Ok(row)
    }

    /// Requests cancellation of a run.
    pub async fn cancel(self, by: Principal) -> Result<Seq, EngineError> {
        let Self { engine, id: run } = self;
        let row = self.row().await?;
        engine.thread(&row.thread).send(Input::Cancel { run: Some(run.clone()), by }).await
    }
}

/// Creates a default agent that uses this model.
impl From<&str> for AgentConfig {
    fn from(model: &str) -> Self {
        Self { name: "default".into(), models: vec![ModelName::from(model)], ..Self::default() }
    }
}
