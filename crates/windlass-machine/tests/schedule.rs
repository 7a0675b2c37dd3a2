//! Random crash schedules: a tiny driver in a tiny world, killed at every point where a process can die.
//!
//! Each seed is a story. The replies of the model and the decisions of people depend on the seed alone; the timing
//! depends on the seed and the schedule. A reference model checks the journal.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_machine::{CorruptJournal, Machine, Message, RunStatus, Snapshot};

use crate::journal::{KINDS, kind};
use crate::world::{Tale, tell};

/// Seeds that failed once:
///
/// - 10: the text of a failed attempt was kept after a later empty reply.
/// - 34,362: an approval that opened after a raised limit was bound to the tool's previous version.
/// - 3,363: a dispatched call was closed as denied when the approval of its repetition expired.
/// - 1,908: a deferred call that asks people needed permission for the answer that they had already given.
/// - 16,550: a raised limit of a call with a missing tool was withdrawn when another answer ended the run.
/// - 20,630: the reference model lost the reply to a repeated call when the repeated start was reverted.
const ONCE_FAILED: &[u64] = &[10, 34_362, 3_363, 1_908, 16_550, 20_630];

fn check(seed: u64) -> Option<(u32, bool)> {
    let wild = tell(seed, Tale::Wild);
    let crashed = tell(seed, Tale::Crashing);
    let calm = tell(seed, Tale::Calm);
    // Whether a call was given up after too many starts.
    let says = |message: &Arc<Message>| format!("{message:?}").contains("Given up after");
    let given_up = crashed.reference.history.iter().any(says);
    // If the process died at each attempt at a step, the run has failed, or its output is a fixed text.
    let lost = crashed.reference.is_lost_out;
    // Whether a budget has room depends on the timing.
    let refused = !crashed.refused.is_empty() || !calm.refused.is_empty();
    // The output of a failed run ends with its last reply, even if that reply is judged later.
    let certain = crashed.reference.doubts == 0 && !given_up && !lost && !refused && !crashed.judges_late;
    // After a failed run, queued messages remain, so the arrival time of a message matters.
    let failed = calm.reference.ended.iter().position(|(_, status, _)| *status != RunStatus::Done);
    if certain && let Some(failed) = failed {
        assert_eq!(crashed.reference.ended[..=failed], calm.reference.ended[..=failed]);
    } else if certain {
        assert_eq!(crashed.reference.ended, calm.reference.ended, "crashes changed the outcome");
        assert_eq!(crashed.reference.history, calm.reference.history, "crashes changed the history");
    }
    Some((wild.reference.doubts + crashed.reference.doubts, certain))
}

/// Every kind of fact occurs in the tales.
#[test]
fn tales_tell_of_everything() {
    let journals = (0..1_000).flat_map(|seed| tell(seed, Tale::Wild).journal);
    let seen: BTreeSet<&str> = journals.map(|event| kind(&event.fact)).collect();
    // No input forks a thread.
    let told = |kind: &&&str| seen.contains(**kind) || **kind == "ThreadForked";
    let missing: Vec<_> = KINDS.iter().filter(|kind| !told(kind)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// Plays `WINDLASS_SCHEDULES` schedules (2,500), starting with the seed `WINDLASS_SEED` (0).
// rows: SK-G3, SK-G11, SK-G12, SK-C10, SK-C14, SK-C15, ZE-P6
#[test]
fn random_crash_schedules() {
    let first = number_from("WINDLASS_SEED").unwrap_or(0);
    let count = number_from("WINDLASS_SCHEDULES").unwrap_or(2_500);
    let end = first + count;
    let (next, doubts, equal) = (AtomicU64::new(first), AtomicU64::new(0), AtomicU64::new(0));
    for seed in ONCE_FAILED {
        check(*seed);
    }
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let outcome = std::panic::catch_unwind(|| check(seed));
                    let Ok(Some((some, certain))) = outcome else {
                        next.store(end, Ordering::Relaxed);
                        panic!("schedule of seed {seed} failed; add it to ONCE_FAILED");
                    };
                    doubts.fetch_add(u64::from(some), Ordering::Relaxed);
                    equal.fetch_add(u64::from(certain), Ordering::Relaxed);
                }
            });
        }
    });
    // The schedules must contain enough lost outcomes to be meaningful.
    assert!(count < 1_000 || doubts.load(Ordering::Relaxed) > count / 20);
    assert!(count < 1_000 || equal.load(Ordering::Relaxed) > count / 20);
}

#[test]
fn a_journal_of_another_thread_and_a_strange_snapshot_are_noticed() {
    let journal = tell(3, Tale::Calm).journal;
    let other = Machine::restore("u".into(), None, journal.iter().cloned());
    assert!(matches!(other, Err(CorruptJournal::OtherThread { .. })));
    let snapshot = Machine::restore("t".into(), None, journal.iter().cloned()).unwrap().snapshot();
    assert!(snapshot.is_usable());
    assert!(!Snapshot { fold: snapshot.fold + 1, ..snapshot.clone() }.is_usable());
    assert!(!Snapshot { seq: snapshot.seq.next(), ..snapshot.clone() }.is_usable());
    assert!(!Snapshot { bytes: b"{}".to_vec(), ..snapshot }.is_usable());
}
