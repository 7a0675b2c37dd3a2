//! Windlass with its durable SQLite store in the configured folder.
//!
//! In streaming mode, a consumer watches each run like a person: it receives every fragment and the events between
//! them. In the other mode, no consumer watches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};
use async_trait::async_trait;
use futures::StreamExt;
use windlass::machine::{Annotations, Fact, Limits, Seq, ThreadId};
use windlass::models::{ProviderCatalog, ProviderConfig, Secret};
use windlass::port::journal::{Recorded, ThreadStatus};
use windlass::port::model::Delta;
use windlass::sqlite::SqliteFolder;
use windlass::tool::FunctionTool;
use windlass::{AgentConfig, Engine, Status, Task, Update};

use super::{Driver, Mode, PROMPT, RunProbe, Settings, TOOL_DESCRIPTION, TOOL_NAME, Window};
use crate::machine;

/// Whether the table measures this program.
pub(super) const IS_WRITTEN: bool = true;

/// Number of events per read when the journal's size is computed.
const PAGE: usize = 1_000;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

struct Windlass {
    engine: Engine,
    agent: AgentConfig,
    mode: Mode,
    tool_calls_ns: Arc<Mutex<Vec<u64>>>,
    threads: Mutex<Vec<ThreadId>>,
    waits: bool,
}

/// Opens the engine on a new store in `settings.folder`, with the tool [`TOOL_NAME`], chat completions at
/// `settings.base_url`, and the window of `settings.window`. Each run gets a new thread.
pub(super) async fn start(settings: &Settings) -> Result<Box<dyn Driver>> {
    let tool_calls_ns = Arc::new(Mutex::new(Vec::new()));
    let noted = tool_calls_ns.clone();
    let echo = FunctionTool::new(TOOL_NAME, TOOL_DESCRIPTION, move |_, echo: Echo| {
        lock(&noted).push(machine::monotonic_ns());
        async move { echo.text }
    });
    let pure = Annotations { read_only_hint: !settings.waits, ..Annotations::default() };
    let provider = ProviderConfig {
        base_url: Some(settings.base_url.clone()),
        api_key: Some(Secret::new("none")),
        ..ProviderConfig::default()
    };
    let models = ProviderCatalog::builder().provider("openai-chat", provider).build()?;
    let engine = windlass::builder()
        .models(Arc::new(models))
        .tools(windlass::registry().add(Arc::new(echo.annotations(pure).reads_locally()))?)
        .store(SqliteFolder::new(settings.folder.join("store")))
        .build()
        .await?;
    let mut limits = Limits::default();
    // Other scripts stay within the default, so that their journals record no limits.
    if settings.model.contains("loop") {
        limits.max_steps = 100_000;
    }
    if settings.window == Window::Off {
        limits.window_messages = 0;
    }
    let model = format!("openai-chat/{}", settings.model);
    let agent = AgentConfig { limits, ..AgentConfig::from(model.as_str()) };
    let (mode, waits) = (settings.mode, settings.waits);
    Ok(Box::new(Windlass { engine, agent, mode, waits, tool_calls_ns, threads: Mutex::default() }))
}

impl Windlass {
    async fn watch(&self, task: Task, probe: &RunProbe) -> Result<String> {
        let (started, mut updates) = self.engine.start_watched(task).await?;
        lock(&self.threads).push(started.thread);
        let mut said = String::new();
        while let Some(update) = updates.next().await {
            match update? {
                Update::Delta { delta: Delta::Text { text, .. }, .. } => probe.text(&text),
                Update::Event(Recorded { event, .. }) => match &event.fact {
                    Fact::StepReplied { message, .. } => said = message.plain_text(),
                    Fact::RunFinished { error: None, .. } => return Ok(said),
                    Fact::RunFinished { error, .. } => bail!("the run failed: {error:?}"),
                    _ => {}
                },
                Update::Status(ThreadStatus::Waiting) if self.waits => return Ok(String::new()),
                Update::Snapshot { .. } => bail!("the watcher was too slow to receive every fragment"),
                Update::Delta { .. } | Update::Progress { .. } | Update::Status(_) => {}
                Update::Stopped { why } => bail!("driving stopped: {why}"),
            }
        }
        bail!("the stream ended before the run")
    }

    async fn wait(&self, task: Task) -> Result<String> {
        let outcome = self.engine.run_task(task).await?;
        lock(&self.threads).push(outcome.thread);
        match outcome.status {
            Status::Done => Ok(outcome.text.unwrap_or_default()),
            status => bail!("the run ended as {status:?}: {:?}", outcome.errors),
        }
    }
}

/// Locks a list. A panic cannot leave the list inconsistent.
fn lock<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Driver for Windlass {
    async fn run(&self, probe: &RunProbe) -> Result<String> {
        let task = Task::new(self.agent.clone(), PROMPT);
        match self.mode {
            Mode::Stream => self.watch(task, probe).await,
            Mode::Invoke => self.wait(task).await,
        }
    }

    async fn journal_bytes(&self) -> Result<Option<u64>> {
        let threads = lock(&self.threads).clone();
        let mut bytes = 0;
        for thread in threads {
            let mut after = Seq(0);
            loop {
                let page = self.engine.thread(&thread).events(after, PAGE).await?;
                let Some(last) = page.last() else { break };
                after = last.seq;
                bytes += page.iter().map(|recorded| recorded.event.encode().len() as u64).sum::<u64>();
            }
        }
        Ok(Some(bytes))
    }

    fn take_tool_calls_ns(&self) -> Vec<u64> {
        std::mem::take(&mut *lock(&self.tool_calls_ns))
    }
}
