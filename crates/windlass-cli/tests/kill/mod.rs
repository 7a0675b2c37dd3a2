//! The real binary under `kill -9`: repeatedly killed at random moments of a 20-step run that writes files, until the
//! run ends. Half of the trials have a watcher that follows all processes and is sometimes killed as well.
//!
//! `WINDLASS_KILLS` sets the number of kills (40), and `WINDLASS_SEED` selects their moments (0).

mod journal;
mod trial;
mod watcher;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use windlass_bench::server::ModelServer;

use self::journal::Journal;
use self::trial::{Trial, Watched};

/// Twenty steps with a file each. A run takes about a second, so that kills hit every part of it.
const MODEL: &str = "openai-chat/files-20-delay3ms";

/// Number of concurrent trials.
const LANES: u64 = 4;

/// State shared by all trials.
struct Setting {
    base_url: String,
    /// The journal of a run without a crash, and its duration.
    reference: Journal,
    run_ms: u64,
    seed: u64,
    wanted_kills: u64,
    kills: AtomicU64,
    trials: AtomicU64,
}

/// Counts of a lane's trials, for the test's output.
#[derive(Debug, Default)]
struct Tally {
    doubts: u64,
    lost_calls: u64,
    watcher_kills: u64,
    replies: Watched,
}

/// A small random number generator: splitmix64.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }
}

/// Prints the seed if a trial fails.
pub struct Seed(pub u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the trial that failed: WINDLASS_SEED={}", self.0);
        }
    }
}

pub fn number_of(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Runs trials until all lanes together have reached the number of kills.
fn lane(setting: &Setting) -> Tally {
    let mut tally = Tally::default();
    while setting.kills.load(Ordering::Relaxed) < setting.wanted_kills {
        let number = setting.trials.fetch_add(1, Ordering::Relaxed);
        let seed = Seed(setting.seed.wrapping_add(number));
        let watched = seed.0.is_multiple_of(2);
        let mut trial = Trial::new(setting, Dice(seed.0), watched);
        trial.run();
        setting.kills.fetch_add(trial.kills, Ordering::Relaxed);
        tally.add(&trial.check());
    }
    tally
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.doubts += other.doubts;
        self.lost_calls += other.lost_calls;
        self.watcher_kills += other.watcher_kills;
        self.replies.whole += other.replies.whole;
        self.replies.supplied += other.replies.supplied;
    }
}

// rows: LM-A7
#[test]
fn killed_at_random_moments_a_run_ends_with_everything_done_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(ModelServer::start(0)).unwrap();
    let base_url = server.base_url();
    let began = Instant::now();
    let reference = trial::undisturbed(&base_url);
    let setting = Arc::new(Setting {
        base_url,
        reference,
        run_ms: u64::try_from(began.elapsed().as_millis()).unwrap(),
        seed: number_of("WINDLASS_SEED").unwrap_or(0),
        wanted_kills: number_of("WINDLASS_KILLS").unwrap_or(40),
        kills: AtomicU64::new(0),
        trials: AtomicU64::new(0),
    });
    let start = || {
        let setting = setting.clone();
        std::thread::spawn(move || lane(&setting))
    };
    let lanes: Vec<_> = (0..LANES).map(|_| start()).collect();
    let mut tally = Tally::default();
    lanes.into_iter().for_each(|lane| tally.add(&lane.join().unwrap()));
    let (kills, trials) = (setting.kills.load(Ordering::Relaxed), setting.trials.load(Ordering::Relaxed));
    println!("{kills} kills in {trials} runs, {:?}: {tally:?}", began.elapsed());
    assert!(tally.replies.whole > 0, "no watcher ever saw a reply from its first fragment to its last");
}
