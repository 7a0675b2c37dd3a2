//! Live signals: replay, then live, without a gap or a repeat; wakes.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use windlass_machine::{Attempt, CallKey, Seq, ThreadId};

use crate::port::bus::{Bus, Signal};
use crate::port::model::Delta;

/// Runs every case of the bus port on fresh buses.
pub async fn bus_suite(make: impl Fn() -> Box<dyn Bus>) {
    a_late_follower_sees_the_whole_generation(&*make()).await;
    a_settled_generation_is_not_shown(&*make()).await;
    the_next_generation_replaces_the_last(&*make()).await;
    threads_do_not_mix(&*make()).await;
    a_slow_follower_lags_alone(&*make()).await;
    progress_and_appends_reach_followers(&*make()).await;
    a_wake_comes(&*make()).await;
}

/// A text fragment of the generation that began at `seq`.
pub fn fragment(seq: u64, number: u64) -> Signal {
    Signal::Delta {
        seq: Seq(seq),
        number,
        attempt: Attempt { step: 1, attempt: 1 },
        delta: Delta::Text { part: 0, text: format!("word {number} ").into() },
    }
}

/// The next signal, which must come within five seconds.
pub async fn next<T>(signals: &mut BoxStream<'static, T>) -> T {
    let next = tokio::time::timeout(Duration::from_secs(5), signals.next()).await;
    next.expect("a signal within 5 s").expect("a stream that goes on")
}

fn thread() -> ThreadId {
    ThreadId::from("thread-1")
}

async fn a_late_follower_sees_the_whole_generation(bus: &dyn Bus) {
    for number in 1..=50 {
        bus.publish(&thread(), fragment(3, number));
    }
    let mut follower = bus.follow(&thread());
    for number in 51..=100 {
        bus.publish(&thread(), fragment(3, number));
    }
    for number in 1..=100 {
        assert_eq!(next(&mut follower).await, fragment(3, number));
    }
}

async fn a_settled_generation_is_not_shown(bus: &dyn Bus) {
    bus.publish(&thread(), fragment(3, 1));
    bus.settle(&thread());
    let mut follower = bus.follow(&thread());
    bus.publish(&thread(), fragment(9, 1));
    assert_eq!(next(&mut follower).await, fragment(9, 1));
}

async fn the_next_generation_replaces_the_last(bus: &dyn Bus) {
    bus.publish(&thread(), fragment(3, 1));
    bus.publish(&thread(), fragment(5, 1));
    let mut follower = bus.follow(&thread());
    bus.publish(&thread(), fragment(5, 2));
    assert_eq!(next(&mut follower).await, fragment(5, 1));
    assert_eq!(next(&mut follower).await, fragment(5, 2));
}

async fn threads_do_not_mix(bus: &dyn Bus) {
    let other = ThreadId::from("thread-2");
    let mut follower = bus.follow(&thread());
    bus.publish(&other, fragment(3, 1));
    bus.publish(&thread(), fragment(4, 1));
    assert_eq!(next(&mut follower).await, fragment(4, 1));
}

async fn a_slow_follower_lags_alone(bus: &dyn Bus) {
    const MANY: u64 = 100_000;
    let mut slow = bus.follow(&thread());
    let mut fast = bus.follow(&thread());
    for number in 1..=MANY {
        bus.publish(&thread(), fragment(3, number));
        assert_eq!(next(&mut fast).await, fragment(3, number));
    }
    // The slow one is told that it missed something, and what follows has no gap.
    let mut last = None;
    let mut lagged = false;
    while last != Some(MANY) {
        match next(&mut slow).await {
            Signal::Lagged => (lagged, last) = (true, None),
            Signal::Delta { number, .. } => {
                assert!(last.is_none_or(|last| number == last + 1), "{number} after {last:?}");
                last = Some(number);
            }
            other => panic!("nobody published {other:?}"),
        }
    }
    assert!(lagged);
}

async fn progress_and_appends_reach_followers(bus: &dyn Bus) {
    let mut follower = bus.follow(&thread());
    let progress = Signal::Progress { call: CallKey { step: 1, index: 0 }, text: "half".into() };
    for signal in [Signal::Appended { seq: Seq(7), events: [].into(), status: None }, progress] {
        bus.publish(&thread(), signal.clone());
        assert_eq!(next(&mut follower).await, signal);
    }
}

async fn a_wake_comes(bus: &dyn Bus) {
    // Also one from before anybody listened. A bus may give the same wake more than once.
    bus.wake(&thread());
    bus.wake(&thread());
    let mut wakes = bus.wakes();
    assert_eq!(next(&mut wakes).await, thread());
    let other = ThreadId::from("thread-2");
    bus.wake(&other);
    while next(&mut wakes).await != other {}
    bus.wake(&thread());
    assert_eq!(next(&mut wakes).await, thread());
}
