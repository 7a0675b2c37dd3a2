//! Clocks: the system's, and one that tests move by hand.
//!
//! The only module that reads the system's time and dice.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use windlass_machine::Timestamp;

use crate::port::clock::Clock;

/// The system's clock and random numbers.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time begins now.
    #[allow(clippy::disallowed_methods)] // This module is where the ban points to.
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // This module is where the ban points to.
    fn now(&self) -> Timestamp {
        // A clock before 1970 reads as 0: the machine never lets time run backwards anyway.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(since.as_millis() as u64)
    }

    fn monotonic_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }

    fn random(&self) -> u64 {
        // The kernel's generator fails only where it does not exist, and then no id would be safe to draw.
        getrandom::u64().expect("the system has a random number generator")
    }
}

/// A clock that stands still until it is moved; its random numbers follow from a seed.
#[derive(Debug)]
pub struct ManualClock {
    now_ms: AtomicU64,
    monotonic_ms: watch::Sender<u64>,
    drawn: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `start`; the same `seed` gives the same random numbers.
    pub fn new(start: Timestamp, seed: u64) -> Self {
        Self {
            now_ms: AtomicU64::new(start.0),
            monotonic_ms: watch::Sender::new(0),
            drawn: AtomicU64::new(seed),
        }
    }

    /// Moves the time forward and wakes whoever has slept long enough.
    pub fn advance_ms(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
        self.monotonic_ms.send_modify(|now| *now += ms);
    }

    /// Sets the wall clock, backwards too; the monotonic time stays.
    pub fn set(&self, at: Timestamp) {
        self.now_ms.store(at.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now_ms.load(Ordering::SeqCst))
    }

    fn monotonic_ms(&self) -> u64 {
        *self.monotonic_ms.borrow()
    }

    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut now = self.monotonic_ms.subscribe();
        let until = self.monotonic_ms() + ms;
        Box::pin(async move {
            if now.wait_for(|now| *now >= until).await.is_err() {
                // The clock is gone, and with it whoever could move it.
                std::future::pending::<()>().await;
            }
        })
    }

    fn random(&self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood 2014): every state gives another number, so ids never repeat.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.drawn.fetch_add(STEP, Ordering::SeqCst).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
