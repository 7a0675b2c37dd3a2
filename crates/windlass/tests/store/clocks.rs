//! Clocks.

use windlass::clock::SystemClock;
use windlass::port::clock::Clock;
use windlass_machine::Timestamp;

use super::clock;

#[tokio::test]
async fn a_manual_clock_wakes_due_sleepers() {
    let clock = clock(1);
    let start = clock.now();
    let sleeper = |ms: u64| {
        let clock = clock.clone();
        tokio::spawn(async move {
            clock.sleep_ms(ms).await;
            clock.now()
        })
    };
    let (past, soon, late) = (sleeper(0), sleeper(10), sleeper(20));
    assert_eq!(past.await.unwrap(), start);
    clock.advance_ms(10);
    assert_eq!(soon.await.unwrap(), start.plus_ms(10));
    assert!(!late.is_finished());
    clock.advance_ms(15);
    assert_eq!(late.await.unwrap(), start.plus_ms(25));
    assert_eq!(clock.monotonic_ms(), 25);
    clock.set(Timestamp(5));
    assert_eq!((clock.now(), clock.monotonic_ms()), (Timestamp(5), 25));
}

#[tokio::test]
async fn random_numbers_differ_and_follow_the_seed() {
    let (one, same, other) = (clock(1), clock(1), clock(2));
    let drawn: Vec<u64> = (0..100).map(|_| one.random()).collect();
    assert_eq!(drawn, (0..100).map(|_| same.random()).collect::<Vec<_>>());
    let mut all = drawn;
    let system = SystemClock::new();
    all.extend((0..100).flat_map(|_| [other.random(), system.random()]));
    let drawn = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), drawn);
}

#[tokio::test]
async fn the_system_clock_sleeps() {
    let clock = SystemClock::new();
    let from = clock.monotonic_ms();
    clock.sleep_ms(20).await;
    assert!(clock.monotonic_ms() >= from + 20);
    clock.sleep_ms(0).await;
}
