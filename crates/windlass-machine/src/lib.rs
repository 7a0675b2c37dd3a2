//! The pure state machine of Windlass: it decides what an agent's run does next, and does nothing itself.
//!
//! No I/O, no async, no clock, no dice. Everything that a decision needs from outside arrives in an [`Input`];
//! everything that it decides is an [`Event`]; everything that should happen in the world is a [`Command`].
//! A driver around it owns the journal, the model, the tools and the time.
//!
//! # Vocabulary
//!
//! - A **thread** is the long-lived conversation. It has one **journal** of events, and its [`State`] is exactly the
//!   fold of that journal: [`Machine::restore`] makes it, [`Machine::apply`] extends it.
//! - A **run** is one activation of an [`Agent`] in a thread, from a message until it is done, failed or cancelled.
//! - A **step** is one model call and the tools that it asks for. Trying a failed model call again is another
//!   **attempt** at the same step, and has a [`Fact::StepStarted`] of its own.
//! - The calls of a step form a **line**: a call starts when every earlier one has its result, except that neighbouring
//!   [`EffectClass::Pure`] calls run beside each other.
//! - An **interrupt** parks a run on an outside reply, and an **answer** is that reply. Nothing but an answer, a
//!   changed policy or a cancel ends an interrupt; time does only where its [`Terms`] say what silence means.
//! - An **effect** is the dispatch of one call. Its id is derived, so the same call has the same one for ever.
//!
//! # The driver's loop
//!
//! Decide, append, apply, act, in this order, with one append for all inputs at hand:
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
//!     // 1. Decide. The machine has applied what it returns. A reject is an answer for the sender, and changes nothing.
//!     let events = machine.handle(&input, now).unwrap();
//!     // 2. Append, and only then show or start anything. Where this fails or its outcome is unknown, the machine is
//!     //    discarded and the journal read again.
//!     journal.extend(events.iter().map(Event::encode));
//!     // 3. Act: start what is wanted and not in flight, drop what is in flight and no longer wanted.
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
//! // Whoever opens the thread later reads the journal and stands where this process stood.
//! let events = journal.iter().map(|line| Event::decode(line).unwrap());
//! assert_eq!(Machine::restore("thread-1".into(), None, events).unwrap(), machine);
//! ```
//!
//! What else a driver owes the machine:
//!
//! - **It dispatches a tool only if it has itself just appended that call's [`Fact::ToolStarted`]**, and a model call
//!   only after its [`Fact::StepStarted`]. That something is wanted is not enough. The exception is a call without an
//!   effect, which may run while its start waits to be appended together with its result.
//! - **What it finds begun, it reports.** After opening a thread, each of [`Machine::unfinished`] goes in as
//!   [`Input::Lost`]. It also reports a command that it has recorded and not dispatched, because no later process can:
//!   a call as [`Input::NotDispatched`] (a cancel in the same batch overtook it, or its tool is another one than the
//!   one that was judged), a model call as [`Input::ModelStopped`]. A process that ends in order also gives a model call
//!   in flight up as [`Input::ModelStopped`], so that it counts as no lost attempt.
//! - **In a run that is being stopped** it aborts what is in flight and reports how that ended: the reply or result if
//!   it still came, else [`Input::ModelStopped`] or [`Input::ToolStopped`]. The run ends with the last of these.
//! - **What changes nothing it may make again.** [`Command::PreviewTool`] and [`Command::Reconcile`] are started
//!   whenever they are wanted and not in flight, and nothing is reported as lost of them.
//! - **Every view is complete.** It holds the policy and each call of the step as they are when the input is taken;
//!   an edited call with its new arguments. Where it is newer than what a call that may start now was judged by,
//!   [`Input::Rejudge`] goes first.
//! - **What the store has no room for** it hands back as [`Input::LimitRefused`], and then the input that was decided
//!   on once more: the machine asks somebody, or ends the run. A message that was to start a run goes inside of it.
//! - It sends [`Input::Tick`] when [`Machine::deadline`] has come, and [`Input::Rejudge`] before a call starts whose
//!   policy has changed since it was judged. A tick names the interrupts whose term has passed by a clock that never
//!   jumps: an automatic approval on expiry requires this; without it, the term restarts.
//! - **It gives [`Machine::handle`] the moment of the thread's clock**, [`ThreadClock::moment`], and sleeps [`Machine::due_in_ms`] by a clock
//!   that never jumps. With the wall clock alone a thread whose last event is from a time when that clock was ahead
//!   would wait until it shows that time again.
//! - It gives fresh ids. The machine refuses a run id that its state still knows, and knows only the last one.
//!
//! # Invariants
//!
//! 1. [`Machine::handle`] is total and a function: any input is decided, and then the state is the fold of the journal
//!    with the new events, or is refused with a typed [`Reject`], and then the machine is unchanged. [`Machine::apply`]
//!    never fails, not even on a journal that makes no sense.
//! 2. `restore(snapshot, tail)` equals the fold of the whole journal; time in a journal never runs backwards.
//! 3. A call has exactly one result, real or said by the engine, and an effect is never dispatched more often than its
//!    starts are recorded: once, unless its class allows a repeat or a person asked for one.
//! 4. A run that is active has something in flight, a deadline, or an open interrupt. It is never stuck.
//! 5. Within a run each request extends the one before it, unless an event says why not: the window moved, the model
//!    was switched, or the steps were used up. It holds at most N messages and the newest, and no call without result.
//! 6. A decision costs the same in a long thread as in a short one, and a finished run leaves nothing big behind.

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
