//! Watching a thread: its events in order, and between them the live fragments, without a gap or a repeat.
//!
//! The journal is the truth; the bus only says sooner what it will say. A watcher that missed
//! something reads the journal and goes on.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use windlass_machine::{CallKey, Event, Fact, Seq, ThreadId};

use crate::port::bus::{Backlog, Bus, Position, Signal};
use crate::port::clock::Clock;
use crate::port::journal::{Journal, Recorded, StoreError, ThreadStatus};
use crate::port::model::Delta;

/// Events read from the journal at a time.
const PAGE: usize = 256;

/// How often a watcher asks itself whether anything was told since; if not, it looks into the journal itself: the owner
/// may be in a process whose signals do not reach this one. A silent bus is trusted for one to two of these.
const LOOK_EVERY_MS: u64 = 1_000;

/// Where a look finds nothing, the next one comes after twice the time, so often: a thousand streams of threads in which
/// nothing happens cost the store some hundred reads a second.
const LONGER_LOOKS: u32 = 3;

/// What a watcher sees.
#[derive(Clone, Debug, PartialEq)]
// Boxing the event would cost an allocation for each, and an update lives for a moment.
#[allow(clippy::large_enum_variant)]
pub enum Update {
    /// An event, in order.
    Event(Recorded),
    /// A fragment of the reply of the step that began at `seq`. Void once that step has replied or failed.
    Delta {
        /// Position of the `step.started`.
        seq: Seq,
        /// Counts the fragments of this generation from 1.
        number: u64,
        /// The fragment.
        delta: Delta,
    },
    /// The running reply so far, where its fragments could not be told one by one: it takes the place of all that
    /// were told before. Later fragments follow it.
    Snapshot {
        /// Position of the `step.started`.
        seq: Seq,
        /// Number of the newest fragment in it.
        number: u64,
        /// Each block so far, as one fragment.
        parts: Arc<[Delta]>,
    },
    /// Progress of a running tool.
    Progress {
        /// Which call.
        call: CallKey,
        /// The tool's words.
        text: Arc<str>,
    },
    /// What the thread does after the events so far.
    Status(ThreadStatus),
    /// Driving stopped before the run ended or waited; opening the thread again goes on.
    Stopped {
        /// Why.
        why: Arc<str>,
    },
}

impl Position {
    /// Moves on to where a watcher stands that has been told an update.
    pub fn advance(&mut self, update: &Update) {
        match update {
            Update::Event(Recorded { seq, event }) => {
                self.seq = *seq;
                if matches!(event.fact, Fact::StepStarted { .. }) || ends_step(&event.fact) {
                    self.delta = 0;
                }
            }
            Update::Delta { number, .. } | Update::Snapshot { number, .. } => self.delta = *number,
            Update::Progress { .. } | Update::Status(_) | Update::Stopped { .. } => {}
        }
    }
}

/// How a watcher begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// With what the journal has.
    Journal,
    /// With what comes: nothing stands after the position yet.
    Live,
}

/// Where watchers read.
pub(crate) struct WatchSource {
    pub journal: Arc<dyn Journal>,
    pub bus: Arc<dyn Bus>,
    pub clock: Arc<dyn Clock>,
}

struct Watcher {
    source: Arc<WatchSource>,
    thread: ThreadId,
    signals: BoxStream<'static, Arc<Signal>>,
    backlog: Backlog,
    /// The last event that was handed out, and how many fragments of the running reply were.
    told: Position,
    step: RunningStep,
    ready: VecDeque<Update>,
    /// Whether the journal may have more than was handed out. It is read a page at a time, when all before is handed
    /// out, so that a slow reader, or a long thread from its start, costs a page.
    behind: bool,
    /// A signal that has to wait until then.
    held: Option<Arc<Signal>>,
    status: Option<ThreadStatus>,
    silence: Silence,
    ended: bool,
}

/// The step whose fragments a watcher hands out.
struct RunningStep {
    /// The newest `step.started` without a reply.
    started: Option<Seq>,
    /// Whether a step that began before the watcher did may still run: no event has ruled it out yet.
    unsure: bool,
}

/// How long the bus has sent nothing.
#[derive(Default)]
struct Silence {
    /// When to look into the journal, should the bus be silent until then. One timer for many signals: setting one
    /// costs more than a signal.
    look: Option<BoxFuture<'static, ()>>,
    /// Whether a signal came since the timer was set.
    heard: bool,
    /// Looks that found nothing, one after the other.
    looks: u32,
}

impl WatchSource {
    /// Watches a thread from after a position. The stream ends only with an error.
    pub(crate) fn watch(
        self: &Arc<Self>,
        thread: &ThreadId,
        after: Position,
        begin: Begin,
        backlog: Backlog,
    ) -> BoxStream<'static, Result<Update, StoreError>> {
        let watcher = Watcher {
            // First follow, then read: what is appended in between is seen twice and handed out once.
            signals: self.bus.follow(thread, after, backlog),
            source: self.clone(),
            thread: thread.clone(),
            backlog,
            told: after,
            step: RunningStep { started: None, unsure: begin == Begin::Journal },
            ready: VecDeque::new(),
            behind: begin == Begin::Journal,
            held: None,
            status: None,
            silence: Silence::default(),
            ended: false,
        };
        // Boxed, because it moves with each update.
        stream::unfold(Box::new(watcher), |mut watcher| async move {
            if watcher.ended {
                return None;
            }
            let update = watcher.next().await;
            watcher.ended = update.is_err();
            Some((update, watcher))
        })
        .boxed()
    }
}

impl Watcher {
    async fn next(&mut self) -> Result<Update, StoreError> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                return Ok(update);
            }
            if self.behind {
                self.catch_up().await?;
                continue;
            }
            if let Some(signal) = self.held.take() {
                self.take(&signal).await?;
                continue;
            }
            let (clock, silence) = (&self.source.clock, &mut self.silence);
            let look = silence.look.get_or_insert_with(|| clock.sleep_ms(LOOK_EVERY_MS << silence.looks));
            let signal = tokio::select! {
                biased;
                signal = self.signals.next() => signal,
                () = look => {
                    silence.look = None;
                    if !std::mem::take(&mut silence.heard) {
                        self.behind = true;
                        silence.looks = LONGER_LOOKS.min(silence.looks + 1);
                    }
                    continue;
                }
            };
            (silence.heard, silence.looks) = (true, 0);
            match signal {
                Some(signal) if self.is_ahead(&signal) => {
                    (self.behind, self.held) = (true, Some(signal));
                }
                Some(signal) => self.take(&signal).await?,
                // The bus is gone, for example with the process that owned the thread: follow anew.
                None => {
                    clock.sleep_ms(LOOK_EVERY_MS / 10).await;
                    self.signals = self.source.bus.follow(&self.thread, self.told, self.backlog);
                    self.behind = true;
                }
            }
        }
    }

    /// Whether the journal has events that come before a signal and were not handed out.
    fn is_ahead(&self, signal: &Signal) -> bool {
        match signal {
            Signal::Appended { seq, events, .. } => seq.0 - events.len() as u64 > self.told.seq.0,
            Signal::Delta { seq, .. } | Signal::Snapshot { seq, .. } => *seq > self.told.seq,
            Signal::Lagged => true,
            Signal::Progress { .. } | Signal::Stopped { .. } => false,
        }
    }

    async fn take(&mut self, signal: &Signal) -> Result<(), StoreError> {
        match signal {
            Signal::Appended { seq, events, status } => {
                let first = seq.0 + 1 - events.len() as u64;
                if first <= self.told.seq.0 + 1 {
                    for (event, at) in events.iter().zip(first..) {
                        self.tell(Seq(at), event);
                    }
                }
                // The status of an older signal is no longer so: the journal has been read beyond it.
                if let Some(status) = status.filter(|_| self.told.seq == *seq) {
                    self.say(status);
                }
            }
            Signal::Delta { seq, number, delta, attempt: _ } => {
                if self.is_running(*seq).await? && *number == self.told.delta + 1 {
                    let (seq, number, delta) = (*seq, *number, delta.clone());
                    self.hand_out(Update::Delta { seq, number, delta });
                }
            }
            Signal::Snapshot { seq, number, parts, attempt: _ } => {
                if self.is_running(*seq).await? && *number > self.told.delta {
                    let (seq, number, parts) = (*seq, *number, parts.clone());
                    self.hand_out(Update::Snapshot { seq, number, parts });
                }
            }
            Signal::Progress { call, text } => {
                self.hand_out(Update::Progress { call: *call, text: text.clone() });
            }
            Signal::Stopped { why } => self.hand_out(Update::Stopped { why: why.clone() }),
            // The journal has been read since.
            Signal::Lagged => {}
        }
        Ok(())
    }

    /// Whether the step that began there has no reply yet, as far as the events say that were handed out.
    async fn is_running(&mut self, started: Seq) -> Result<bool, StoreError> {
        if self.step.unsure {
            self.find_step(started).await?;
        }
        Ok(self.step.started == Some(started))
    }

    /// A watcher that goes on after a `step.started`, or after something later, is told the step's fragments too.
    async fn find_step(&mut self, started: Seq) -> Result<(), StoreError> {
        self.step.unsure = false;
        let page = self.source.journal.read(&self.thread, Seq(started.0.saturating_sub(1)), PAGE).await?;
        let begins = page.first().is_some_and(|first| matches!(first.event.fact, Fact::StepStarted { .. }));
        let mut known = page.iter().take_while(|recorded| recorded.seq <= self.told.seq);
        if begins && !known.any(|recorded| ends_step(&recorded.event.fact)) {
            self.step.started = Some(started);
        }
        Ok(())
    }

    fn hand_out(&mut self, update: Update) {
        self.told.advance(&update);
        self.ready.push_back(update);
    }

    /// Hands out an event that was not handed out before.
    fn tell(&mut self, seq: Seq, event: &Event) {
        if seq <= self.told.seq {
            return;
        }
        if matches!(event.fact, Fact::StepStarted { .. }) {
            self.step = RunningStep { started: Some(seq), unsure: false };
        } else if ends_step(&event.fact) {
            self.step = RunningStep { started: None, unsure: false };
        }
        self.hand_out(Update::Event(Recorded { seq, event: event.clone() }));
    }

    fn say(&mut self, status: ThreadStatus) {
        if self.status != Some(status) {
            self.status = Some(status);
            self.ready.push_back(Update::Status(status));
        }
    }

    /// Reads a page of what the journal has beyond what was handed out, and after the last one what the thread does.
    async fn catch_up(&mut self) -> Result<(), StoreError> {
        let page = self.source.journal.read(&self.thread, self.told.seq, PAGE).await?;
        self.behind = page.len() == PAGE;
        if !page.is_empty() {
            self.silence.looks = 0;
        }
        page.iter().for_each(|recorded| self.tell(recorded.seq, &recorded.event));
        if !self.behind
            && let Some(row) = self.source.journal.thread(&self.thread).await?
            && row.head == self.told.seq
        {
            self.say(row.view.status);
        }
        Ok(())
    }
}

fn ends_step(fact: &Fact) -> bool {
    matches!(fact, Fact::StepReplied { .. } | Fact::StepFailed { .. } | Fact::RunFinished { .. })
}
