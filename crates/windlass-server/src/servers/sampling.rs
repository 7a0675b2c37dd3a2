//! A tool server's wish for a completion, answered by the model of the run that it is asked for.
//!
//! The answer is a run of its own, in a conversation of its own that the same person owns: it has no tools, so that what a
//! server writes can set nothing off, its cost is that person's, their budgets bound it, and they can read what was asked.
//! It may use what the asking run and its completions so far have left of that run's limits. The asking run's own count
//! knows nothing of it.

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

/// What rules call a completion: the protocol's own word.
const WISH: &str = "sampling/createMessage";
/// Tokens of one completion at most, whatever a server asks for.
const TOKENS_MAX: u64 = 8_192;
/// Characters that a server may ask with.
const CHARS_MAX: usize = 200_000;
/// Completions for one run at most: a server that asks without end costs no more than this.
const TIMES_MAX: u32 = 25;

/// What answers by the engine's own models. (LM-P4)
#[derive(Default)]
pub struct EngineSampling {
    engine: OnceLock<Engine>,
    /// The completions of a run are made one after the other, so that each finds what the ones before it have left.
    turns: Mutex<HashMap<RunId, Arc<tokio::sync::Mutex<()>>>>,
}

impl EngineSampling {
    /// Says whose models answer. Until then nobody does.
    pub fn attach(&self, engine: &Engine) {
        // A place has one engine.
        let _ = self.engine.set(engine.clone());
    }

    fn turn(&self, run: &RunId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody holds or waits for are let go.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(run.clone()).or_default().clone()
    }
}

/// The conversation of a run's completion. Its name is made of the run's, so that every process finds those there are.
fn place(run: &RunId, nth: u32) -> ThreadId {
    ThreadId::from(format!("thr_{}", &Digest::default().chain(&("completion", run, nth)).to_string()[..16]))
}

/// What a run and its completions have used.
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

    /// The place of the next completion, with what was used until then. The error is told to the server.
    async fn before(engine: &Engine, asking: &Run) -> Result<(Self, Result<ThreadId, String>), EngineError> {
        let (mut used, mut free) = (Self::default(), None);
        used.add(&asking.totals);
        for nth in 1..=TIMES_MAX {
            let thread = place(&asking.id, nth);
            // Whatever the person has asked for there since is not the server's.
            match engine.runs(&RunQuery::of(&thread, 0)).await?.last() {
                Some(made) => used.add(&made.view.totals),
                None => free = free.or(Some(thread)),
            }
        }
        Ok((used, free.ok_or_else(|| format!("a run's servers get {TIMES_MAX} completions at most"))))
    }

    /// Leaves of a run's limits what was not used. The error is told to the server.
    fn bound(&self, limits: &mut Limits) -> Result<(), String> {
        for (limit, used) in [(&mut limits.max_tokens, self.tokens), (&mut limits.max_cost.0, self.micro_usd)]
        {
            // 0 is no limit.
            if *limit > 0 {
                let left = limit.checked_sub(used).filter(|left| *left > 0);
                *limit = left.ok_or("the run that it is asked for has used up what it may")?;
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
        let engine = self.engine.get().ok_or("nobody answers completions here")?;
        let asked = Asked::read(&request.params)?;
        // Why something of ours failed is the log's and not a server's.
        let inside = |error: &dyn std::fmt::Display| {
            tracing::warn!(server = context.server, %error, "a completion for a tool server failed");
            "it cannot be done now".to_owned()
        };
        let turn = self.turn(&context.run);
        let _turn = turn.lock().await;
        let row = engine.run(&context.run).row().await.map_err(|error| inside(&error))?;
        let machine = engine.thread(&row.thread).folded().await.map_err(|error| inside(&error))?;
        let run = machine.state().run.as_ref().filter(|run| run.id == context.run);
        let run = run.ok_or("the run that it is asked for has ended")?;
        let standing = engine.policy().wish(&WISH.into(), &context.server, &row, run).await;
        let standing = standing.map_err(|error| inside(&error))?;
        match standing.verdict {
            Verdict::Allow => {}
            Verdict::Deny => return Err(format!("a rule denies it completions (`{}`)", standing.by)),
            Verdict::Ask => {
                return Err(format!(
                    "people are asked first (`{}`), and no server can wait for them",
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
            "a tool server is given a completion"
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

/// What a server asks.
#[derive(Debug, PartialEq)]
struct Asked {
    system: Option<String>,
    text: String,
    max_tokens: u64,
    temperature: Option<f64>,
}

impl Asked {
    /// Reads the parameters of `sampling/createMessage`. Which model it would like is not looked at: it is the run's.
    fn read(params: &Value) -> Result<Self, String> {
        let system = params.get("systemPrompt").and_then(Value::as_str).map(str::to_owned);
        let messages =
            params.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let said = messages.iter().map(said).collect::<Result<Vec<_>, _>>()?;
        let text = match &said[..] {
            [] => return Err("there are no messages".into()),
            [(_, text)] => text.clone(),
            // A conversation of its own has one message; who said what stands in it.
            several => {
                several.iter().map(|(who, text)| format!("{who}: {text}")).collect::<Vec<_>>().join("\n\n")
            }
        };
        let chars = text.chars().count() + system.as_ref().map_or(0, |system| system.chars().count());
        if chars > CHARS_MAX {
            return Err(format!("it asks with {chars} characters; {CHARS_MAX} are allowed"));
        }
        let max_tokens = params.get("maxTokens").and_then(Value::as_u64).unwrap_or(TOKENS_MAX);
        let temperature = params.get("temperature").and_then(Value::as_f64);
        Ok(Self { system, text, max_tokens, temperature })
    }
}

/// Who says what in a message, whose content is one part or several.
fn said(message: &Value) -> Result<(String, String), String> {
    let who = message.get("role").and_then(Value::as_str).unwrap_or("user").to_owned();
    let content = message.get("content").unwrap_or(&Value::Null);
    let parts = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
    let texts = parts.iter().map(|part| {
        part.get("text").and_then(Value::as_str).ok_or_else(|| {
            let kind = part.get("type").and_then(Value::as_str).unwrap_or("nothing");
            format!("a message holds `{}`; only text is taken", crate::text::first_line(kind, 32))
        })
    });
    Ok((who, texts.collect::<Result<Vec<_>, _>>()?.join("\n")))
}

#[cfg(test)]
mod tests;
