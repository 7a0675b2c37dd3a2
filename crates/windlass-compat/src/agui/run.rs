//! `POST /agui`: a run input starts a run, answers the interrupts of a run, or reconnects to one.
//!
//! Selects only the operation. The machine decides what the operation does.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use windlass::machine::{InterruptId, Mode, Note, RunId, RunOptions, Seq, Surface, ThreadId, WhenBusy};
use windlass::{AgentConfig, FoldedThread, OpenInterrupt, Started, Task};
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::input::{Body, Path};
use windlass_server::http::problem::Problem;
use windlass_server::http::routes::interrupts::submit;
use windlass_server::http::start::agent::choose;
use windlass_server::http::start::begin::begin;
use windlass_server::http::stream::place::StreamPlace;

use super::Histories;
use super::attach::tell;
use super::feed::{Live, StreamRequest, told};
use super::history::History;
use super::input::{New, RunInput, Status};
use super::interrupt::answers;
use super::notes;
use super::speak::Speaker;
use super::thread::find;
use super::word::{Scene, Spent};

/// Starts a run of the default agent.
pub async fn run(
    State(app): State<Shared>,
    Extension(histories): Extension<Arc<Histories>>,
    caller: Caller,
    headers: HeaderMap,
    Body(input): Body<RunInput>,
) -> Result<Response, Problem> {
    Exchange::begin(&app, &histories, &caller, &headers, app.config.agent.clone())?.answer(input).await
}

/// Starts a run of the agent with this name.
pub async fn run_agent(
    State(app): State<Shared>,
    Extension(histories): Extension<Arc<Histories>>,
    caller: Caller,
    Path(agent): Path<String>,
    headers: HeaderMap,
    Body(input): Body<RunInput>,
) -> Result<Response, Problem> {
    let agent = choose(&app, Some(&agent), None)?;
    Exchange::begin(&app, &histories, &caller, &headers, agent)?.answer(input).await
}

struct Exchange<'a> {
    app: &'a Shared,
    histories: &'a Histories,
    caller: &'a Caller,
    headers: &'a HeaderMap,
    agent: AgentConfig,
    place: StreamPlace,
}

impl<'a> Exchange<'a> {
    /// Acquires a stream slot for a caller who may start runs.
    fn begin(
        app: &'a Shared,
        histories: &'a Histories,
        caller: &'a Caller,
        headers: &'a HeaderMap,
        agent: AgentConfig,
    ) -> Result<Self, Problem> {
        caller.runs()?;
        Ok(Self { app, histories, caller, headers, agent, place: StreamPlace::take(app, caller)? })
    }

    fn request(self) -> StreamRequest<'a> {
        StreamRequest { app: self.app, headers: self.headers, place: self.place }
    }

    async fn answer(self, input: RunInput) -> Result<Response, Problem> {
        input.check()?;
        let (thread, row) = find(self.app, self.caller, &input.thread_id).await?;
        let Some(_) = row else {
            let new = input.newest()?.ok_or_else(nothing_new)?;
            return self.start(&thread, new, &input, History::default()).await;
        };
        let history = self.histories.read(&self.app.engine, &thread).await?;
        if let Some((_, run)) = history.outward.iter().rev().find(|(name, _)| *name == input.run_id) {
            return self.come_back(&thread, run.clone(), &input, &history).await;
        }
        let is_new = input.newest_id().is_some_and(|id| !history.known.contains_key(&id));
        let folded = self.app.engine.thread(&thread).folded().await?;
        let open = self.app.engine.open_interrupts(&folded).await?;
        if !open.is_empty() {
            return self.submit_answers(&folded, &open, is_new, &input, history).await;
        }
        let answered = self.answered(&input, &history)?;
        if is_new {
            let new = input.newest()?.ok_or_else(nothing_new)?;
            return self.start(&thread, new, &input, history).await;
        }
        let sent = input.newest_id().and_then(|id| history.known.get(&id).cloned().flatten());
        let run = if answered { history.run.clone() } else { sent };
        self.come_back(&thread, run.ok_or_else(nothing_new)?, &input, &history).await
    }

    /// Sends a message, which starts a run or is queued behind the current run.
    async fn start(
        self,
        thread: &ThreadId,
        new: New,
        input: &RunInput,
        mut history: History,
    ) -> Result<Response, Problem> {
        let special = input.unused();
        let own = new.id.clone();
        let name = notes::of_message(&input.run_id, &new.id);
        let Started { run, message: until, .. } =
            self.send(thread, new, WhenBusy::Queue, input.mode()?, Some(name)).await?;
        history.read_on(&self.app.engine, thread, until).await?;
        let scene = Scene { thread: input.thread_id.clone(), run: input.run_id.clone() };
        let speaker = Speaker::new(scene, run, &history).after(own);
        let lacks = !history.is_known_to(|id| input.has(id));
        let first = speaker.begin(special, lacks.then_some(&history));
        Ok(Live::open(self.request(), thread, until, speaker).respond(first))
    }

    async fn send(
        &self,
        thread: &ThreadId,
        new: New,
        when_busy: WhenBusy,
        mode: Option<Mode>,
        note: Option<Note>,
    ) -> Result<Started, Problem> {
        let task = Task {
            message: new.message,
            thread: Some(thread.clone()),
            id: Some(new.id),
            // On this surface, a reached limit opens an interrupt.
            options: RunOptions { surface: Surface::Chat, mode, ..RunOptions::default() },
            when_busy,
            note,
            ..Task::new(self.agent.clone(), "")
        };
        begin(self.app, self.caller, task).await
    }

    /// Submits the client's answers if they cover every open interrupt. Otherwise sends the interrupts again.
    async fn submit_answers(
        self,
        folded: &FoldedThread,
        open: &[OpenInterrupt],
        is_new: bool,
        input: &RunInput,
        mut history: History,
    ) -> Result<Response, Problem> {
        let thread = folded.thread();
        let run = history.run.clone().ok_or_else(nothing_new)?;
        let scene = Scene { thread: input.thread_id.clone(), run: input.run_id.clone() };
        let now = windlass_server::clock::clock().now();
        let lacks = !history.is_known_to(|id| input.has(id));
        let Some(given) = answers(open, &input.resume, now)? else {
            // The run waits for answers and calls no model.
            history.spent = Spent::default();
            let mut speaker = Speaker::new(scene, run, &history);
            // If the message is new, send no snapshot. The server did not accept the message, and a snapshot
            // would remove it from the client.
            let shown = (lacks && !is_new).then_some(&history);
            let mut words = speaker.begin(input.unused(), shown);
            words.extend(speaker.waits(open));
            return Ok(told(words));
        };
        self.caller.approves()?;
        let name = notes::of_run(&input.run_id, &run);
        let (accepted, _) = submit(self.app, self.caller, folded, given, Vec::new(), Some(name)).await?;
        let mut own = None;
        if is_new && let Some(new) = input.newest()? {
            own = Some(new.id.clone());
            self.send(thread, new, WhenBusy::Steer, input.mode()?, None).await?;
        }
        let after = Seq(accepted.seq.0.saturating_sub(1));
        history.read_on(&self.app.engine, thread, after).await?;
        // The interrupted run has already reported its usage.
        history.spent = Spent::default();
        let mut speaker = Speaker::new(scene, run, &history);
        if let Some(own) = own {
            speaker = speaker.after(own);
        }
        let first = speaker.begin(input.unused(), (lacks && !is_new).then_some(&history));
        Ok(Live::open(self.request(), thread, after, speaker).respond(first))
    }

    /// Whether the request answers interrupts and all of them are already closed. Returns an error if another user
    /// closed one of the answered interrupts.
    fn answered(&self, input: &RunInput, history: &History) -> Result<bool, Problem> {
        for entry in &input.resume {
            match history.closed.get(&InterruptId::from(entry.interrupt_id.as_str())) {
                None => {
                    return Err(Problem::not_found(format!(
                        "interrupt `{}` in the thread",
                        entry.interrupt_id
                    )));
                }
                Some(by) if entry.status == Status::Resolved && by != self.caller.user() => {
                    let detail = format!("interrupt `{}` was closed by `{by}`", entry.interrupt_id);
                    return Err(Problem::conflict("closed", detail)
                        .hint("reconnect to the thread with `GET /agui/threads/{thread}`"));
                }
                Some(_) => {}
            }
        }
        Ok(!input.resume.is_empty())
    }

    async fn come_back(
        self,
        thread: &ThreadId,
        run: RunId,
        input: &RunInput,
        history: &History,
    ) -> Result<Response, Problem> {
        let scene = Scene { thread: input.thread_id.clone(), run: input.run_id.clone() };
        tell(self.request(), thread, scene, run, history, input.unused()).await
    }
}

fn nothing_new() -> Problem {
    Problem::invalid("the input has no user message and no answer")
        .hint("reconnect to a thread with `GET /agui/threads/{thread}`")
}
