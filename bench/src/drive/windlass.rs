//! Windlass with its durable SQLite store, in the settings' folder.
//!
//! A consumer watches each run as a person would: it gets every fragment, and the events between them.

use std::sync::{Arc, Mutex};

use anyhow::{Result, bail};
use async_trait::async_trait;
use futures::StreamExt;
use windlass::adapter::model::{ProviderCatalog, ProviderConfig, Secret};
use windlass::machine::{Annotations, Fact, Limits, Seq, ThreadId};
use windlass::port::journal::{Recorded, ThreadStatus};
use windlass::port::model::Delta;
use windlass::tool::{FunctionTool, Registry};
use windlass::{AgentConfig, Engine, Task, Update};

use super::{Driver, PROMPT, RunProbe, Settings, TOOL_DESCRIPTION, TOOL_NAME, Window};

/// Whether the table measures it.
pub(super) const IS_WRITTEN: bool = true;

/// Events read at a time when the journal is weighed.
const PAGE: usize = 1_000;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

struct Windlass {
    engine: Engine,
    agent: AgentConfig,
    threads: Mutex<Vec<ThreadId>>,
    waits: bool,
}

/// Opens the engine on a new store in `settings.folder`, with the one tool of [`TOOL_NAME`], chat completions at
/// `settings.base_url` and the window of `settings.window`. Each run is a thread of its own.
pub(super) async fn start(settings: &Settings) -> Result<Box<dyn Driver>> {
    let echo = FunctionTool::new(TOOL_NAME, TOOL_DESCRIPTION, |_, echo: Echo| async move { echo.text });
    let pure = Annotations { read_only_hint: !settings.waits, ..Annotations::default() };
    let provider = ProviderConfig {
        base_url: Some(settings.base_url.clone()),
        api_key: Some(Secret::new("none")),
        ..ProviderConfig::default()
    };
    let models = ProviderCatalog::builder().provider("openai-chat", provider).build()?;
    let engine = Engine::builder()
        .models(Arc::new(models))
        .tools(Registry::new().add(Arc::new(echo.annotations(pure)))?)
        .store(settings.folder.join("store"))
        .build()
        .await?;
    let mut limits = Limits { max_steps: 100_000, ..Limits::default() };
    if settings.window == Window::Off {
        limits.window_messages = 0;
    }
    let model = format!("openai-chat/{}", settings.model);
    let agent = AgentConfig { limits, ..AgentConfig::from(model.as_str()) };
    Ok(Box::new(Windlass { engine, agent, threads: Mutex::default(), waits: settings.waits }))
}

#[async_trait]
impl Driver for Windlass {
    async fn run(&self, probe: &RunProbe) -> Result<String> {
        let task = Task::new(self.agent.clone(), PROMPT);
        let (started, mut updates) = self.engine.start_watched(task).await?;
        if let Ok(mut threads) = self.threads.lock() {
            threads.push(started.thread.clone());
        }
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
                Update::Delta { .. } | Update::Gap { .. } | Update::Progress { .. } | Update::Status(_) => {}
                Update::Stopped { why } => bail!("driving stopped: {why}"),
            }
        }
        bail!("the stream ended before the run")
    }

    async fn journal_bytes(&self) -> Result<Option<u64>> {
        let threads = self.threads.lock().map(|threads| threads.clone()).unwrap_or_default();
        let mut bytes = 0;
        for thread in threads {
            let mut after = Seq(0);
            loop {
                let page = self.engine.events(&thread, after, PAGE).await?;
                let Some(last) = page.last() else { break };
                after = last.seq;
                bytes += page.iter().map(|recorded| recorded.event.encode().len() as u64).sum::<u64>();
            }
        }
        Ok(Some(bytes))
    }
}
