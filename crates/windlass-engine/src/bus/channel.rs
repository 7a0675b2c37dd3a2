//! The signals of a thread: the log that its followers read, and each follower's position in the log.
//!
//! A signal is stored once, and a follower is only a position, so a thousand followers cost little more than one. A
//! follower that is too slow is notified and continues from the ring. Publishing never waits for a follower.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use windlass_machine::{Fact, Seq};

use super::ring::{Next, Pushed, Ring};
use crate::port::bus::{Backlog, Position, Signal};

/// Maximum number of signals in the log: twice the number that a model call publishes before it yields. The log takes
/// a few KiB per thread. The ring has older fragments, and the journal has all events.
const LOG: usize = 256;
/// Minimum length of the log at which signals that all followers have read are dropped.
const LOOK_AT: usize = 32;

/// The process that published a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Here,
    Elsewhere,
}

/// The channel of a thread that streams or has followers. Other threads have no channel.
#[derive(Default)]
pub(super) struct Channel {
    ring: Option<Box<Ring>>,
    /// Whether the reply of the ring's generation is recorded. If so,
    /// the ring is only kept for followers that are reading it.
    is_settled: bool,
    log: VecDeque<(Source, Arc<Signal>)>,
    /// Number of the log's first signal.
    first: u64,
    /// Log length at which the next trim happens.
    look_at: usize,
    readers: Vec<Reader>,
}

/// Followers to wake. Most threads have one follower, for which no memory is allocated.
pub(super) struct Wakers {
    pub first: Option<Waker>,
    pub others: Vec<Waker>,
}

/// A follower of the thread.
struct Reader {
    number: u64,
    /// Whether the follower is another process. Such a follower receives no relayed signals: otherwise two processes
    /// that take over a thread from each other would relay them endlessly.
    is_far: bool,
    /// Number of the next signal in the log.
    next: u64,
    told: Told,
    /// The generation whose fragments the follower takes from the ring before it continues in the log.
    replays: Option<Seq>,
    /// The form of the fragments that were in the ring when the follower subscribed.
    backlog: Backlog,
    /// The form of the fragments that the owner's process had before the relay connected.
    relayed_backlog: Backlog,
    waker: Option<Waker>,
}

/// The part of the newest known generation that a follower has received.
#[derive(Clone, Copy)]
enum Told {
    /// The follower subscribed with this position. The position's fragments
    /// belong to the generation at the time of the subscription.
    Before(Position),
    /// The follower has received this many fragments of the generation that started at this position.
    Of(Seq, u64),
}

impl Told {
    /// Returns the number of fragments of a generation that the
    /// follower has; `None` if the follower is past that generation.
    fn of(self, generation: Seq) -> Option<u64> {
        match self {
            Self::Before(position) if generation <= position.seq => Some(position.delta),
            Self::Of(seq, number) if generation == seq => Some(number),
            Self::Of(seq, _) if generation < seq => None,
            Self::Before(_) | Self::Of(..) => Some(0),
        }
    }
}

impl Channel {
    pub fn is_idle(&self) -> bool {
        self.ring.is_none() && self.readers.is_empty()
    }

    /// Whether this process has a follower of the thread.
    pub fn is_followed_here(&self) -> bool {
        self.readers.iter().any(|reader| !reader.is_far)
    }

    /// Returns the form in which to request the backlog of the owner's process: a snapshot if a follower of this
    /// process wants one and has no fragments yet.
    pub fn relayed_backlog(&self) -> Backlog {
        let waits = |reader: &Reader| !reader.is_far && matches!(reader.told, Told::Before(_));
        let wants = |reader: &&Reader| waits(reader) && reader.relayed_backlog == Backlog::Snapshot;
        self.readers.iter().find(wants).map_or(Backlog::Fragments, |reader| reader.relayed_backlog)
    }

    /// Adds a signal to the log, and a fragment also to the ring for
    /// later followers. Returns whether a follower can read it.
    pub fn publish(&mut self, from: Source, signal: Signal) -> bool {
        let before = self.generation();
        let pushed = match &signal {
            Signal::Delta { seq, number, attempt, delta } => {
                self.ring.get_or_insert_default().push(*seq, *attempt, *number, delta)
            }
            Signal::Snapshot { seq, number, attempt, parts } => {
                self.ring.get_or_insert_default().replace(*seq, *attempt, *number, parts)
            }
            Signal::Appended { .. } | Signal::Progress { .. } | Signal::Stopped { .. } | Signal::Lagged => {
                Pushed::New
            }
        };
        if self.generation() != before {
            self.is_settled = false;
        }
        if from == Source::Elsewhere && ends_reply(&signal) {
            // The owner's process settles its own ring; relayed fragments must be dropped here.
            self.settle();
        }
        if pushed == Pushed::Old || self.readers.is_empty() {
            return false;
        }
        self.log.push_back((from, Arc::new(signal)));
        self.trim();
        true
    }

    /// Takes the wakers of the followers that wait for a signal.
    pub fn take_wakers(&mut self) -> Wakers {
        let mut wakers = self.readers.iter_mut().filter_map(|reader| reader.waker.take());
        Wakers { first: wakers.next(), others: wakers.collect() }
    }

    /// Drops the ring as soon as no follower is reading it. A follower that keeps up gets every fragment before the
    /// event that ends the reply.
    pub fn settle(&mut self) {
        self.is_settled = true;
        self.release();
    }

    /// Drops the ring of a settled generation if no follower is reading it. A follower that lost its position in the
    /// log is too slow and reads the journal.
    fn release(&mut self) {
        let generation = self.generation();
        let reads = |reader: &Reader| reader.replays == generation && reader.next >= self.first;
        if self.is_settled && (generation.is_none() || !self.readers.iter().any(reads)) {
            (self.ring, self.is_settled) = (None, false);
        }
    }

    /// Returns the start of the ring's generation.
    fn generation(&self) -> Option<Seq> {
        self.ring.as_ref().and_then(|ring| ring.seq())
    }

    /// Returns the start of the generation whose fragments a new follower can read.
    fn running(&self) -> Option<Seq> {
        self.generation().filter(|_| !self.is_settled)
    }

    /// Drops signals that all followers have read. If the log is still too
    /// long, also drops signals that the slowest followers have not read.
    fn trim(&mut self) {
        if self.log.len() < self.look_at {
            return;
        }
        let read = self.readers.iter().map(|reader| reader.next).min().unwrap_or(u64::MAX);
        while !self.log.is_empty() && (self.first < read || self.log.len() > LOG) {
            self.log.pop_front();
            self.first += 1;
        }
        self.release();
        self.look_at = (2 * self.log.len()).clamp(LOOK_AT, LOG);
    }

    /// Adds a follower. Fragments in the ring come first.
    pub fn add(&mut self, number: u64, is_far: bool, after: Position, backlog: Backlog) {
        let told = Told::Before(after);
        let replays = self.running();
        let newest = self.ring.as_ref().map_or(0, |ring| ring.newest());
        let has_backlog = replays.and_then(|seq| told.of(seq)).is_some_and(|told| told < newest);
        self.readers.push(Reader {
            number,
            is_far,
            next: self.end(),
            told,
            replays,
            // Fragments published later are not backlog.
            backlog: if has_backlog { backlog } else { Backlog::Fragments },
            relayed_backlog: backlog,
            waker: None,
        });
    }

    pub fn remove(&mut self, number: u64) {
        self.readers.retain(|reader| reader.number != number);
        if self.readers.is_empty() {
            self.first = self.end();
            self.log = VecDeque::new();
        }
        self.release();
    }

    fn end(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// Returns the next signal for a follower.
    pub fn poll(&mut self, number: u64, context: &Context<'_>) -> Poll<Option<Arc<Signal>>> {
        let (end, running) = (self.end(), self.running());
        // Followers are added with increasing numbers.
        let Ok(at) = self.readers.binary_search_by_key(&number, |reader| reader.number) else {
            return Poll::Ready(None);
        };
        let reader = &mut self.readers[at];
        if reader.next < self.first {
            reader.next = end;
            reader.replays = running;
            return Poll::Ready(Some(Arc::new(Signal::Lagged)));
        }
        let replayed = reader.replays;
        let next = loop {
            if let Some(signal) = reader.replay(self.ring.as_deref_mut()) {
                break Some(signal);
            }
            let Some((from, signal)) = self.log.get((reader.next - self.first) as usize) else { break None };
            reader.next += 1;
            if *from == Source::Elsewhere && reader.is_far {
                continue;
            }
            if reader.takes(signal) {
                break Some(signal.clone());
            }
        };
        if next.is_none() {
            match &mut reader.waker {
                Some(waker) => waker.clone_from(context.waker()),
                waker @ None => *waker = Some(context.waker().clone()),
            }
        }
        if replayed != reader.replays {
            self.release();
        }
        next.map_or(Poll::Pending, |signal| Poll::Ready(Some(signal)))
    }
}

impl Reader {
    /// Takes the next fragment or snapshot from the ring.
    fn replay(&mut self, ring: Option<&mut Ring>) -> Option<Arc<Signal>> {
        let generation = self.replays?;
        let told = self.told.of(generation);
        // If the generation has ended, the journal has its reply.
        let next = match (ring.filter(|ring| ring.seq() == Some(generation)), told) {
            (Some(ring), Some(told)) => match std::mem::take(&mut self.backlog) {
                Backlog::Fragments => ring.after(told),
                Backlog::Snapshot => ring.whole_after(told),
            },
            (Some(_), None) | (None, _) => Next::Nothing,
        };
        match next {
            Next::Told(signal) => {
                self.note(&signal);
                Some(signal)
            }
            Next::Nothing | Next::Missing => {
                self.replays = None;
                None
            }
        }
    }

    /// Whether to deliver a signal of the log. If a fragment does not directly follow the last delivered fragment,
    /// the ring may have it together with the missing fragments.
    fn takes(&mut self, signal: &Signal) -> bool {
        let takes = match signal {
            Signal::Delta { seq, number, .. } => match self.told.of(*seq) {
                Some(told) => {
                    if *number > told + 1 {
                        self.replays = Some(*seq);
                    }
                    *number == told + 1
                }
                None => false,
            },
            Signal::Snapshot { seq, number, .. } => self.told.of(*seq).is_some_and(|told| *number > told),
            Signal::Appended { .. } | Signal::Progress { .. } | Signal::Stopped { .. } | Signal::Lagged => {
                true
            }
        };
        if takes {
            self.note(signal);
        }
        takes
    }

    fn note(&mut self, signal: &Signal) {
        if let Signal::Delta { seq, number, .. } | Signal::Snapshot { seq, number, .. } = signal {
            self.told = Told::Of(*seq, *number);
        }
    }
}

fn ends_reply(signal: &Signal) -> bool {
    let Signal::Appended { events, .. } = signal else { return false };
    events.iter().any(|event| matches!(event.fact, Fact::StepReplied { .. } | Fact::StepFailed { .. }))
}
