//! Sampling: answers an MCP server's completion request with the model of the run that called it.
//!
//! The completion is a separate run in a new thread of the same user. The run has no tools, so a server's text cannot
//! cause any action. The user pays for the completion, and can read the thread. The limits of the completion are the
//! calling run's limits minus the usage of that run and its earlier completions. The calling run's usage does not
//! include the completion.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use serde_json::Value;
use windlass::machine::{
    AtLimit, Digest, Limits, Run, RunId, RunOptions, Surface, ThreadId, Totals, Verdict,
};
use windlass::mcp::{SamplingContext, SamplingHandler, SamplingReply, SamplingRequest};
use windlass::port::journal::RunQuery;
use windlass::{AgentConfig, Engine, EngineError, RunTools, Status, Task};

/// Tool name of completions in policy rules: the method of the protocol.
const WISH: &str = "sampling/createMessage";
/// Maximum number of tokens of one completion.
const TOKENS_MAX: u64 = 8_192;
/// Maximum length of a request, in characters.
const CHARS_MAX: usize = 200_000;
/// Maximum number of completions for one run. The maximum bounds the cost of a server that requests completions in a
/// loop.
const TIMES_MAX: u32 = 25;

/// Answers sampling requests with the engine's models. (LM-P4)
#[derive(Default)]
pub struct EngineSampling {
    engine: OnceLock<Engine>,
    /// Locks that serialize the completions of a run, so that each completion includes the usage of the earlier ones in
    /// its limits.
    turns: Mutex<HashMap<RunId, Arc<tokio::sync::Mutex<()>>>>,
}

impl EngineSampling {
    /// Sets the engine. Without an engine, requests are rejected.
    pub fn attach(&self, engine: &Engine) {
        // Invariant: there is one engine per store.
        let _ = self.engine.set(engine.clone());
    }

    fn turn(&self, run: &RunId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        // Drop locks that no task holds or awaits.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(run.clone()).or_default().clone()
    }
}

/// Returns the thread of a run's n-th completion. The id is derived from the run's id, so that every process finds
/// existing completions.
fn place(run: &RunId, nth: u32) -> ThreadId {
    ThreadId::from(format!("thr_{}", &Digest::default().chain(&("completion", run, nth)).to_string()[..16]))
}

/// The usage of a run and its completions.
#[derive(Debug, Default, PartialEq)]
struct Used {
    tokens: u64,
    micro_usd: u64,
}

impl Used {
    fn add(&mut self, totals: &Totals) {
        let usage = &totals.usage;
        for tokens in [usage.input, usage.output].into_iter().flatten() {
            self.tokens = self.tokens.saturating_add(tokens);
        }
        self.micro_usd = self.micro_usd.saturating_add(totals.cost.map_or(0, |cost| cost.0));
    }

    /// Returns the thread of the next completion, and the usage so far. The inner error is sent to the MCP server.
    async fn before(engine: &Engine, asking: &Run) -> Result<(Self, Result<ThreadId, String>), EngineError> {
        let (mut used, mut free) = (Self::default(), None);
        used.add(&asking.totals);
        for nth in 1..=TIMES_MAX {
            let thread = place(&asking.id, nth);
            // The oldest run of the thread is the completion. The user has started later runs of the thread.
            match engine.runs(&RunQuery::of(&thread, 0)).await?.last() {
                Some(made) => used.add(&made.view.totals),
                None => free = free.or(Some(thread)),
            }
        }
        Ok((used, free.ok_or_else(|| format!("the servers of a run get at most {TIMES_MAX} completions"))))
    }

    /// Reduces the limits by the usage. The error is sent to the MCP server.
    fn bound(&self, limits: &mut Limits) -> Result<(), String> {
        for (limit, used) in [(&mut limits.max_tokens, self.tokens), (&mut limits.max_cost.0, self.micro_usd)]
        {
            // Zero means no limit.
            if *limit > 0 {
                let left = limit.checked_sub(used).filter(|left| *left > 0);
                *limit = left.ok_or("the run has used up its limits")?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl SamplingHandler for EngineSampling {
    async fn sample(
        &self,
        request: SamplingRequest,
        context: SamplingContext,
    ) -> Result<SamplingReply, String> {
        let engine = self.engine.get().ok_or("completions are not available here")?;
        let asked = Asked::read(&request.params)?;
        // Internal errors are logged and not sent to the server.
        let inside = |error: &dyn std::fmt::Display| {
            tracing::warn!(server = context.server, %error, "a completion for a tool server failed");
            "the completion failed".to_owned()
        };
        let turn = self.turn(&context.run);
        let _turn = turn.lock().await;
        let row = engine.run(&context.run).row().await.map_err(|error| inside(&error))?;
        let machine = engine.thread(&row.thread).folded().await.map_err(|error| inside(&error))?;
        let run = machine.state().run.as_ref().filter(|run| run.id == context.run);
        let run = run.ok_or("the run has ended")?;
        let standing = engine.policy().wish(&WISH.into(), &context.server, &row, run).await;
        let standing = standing.map_err(|error| inside(&error))?;
        match standing.verdict {
            Verdict::Allow => {}
            Verdict::Deny => return Err(format!("a rule denies completions (`{}`)", standing.by)),
            Verdict::Ask => {
                return Err(format!(
                    "completions require approval (`{}`), which a server cannot wait for",
                    standing.by
                ));
            }
        }
        let (used, place) = Used::before(engine, run).await.map_err(|error| inside(&error))?;
        let mut agent = AgentConfig {
            name: format!("asked by {}", context.server),
            models: run.agent.models.clone(),
            instructions: asked.system.into_iter().collect(),
            settings: run.agent.settings.clone(),
            mode: None,
            limits: run.agent.limits.clone(),
        };
        agent.settings.output_schema = None;
        agent.settings.temperature = asked.temperature.or(agent.settings.temperature);
        let own = agent.settings.max_output_tokens.unwrap_or(TOKENS_MAX);
        agent.settings.max_output_tokens = Some(asked.max_tokens.min(own).clamp(1, TOKENS_MAX));
        agent.limits.max_steps = 1;
        used.bound(&mut agent.limits)?;
        let mut task = Task::new(agent, asked.text);
        task.thread = Some(place?);
        (task.by, task.workspace) = (row.owner.clone(), row.workspace.clone());
        task.options =
            RunOptions { surface: Surface::Headless, at_limit: Some(AtLimit::Fail), ..RunOptions::default() };
        task.tools = RunTools::Nothing;
        let started = engine.start(task).await.map_err(|error| inside(&error))?;
        context.nests(&started.run);
        tracing::info!(
            server = context.server, asked_for = %context.run, thread = %started.thread, depth = context.depth,
            "starting a completion for a tool server"
        );
        let outcome = engine.run(&started.run).wait().await.map_err(|error| inside(&error))?;
        match (outcome.status, outcome.text) {
            (Status::Done, Some(text)) => {
                Ok(SamplingReply { model: outcome.model, text, stop_reason: "endTurn".into() })
            }
            (status, _) => Err(inside(&format!("the run `{}` is {status:?}", started.run))),
        }
    }
}

/// The content of a sampling request.
#[derive(Debug, PartialEq)]
struct Asked {
    system: Option<String>,
    text: String,
    max_tokens: u64,
    temperature: Option<f64>,
}

impl Asked {
    /// Parses the parameters of `sampling/createMessage`. Model preferences are ignored: the run's model is used.
    fn read(params: &Value) -> Result<Self, String> {
        let system = params.get("systemPrompt").and_then(Value::as_str).map(str::to_owned);
        let messages =
            params.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let said = messages.iter().map(said).collect::<Result<Vec<_>, _>>()?;
        let text = match &said[..] {
            [] => return Err("`messages` is empty".into()),
            [(_, text)] => text.clone(),
            // A new thread has one message, so several messages are joined with their roles.
            several => {
                several.iter().map(|(who, text)| format!("{who}: {text}")).collect::<Vec<_>>().join("\n\n")
            }
        };
        let chars = text.chars().count() + system.as_ref().map_or(0, |system| system.chars().count());
        if chars > CHARS_MAX {
            return Err(format!("the request has {chars} characters; at most {CHARS_MAX} are allowed"));
        }
        let max_tokens = params.get("maxTokens").and_then(Value::as_u64).unwrap_or(TOKENS_MAX);
        let temperature = params.get("temperature").and_then(Value::as_f64);
        Ok(Self { system, text, max_tokens, temperature })
    }
}

/// Returns the role and the text of a message. The content of the message is one block or a list.
fn said(message: &Value) -> Result<(String, String), String> {
    let who = message.get("role").and_then(Value::as_str).unwrap_or("user").to_owned();
    let content = message.get("content").unwrap_or(&Value::Null);
    let parts = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
    let texts = parts.iter().map(|part| {
        part.get("text").and_then(Value::as_str).ok_or_else(|| {
            let kind = part.get("type").and_then(Value::as_str).unwrap_or("nothing");
            format!("a message contains `{}`; only text is supported", crate::text::first_line(kind, 32))
        })
    });
    Ok((who, texts.collect::<Result<Vec<_>, _>>()?.join("\n")))
}

#[cfg(test)]
mod tests;
