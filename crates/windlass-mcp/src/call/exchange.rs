//! One request to a server, from sending to a result for the model: what may be sent again, what is lost, what people
//! have to be asked first.
//!
//! A request that may have been carried out is sent again only where repeating it changes nothing more; else its outcome
//! is unknown, and that is said. (Promise 2)

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

/// What is asked of a server.
pub(crate) struct Exchange<'a> {
    pub core: &'a Arc<Core>,
    pub context: &'a CallContext,
    /// Makes the request, with what the server wanted.
    pub request: &'a (dyn Fn(Option<InputResponses>, Option<String>) -> ClientRequest + Send + Sync),
    /// Whether repeating it changes nothing more.
    pub repeats: bool,
}

/// What is sent next.
#[derive(Clone, Default)]
pub(crate) struct Next {
    pub responses: Option<InputResponses>,
    pub state: Option<String>,
    /// Answers to questions of an older server that were given before.
    pub known: Vec<Known>,
}

impl Next {
    /// Whether it is the middle of a call: people have answered, or the server has begun.
    fn goes_on(&self) -> bool {
        self.responses.is_some() || self.state.is_some() || !self.known.is_empty()
    }

    /// What a sign-in in between, or a server that is away, is waited for with.
    fn parked(&self) -> Parked {
        if self.goes_on() {
            let (state, answers) = (self.state.clone(), self.responses.clone());
            Parked::Ready { state, answers, known: self.known.clone() }
        } else {
            Parked::SignIn
        }
    }

    /// Goes on when the server is back: people have answered, and are not asked the same again.
    fn put_off(&self, after_ms: u64) -> ToolOutcome {
        let state = Some(self.parked().written());
        ToolOutcome::defer(Deferral { after_ms, state, rest: Rest::AsTheCall })
    }
}

/// How a request came out.
enum Outcome {
    Result(Box<ServerResult>),
    Input(InputRequiredResult),
    /// People have to be asked in the middle of the call.
    Ask(Value, Parked),
    Pages(Vec<Value>),
    SignIn,
    /// It never left this machine.
    Unreached(String),
    /// It was not carried out, and the server or the wire says why.
    NotDone(String),
    /// Nobody knows whether it was.
    Lost(String),
}

/// Rounds of inputs that people need not be asked for: a server that goes on for ever is not followed. (MRTR)
const MAX_ROUNDS: u32 = 10;
/// How long a server that asks for nothing but another try is left alone.
const SHED_PAUSE_MS: u64 = 1_000;
/// The error of 2025-11-25 that says which pages have to be opened first.
const URL_ELICITATION_REQUIRED: ErrorCode = ErrorCode(-32042);

impl Exchange<'_> {
    /// Makes the request, or goes on with it where it waits. The error is the result for the model, or what is asked.
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
        // Before the connection: a held call that is gone has no outcome that anybody knows, whether or not its server is
        // there to be asked.
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
                Outcome::Unreached(_) if next.goes_on() => return Err(next.put_off(self.away_ms())),
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
            "Tool error: {} wants one input after another; given up",
            self.server()
        )))
    }

    pub(crate) fn server(&self) -> String {
        format!("the server `{}`", self.core.config.name)
    }

    /// Asks for the next input that is missing, or says what to send where none is.
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

    /// Answers what a server wants where nobody has to be asked, and asks for the rest.
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

    /// What of a server's wishes nobody has to be asked for. The error is what it does not get.
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
                _ => return Err(format!("`{method}`, which was not offered")),
            }
        }
        Ok(answers)
    }

    /// A wish of the server that is not met.
    fn refused(&self, why: &str) -> ToolOutcome {
        ToolOutcome::error(format!(
            "Tool error: {} wants something that it does not get: {why}",
            self.server()
        ))
    }

    pub(crate) fn asked(&self, parameters: &Value, again: Option<&str>, parked: &Parked) -> ToolOutcome {
        match ask::question(&self.core.config.name, parameters, again, parked) {
            Ok(ask) => ToolOutcome::ask(ask),
            Err(why) => ToolOutcome::error(format!(
                "Tool error: {} asks for what cannot be asked: {why}",
                self.server()
            )),
        }
    }

    /// Asks people in the middle of a call that the server is at work on. What cannot be asked gives it up.
    pub(crate) async fn asked_midway(&self, parameters: &Value, parked: &Parked) -> ToolOutcome {
        match ask::question(&self.core.config.name, parameters, None, parked) {
            Ok(ask) => ToolOutcome::ask(ask),
            Err(why) => {
                let why = format!("it asks for what cannot be asked: {why}");
                self.given_up(&parked.written(), &why).await
            }
        }
    }

    /// Asks people to open the first of some pages.
    pub(crate) fn page(&self, mut pages: Vec<Value>) -> ToolOutcome {
        let first = pages.remove(0);
        self.asked(&first, None, &Parked::Pages { left: pages })
    }

    /// Asks somebody to sign in before a request is made. Answers wait where nobody can.
    async fn refuses(&self, next: &Next) -> ToolOutcome {
        match asked_to_sign_in(self.core, &next.parked()).await {
            Ok(ask) => ToolOutcome::ask(ask),
            Err(_) if next.goes_on() => next.put_off(self.away_ms()),
            Err(why) => ToolOutcome::error(format!("Tool error: {why}")),
        }
    }

    /// The connection, or what its absence means. A call that goes on waits for it a little, and is then put off.
    async fn connection(&self, next: &Next) -> Result<Arc<Connection>, ToolOutcome> {
        let link = match self.core.connection().await {
            Ok(connection) => return Ok(connection),
            Err(link) => link,
        };
        let goes_on = next.goes_on();
        if goes_on
            && matches!(link, Link::Down { .. })
            && let Some(connection) = self.core.connection_after(u64::MAX).await
        {
            return Ok(connection);
        }
        Err(match link {
            Link::SignIn { .. } => self.refuses(next).await,
            Link::Starting | Link::Down { .. } | Link::Disabled | Link::Up { .. }
                if goes_on && self.core.is_out() =>
            {
                self.out()
            }
            Link::Starting | Link::Down { .. } | Link::Disabled | Link::Up { .. } if goes_on => {
                next.put_off(self.away_ms())
            }
            other => ToolOutcome::unavailable(away(self.core, &other)),
        })
    }

    /// What becomes of a call whose server will not be back.
    pub(crate) fn out(&self) -> ToolOutcome {
        ToolOutcome::unknown(format!("{} was switched off or taken out in the middle of it", self.server()))
    }

    /// Goes on with a call that an older server holds open, and says over which connection; `None`: nobody has it any
    /// more, and it may be made again.
    async fn held(&self, ticket: u64, known: &[Known]) -> Option<(Outcome, u64)> {
        let answer =
            known.last().and_then(|known| serde_json::from_value::<ElicitResult>(known.answer.clone()).ok());
        let sent = match (self.core.held.take(ticket), answer) {
            (Some(HeldCall { call, answer: to, over }), Some(answer)) => {
                call.goes_on();
                to.send(answer).is_ok().then_some((call, over))
            }
            (Some(_), None) | (None, _) => None,
        };
        match sent {
            // What was answered is used up: it counts again only for a call that is made again.
            Some((call, over)) => Some((self.waited(call, over, (known.to_vec(), Vec::new())).await, over)),
            None if self.repeats => None,
            None => {
                let gone = "the call that asked is gone, and with it the server's answer";
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
            // It never left the queue. The task that keeps the connection is about to notice.
            Err(error) => Outcome::Unreached(format!("{} is not connected: {error}", self.server())),
        }
    }

    /// Waits for the answer to a call over a connection. Each sign of progress gives the call its full time again. What
    /// was answered in it is told from what is known of an earlier one, each answer of which counts once.
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
                () = self.context.cancel.cancelled() => return Outcome::Lost("the call was stopped".into()),
                came = call.next() => came,
                () = self.core.clock.sleep_ms(limit_ms) => {
                    return Outcome::Lost(format!("no answer and no progress for {limit_ms} ms"));
                }
            };
            match came {
                Came::Answer(answer) => return self.read(*answer),
                Came::Midway(Midway::Progress(text)) => {
                    self.progressed(&text);
                }
                Came::Midway(Midway::Asked(elicited)) => {
                    let asked = json!(elicited.params);
                    // A call that is made again is asked again, and people are not.
                    let before =
                        known.iter().position(|known| known.asked == asked).map(|at| known.remove(at));
                    let again = before.and_then(|before| {
                        let answer = serde_json::from_value(before.answer.clone()).ok()?;
                        answered.push(before);
                        Some(answer)
                    });
                    if let Some(answer) = again {
                        call.goes_on();
                        // Whoever asked may be gone; the answer to the call will say so.
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

    /// Shows whoever watches what the server says in the middle of its work, which was masked when it came.
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
                        Outcome::NotDone(format!("{} asks for what cannot be asked: {why}", self.server()))
                    }
                    None => Outcome::NotDone(error.message.into_owned()),
                }
            }
            // The second is the library's text for a session that ended under an open request.
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

/// Whether a request was never read by anybody: there is no connection.
fn never_left(error: &ServiceError) -> bool {
    if let ServiceError::TransportSend(error) = error
        && error.error.downcast_ref::<std::io::Error>().is_some()
    {
        // A pipe that cannot be written to has nobody who read the whole line.
        return true;
    }
    failed_over_http(
        error,
        |failure| matches!(failure, StreamableHttpError::Client(error) if error.is_connect()),
    )
}

/// Whether a failure to send proves that the server did nothing: no session, a refusal.
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

/// What a person has to do to sign in. The error says why nobody can.
pub(crate) async fn asked_to_sign_in(core: &Core, parked: &Parked) -> Result<Ask, String> {
    let name = &core.config.name;
    let Some(sign_in) = &core.sign_in else {
        return Err(format!(
            "The server `{name}` refuses the credentials that it is given. Nothing was done. Give it others in the \
             settings of `{name}`, or let people sign in there"
        ));
    };
    let page = sign_in.begin(&[]).await.map_err(|error| format!("Sign-in is not possible: {error}"))?;
    Ok(ask::sign_in(name, page.url, parked))
}

/// The tool result for a server that is unavailable: since when, and when the next attempt is. It omits the reason, which
/// may hold host names and stderr. (LM-B3)
pub(crate) fn away(core: &Core, link: &Link) -> String {
    let name = &core.config.name;
    let seconds = |from: u64, to: u64| to.saturating_sub(from).div_ceil(1_000);
    match link {
        Link::Down { since, retry_at, .. } => {
            let now = core.clock.now().0;
            let (away, again) = (seconds(since.0, now), seconds(now, retry_at.0));
            format!(
                "The server `{name}` is not available, for {away} s now. Nothing was done. It is tried again by itself in \
                 {again} s; if it stays away, a person has to look at the settings and the log of `{name}`"
            )
        }
        Link::Disabled => {
            format!(
                "The server `{name}` is switched off or was taken out. Nothing was done. A person can bring it back"
            )
        }
        Link::Starting | Link::SignIn { .. } | Link::Up { .. } => {
            format!("The server `{name}` has not answered yet. Nothing was done. Try again in a minute")
        }
    }
}
