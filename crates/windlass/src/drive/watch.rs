//! Watching a thread: its events in order, and between them the live fragments, without a gap or a repeat.
//!
//! The journal is the truth; the bus only says sooner what it will say. A watcher that missed
//! something reads the journal and goes on.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use windlass_machine::{CallKey, Event, Fact, Seq, ThreadId};

use super::Deps;
use crate::port::bus::Signal;
use crate::port::journal::{Recorded, StoreError, ThreadStatus};
use crate::port::model::Delta;

/// Events read from the journal at a time.
const PAGE: usize = 256;

/// How often a watcher asks itself whether anything was told since; if not, it looks into the journal itself: the owner
/// may be in a process whose signals do not reach this one. A silent bus is trusted for one to two of these.
const LOOK_EVERY_MS: u64 = 1_000;

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
    /// Fragments of the running reply were missed; the event that ends the step has the whole.
    Gap {
        /// Position of the `step.started`.
        seq: Seq,
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

/// How a watcher begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// With what the journal has.
    Journal,
    /// With what comes: nothing stands after the position yet.
    Live,
}

struct Watcher {
    deps: Arc<Deps>,
    thread: ThreadId,
    signals: BoxStream<'static, Signal>,
    /// The last event that was handed out.
    seen: Seq,
    /// The newest `step.started` without a reply, and how many of its fragments were handed out.
    step: Option<(Seq, u64)>,
    /// Whether a step that began before the watcher did may still run: nothing told so far says no.
    unsure: bool,
    /// Whether it follows anew because it was too slow, and has heard nothing else since.
    anew: bool,
    ready: VecDeque<Update>,
    status: Option<ThreadStatus>,
    /// When to look into the journal, should the bus be silent until then. One timer for many signals: setting one
    /// costs more than a signal.
    look: Option<BoxFuture<'static, ()>>,
    /// Whether anything was told since the timer was set.
    told: bool,
    ended: bool,
}

impl Deps {
    /// Watches a thread from after a position. The stream ends only with an error.
    pub(crate) fn watch(
        self: &Arc<Self>,
        thread: &ThreadId,
        after: Seq,
        begin: Begin,
    ) -> BoxStream<'static, Result<Update, StoreError>> {
        let watcher = Watcher {
            // First follow, then read: what is appended in between is seen twice and told once.
            signals: self.bus.follow(thread),
            deps: self.clone(),
            thread: thread.clone(),
            seen: after,
            step: None,
            unsure: begin == Begin::Journal,
            anew: false,
            ready: VecDeque::new(),
            status: None,
            look: None,
            told: false,
            ended: false,
        };
        stream::unfold((watcher, begin == Begin::Live), |(mut watcher, begun)| async move {
            if watcher.ended {
                return None;
            }
            if !begun && let Err(error) = watcher.catch_up().await {
                watcher.ended = true;
                return Some((Err(error), (watcher, true)));
            }
            let update = watcher.next().await;
            watcher.ended = update.is_err();
            Some((update, (watcher, true)))
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
            let clock = &self.deps.clock;
            let look = self.look.get_or_insert_with(|| clock.sleep_ms(LOOK_EVERY_MS));
            let signal = tokio::select! {
                biased;
                signal = self.signals.next() => signal,
                () = look => {
                    self.look = None;
                    if !std::mem::take(&mut self.told) {
                        self.catch_up().await?;
                    }
                    continue;
                }
            };
            self.told = true;
            match signal {
                Some(signal) => self.take(signal).await?,
                // The bus is gone, for example with the process that owned the thread: follow anew.
                None => {
                    clock.sleep_ms(LOOK_EVERY_MS / 10).await;
                    self.signals = self.deps.bus.follow(&self.thread);
                    self.catch_up().await?;
                }
            }
        }
    }

    async fn take(&mut self, signal: Signal) -> Result<(), StoreError> {
        let anew = std::mem::take(&mut self.anew);
        match signal {
            Signal::Appended { seq, events, status } => {
                let first = seq.0 + 1 - events.len() as u64;
                if events.is_empty() || first > self.seen.0 + 1 {
                    self.catch_up().await?;
                } else {
                    for (event, at) in events.iter().zip(first..) {
                        self.tell(Seq(at), event.clone());
                    }
                }
                // The status of an older signal is no longer so: the journal has been read beyond it.
                if let Some(status) = status.filter(|_| self.seen == seq) {
                    self.say(status);
                }
            }
            Signal::Delta { seq, number, delta, attempt: _ } => {
                if seq > self.seen {
                    self.catch_up().await?;
                }
                if self.unsure {
                    self.find_step(seq).await?;
                }
                self.fragment(seq, number, delta);
            }
            Signal::Progress { call, text } => self.ready.push_back(Update::Progress { call, text }),
            Signal::Stopped { why } => self.ready.push_back(Update::Stopped { why }),
            // The bus no longer has all of the running reply, and following once more would bring no more of it. What
            // it has comes next; the fragments' numbers say where the gap is.
            Signal::Lagged if anew => self.catch_up().await?,
            Signal::Lagged => {
                // The bus still has the running reply's fragments; those that were told are skipped.
                self.signals = self.deps.bus.follow(&self.thread);
                self.anew = true;
                self.catch_up().await?;
            }
        }
        Ok(())
    }

    /// A watcher that goes on after a `step.started`, or after something later, is told the step's fragments too.
    async fn find_step(&mut self, started: Seq) -> Result<(), StoreError> {
        self.unsure = false;
        let page = self.deps.journal.read(&self.thread, Seq(started.0.saturating_sub(1)), PAGE).await?;
        let begins = page.first().is_some_and(|first| matches!(first.event.fact, Fact::StepStarted { .. }));
        let mut known = page.iter().take_while(|recorded| recorded.seq <= self.seen);
        if begins && !known.any(|recorded| ends_step(&recorded.event.fact)) {
            self.step = Some((started, 0));
        }
        Ok(())
    }

    fn fragment(&mut self, seq: Seq, number: u64, delta: Delta) {
        let Some((step, told)) = &mut self.step else { return };
        if *step != seq || number <= *told {
            return;
        }
        if number > *told + 1 {
            self.ready.push_back(Update::Gap { seq });
        }
        *told = number;
        self.ready.push_back(Update::Delta { seq, number, delta });
    }

    /// Hands out an event that was not handed out before.
    fn tell(&mut self, seq: Seq, event: Event) {
        if seq <= self.seen {
            return;
        }
        self.seen = seq;
        if matches!(event.fact, Fact::StepStarted { .. }) {
            (self.step, self.unsure) = (Some((seq, 0)), false);
        } else if ends_step(&event.fact) {
            (self.step, self.unsure) = (None, false);
        }
        self.ready.push_back(Update::Event(Recorded { seq, event }));
    }

    fn say(&mut self, status: ThreadStatus) {
        if self.status != Some(status) {
            self.status = Some(status);
            self.ready.push_back(Update::Status(status));
        }
    }

    /// Reads what the journal has beyond what was handed out, and what the thread does now.
    async fn catch_up(&mut self) -> Result<(), StoreError> {
        loop {
            let page = self.deps.journal.read(&self.thread, self.seen, PAGE).await?;
            let whole = page.len() < PAGE;
            page.into_iter().for_each(|Recorded { seq, event }| self.tell(seq, event));
            if whole {
                break;
            }
        }
        if let Some(row) = self.deps.journal.thread(&self.thread).await?
            && row.head == self.seen
        {
            self.say(row.view.status);
        }
        Ok(())
    }
}

fn ends_step(fact: &Fact) -> bool {
    matches!(fact, Fact::StepReplied { .. } | Fact::StepFailed { .. } | Fact::RunFinished { .. })
}
