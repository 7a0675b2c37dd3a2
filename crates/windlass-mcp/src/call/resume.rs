//! Resumes a call that was waiting or deferred: interprets the answer and determines the next request.
//!
//! This module sends no tool call. State that cannot be read makes the
//! outcome unknown; the module guesses no state.

use std::collections::BTreeMap;

use rmcp::model::{CancelTaskParams, InputResponses};
use serde_json::Value;
use windlass_engine::port::tool::ToolOutcome;
use windlass_machine::Answer;

use crate::call::ask::{self, Known, Parked};
use crate::call::exchange::{Exchange, Next};
use crate::call::task::Watched;
use crate::core::Core;

/// The point at which a call resumes.
pub(crate) enum Resumed {
    /// At the beginning.
    First,
    /// With the input that the server requested.
    Next(Next),
    /// In the middle of a call that an older server keeps open.
    Held { ticket: u64, known: Vec<Known> },
    /// With polling of the server's task.
    Task(Watched),
    /// With input for the server's task.
    TaskReady { task: Watched, requests: BTreeMap<String, Value>, answers: InputResponses },
}

/// Member of the recorded state that names the server. By the time of resumption, the tool's name may belong to another
/// server.
const FROM: &str = "from";

/// Adds the name of this server to the recorded state.
fn from_here(core: &Core, state: &mut Option<String>) {
    let Some(text) = state else { return };
    if let Ok(Value::Object(mut parked)) = serde_json::from_str(text) {
        parked.insert(FROM.to_owned(), core.config.name.as_str().into());
        *text = Value::Object(parked).to_string();
    }
}

/// Whether the recorded state belongs to this server. State without a server's name is accepted.
fn is_from_here(core: &Core, state: &str) -> bool {
    let from = serde_json::from_str::<Value>(state).ok().and_then(|parked| parked.get(FROM).cloned());
    from.is_none_or(|from| from == core.config.name.as_str())
}

/// Stops the work that an abandoned call has started at its server.
pub(crate) async fn let_go(core: &Core, state: &str) {
    if !is_from_here(core, state) {
        return;
    }
    let Ok(parked) = serde_json::from_str::<Parked>(state) else { return };
    match parked {
        Parked::Task(task) | Parked::TaskInput { task, .. } | Parked::TaskReady { task, .. } => {
            let Ok(connection) = core.connection().await else { return };
            let told = connection.peer.cancel_task(CancelTaskParams::new(task.id)).await;
            tracing::debug!(server = core.config.name, told = told.is_ok(), "a task was cancelled");
        }
        // Dropping the held call cancels it.
        Parked::Held { ticket, .. } => drop(core.held.take(ticket)),
        // The server keeps no state for these calls.
        Parked::Input { .. } | Parked::SignIn | Parked::Ready { .. } | Parked::Pages { .. } => {}
    }
}

impl Exchange<'_> {
    /// Redacts a result or the state of a waiting call. A call whose state must not be recorded is abandoned.
    pub(crate) async fn masked(&self, outcome: ToolOutcome) -> ToolOutcome {
        let state = outcome.state().map(str::to_owned);
        match self.core.masks.outcome(outcome) {
            Ok(mut outcome) => {
                match &mut outcome {
                    ToolOutcome::Ask(ask) => from_here(self.core, &mut ask.state),
                    ToolOutcome::Defer(deferral) => from_here(self.core, &mut deferral.state),
                    ToolOutcome::Done(_) | ToolOutcome::Unknown { .. } => {}
                }
                outcome
            }
            Err(why) => self.given_up(&state.unwrap_or_default(), &why).await,
        }
    }

    /// Abandons a call that cannot continue, and stops the work that it has started. Unless the call never
    /// ran, its outcome is unknown. (Promise 2)
    pub(crate) async fn given_up(&self, state: &str, why: &str) -> ToolOutcome {
        tokio::select! {
            () = Box::pin(let_go(self.core, state)) => {}
            () = self.core.clock.sleep_ms(self.core.config.timeouts.request_ms) => {}
        }
        match serde_json::from_str::<Parked>(state) {
            Ok(Parked::SignIn | Parked::Pages { .. }) => ToolOutcome::error(format!("Tool error: {why}")),
            Ok(
                Parked::Input { .. }
                | Parked::Held { .. }
                | Parked::Ready { .. }
                | Parked::Task(_)
                | Parked::TaskInput { .. }
                | Parked::TaskReady { .. },
            )
            | Err(_) => ToolOutcome::unknown(format!("{}: {why}", self.server())),
        }
    }

    /// Determines the point at which the call resumes. The error is an interrupt or the result.
    pub(crate) fn resumed(&self) -> Result<Resumed, ToolOutcome> {
        let (state, answer) = match (&self.context.reply, &self.context.resumed) {
            (Some(reply), _) => (&reply.state, Some(&reply.answer)),
            (None, Some(resumed)) => (&resumed.state, None),
            (None, None) => return Ok(Resumed::First),
        };
        if state.as_deref().is_some_and(|state| !is_from_here(self.core, state)) {
            return Err(ToolOutcome::unknown(format!(
                "the call was waiting for a server other than {}",
                self.server()
            )));
        }
        let parked = state.as_deref().and_then(|state| serde_json::from_str(state).ok());
        let parked: Parked = parked
            .ok_or_else(|| ToolOutcome::unknown("cannot read the recorded state of the waiting call"))?;
        match (parked, answer) {
            // The task continues, no matter which user has signed in.
            (Parked::Task(task), answer) => {
                self.may_have_signed_in(answer);
                Ok(Resumed::Task(task))
            }
            (Parked::TaskReady { task, requests, answers }, answer) => {
                self.may_have_signed_in(answer);
                Ok(Resumed::TaskReady { task, requests, answers })
            }
            (Parked::SignIn, Some(Answer::Reply(_))) => {
                self.signed_in_elsewhere();
                Ok(Resumed::First)
            }
            (Parked::Ready { state, answers, known }, Some(Answer::Reply(_))) => {
                self.signed_in_elsewhere();
                Ok(Resumed::Next(Next { responses: answers, state, known }))
            }
            // The deferral has ended; no person was involved.
            (Parked::Ready { state, answers, known }, None) => {
                Ok(Resumed::Next(Next { responses: answers, state, known }))
            }
            (Parked::Pages { left }, Some(Answer::Reply(_))) => {
                if left.is_empty() {
                    Ok(Resumed::First)
                } else {
                    Err(self.page(left))
                }
            }
            (Parked::SignIn | Parked::Ready { .. } | Parked::Pages { .. }, _) => {
                Err(ToolOutcome::error(format!("Tool error: the sign-in at {} was declined", self.server())))
            }
            (parked, Some(answer)) => self.answer(parked, answer),
            (_, None) => {
                Err(ToolOutcome::unknown("the call was waiting for an answer and was restarted without one"))
            }
        }
    }

    fn may_have_signed_in(&self, answer: Option<&Answer>) {
        if let Some(Answer::Reply(_)) = answer {
            self.signed_in_elsewhere();
        }
    }

    /// Handles a user's report of a completed sign-in, possibly through another process. The server is tried
    /// again before a new sign-in is requested.
    fn signed_in_elsewhere(&self) {
        self.core.comes_back();
        self.core.signals.kick.notify_one();
    }

    /// Determines the point at which a call resumes after an answer. If the answer is
    /// invalid, the error repeats the question.
    fn answer(&self, parked: Parked, answer: &Answer) -> Result<Resumed, ToolOutcome> {
        let parameters = match &parked {
            Parked::Held { asked, .. } => asked.clone(),
            Parked::Input { requests, asked, .. } | Parked::TaskInput { requests, asked, .. } => {
                requests.get(asked).and_then(ask::elicitation).cloned().unwrap_or_default()
            }
            Parked::SignIn
            | Parked::Ready { .. }
            | Parked::Pages { .. }
            | Parked::Task(_)
            | Parked::TaskReady { .. } => Value::Null,
        };
        let answer = match ask::result(&parameters, answer) {
            Ok(answer) => answer,
            Err(why) => return Err(self.asked(&parameters, Some(&why), &parked)),
        };
        match parked {
            Parked::Held { ticket, asked, mut known } => {
                known.push(Known { asked, answer });
                Ok(Resumed::Held { ticket, known })
            }
            Parked::Input { state, requests, mut answers, asked } => {
                answers.insert(asked, answer);
                self.input(state, requests, answers).map(Resumed::Next)
            }
            Parked::TaskInput { task, requests, mut answers, asked } => {
                answers.insert(asked, answer);
                Ok(Resumed::TaskReady { task, requests, answers })
            }
            Parked::SignIn
            | Parked::Ready { .. }
            | Parked::Pages { .. }
            | Parked::Task(_)
            | Parked::TaskReady { .. } => Ok(Resumed::First),
        }
    }
}
