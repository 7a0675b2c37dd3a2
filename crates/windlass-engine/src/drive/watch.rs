//! Watching a thread: its events in order, with live fragments between them, without gaps or duplicates.
//!
//! The journal is authoritative; the bus only delivers its content earlier. A watcher that missed signals reads the
//! journal.

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

/// Maximum number of events read from a journal at a time.
const PAGE: usize = 256;

/// Milliseconds of silence on the bus after which a watcher reads the journal. The
/// owner may be in a process whose signals do not reach this process. One timer
/// serves many signals, so the actual silence is one to two of these intervals.
const LOOK_EVERY_MS: u64 = 1_000;

/// Maximum number of times that the interval doubles after reads that found no events. With this backoff, a thousand
/// streams of idle threads cost the store a few hundred reads a second.
const LONGER_LOOKS: u32 = 3;

/// An update that a watcher receives.
#[derive(Clone, Debug, PartialEq)]
// Boxing would cost an allocation for each event, and an update is short-lived.
#[allow(clippy::large_enum_variant)]
pub enum Update {
    /// The next event, in journal order.
    Event(Recorded),
    /// A fragment of the reply of the step that started at `seq`.
    /// The fragment is void after that step has replied or failed.
    Delta {
        /// Position of the `step.started` event.
        seq: Seq,
        /// Number of the fragment in its generation, counted from 1.
        number: u64,
        /// The fragment itself.
        delta: Delta,
    },
    /// The received part of the running reply, sent if its fragments are not available one by one. The snapshot
    /// replaces all earlier fragments; later fragments follow it.
    Snapshot {
        /// Position of the `step.started` event.
        seq: Seq,
        /// Number of the newest fragment that the snapshot includes.
        number: u64,
        /// The received blocks, each as one fragment.
        parts: Arc<[Delta]>,
    },
    /// Progress reported by a running tool.
    Progress {
        /// The call that reports it.
        call: CallKey,
        /// Text from the tool.
        text: Arc<str>,
    },
    /// The thread's status after the delivered events.
    Status(ThreadStatus),
    /// The driver stopped before the run ended or waited. Opening the thread again resumes it.
    Stopped {
        /// The cause, for display.
        why: Arc<str>,
    },
}

impl Position {
    /// Advances the position past an update that the watcher has received.
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

/// The source that a watcher reads first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Events that the journal already has.
    Journal,
    /// New updates: the journal has no events after the position yet.
    Live,
}

/// The ports that watchers read.
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
    /// The last delivered event, and the number of delivered fragments of the running reply.
    told: Position,
    step: RunningStep,
    ready: VecDeque<Update>,
    /// Whether the journal may have undelivered events. They are read one page at a
    /// time, after all earlier events are delivered. A slow reader, or a long thread
    /// that is read from its start, therefore holds only one page in memory.
    behind: bool,
    /// A signal that has to wait for these events.
    held: Option<Arc<Signal>>,
    status: Option<ThreadStatus>,
    silence: Silence,
    ended: bool,
}

/// The step whose fragments a watcher delivers.
struct RunningStep {
    /// Position of the newest `step.started` event without a reply.
    started: Option<Seq>,
    /// Whether a step that started before the watcher may still be running, because no event has excluded it yet.
    unsure: bool,
}

/// Measures how long the bus has been silent.
#[derive(Default)]
struct Silence {
    /// Timer: if no signal arrives before it fires, the watcher reads the journal. One timer serves many signals,
    /// because setting a timer costs more than a signal.
    look: Option<BoxFuture<'static, ()>>,
    /// Whether a signal has arrived since the timer was set.
    heard: bool,
    /// Number of consecutive reads that found no events.
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
            // Subscribe first, then read: an event appended in between arrives twice and is delivered once.
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
        // The watcher is boxed, because it moves with each update.
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
                // The subscription ended, for example because the process that owned the thread exited. Subscribe
                // again.
                None => {
                    clock.sleep_ms(LOOK_EVERY_MS / 10).await;
                    self.signals = self.source.bus.follow(&self.thread, self.told, self.backlog);
                    self.behind = true;
                }
            }
        }
    }

    /// Whether the journal has undelivered events that precede a signal.
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
                // The status of an older signal is outdated: the journal has been read beyond it.
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

    /// Whether the step that started at this position has no reply yet, according to the delivered events.
    async fn is_running(&mut self, started: Seq) -> Result<bool, StoreError> {
        if self.step.unsure {
            self.find_step(started).await?;
        }
        Ok(self.step.started == Some(started))
    }

    /// Finds the running step, so that a watcher that resumes after
    /// its `step.started` event also receives the step's fragments.
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

    /// Delivers an event unless it was delivered before.
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

    /// Reads the next page of undelivered events; after the last page, also the thread's status.
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
