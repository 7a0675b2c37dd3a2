//! The status and outcome of a run, computed from the journal.
//!
//! This module does not drive or change threads, and does not store the result.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_machine::{
    Doubt, Event, Fact, InterruptKind, Machine, Message, Outcome as Became, Output, RunId, RunStatus, Seq,
    ThreadId, Timestamp, Totals,
};

use crate::drive::journal::row;
use crate::engine::Engine;
use crate::engine::handle::{RunHandle, ThreadHandle};
use crate::error::{EngineError, Fault, TryAgain};
use crate::outcome::{ErrorInfo, Evidence, Figures, OpenInterrupt, Outcome, Status, Tokens, Waiting};
use crate::port::journal::{
    AskedCall, Recorded, RunQuery, RunRow, StoreError, ThreadAsks, ThreadQuery, ThreadRow, ThreadStatus,
};

/// Maximum number of events read from a journal at a time.
const PAGE: usize = 512;

impl Engine {
    /// Returns the open interrupts of a folded thread ([`ThreadHandle::folded`]).
    pub async fn open_interrupts(&self, thread: &Machine) -> Result<Vec<OpenInterrupt>, EngineError> {
        match &thread.state().run {
            Some(run) => self.open(&row::asks(run)).await,
            None => Ok(Vec::new()),
        }
    }

    /// Returns the threads of a query that have open interrupts, with the interrupts,
    /// most recently active first. The time and id of the last thread are the cursor of
    /// the next page. A thread that cannot be read does not hide others.
    pub async fn waiting(&self, query: &ThreadQuery) -> Result<Vec<Waiting>, EngineError> {
        let query = ThreadQuery { asking: true, ..query.clone() };
        let threads = self.threads(&query).await?;
        let of = |thread: &ThreadRow| thread.view.asks.as_ref().map(|asks| asks.run.clone());
        let runs: Vec<RunId> = threads.iter().filter_map(of).collect();
        let mut runs = self.services.store.journal.runs_by_id(&runs).await?;
        let mut waiting = Vec::new();
        for thread in threads {
            let open = match self.asked_by(&thread).await {
                // A thread that was deleted in the meantime has no interrupts.
                Err(EngineError::NoThread(_)) => Ok(Vec::new()),
                Err(error) if error.judge() != (Fault::Outside, TryAgain::Never) => return Err(error),
                open => open.map(|(open, _)| open),
            };
            let known = runs.iter().position(|run| run.thread == thread.thread && run.view.status.is_none());
            let run = match (known, &thread.view.asks) {
                (Some(known), _) => Some(runs.swap_remove(known)),
                (None, Some(_)) => None,
                (None, None) => {
                    let active = RunQuery { active: Some(true), ..RunQuery::of(&thread.thread, 1) };
                    self.runs(&active).await?.into_iter().next()
                }
            };
            waiting.push(Waiting { thread, run, open });
        }
        Ok(waiting)
    }

    /// Returns the open interrupts of a thread and the start time of its run, from a row that contains them
    /// ([`ThreadView::asks`]). Folds the journal only if another build wrote the row.
    ///
    /// [`ThreadView::asks`]: crate::port::journal::ThreadView::asks
    pub async fn asked_by(&self, thread: &ThreadRow) -> Result<(Vec<OpenInterrupt>, Timestamp), EngineError> {
        if thread.view.interrupts == 0 {
            return Ok((Vec::new(), Timestamp::default()));
        }
        if let Some(asks) = &thread.view.asks {
            return Ok((self.open(asks).await?, asks.run_started_at));
        }
        let folded = self.thread(&thread.thread).folded().await?;
        let run_started_at = folded.state().run.as_ref().map(|run| run.started_at);
        Ok((self.open_interrupts(&folded).await?, run_started_at.unwrap_or_default()))
    }

    async fn open(&self, asks: &ThreadAsks) -> Result<Vec<OpenInterrupt>, EngineError> {
        let mut open = Vec::with_capacity(asks.interrupts.len());
        for AskedCall { asked, expires_at, tool, arguments, doubt } in &asks.interrupts {
            let tool = tool.as_ref().map(ToString::to_string);
            let arguments = match arguments {
                Some(arguments) => Some(self.services.contents.text_of(arguments).await?),
                None => None,
            };
            let server = tool.as_deref().zip(arguments.as_deref());
            let server = server.and_then(|(tool, arguments)| self.server_of(tool, arguments));
            let preview = match &asked.kind {
                InterruptKind::Approval { preview: Some(preview), .. } => {
                    Some(self.services.contents.text_of(preview).await?)
                }
                _ => None, // tidy: nothing else has a preview
            };
            let evidence = doubt.clone().map(|(begun_at, Doubt { effect, reason })| Evidence {
                reason,
                effect,
                begun_at,
            });
            open.push(OpenInterrupt {
                interrupt: asked.interrupt.clone(),
                kind: asked.kind.clone(),
                tool,
                server,
                arguments,
                preview,
                evidence,
                since: asked.since,
                expires_at: *expires_at,
                terms: asked.terms.clone(),
                approved_by: asked.votes.iter().map(|(voter, _)| voter.clone()).collect(),
            });
        }
        Ok(open)
    }

    async fn ended(&self, row: RunRow, status: RunStatus) -> Result<Outcome, EngineError> {
        let (end, text, lacked) = self.end_of(&row).await?;
        let Fact::RunFinished { error, fallback, totals, .. } = end.fact else {
            let why = format!("run `{}` has no end in its journal", row.view.run);
            return Err(StoreError::Corrupt { why }.into());
        };
        let errors = error.into_iter().map(|error| ErrorInfo {
            code: error.code,
            message: error.message,
            retryable: error.retryable,
        });
        let status = match status {
            RunStatus::Done => Status::Done,
            RunStatus::Failed => Status::Failed,
            RunStatus::Cancelled => Status::Cancelled,
        };
        Ok(Outcome {
            text: text.clone().filter(|_| status == Status::Done),
            output: text,
            is_fallback: fallback,
            cancelled: status == Status::Cancelled,
            missing_tools: lacked,
            errors: errors.collect(),
            ..self.outcome(row, status, &totals, totals.duration_ms)
        })
    }

    async fn active(&self, row: RunRow) -> Result<Outcome, EngineError> {
        let machine = self.thread(&row.thread).folded().await?;
        let Some(run) = machine.state().run.as_ref().filter(|run| run.id == row.view.run) else {
            return self.not_active(row).await;
        };
        let now = self.services.store.clock.now();
        // A sleeping run needs no driver.
        let missing = self.missing_tools(&row.thread, &machine).await?;
        let waits = run.waiting_since.is_some() && !run.is_sleeping() || !missing.is_empty();
        let status = if waits { Status::Paused } else { Status::Running };
        let interrupts = self.open(&row::asks(run)).await?;
        let first = interrupts.first().filter(|_| status == Status::Paused);
        let text = first.and_then(OpenInterrupt::to_review).or_else(|| waits_for(&missing));
        let outcome = self.outcome(row, status, &run.totals, now.since(run.started_at));
        Ok(Outcome { text, missing_tools: missing, interrupts, ..outcome })
    }

    /// Builds an outcome from a run's row.
    fn outcome(&self, row: RunRow, status: Status, totals: &Totals, duration_ms: u64) -> Outcome {
        let usage = &totals.usage;
        let tokens = Tokens { input: usage.input, output: usage.output, cache_read_input: usage.cached };
        Outcome {
            run: row.view.run,
            thread: row.thread,
            status,
            text: None,
            output: None,
            is_fallback: false,
            model: row.view.model.to_string(),
            figures: Figures {
                steps: totals.steps,
                calls: totals.calls,
                tokens,
                cost: totals.cost,
                duration_ms,
            },
            from: row.view.from,
            interrupts: Vec::new(),
            missing_tools: Vec::new(),
            errors: Vec::new(),
            cancelled: false,
            at: self.services.store.clock.now(),
        }
    }

    /// Returns the tools that a run's calls wait for, unless a process that has them drives the thread.
    async fn missing_tools(&self, thread: &ThreadId, machine: &Machine) -> Result<Vec<String>, EngineError> {
        let mut machine = machine.clone();
        machine.lack(self.services.catalog.lacking(machine.state()).await);
        let missing: Vec<String> = machine.missing().into_iter().map(ToString::to_string).collect();
        if missing.is_empty() || self.thread(thread).is_driven() || !self.is_unattended(thread).await? {
            return Ok(Vec::new());
        }
        Ok(missing)
    }

    /// Whether a thread needs a driver and no live process holds it.
    async fn is_unattended(&self, thread: &ThreadId) -> Result<bool, EngineError> {
        let view = self.thread(thread).row().await?.view;
        let is_due = view.deadline.is_some_and(|at| at <= self.services.store.clock.now());
        if view.status != ThreadStatus::Running && !is_due {
            return Ok(false);
        }
        let journal = &self.services.store.journal;
        let holder = journal.holder(thread).await?;
        Ok(holder.is_none_or(|node| node == journal.node() || !journal.is_alive(&node)))
    }

    /// Returns the outcome of a run that is not active in the fold: it has ended since its row was read, or has not
    /// started.
    async fn not_active(&self, row: RunRow) -> Result<Outcome, EngineError> {
        let row = self.run(&row.view.run).row().await?;
        if let Some(status) = row.view.status {
            return self.ended(row, status).await;
        }
        Ok(self.outcome(row, Status::Queued, &Totals::default(), 0))
    }

    /// Returns the event that ended a run, its final text, and its missing tools.
    async fn end_of(&self, row: &RunRow) -> Result<(Event, Option<String>, Vec<String>), EngineError> {
        let mut after = Seq(row.view.from.0.saturating_sub(1));
        let mut replies: Vec<(u32, Arc<Message>)> = Vec::new();
        let mut lacked = BTreeSet::new();
        loop {
            let page = self.services.store.journal.read(&row.thread, after, PAGE).await?;
            let Some(last) = page.last() else {
                let why = format!("run `{}` has no end in its journal", row.view.run);
                return Err(StoreError::Corrupt { why }.into());
            };
            after = last.seq;
            for Recorded { event, .. } in page {
                if event.run.as_ref() != Some(&row.view.run) {
                    continue;
                }
                match &event.fact {
                    Fact::StepReplied { attempt, message, .. } => {
                        replies.push((attempt.step, message.clone()))
                    }
                    Fact::ToolFinished { call, outcome: Became::Unavailable, .. } => {
                        let mut of_step = replies.iter().filter(|(step, _)| *step == call.step);
                        let asked =
                            of_step.next_back().and_then(|(_, reply)| reply.calls().nth(call.index as usize));
                        lacked.extend(asked.map(|asked| asked.name.to_string()));
                    }
                    Fact::RunFinished { output, .. } => {
                        let text = self.said(output, &replies).await?;
                        return Ok((event, text, lacked.into_iter().collect()));
                    }
                    _ => {} // tidy: the other kinds say nothing of the end
                }
            }
        }
    }

    /// Builds the final text of a run from its replies.
    async fn said(
        &self,
        output: &Output,
        replies: &[(u32, Arc<Message>)],
    ) -> Result<Option<String>, EngineError> {
        if output.is_empty() {
            return Ok(None);
        }
        let mut said = String::new();
        if let Some((first, last)) = output.replies {
            for (_, message) in replies.iter().filter(|(step, _)| (first..=last).contains(step)) {
                for text in message.texts() {
                    said.push_str(&self.services.contents.text_of(text).await?);
                }
            }
        }
        if let Some(text) = &output.text {
            said.push_str(&self.services.contents.text_of(text).await?);
        }
        Ok(Some(said))
    }
}

impl ThreadHandle<'_> {
    /// Returns the open interrupts of the thread's active run.
    pub async fn interrupts(self) -> Result<Vec<OpenInterrupt>, EngineError> {
        let engine = self.engine;
        engine.open_interrupts(&*self.folded().await?).await
    }
}

impl RunHandle<'_> {
    /// Returns the current outcome of the run.
    pub async fn status(self) -> Result<Outcome, EngineError> {
        let engine = self.engine;
        let row = self.row().await?;
        match row.view.status {
            Some(status) => engine.ended(row, status).await,
            None => engine.active(row).await,
        }
    }
}

/// Describes the wait of a run with missing tools; `None` if no tool is missing.
fn waits_for(missing: &[String]) -> Option<String> {
    let names = missing.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    (!missing.is_empty()).then(|| format!("The run waits for a process that has its own tools: {names}"))
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::builder::Builder;
    use crate::task::Task;
    use crate::testing::NoSchemas;
    use crate::testing::scripted::{Line, ScriptedModels};
    use crate::tool::Registry;

    #[tokio::test]
    async fn a_run_that_ends_during_a_status_query_is_reported_as_ended() {
        let models = ScriptedModels::new(|_| Line::Say("hello there".into()));
        let registry = Registry::new(Arc::new(NoSchemas));
        let builder = Builder::new(registry, || panic!("the test has models"));
        let engine = builder.models(Arc::new(models)).build().await.unwrap();
        let outcome = engine.run_task(Task::new("test/scripted".into(), "hi")).await.unwrap();
        // The row as it was just before the run ended.
        let mut row = engine.run(&outcome.run).row().await.unwrap();
        (row.view.status, row.view.finished_at) = (None, None);
        let seen = engine.active(row).await.unwrap();
        assert_eq!((seen.status, seen.text), (Status::Done, outcome.text));
    }
}
