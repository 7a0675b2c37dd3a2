//! Cases of the bus port: replay, then live signals, without gaps or duplicates; wake-ups.
//!
//! Durability is not tested, because signals are not durable.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use windlass_machine::{Attempt, CallKey, Seq, ThreadId};

use crate::port::bus::{Backlog, Bus, Position, Signal};
use crate::port::model::Delta;

/// Runs every case of the bus port on fresh buses.
pub async fn bus_suite(make: impl Fn() -> Box<dyn Bus>) {
    a_late_follower_sees_the_whole_generation(&*make()).await;
    signals_of_one_batch_come_in_order(&*make()).await;
    a_settled_generation_is_not_shown(&*make()).await;
    a_follower_that_reads_a_reply_gets_its_end(&*make()).await;
    the_next_generation_replaces_the_last(&*make()).await;
    a_follower_resumes_in_the_middle(&*make()).await;
    a_backlog_may_come_as_a_snapshot(&*make()).await;
    what_is_no_longer_there_one_by_one_comes_as_a_whole(&*make()).await;
    threads_do_not_mix(&*make()).await;
    a_slow_follower_lags_alone(&*make()).await;
    progress_and_appends_reach_followers(&*make()).await;
    a_wake_comes(&*make()).await;
}

/// Creates a text fragment of the generation that started at `seq`.
pub fn fragment(seq: u64, number: u64) -> Signal {
    Signal::Delta {
        seq: Seq(seq),
        number,
        attempt: Attempt { step: 1, attempt: 1 },
        delta: Delta::Text { part: 0, text: format!("word {number} ").into() },
    }
}

/// Returns the next signal, which must arrive within five seconds.
pub async fn next<T>(signals: &mut BoxStream<'static, T>) -> T {
    let next = tokio::time::timeout(Duration::from_secs(5), signals.next()).await;
    next.expect("a signal within 5 s").expect("a stream that continues")
}

fn thread() -> ThreadId {
    ThreadId::from("thread-1")
}

async fn a_late_follower_sees_the_whole_generation(bus: &dyn Bus) {
    for number in 1..=50 {
        bus.publish(&thread(), fragment(3, number));
    }
    let mut follower = bus.follow(&thread(), Position::default(), Backlog::Fragments);
    for number in 51..=100 {
        bus.publish(&thread(), fragment(3, number));
    }
    for number in 1..=100 {
        assert_eq!(*next(&mut follower).await, fragment(3, number));
    }
}

async fn signals_of_one_batch_come_in_order(bus: &dyn Bus) {
    let mut follower = bus.follow(&thread(), Position::default(), Backlog::Fragments);
    let appended = Signal::Appended { seq: Seq(3), events: [].into(), status: None };
    let mut batch = vec![appended.clone(), fragment(3, 1), fragment(3, 2)];
    bus.publish_all(&thread(), &mut batch);
    assert_eq!(batch, []);
    // The emptied list may be filled again.
    batch.extend([fragment(3, 3), fragment(3, 4)]);
    bus.publish_all(&thread(), &mut batch);
    assert_eq!(*next(&mut follower).await, appended);
    let mut late = bus.follow(&thread(), Position::default(), Backlog::Fragments);
    for number in 1..=4 {
        assert_eq!(*next(&mut follower).await, fragment(3, number));
        assert_eq!(*next(&mut late).await, fragment(3, number));
    }
    bus.publish_all(&ThreadId::from("thread-2"), &mut vec![appended]);
}

async fn a_settled_generation_is_not_shown(bus: &dyn Bus) {
    bus.publish(&thread(), fragment(3, 1));
    bus.settle(&thread());
    let mut follower = bus.follow(&thread(), Position::default(), Backlog::Fragments);
    bus.publish(&thread(), fragment(9, 1));
    assert_eq!(*next(&mut follower).await, fragment(9, 1));
}

async fn a_follower_that_reads_a_reply_gets_its_end(bus: &dyn Bus) {
    bus.publish(&thread(), fragment(3, 1));
    bus.publish(&thread(), fragment(3, 2));
    let mut follower = bus.follow(&thread(), Position::default(), Backlog::Fragments);
    assert_eq!(*next(&mut follower).await, fragment(3, 1));
    bus.publish(&thread(), fragment(3, 3));
    bus.settle(&thread());
    let appended = Signal::Appended { seq: Seq(4), events: Vec::new().into(), status: None };
    bus.publish(&thread(), appended.clone());
    for expected in [fragment(3, 2), fragment(3, 3), appended] {
        assert_eq!(*next(&mut follower).await, expected);
    }
    // A later follower reads the recorded reply, even while the first follower is still reading.
    let mut later = bus.follow(&thread(), Position::default(), Backlog::Fragments);
    bus.publish(&thread(), fragment(9, 1));
    for follower in [&mut follower, &mut later] {
        assert_eq!(*next(follower).await, fragment(9, 1));
    }
}

async fn the_next_generation_replaces_the_last(bus: &dyn Bus) {
    bus.publish(&thread(), fragment(3, 1));
    bus.publish(&thread(), fragment(5, 1));
    let mut follower = bus.follow(&thread(), Position::default(), Backlog::Fragments);
    bus.publish(&thread(), fragment(5, 2));
    assert_eq!(*next(&mut follower).await, fragment(5, 1));
    assert_eq!(*next(&mut follower).await, fragment(5, 2));
}

async fn threads_do_not_mix(bus: &dyn Bus) {
    let other = ThreadId::from("thread-2");
    let mut follower = bus.follow(&thread(), Position::default(), Backlog::Fragments);
    bus.publish(&other, fragment(3, 1));
    bus.publish(&thread(), fragment(4, 1));
    assert_eq!(*next(&mut follower).await, fragment(4, 1));
}

async fn a_follower_resumes_in_the_middle(bus: &dyn Bus) {
    for number in 1..=10 {
        bus.publish(&thread(), fragment(3, number));
    }
    let after = |seq: u64, delta: u64| Position { seq: Seq(seq), delta };
    // Positions in the running generation, also a position after a later event.
    let mut same = [after(3, 7), after(5, 7)].map(|after| bus.follow(&thread(), after, Backlog::Fragments));
    // A position in an earlier generation.
    let mut older = bus.follow(&thread(), after(2, 7), Backlog::Fragments);
    // A position from another process's bus, which had more fragments.
    let mut ahead = bus.follow(&thread(), after(3, 11), Backlog::Fragments);
    for number in 11..=12 {
        bus.publish(&thread(), fragment(3, number));
    }
    for follower in &mut same {
        for number in 8..=12 {
            assert_eq!(*next(follower).await, fragment(3, number));
        }
    }
    for number in 1..=12 {
        assert_eq!(*next(&mut older).await, fragment(3, number));
    }
    assert_eq!(*next(&mut ahead).await, fragment(3, 12));
}

async fn a_backlog_may_come_as_a_snapshot(bus: &dyn Bus) {
    let after = |delta: u64| Position { seq: Seq(3), delta };
    let mut early = bus.follow(&thread(), after(0), Backlog::Snapshot);
    for number in 1..=10 {
        bus.publish(&thread(), fragment(3, number));
    }
    let mut late = [after(0), after(7)].map(|after| bus.follow(&thread(), after, Backlog::Snapshot));
    let mut has_all = bus.follow(&thread(), after(10), Backlog::Snapshot);
    for number in 11..=12 {
        bus.publish(&thread(), fragment(3, number));
    }
    // The early follower was subscribed when each fragment was published.
    for number in 1..=12 {
        assert_eq!(*next(&mut early).await, fragment(3, number));
    }
    for follower in &mut late {
        let (words_so_far, number) = told(&*next(follower).await);
        assert_eq!(words_so_far, words(number));
        assert!(number >= 10, "{number}");
        for number in number + 1..=12 {
            assert_eq!(*next(follower).await, fragment(3, number));
        }
    }
    for number in 11..=12 {
        assert_eq!(*next(&mut has_all).await, fragment(3, number));
    }
}

async fn what_is_no_longer_there_one_by_one_comes_as_a_whole(bus: &dyn Bus) {
    const MANY: u64 = 100_000;
    for number in 1..=MANY {
        bus.publish(&thread(), fragment(3, number));
    }
    let mut newest = bus.follow(&thread(), Position { seq: Seq(3), delta: MANY - 3 }, Backlog::Fragments);
    let mut follower = bus.follow(&thread(), Position { seq: Seq(3), delta: 7 }, Backlog::Fragments);
    bus.publish(&thread(), fragment(3, MANY + 1));
    for number in MANY - 2..=MANY + 1 {
        assert_eq!(*next(&mut newest).await, fragment(3, number));
    }
    // Each fragment is delivered once, whether or not the snapshot includes the last fragment.
    let (told, number) = told(&*next(&mut follower).await);
    assert_eq!(told, words(number));
    assert!(number >= MANY, "{number}");
    if number == MANY {
        assert_eq!(*next(&mut follower).await, fragment(3, MANY + 1));
    }
}

/// Returns the text of the first fragments of [`fragment`].
fn words(count: u64) -> String {
    (1..=count).map(|number| format!("word {number} ")).collect()
}

/// Returns the text and number of a snapshot.
fn told(signal: &Signal) -> (String, u64) {
    let Signal::Snapshot { number, parts, .. } = signal else { panic!("not a snapshot: {signal:?}") };
    let [Delta::Text { part: 0, text }] = &parts[..] else { panic!("more than a text: {parts:?}") };
    (text.to_string(), *number)
}

async fn a_slow_follower_lags_alone(bus: &dyn Bus) {
    const MANY: u64 = 20_000;
    let mut slow = bus.follow(&thread(), Position::default(), Backlog::Fragments);
    let mut fast = bus.follow(&thread(), Position::default(), Backlog::Fragments);
    for number in 1..=MANY {
        bus.publish(&thread(), fragment(3, number));
        assert_eq!(*next(&mut fast).await, fragment(3, number));
    }
    // The slow follower receives a `Lagged` signal and then the whole text, without gaps or duplicates.
    let (mut text, mut last, mut lagged) = (String::new(), 0, false);
    while last != MANY {
        match &*next(&mut slow).await {
            Signal::Lagged => lagged = true,
            Signal::Delta { number, delta: Delta::Text { text: more, .. }, .. } => {
                assert_eq!(*number, last + 1);
                (text, last) = (text + more, *number);
            }
            whole @ Signal::Snapshot { number, .. } => {
                assert!(*number > last, "{number} after {last}");
                (text, last) = told(whole);
            }
            other => panic!("unexpected signal {other:?}"),
        }
    }
    assert_eq!((text, lagged), (words(MANY), true));
}

async fn progress_and_appends_reach_followers(bus: &dyn Bus) {
    let mut follower = bus.follow(&thread(), Position::default(), Backlog::Fragments);
    let progress = Signal::Progress { call: CallKey { step: 1, index: 0 }, text: "half".into() };
    for signal in [Signal::Appended { seq: Seq(7), events: [].into(), status: None }, progress] {
        bus.publish(&thread(), signal.clone());
        assert_eq!(*next(&mut follower).await, signal);
    }
}

async fn a_wake_comes(bus: &dyn Bus) {
    // A wake-up from before the subscription also arrives. A bus may deliver a wake-up more than once.
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
