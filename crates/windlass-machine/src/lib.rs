//! The pure state machine of Windlass: it decides the next action of an agent's run, and has no effects itself.
//!
//! The machine has no I/O, async code, clock or randomness. All outside data for a decision arrives in an [`Input`].
//! Every decision is recorded as an [`Event`], and every operation that should be in flight is a [`Command`]. A
//! driver around the machine owns the journal, the model, the tools and the clock.
//!
//! # Vocabulary
//!
//! - A **thread** is the long-lived conversation. It has one **journal** of events, and its [`State`] is exactly the
//!   fold of that journal: [`Machine::restore`] computes it, [`Machine::apply`] extends it.
//! - A **run** is one activation of an [`Agent`] in a thread, from a message until it is done, failed or cancelled.
//! - A **step** is one model call and the tool calls that it requests. A retry of a failed model call is another
//!   **attempt** at the same step, with its own [`Fact::StepStarted`].
//! - The calls of a step form a **line**: a call starts when every earlier one has its result. As an exception,
//!   adjacent [`EffectClass::Pure`] calls run in parallel.
//! - An **interrupt** pauses a run until outside input arrives, and an **answer** is that input. Only an answer, a
//!   changed policy or a cancellation ends an interrupt. Time ends it only if its [`Terms`] define an expiry.
//! - An **effect** is the dispatch of one call. Its id is derived from the call, so it never changes.
//!
//! # The driver's loop
//!
//! Decide, append, apply, act, in this order, with one append for all pending inputs:
//!
//! ```
//! use std::sync::Arc;
//! use windlass_machine::*;
//!
//! let agent = Agent {
//!     name: "clerk".into(),
//!     models: vec!["demo/script".into()],
//!     instructions: Vec::new(),
//!     tools: None,
//!     settings: ModelSettings::default(),
//!     limits: Limits::default(),
//!     mode: None,
//! };
//! let message = NewMessage {
//!     id: "message-1".into(),
//!     message: Arc::new(Message::text(Role::User, "What is two and two?")),
//!     by: "ann".into(),
//!     workspace: "home".into(),
//!     folder: None,
//!     run: "run-1".into(),
//!     agent: Arc::new(agent),
//!     options: RunOptions::default(),
//!     when_busy: WhenBusy::Queue,
//!     note: None,
//! };
//!
//! let mut journal: Vec<String> = Vec::new();
//! let mut machine = Machine::restore("thread-1".into(), None, []).unwrap();
//! let mut mailbox = vec![Input::Message(Box::new(message))];
//! let mut now = Timestamp(1_000);
//!
//! while let Some(input) = mailbox.pop() {
//!     // 1. Decide. The machine has already applied the returned events. A reject leaves the machine unchanged.
//!     let events = machine.handle(&input, now).unwrap();
//!     // 2. Append before publishing or starting anything. If the append fails or its outcome is unknown, discard the
//!     //    machine and read the journal again.
//!     journal.extend(events.iter().map(Event::encode));
//!     // 3. Act: start wanted commands that are not in flight, and stop those that are no longer wanted.
//!     for command in machine.wants() {
//!         match command {
//!             Command::CallModel { attempt, .. } => {
//!                 let request = machine.request().expect("a model call has a request");
//!                 assert_eq!(request.messages.len(), 1);
//!                 now = now.plus_ms(700);
//!                 mailbox.push(Input::ModelReplied(Box::new(ModelReplied {
//!                     attempt,
//!                     blocks: vec![Block::text("Four.")],
//!                     stop: StopReason::End,
//!                     usage: Usage::default(),
//!                     cost: None,
//!                     request: machine.request_fingerprint(),
//!                     ttft_ms: None,
//!                     thoughts_ms: Vec::new(),
//!                     duration_ms: 700,
//!                     view: View::default(),
//!                 })));
//!             }
//!             Command::CallTool { .. } | Command::PreviewTool { .. } | Command::Reconcile { .. } => {
//!                 unreachable!("this model calls no tool")
//!             }
//!         }
//!     }
//! }
//!
//! assert_eq!(machine.state().last.as_ref().unwrap().status, RunStatus::Done);
//! // A process that opens the thread later folds the journal to the same state.
//! let events = journal.iter().map(|line| Event::decode(line).unwrap());
//! assert_eq!(Machine::restore("thread-1".into(), None, events).unwrap(), machine);
//! ```
//!
//! A driver has further duties:
//!
//! - **It dispatches a tool call only after its own append of that call's [`Fact::ToolStarted`]**, and a model call
//!   only after its [`Fact::StepStarted`]. A wanted command alone is not enough. As an exception, a call without
//!   effects may run while its start waits to be appended together with its result.
//! - **It reports commands that were started before.** After opening a thread, the driver sends each command of
//!   [`Machine::unfinished`] as [`Input::Lost`]. It also reports a command that it has recorded but not dispatched,
//!   because no later process can. A call is reported as [`Input::NotDispatched`], either because a cancel in the
//!   same batch overtook it or because its tool has changed since the verdict. A model call is reported as
//!   [`Input::ModelStopped`]. An orderly shutdown also reports a model call in flight as [`Input::ModelStopped`], so
//!   that the call does not count as a lost attempt.
//! - **In a run that is being cancelled**, the driver aborts the commands in flight and reports each outcome. The
//!   outcome is the reply or result if it arrived before the abort, else [`Input::ModelStopped`] or
//!   [`Input::ToolStopped`]. The run ends with the last of these inputs.
//! - **It may repeat commands without effects.** It starts [`Command::PreviewTool`] and [`Command::Reconcile`]
//!   whenever they are wanted and not in flight, and never reports them as lost.
//! - **Every view is complete.** It contains the policy and each call of the step at the time when the driver takes
//!   the input; an edited call has its new arguments. If the view is newer than the view that judged a startable
//!   call, the driver sends [`Input::Rejudge`] first.
//! - **It reports a refused budget** as [`Input::LimitRefused`], and then repeats
//!   the rejected input. The machine asks a person or ends the run. If the input is
//!   a message that would have started a run, the report contains the message.
//! - **It sends [`Input::Tick`]** when [`Machine::deadline`] is reached. It sends
//!   [`Input::Rejudge`] before a call starts whose policy has changed since its verdict. A tick
//!   lists the interrupts whose whole term has passed by a monotonic clock. An automatic approval
//!   on expiry requires that the tick lists the interrupt; otherwise the term restarts.
//! - **It passes the thread's time to [`Machine::handle`]** from [`ThreadClock::moment`], and sleeps for
//!   [`Machine::due_in_ms`] by a monotonic clock. With the wall clock alone, a thread with a last event ahead of a
//!   corrected clock would wait until the clock reaches that event's time.
//! - **It generates unique ids.** The machine rejects a run id
//!   that is still in its state, which is only the last run's.
//!
//! # Invariants
//!
//! 1. [`Machine::handle`] is total and deterministic. It either decides the input, and the state is then the fold of
//!    the journal with the new events; or it rejects the input with a [`Reject`], and the machine is unchanged.
//!    [`Machine::apply`] never fails, not even for a nonsensical journal.
//! 2. `restore(snapshot, tail)` equals the fold of the whole journal. Time in a journal never runs backwards.
//! 3. A call has exactly one result, from its tool or from the engine. An effect is dispatched at most once per
//!    recorded start: once in total, unless its class allows a repetition or a person requested it.
//! 4. An active run has something in flight, a deadline, or an open interrupt. It is never stuck.
//! 5. Within a run, each request extends the previous one, unless an event gives a reason: the window moved, the
//!    model was switched, or the steps were used up. A request has at most N messages plus the newest, and no call
//!    without a result.
//! 6. The cost of a decision does not depend on the length of the thread, and a finished run leaves nothing large in
//!    the state.

mod agent;
mod blobs;
mod clock;
mod command;
mod context;
mod event;
mod id;
mod input;
mod machine;
mod message;
mod mode;
mod moment;
mod observer;
mod on;
mod policy;
mod reject;
mod state;

pub use agent::*;
pub use clock::{CLOCK_SET_BACK_MS, ThreadClock};
pub use command::{Command, Replied, Resumed};
pub use context::{
    EMPTY_RETRIES, LOADED_TOOLS, ModelRequest, OVERRUN_RETRIES, Part, PartContent, PartKind, repair_arguments,
};
pub use event::*;
pub use id::*;
pub use input::*;
pub use machine::{CorruptJournal, Machine, Snapshot};
pub use message::*;
pub use mode::{Area, Mode};
pub use moment::Moment;
pub use observer::Observer;
pub use policy::*;
pub use reject::Reject;
pub use state::*;
