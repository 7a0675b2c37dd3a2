//! The tool port: a shape, an effect class, and a call.
//!
//! A tool never decides whether it may run and never retries itself. What the model should see is
//! a [`ToolOutput`], also when it went wrong; a call that has no answer yet says so with a [`ToolOutcome`].

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_machine::{
    Annotations, Answer, Area, CallKey, Digest, EffectClass, EffectId, InterruptKind, Rest, RunId, Terms,
    ThreadId, Timestamp, ToolSpec,
};

use super::background::Background;
use super::offload::OffloadedResults;

/// Something that a model can ask for.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Name, description, schema and annotations; the same for the tool's life.
    fn spec(&self) -> &ToolSpec;

    /// What the tool says of itself beside its spec; the same for the tool's life.
    fn traits(&self) -> ToolTraits<'_> {
        ToolTraits::default()
    }

    /// What a call with these arguments does. It differs from what the tool's own shape says only for a tool that does
    /// different things by its arguments, such as one that reads and writes. It reads nothing but what it is given.
    fn conduct(&self, _arguments: &Value) -> Conduct {
        let spec = self.spec();
        Conduct { annotations: spec.annotations, class: self.traits().effect_class(spec), added: Vec::new() }
    }

    /// Why its calls can do nothing at the moment: its server is away, for example. For people who list tools.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// The server that a call with these arguments goes to: another than
    /// [`ToolTraits::server`] only for a tool of the engine that reaches several. Rules for a server hold for it. It reads
    /// nothing but what it is given.
    fn server_for(&self, _arguments: &Value) -> Option<String> {
        self.traits().server.map(str::to_owned)
    }

    /// Whether runs of a workspace are shown the tool. A call of one that they are not shown is the tool's to answer.
    fn is_offered(&self, _workspace: &str) -> bool {
        true
    }

    /// What it keeps at work beside its calls, where it does.
    fn background(&self) -> Option<Arc<dyn Background>> {
        None
    }

    /// What a call asks people, where asking is what the tool is for: it is asked at once, and the call starts with the
    /// reply in its context. Arguments that make no question give `None`: the call starts without one, and says why.
    fn asks(&self, _arguments: &Value) -> Option<Ask> {
        None
    }

    /// Whether a call with these arguments leaves something at work in its thread after it has answered, such as a command
    /// in the background: it is refused where there is no conversation that could look after it.
    fn outlives(&self, _arguments: &Value) -> bool {
        false
    }

    /// Tells what a call would do, for the people who approve it, if [`ToolTraits::previews`]: a difference, a plan, a
    /// price. Changes nothing. The same state of the world gives the same text: the text is made again before an approved
    /// call starts, and a different one asks people again.
    async fn preview(&self, _context: CallContext, _arguments: Value) -> Result<String, String> {
        Err(format!("the tool `{}` cannot tell what it would do", self.spec().name))
    }

    /// Runs one call. `arguments` satisfy the schema. Panics and hangs are contained by the driver. So is a call that
    /// blocks its thread, on a runtime of several threads; one that is killed then goes on until it next awaits.
    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome;

    /// Told once that a call which was put off, or has asked something, never goes on, because its run has ended: what it
    /// left at work elsewhere may be stopped. `state` is what the tool wanted back. Nothing of it is recorded, and where
    /// the process dies nobody is told.
    async fn let_go(&self, _state: &str) {}
}

/// What a tool says of itself beside its spec. A tool names the fields in which it differs from
/// [`default`](ToolTraits::default) and ends with `..ToolTraits::default()`, so that a new field does not break it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolTraits<'a> {
    /// What may be done again when the outcome of a call was lost; `None`: as its annotations say.
    pub class: Option<EffectClass>,
    /// Which arguments are paths in the working folder, as JSON pointers. Rules judge the files that they lead to, an
    /// approval is for those files, and the call's folder opens no others under these paths.
    pub path_arguments: &'a [&'static str],
    /// What it is about: some modes have nothing of an area.
    pub area: Area,
    /// Whether some of its calls only read, by their arguments, although its own shape does not say so: modes that change
    /// nothing then show it, and refuse the other calls.
    pub reads_too: bool,
    /// Whether its annotations are not believed: those of a server, unless an administrator has said so.
    pub is_untrusted: bool,
    /// The server that the tool belongs to; `None` for the engine's own.
    pub server: Option<&'a str>,
    /// The name that its server knows it by, if that differs from the spec's: two servers may have tools of one name.
    pub remote_name: Option<&'a str>,
    /// Whether the tool changes files only through the call's folder, which records each change. A call of any other tool
    /// that is not pure may have changed files without a record, so that a restore reports it.
    pub records_changes: bool,
    /// The name under which the tool keeps something with the thread, which all tools of that name share. It goes with
    /// the thread's journal: forks have it, and a rollback takes it back.
    pub keeps: Option<&'a str>,
    /// The group that it belongs to by its own word.
    pub toolset: Option<&'a str>,
    /// Whether the tool itself says what is wrong with arguments that do not fit its schema: it is then called with them.
    pub checks_arguments: bool,
    /// Whether the tool reads results that the model has seen summaries of. What it answers is never summed up.
    pub fetches: bool,
    /// Whether the tool can tell beforehand what a call would do: see [`Tool::preview`].
    pub previews: bool,
    /// Whether each pure call only reads the working folder or what the thread keeps. It uses no network, changes
    /// nothing, reports no progress, and never asks or defers. The driver may run such a call before its
    /// start is durable, and record start and result in one append.
    pub reads_locally: bool,
}

impl ToolTraits<'_> {
    /// What may be done again when the outcome of a call of a tool with this spec was lost.
    pub fn effect_class(&self, spec: &ToolSpec) -> EffectClass {
        self.class.unwrap_or_else(|| EffectClass::from_annotations(spec.annotations))
    }
}

/// What one call does.
#[derive(Clone, Debug, PartialEq)]
pub struct Conduct {
    /// Hints about it.
    pub annotations: Annotations,
    /// What may be done again when its outcome was lost.
    pub class: EffectClass,
    /// Names and digests of what decides about the call beside its arguments, such as the address that it goes to: an
    /// approval holds for these and no others. Never of a secret.
    pub added: Vec<(String, Digest)>,
}

/// Tools that come and go while the engine runs: those of servers, for example.
///
/// A name that another source or the engine itself has is left to whoever asks the source; a source gives each of its
/// own names once.
pub trait ToolSource: Send + Sync {
    /// The tools at hand now, sorted by name. One that cannot be reached at the moment stays in it: its calls say why.
    fn tools(&self) -> Arc<[Arc<dyn Tool>]>;

    /// Another number says that [`ToolSource::tools`] gives others than before. It is cheap: it is read often.
    fn version(&self) -> u64;
}

/// What a call is given beside its arguments.
#[derive(Clone)]
pub struct CallContext {
    /// The tenant.
    pub workspace: Arc<str>,
    /// The thread that the call belongs to.
    pub thread: ThreadId,
    /// The run that the call belongs to.
    pub run: RunId,
    /// The call.
    pub call: CallKey,
    /// Stable id of the effect; the same however often the call is started.
    pub effect_id: EffectId,
    /// What may be done again of the call, as it was recorded when the call was let through, an administrator's word
    /// included; `None` where nothing was: for a look at what a call would do, and a read for another call's outcome.
    pub class: Option<EffectClass>,
    /// Fires when the call is to end; 5 s later it is killed.
    pub cancel: CancellationToken,
    /// The folder that tools work in, where there is one.
    pub folder: Option<Arc<crate::tool::WorkingFolder>>,
    /// When the call was started.
    pub now: Timestamp,
    /// The time zone that the run is told the time in, as an offset from UTC in minutes.
    pub utc_offset_minutes: Option<i32>,
    /// What the tool keeps with the thread, where it has kept anything. Nothing else changes it while the call runs,
    /// unless the call is pure, and runs beside others.
    pub kept: Option<String>,
    /// The whole of results that the model has seen summaries of, for a tool that fetches them.
    pub results: OffloadedResults,
    /// What people said to what the call asked; `None` at its first start.
    pub reply: Option<ToolReply>,
    /// What a call that was put off until now wanted back; `None` at its first start, and with a reply.
    pub resumed: Option<ToolResumed>,
    /// Progress for whoever watches; lost when nobody does, and never recorded. It also gives the call its full time
    /// again.
    pub progress: ProgressSender,
}

/// What people said to what a call asked.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolReply {
    /// A reply, or that it was declined.
    pub answer: Answer,
    /// What the tool wanted back.
    pub state: Option<String>,
}

/// What a call that was put off gets back when its time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResumed {
    /// How often it was put off.
    pub times: u32,
    /// What the tool wanted back.
    pub state: Option<String>,
}

/// When a deferred call continues. Until then nothing of it is held: no task, no memory, no process. It may be deferred
/// 10,000 times, and for a year at once; a longer time is cut to that, and the tool finds itself early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deferral {
    /// How long from now, in milliseconds.
    pub after_ms: u64,
    /// What the tool wants back; recorded.
    pub state: Option<String>,
    /// What may be done again of what is left, when its outcome is lost. A call that only looks after what has begun
    /// elsewhere says [`Rest::Repeatable`], whatever its effect class says of the whole.
    pub rest: Rest,
}

/// What a call asks people before it can go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// A question, a sign-in or a hand-off.
    pub kind: InterruptKind,
    /// Whose reply counts, and what silence means.
    pub terms: Terms,
    /// What the tool wants back with the reply; recorded.
    pub state: Option<String>,
}

/// Sends progress texts; never blocks, and nothing is kept where nobody watches.
#[derive(Clone, Default)]
pub struct ProgressSender(pub(crate) Option<Arc<dyn Fn(String) + Send + Sync>>);

impl ProgressSender {
    /// Sends to whoever wants to hear; it must not block.
    pub fn new(send: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(send)))
    }

    /// Reports progress.
    pub fn report(&self, text: impl Into<String>) {
        if let Some(send) = &self.0 {
            send(text.into());
        }
    }
}

/// How a call ended, or what it waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    /// It has an answer, which may be an error.
    Done(ToolOutput),
    /// People have to reply first. The call is started again with the reply.
    Ask(Box<Ask>),
    /// It continues later. The call is started again at that time. A run that is cancelled meanwhile starts nothing: the
    /// call is then in doubt, unless it is pure.
    Defer(Box<Deferral>),
    /// It was sent and no answer came, so that its outcome is unknown. What that means is decided by its effect class, as
    /// for a call that was killed; one that was deferred is not looked after again.
    Unknown {
        /// Why.
        reason: String,
    },
}

impl ToolOutcome {
    /// A text answer.
    pub fn text(text: impl Into<String>) -> Self {
        ToolOutput::text(text).into()
    }

    /// An error that the model can read and react to.
    pub fn error(text: impl Into<String>) -> Self {
        ToolOutput::error(text).into()
    }

    /// An error, because what carries the tool out is not there: nothing was done.
    pub fn unavailable(text: impl Into<String>) -> Self {
        ToolOutput::unavailable(text).into()
    }

    /// People have to reply first.
    pub fn ask(ask: Ask) -> Self {
        Self::Ask(Box::new(ask))
    }

    /// The call continues later.
    pub fn defer(deferral: Deferral) -> Self {
        Self::Defer(Box::new(deferral))
    }

    /// What the tool wants back when the call is started again.
    pub fn state(&self) -> Option<&str> {
        match self {
            Self::Ask(ask) => ask.state.as_deref(),
            Self::Defer(deferral) => deferral.state.as_deref(),
            Self::Done(_) | Self::Unknown { .. } => None,
        }
    }

    /// The call was sent, and its outcome is unknown.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into() }
    }
}

impl From<ToolOutput> for ToolOutcome {
    fn from(output: ToolOutput) -> Self {
        Self::Done(output)
    }
}

/// What a call answered, for the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// The parts, in order; the driver leaves out the last ones of a result that has too many.
    pub parts: Vec<OutputPart>,
    /// Whether it went wrong.
    pub error: bool,
    /// What the tool keeps with the thread from now on, at most 256 KiB; `None`: what it has kept before. It counts
    /// together with the answer, or not at all, so that a call which does nothing else may be repeated.
    pub keep: Option<String>,
    /// Whether nothing was done, because what carries the tool out is not there; the run then says that it lacked it.
    pub unavailable: bool,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputPart {
    /// Text; the driver shortens it to what a result may hold.
    Text(String),
    /// A picture.
    Image {
        /// For example `image/png`.
        media_type: String,
        /// The file's bytes.
        bytes: Bytes,
    },
    /// A document.
    File {
        /// The name shown to the model.
        name: String,
        /// For example `application/pdf`.
        media_type: String,
        /// The file's bytes.
        bytes: Bytes,
    },
}

impl ToolOutput {
    /// A text answer.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![OutputPart::Text(text.into())], ..Self::default() }
    }
    /// The same answer, and this is kept with the thread from now on.
    pub fn keeping(mut self, value: impl Into<String>) -> Self {
        self.keep = Some(value.into());
        self
    }
    /// An error, because what carries the tool out is not there: nothing was done.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self { unavailable: true, ..Self::error(text) }
    }
    /// An error that the model can read and react to.
    pub fn error(text: impl Into<String>) -> Self {
        Self { parts: vec![OutputPart::Text(text.into())], error: true, ..Self::default() }
    }
}
