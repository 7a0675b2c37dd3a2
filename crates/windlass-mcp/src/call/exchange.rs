//! One request to a server, from sending to the result for the model.
//!
//! A request that the server may have executed is repeated only if the repetition has no further effect.
//! Otherwise its outcome is reported as unknown. (Promise 2)

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{
    ClientRequest, ElicitResult, ErrorCode, InputRequiredResult, InputResponses, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::{Value, json};
use windlass_engine::port::tool::{Ask, CallContext, Deferral, ToolOutcome};
use windlass_machine::Rest;

use crate::call::ask::{self, Known, Parked};
use crate::call::resume::Resumed;
use crate::call::task::Watched;
use crate::core::calls::{Came, InFlight, Midway};
use crate::core::connect::{failed_over_http, is_sign_in, told_service};
use crate::core::connection::Connection;
use crate::core::held::HeldCall;
use crate::core::{Core, Link};
use crate::wire::pending::OUTCOME_UNKNOWN;

/// A tool call to a server.
pub(crate) struct Exchange<'a> {
    pub core: &'a Arc<Core>,
    pub context: &'a CallContext,
    /// Builds the request with the answers and the server's opaque state.
    pub request: &'a (dyn Fn(Option<InputResponses>, Option<String>) -> ClientRequest + Send + Sync),
    /// Whether repeating the request has no further effect.
    pub repeats: bool,
}

/// The input of the next request.
#[derive(Clone, Default)]
pub(crate) struct Next {
    pub responses: Option<InputResponses>,
    pub state: Option<String>,
    /// Earlier answers to an older server's questions.
    pub known: Vec<Known>,
}

impl Next {
    /// Whether the call is partly done: users have answered, or the server has returned state.
    fn is_partly_done(&self) -> bool {
        self.responses.is_some() || self.state.is_some() || !self.known.is_empty()
    }

    /// Returns the state to record while a sign-in is required or the server is unreachable.
    fn parked(&self) -> Parked {
        if self.is_partly_done() {
            let (state, answers) = (self.state.clone(), self.responses.clone());
            Parked::Ready { state, answers, known: self.known.clone() }
        } else {
            Parked::SignIn
        }
    }

    /// Defers the call until the server is reachable again. Answers are kept and not requested again.
    fn put_off(&self, after_ms: u64) -> ToolOutcome {
        let state = Some(self.parked().written());
        ToolOutcome::defer(Deferral { after_ms, state, rest: Rest::AsTheCall })
    }
}

/// Outcome of one request.
enum Outcome {
    Result(Box<ServerResult>),
    Input(InputRequiredResult),
    /// The server asked for input during the call, so the call must wait for users.
    Ask(Value, Parked),
    Pages(Vec<Value>),
    SignIn,
    /// The request was not sent.
    Unreached(String),
    /// The server did not execute the request, for the given reason.
    NotDone(String),
    /// The server may or may not have executed the request.
    Lost(String),
}

/// Maximum number of rounds of input without a person. The limit stops a
/// server that keeps requesting input. (MRTR)
const MAX_ROUNDS: u32 = 10;
/// Pause before the retry that a server requests without asking for input, in milliseconds.
const SHED_PAUSE_MS: u64 = 1_000;
/// The error code of revision 2025-11-25 for a call that requires pages to be opened first.
const URL_ELICITATION_REQUIRED: ErrorCode = ErrorCode(-32042);

impl Exchange<'_> {
    /// Sends the request or resumes it. An error is the result for the model, an interrupt, or a deferral.
    pub async fn made(&self) -> Result<ServerResult, ToolOutcome> {
        let (mut next, held) = match self.resumed()? {
            Resumed::First => (Next::default(), None),
            Resumed::Next(next) => (next, None),
            Resumed::Held { ticket, known } => (Next { known, ..Next::default() }, Some(ticket)),
            Resumed::Task(task) => return self.looked_after(task).await,
            Resumed::TaskReady { task, requests, answers } => {
                return Err(self.task_answered(task, requests, answers).await);
            }
        };
        // The held call is taken before the connection: if it was lost, its outcome is
        // unknown whether or not the server is reachable.
        let (mut came, mut over) = match held {
            Some(ticket) => self.held(ticket, &next.known).await.unzip(),
            None => (None, None),
        };
        let mut connection: Option<Arc<Connection>> = None;
        let mut may_repeat = self.repeats;
        for _ in 0..MAX_ROUNDS {
            let now = match came.take() {
                Some(came) => came,
                None => {
                    let open = match connection.take() {
                        Some(open) => open,
                        None => self.connection(&next).await?,
                    };
                    over = Some(open.number);
                    let sent = self.sent(&open, &next).await;
                    connection = Some(open);
                    sent
                }
            };
            match now {
                Outcome::Result(result) => match *result {
                    ServerResult::CreateTaskResult(created) => {
                        return Err(Watched::of(&created.task).later(0));
                    }
                    result => return Ok(result),
                },
                Outcome::Ask(parameters, parked) => {
                    return Err(self.asked_midway(&parameters, &parked).await);
                }
                Outcome::SignIn => return Err(self.refuses(&next).await),
                Outcome::Pages(pages) => return Err(self.page(pages)),
                Outcome::Unreached(_) if next.is_partly_done() => return Err(next.put_off(self.away_ms())),
                Outcome::Unreached(why) | Outcome::NotDone(why) => {
                    return Err(ToolOutcome::error(format!("Tool error: {why}")));
                }
                Outcome::Lost(why) => {
                    connection = match over {
                        Some(over) if may_repeat => self.core.connection_after(over).await,
                        Some(_) | None => None,
                    };
                    may_repeat = false;
                    if connection.is_none() {
                        return Err(ToolOutcome::unknown(format!("{}: {why}", self.server())));
                    }
                }
                Outcome::Input(input) => {
                    next = Next { known: std::mem::take(&mut next.known), ..self.answered(input).await? };
                }
            }
        }
        Err(ToolOutcome::error(format!(
            "Tool error: {} requested too many inputs in a row; the call was abandoned",
            self.server()
        )))
    }

    pub(crate) fn server(&self) -> String {
        format!("the server `{}`", self.core.config.name)
    }

    /// Opens an interrupt for the next missing input. If none is missing, returns the input to send.
    pub(crate) fn input(
        &self,
        state: Option<String>,
        requests: BTreeMap<String, Value>,
        answers: InputResponses,
    ) -> Result<Next, ToolOutcome> {
        let open = requests.iter().find(|(name, _)| !answers.contains_key(*name));
        let Some((asked, request)) = open.map(|(name, request)| (name.clone(), request.clone())) else {
            let responses = Some(answers).filter(|answers| !answers.is_empty());
            return Ok(Next { responses, state, known: Vec::new() });
        };
        let parameters = ask::elicitation(&request).cloned().unwrap_or_default();
        Err(self.asked(&parameters, None, &Parked::Input { state, requests, answers, asked }))
    }

    /// Answers the input requests that need no person, and opens an interrupt for the rest.
    async fn answered(&self, input: InputRequiredResult) -> Result<Next, ToolOutcome> {
        let requests = input.input_requests.unwrap_or_default();
        let written = ask::written(&requests, &self.core.masks).map_err(|why| self.refused(&why))?;
        let answers = self.answered_without_people(&written).await;
        let answers = answers.map_err(|why| self.refused(&why))?;
        if requests.is_empty() {
            self.core.clock.sleep_ms(SHED_PAUSE_MS).await;
        }
        self.input(input.request_state, written, answers)
    }

    /// Answers the input requests that need no person. An error names a request that is refused.
    pub(crate) async fn answered_without_people(
        &self,
        requests: &BTreeMap<String, Value>,
    ) -> Result<InputResponses, String> {
        let mut answers = InputResponses::new();
        for (name, request) in requests {
            let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
            match (method, &self.core.sampling) {
                ("elicitation/create", _) => {}
                ("sampling/createMessage", Some(sampling)) => {
                    let params = request.get("params").cloned().unwrap_or_default();
                    let params = serde_json::from_value(params).map_err(|error| error.to_string())?;
                    let completed = sampling.complete(params, self.context.run.clone()).await?;
                    answers.insert(name.clone(), json!(completed));
                }
                _ => return Err(format!("`{method}` is not supported")),
            }
        }
        Ok(answers)
    }

    /// Returns the result if an input request is refused.
    fn refused(&self, why: &str) -> ToolOutcome {
        ToolOutcome::error(format!("Tool error: {} requested input that it cannot get: {why}", self.server()))
    }

    pub(crate) fn asked(&self, parameters: &Value, again: Option<&str>, parked: &Parked) -> ToolOutcome {
        match ask::question(&self.core.config.name, parameters, again, parked) {
            Ok(ask) => ToolOutcome::ask(ask),
            Err(why) => {
                ToolOutcome::error(format!("Tool error: {} sent an invalid question: {why}", self.server()))
            }
        }
    }

    /// Opens an interrupt in the middle of a call that the server keeps open. If the question cannot be
    /// displayed, the call is abandoned.
    pub(crate) async fn asked_midway(&self, parameters: &Value, parked: &Parked) -> ToolOutcome {
        match ask::question(&self.core.config.name, parameters, None, parked) {
            Ok(ask) => ToolOutcome::ask(ask),
            Err(why) => {
                let why = format!("it sent an invalid question: {why}");
                self.given_up(&parked.written(), &why).await
            }
        }
    }

    /// Opens an interrupt for the first of the pages.
    pub(crate) fn page(&self, mut pages: Vec<Value>) -> ToolOutcome {
        let first = pages.remove(0);
        self.asked(&first, None, &Parked::Pages { left: pages })
    }

    /// Opens an interrupt for a sign-in. If sign-in is not possible, a call with
    /// answers is deferred and any other call fails.
    async fn refuses(&self, next: &Next) -> ToolOutcome {
        match asked_to_sign_in(self.core, &next.parked()).await {
            Ok(ask) => ToolOutcome::ask(ask),
            Err(_) if next.is_partly_done() => next.put_off(self.away_ms()),
            Err(why) => ToolOutcome::error(format!("Tool error: {why}")),
        }
    }

    /// Returns the connection, or the outcome if the server is not connected. A partly done call waits for a
    /// connection for a while and is then deferred.
    async fn connection(&self, next: &Next) -> Result<Arc<Connection>, ToolOutcome> {
        let link = match self.core.connection().await {
            Ok(connection) => return Ok(connection),
            Err(link) => link,
        };
        let is_partly_done = next.is_partly_done();
        if is_partly_done
            && matches!(link, Link::Down { .. })
            && let Some(connection) = self.core.connection_after(u64::MAX).await
        {
            return Ok(connection);
        }
        Err(match link {
            Link::SignIn { .. } => self.refuses(next).await,
            Link::Starting | Link::Down { .. } | Link::Disabled | Link::Up { .. }
                if is_partly_done && self.core.is_out() =>
            {
                self.out()
            }
            Link::Starting | Link::Down { .. } | Link::Disabled | Link::Up { .. } if is_partly_done => {
                next.put_off(self.away_ms())
            }
            other => ToolOutcome::unavailable(away(self.core, &other)),
        })
    }

    /// Returns the outcome of a call whose server was removed.
    pub(crate) fn out(&self) -> ToolOutcome {
        ToolOutcome::unknown(format!("{} was disabled or removed during the call", self.server()))
    }

    /// Resumes a call that an older server keeps open. Returns the outcome with the connection's number, or
    /// `None` if the call is no longer held and may be repeated.
    async fn held(&self, ticket: u64, known: &[Known]) -> Option<(Outcome, u64)> {
        let answer =
            known.last().and_then(|known| serde_json::from_value::<ElicitResult>(known.answer.clone()).ok());
        let sent = match (self.core.held.take(ticket), answer) {
            (Some(HeldCall { call, answer: to, over }), Some(answer)) => {
                call.mark_answered();
                to.send(answer).is_ok().then_some((call, over))
            }
            (Some(_), None) | (None, _) => None,
        };
        match sent {
            // The server now has the answers. They are sent again only if the call is repeated.
            Some((call, over)) => Some((self.waited(call, over, (known.to_vec(), Vec::new())).await, over)),
            None if self.repeats => None,
            None => {
                let gone = "the call that asked is no longer open, and the server's response is lost";
                Some((Outcome::Lost(gone.into()), u64::MAX))
            }
        }
    }

    async fn sent(&self, connection: &Arc<Connection>, next: &Next) -> Outcome {
        let request = (self.request)(next.responses.clone(), next.state.clone());
        let options = PeerRequestOptions::no_options();
        match connection.peer.send_request_with_option(request, options).await {
            Ok(request) => {
                let call = connection.calls.take(request, self.context.run.clone());
                self.waited(call, connection.number, (Vec::new(), next.known.clone())).await
            }
            // The request was not sent. The task that maintains the connection will detect the failure.
            Err(error) => Outcome::Unreached(format!("{} is not connected: {error}", self.server())),
        }
    }

    /// Waits for the response to a call. Each progress message restarts the timeout. Questions that were answered in an
    /// earlier attempt are answered from `known`, each once.
    async fn waited(
        &self,
        mut call: InFlight,
        over: u64,
        (mut answered, mut known): (Vec<Known>, Vec<Known>),
    ) -> Outcome {
        let limit_ms = self.core.config.timeouts.call_ms;
        loop {
            let came = tokio::select! {
                biased;
                () = self.context.cancel.cancelled() => return Outcome::Lost("the call was cancelled".into()),
                came = call.next() => came,
                () = self.core.clock.sleep_ms(limit_ms) => {
                    return Outcome::Lost(format!("no response and no progress for {limit_ms} ms"));
                }
            };
            match came {
                Came::Answer(answer) => return self.read(*answer),
                Came::Midway(Midway::Progress(text)) => {
                    self.progressed(&text);
                }
                Came::Midway(Midway::Asked(elicited)) => {
                    let asked = json!(elicited.params);
                    // A repeated call asks the same questions again; users do not answer them twice.
                    let before =
                        known.iter().position(|known| known.asked == asked).map(|at| known.remove(at));
                    let again = before.and_then(|before| {
                        let answer = serde_json::from_value(before.answer.clone()).ok()?;
                        answered.push(before);
                        Some(answer)
                    });
                    if let Some(answer) = again {
                        call.mark_answered();
                        // The server may have withdrawn the question; the
                        // response to the call will report that.
                        let _ = elicited.answer.send(answer);
                        continue;
                    }
                    answered.extend(known);
                    let ticket = self.core.held.keep(HeldCall { call, answer: elicited.answer, over });
                    return Outcome::Ask(asked.clone(), Parked::Held { ticket, asked, known: answered });
                }
            }
        }
    }

    /// Publishes a progress text. The text was redacted on arrival.
    pub(crate) fn progressed(&self, text: &str) {
        self.context.progress.report(text);
    }

    fn read(&self, answer: Result<ServerResult, ServiceError>) -> Outcome {
        match answer {
            Ok(ServerResult::InputRequiredResult(input)) => Outcome::Input(input),
            Ok(result) => Outcome::Result(Box::new(result)),
            Err(ServiceError::McpError(error)) if error.code == URL_ELICITATION_REQUIRED => {
                let pages =
                    error.data.as_ref().and_then(|data| data.get("elicitations")?.as_array().cloned());
                match pages.filter(|pages| !pages.is_empty()).map(|pages| self.core.masks.said(pages)) {
                    Some(Ok(pages)) => Outcome::Pages(pages),
                    Some(Err(why)) => {
                        Outcome::NotDone(format!("{} sent an invalid question: {why}", self.server()))
                    }
                    None => Outcome::NotDone(error.message.into_owned()),
                }
            }
            // The second text is the protocol library's error for a session that ended during the request.
            Err(ServiceError::McpError(error))
                if error.code == OUTCOME_UNKNOWN
                    || error.message.contains("session was re-initialized before") =>
            {
                Outcome::Lost(error.message.into_owned())
            }
            Err(ServiceError::McpError(error)) => {
                Outcome::NotDone(format!("{} ({})", error.message, error.code.0))
            }
            Err(ref error @ ServiceError::TransportSend(_)) => {
                self.core.signals.kick.notify_one();
                if failed_over_http(error, is_sign_in) {
                    Outcome::SignIn
                } else if never_left(error) {
                    Outcome::Unreached(format!(
                        "{} cannot be reached: {}",
                        self.server(),
                        told_service(error)
                    ))
                } else if was_not_carried_out(error) {
                    Outcome::NotDone(format!("{} cannot be reached: {}", self.server(), told_service(error)))
                } else {
                    Outcome::Lost(told_service(error))
                }
            }
            Err(error) => {
                self.core.signals.kick.notify_one();
                Outcome::Lost(told_service(&error))
            }
        }
    }
}

/// Whether the server never received the request, because no connection exists.
fn never_left(error: &ServiceError) -> bool {
    if let ServiceError::TransportSend(error) = error
        && error.error.downcast_ref::<std::io::Error>().is_some()
    {
        // If a write to the pipe fails, the server did not read the whole line.
        return true;
    }
    failed_over_http(
        error,
        |failure| matches!(failure, StreamableHttpError::Client(error) if error.is_connect()),
    )
}

/// Whether a failed send proves that the server executed nothing: it has no session, or it refused.
fn was_not_carried_out(error: &ServiceError) -> bool {
    failed_over_http(error, |failure| match failure {
        StreamableHttpError::Client(error) => {
            error.is_builder() || error.status().is_some_and(|status| status.is_client_error())
        }
        StreamableHttpError::HttpStatus(status) => status.status == 429,
        StreamableHttpError::UnexpectedServerResponse(text) => text.starts_with("HTTP 4"),
        StreamableHttpError::SessionExpired
        | StreamableHttpError::ReinitializationFailed(_)
        | StreamableHttpError::ReservedHeaderConflict(_)
        | StreamableHttpError::Auth(_)
        | StreamableHttpError::Io(_) => true,
        _ => false,
    })
}

/// Creates the interrupt for a sign-in. The error states why sign-in is not possible.
pub(crate) async fn asked_to_sign_in(core: &Core, parked: &Parked) -> Result<Ask, String> {
    let name = &core.config.name;
    let Some(sign_in) = &core.sign_in else {
        return Err(format!(
            "The server `{name}` rejects the configured credentials. Nothing was done. A person can change \
             them in the settings of `{name}`, or enable sign-in there"
        ));
    };
    let page = sign_in.begin(&[]).await.map_err(|error| format!("Sign-in is not possible: {error}"))?;
    Ok(ask::sign_in(name, page.url, parked))
}

/// Returns the tool result for an unavailable server: since when it is unavailable, and when the next attempt
/// is. The result omits the reason, which may contain host names and stderr. (LM-B3)
pub(crate) fn away(core: &Core, link: &Link) -> String {
    let name = &core.config.name;
    let seconds = |from: u64, to: u64| to.saturating_sub(from).div_ceil(1_000);
    match link {
        Link::Down { since, retry_at, .. } => {
            let now = core.clock.now().0;
            let (away, again) = (seconds(since.0, now), seconds(now, retry_at.0));
            format!(
                "The server `{name}` has been unavailable for {away} s. Nothing was done. Windlass retries \
                 in {again} s; if the server stays unavailable, a person has to check the settings and the \
                 log of `{name}`"
            )
        }
        Link::Disabled => {
            format!(
                "The server `{name}` is disabled or was removed. Nothing was done. A person can enable it"
            )
        }
        Link::Starting | Link::SignIn { .. } | Link::Up { .. } => {
            format!("The server `{name}` has not responded yet. Nothing was done. Retry in a minute")
        }
    }
}
