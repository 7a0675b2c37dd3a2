//! Clocks: the system clock, and a manual clock for tests.
//!
//! Only this module reads the system's time and random number generator.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use windlass_machine::Timestamp;

use crate::port::clock::Clock;

/// The operating system's clock and random number generator.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Creates a clock whose monotonic time starts at 0.
    #[allow(clippy::disallowed_methods)] // The only module that may call the banned functions.
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
    #[allow(clippy::disallowed_methods)] // The only module that may call the banned functions.
    fn now(&self) -> Timestamp {
        // A time before 1970 becomes 0; the machine never lets a thread's time run backwards.
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
        // Fails only on a system without a random number generator, where no id would be safe.
        getrandom::u64().expect("the system has a random number generator")
    }
}

/// A clock that only moves when a test advances it. Its random numbers derive from a seed.
#[derive(Debug)]
pub struct ManualClock {
    now_ms: AtomicU64,
    monotonic_ms: watch::Sender<u64>,
    drawn: AtomicU64,
}

impl ManualClock {
    /// Creates a clock at `start`. The same `seed` gives the same random numbers.
    pub fn new(start: Timestamp, seed: u64) -> Self {
        Self {
            now_ms: AtomicU64::new(start.0),
            monotonic_ms: watch::Sender::new(0),
            drawn: AtomicU64::new(seed),
        }
    }

    /// Advances both clocks and wakes every sleeper that is due.
    pub fn advance_ms(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
        self.monotonic_ms.send_modify(|now| *now += ms);
    }

    /// Sets the wall clock, possibly backwards; the monotonic clock does not change.
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
                // The clock was dropped, so no test can advance it.
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
