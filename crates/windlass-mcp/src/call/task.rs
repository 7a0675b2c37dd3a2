//! Calls that a server continues as a task (SEP-2663). The process that drives the thread polls the task
//! until it ends. No state is held in memory between polls.
//!
//! A poll changes nothing at the server, so a lost poll is repeated.

use std::collections::{BTreeMap, BTreeSet};

use rmcp::model::{
    CancelTaskParams, CustomResult, ErrorCode, GetTaskParams, InputResponses, ServerResult, Task,
    TaskPayload, UpdateTaskParams,
};
use rmcp::service::ServiceError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_engine::port::tool::{Deferral, ToolOutcome};
use windlass_machine::Rest;

use crate::call::ask::{self, Parked};
use crate::call::exchange::{Exchange, asked_to_sign_in};
use crate::core::Link;
use crate::core::connect::{failed_over_http, is_sign_in, told_service};
use crate::core::connection::Connection;
use crate::core::handler::PROGRESS_MAX_BYTES;
use crate::wire::pending::OUTCOME_UNKNOWN;

/// A task that is being polled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Watched {
    /// The server's id of the task.
    pub id: String,
    /// The polling interval that the server requests, in milliseconds.
    pub interval_ms: u64,
    /// Names of the inputs already sent. The server may keep requesting them for a while.
    pub answered: BTreeSet<String>,
    /// Consecutive polls at which the server was unreachable.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub away: u32,
}

fn is_zero(times: &u32) -> bool {
    *times == 0
}

/// Polling interval in milliseconds: the default, and the bounds for intervals that the server requests.
const USUAL_INTERVAL_MS: u64 = 5_000;
const SHORTEST_INTERVAL_MS: u64 = 500;
const LONGEST_INTERVAL_MS: u64 = 3_600_000;

/// Returns the pause before the next poll of an unreachable server. The pause grows, so that a call
/// with at most 10,000 deferrals can wait for most of a year. The last deferrals are long, even if
/// the earlier deferrals had other reasons.
fn away_ms(away: u32, times: u32) -> u64 {
    match (away, times) {
        (2_000.., _) | (_, LAST_TIMES..) => 3_600_000,
        (100..2_000, _) => 300_000,
        (0..100, _) => 30_000,
    }
}

/// Number of deferrals after which about a thousand remain.
const LAST_TIMES: u32 = 9_000;

impl Watched {
    pub fn of(task: &Task) -> Self {
        let interval_ms = task.poll_interval_ms.unwrap_or(USUAL_INTERVAL_MS);
        let interval_ms = interval_ms.clamp(SHORTEST_INTERVAL_MS, LONGEST_INTERVAL_MS);
        Self { id: task.task_id.clone(), interval_ms, answered: BTreeSet::new(), away: 0 }
    }

    /// Defers to the next poll. A call has at most 10,000 deferrals, so a long task is polled less often, and the last
    /// poll is some weeks after the first.
    pub fn later(&self, times: u32) -> ToolOutcome {
        let at_least_ms = match times {
            0..100 => 0,
            100..1_000 => 10_000,
            _ => 300_000,
        };
        self.after(self.interval_ms.max(at_least_ms))
    }

    fn after(&self, after_ms: u64) -> ToolOutcome {
        put_off(&Parked::Task(self.clone()), after_ms)
    }
}

/// Defers a task. A repeated poll has no further effect.
fn put_off(parked: &Parked, after_ms: u64) -> ToolOutcome {
    ToolOutcome::defer(Deferral { after_ms, state: Some(parked.written()), rest: Rest::Repeatable })
}

/// Returns the state of a task with answers to send.
fn ready(task: Watched, requests: &BTreeMap<String, Value>, answers: &InputResponses) -> Parked {
    Parked::TaskReady { task, requests: requests.clone(), answers: answers.clone() }
}

impl Exchange<'_> {
    /// Polls a task. The error is an interrupt, a deferral, or the task's failure.
    pub(crate) async fn looked_after(&self, task: Watched) -> Result<ServerResult, ToolOutcome> {
        let connection = match self.core.connection().await {
            Ok(connection) => connection,
            Err(Link::SignIn { .. }) => return Err(self.task_signs_in(task, Parked::Task).await),
            Err(_) if self.core.is_out() => return Err(self.out()),
            Err(Link::Starting | Link::Down { .. } | Link::Disabled | Link::Up { .. }) => {
                return Err(self.left_alone(task, Parked::Task));
            }
        };
        let params = GetTaskParams::new(task.id.clone());
        let looked = tokio::select! {
            biased;
            () = self.context.cancel.cancelled() => {
                // Errors are ignored: the outcome of the call is unknown
                // whether or not the server stops the task.
                let _ = connection.peer.cancel_task(CancelTaskParams::new(task.id)).await;
                return Err(ToolOutcome::unknown("the run was stopped while the server was working"));
            }
            looked = connection.peer.get_task(params) => looked,
            () = self.core.clock.sleep_ms(self.core.config.timeouts.request_ms) => {
                return Err(self.left_alone(task, Parked::Task));
            }
        };
        let found = match looked {
            Ok(found) => found.task,
            Err(error) => return Err(self.not_found(task, &error).await),
        };
        if let Some(message) = &found.task.status_message {
            self.progressed(&self.core.masks.beginning(message, PROGRESS_MAX_BYTES));
        }
        let task = Watched { answered: task.answered, ..Watched::of(&found.task) };
        match found.payload {
            TaskPayload::Working => Err(task.later(self.looks())),
            TaskPayload::InputRequired { input_requests } => {
                Err(match ask::written(&input_requests, &self.core.masks) {
                    Ok(requests) => self.wanted(&connection, task, requests).await,
                    Err(why) => self.task_given_up(task, &why).await,
                })
            }
            TaskPayload::Completed { result } => {
                Ok(ServerResult::CustomResult(CustomResult::new(Value::Object(result))))
            }
            TaskPayload::Failed { error } => {
                let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
                Err(ToolOutcome::error(format!("Tool error: the server's task failed: {message}")))
            }
            TaskPayload::Cancelled if self.repeats => {
                Err(ToolOutcome::error("Tool error: the server cancelled its task"))
            }
            // The server does not report how much of the task was done.
            TaskPayload::Cancelled => Err(ToolOutcome::unknown("the server cancelled its task")),
            _ => Err(task.later(self.looks())),
        }
    }

    /// Returns the number of deferrals of the call.
    fn looks(&self) -> u32 {
        self.context.resumed.as_ref().map_or(0, |resumed| resumed.times)
    }

    /// Returns the pause while the server is unreachable, for a call that was deferred for no other reason.
    pub(crate) fn away_ms(&self) -> u64 {
        away_ms(self.looks(), self.looks())
    }

    /// Defers a task whose server is unreachable. The pause grows until the server responds.
    fn left_alone(&self, task: Watched, parked: impl FnOnce(Watched) -> Parked) -> ToolOutcome {
        let after_ms = away_ms(task.away, self.looks());
        put_off(&parked(Watched { away: task.away.saturating_add(1), ..task }), after_ms)
    }

    /// Abandons a task that requests input which no one can provide.
    async fn task_given_up(&self, task: Watched, why: &str) -> ToolOutcome {
        let why = format!("its task requested input that it cannot get: {why}");
        self.given_up(&Parked::Task(task).written(), &why).await
    }

    /// Returns the outcome if the server does not report the task's state.
    async fn not_found(&self, task: Watched, error: &ServiceError) -> ToolOutcome {
        match error {
            // The server has forgotten the task and its outcome. Other
            // errors do not describe the task. (SEP-2663)
            ServiceError::McpError(error) if error.code == ErrorCode::INVALID_PARAMS => ToolOutcome::unknown(
                format!("the server no longer has the task `{}`: {}", task.id, error.message),
            ),
            error if failed_over_http(error, is_sign_in) => self.task_signs_in(task, Parked::Task).await,
            error => {
                let why = self.core.masks.reasons().text(&told_service(error));
                tracing::debug!(why, "polling a task failed");
                self.core.signals.kick.notify_one();
                self.left_alone(task, Parked::Task)
            }
        }
    }

    /// Opens an interrupt for a sign-in, so that a task can be polled. The task runs even if sign-in is not possible.
    async fn task_signs_in(&self, task: Watched, parked: impl Fn(Watched) -> Parked) -> ToolOutcome {
        let asked = parked(task.clone());
        match asked_to_sign_in(self.core, &asked).await {
            Ok(ask) => ToolOutcome::ask(ask),
            Err(why) => {
                let why = self.core.masks.reasons().text(&why);
                tracing::debug!(why, "a task waits for valid credentials");
                self.left_alone(task, parked)
            }
        }
    }

    /// Answers the task's input requests that need no person, and opens an interrupt for the rest.
    async fn wanted(
        &self,
        connection: &Connection,
        task: Watched,
        mut requests: BTreeMap<String, Value>,
    ) -> ToolOutcome {
        requests.retain(|name, _| !task.answered.contains(name));
        if requests.is_empty() {
            return task.later(self.looks());
        }
        match self.answered_without_people(&requests).await {
            Ok(answers) => self.told(connection, task, requests, answers).await,
            Err(why) => self.task_given_up(task, &why).await,
        }
    }

    /// Opens an interrupt for the next missing input of a task. If none is missing, sends all answers.
    pub(crate) async fn task_answered(
        &self,
        task: Watched,
        requests: BTreeMap<String, Value>,
        answers: InputResponses,
    ) -> ToolOutcome {
        match self.core.connection().await {
            Ok(connection) => self.told(&connection, task, requests, answers).await,
            Err(Link::SignIn { .. }) => {
                let ready = |task| ready(task, &requests, &answers);
                self.task_signs_in(task, ready).await
            }
            Err(_) if self.core.is_out() => self.out(),
            // The answers are kept with the last question and sent when the server is reachable again.
            Err(Link::Starting | Link::Down { .. } | Link::Disabled | Link::Up { .. }) => {
                self.left_alone(task, |task| Parked::TaskReady { task, requests, answers })
            }
        }
    }

    async fn told(
        &self,
        connection: &Connection,
        mut task: Watched,
        requests: BTreeMap<String, Value>,
        answers: InputResponses,
    ) -> ToolOutcome {
        let open = requests.iter().find(|(name, _)| !answers.contains_key(*name));
        if let Some((asked, request)) = open.map(|(name, request)| (name.clone(), request.clone())) {
            let parameters = ask::elicitation(&request).cloned().unwrap_or_default();
            let parked = Parked::TaskInput { task, requests, answers, asked };
            return self.asked_midway(&parameters, &parked).await;
        }
        let params = UpdateTaskParams::new(task.id.clone(), answers.clone());
        let given = tokio::select! {
            given = connection.peer.update_task(params) => Some(given),
            () = self.core.clock.sleep_ms(self.core.config.timeouts.request_ms) => None,
        };
        match given {
            Some(Ok(_)) => {
                task.away = 0;
                task.answered.extend(answers.into_keys());
                task.after(SHORTEST_INTERVAL_MS)
            }
            // The server rejects the input; the next poll returns the task's state.
            // Automatic answers are not computed again.
            Some(Err(ServiceError::McpError(error))) if error.code != OUTCOME_UNKNOWN => {
                let why = self.core.masks.reasons().text(&error.message);
                tracing::debug!(why, "the server rejected the input for a task");
                task.away = 0;
                let by_people = |name: &String| requests.get(name).and_then(ask::elicitation).is_some();
                task.answered.extend(answers.into_keys().filter(|name| !by_people(name)));
                task.after(SHORTEST_INTERVAL_MS)
            }
            Some(Err(error)) if failed_over_http(&error, is_sign_in) => {
                self.core.signals.kick.notify_one();
                let ready = |task| ready(task, &requests, &answers);
                self.task_signs_in(task, ready).await
            }
            // Sending the same answers twice has no further effect.
            Some(Err(_)) | None => {
                self.left_alone(task, |task| Parked::TaskReady { task, requests, answers })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_away_is_waited_for_longer_and_longer() {
        let always = |times| away_ms(times, times);
        let pauses = [0, 99, 100, 1_999, 2_000, 9_999].map(always);
        assert_eq!(pauses, [30_000, 30_000, 300_000, 300_000, 3_600_000, 3_600_000]);
        let days = (0..10_000).map(always).sum::<u64>() / 86_400_000;
        assert!(days > 300, "{days}");
        // Polls that reached the server do not lengthen the pause.
        let pauses = [away_ms(0, 2_500), away_ms(99, 8_999), away_ms(0, 9_000)];
        assert_eq!(pauses, [30_000, 30_000, 3_600_000]);
    }

    #[test]
    fn a_task_that_an_earlier_version_has_recorded_is_read() {
        let recorded = r#"{"waits_for":"task","id":"t","interval_ms":5000,"answered":["a"]}"#;
        let answered = BTreeSet::from(["a".to_owned()]);
        let task = Watched { id: "t".into(), interval_ms: 5_000, answered, away: 0 };
        assert_eq!(serde_json::from_str::<Parked>(recorded).unwrap(), Parked::Task(task.clone()));
        assert_eq!(Parked::Task(task).written(), recorded);
    }
}
