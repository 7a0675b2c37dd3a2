//! Random writes, commands and forks. Compares the folder of every thread with its history.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use serde_json::json;
use windlass::machine::{Digest, Fact, Seq};
use windlass::{Engine, ForkedThread};

use super::fork_folder::{Homes, call, fork, runtime};
use super::restore::writes;

/// An action in one of the threads.
#[derive(Clone, Debug)]
enum Action {
    Write(usize, &'static str, u8),
    Remove(usize, &'static str),
    /// A command that changes a file without a record.
    Command(usize, &'static str, How),
    /// A file uploaded from outside, which no tool changes.
    Upload(usize),
    /// Continues before one of the messages with this one: a fork, as for a retry, an edit or a rollback.
    Fork(usize, usize),
}

/// How a command changes a file.
#[derive(Clone, Copy, Debug)]
enum How {
    Writes,
    /// Writes the file and gives it an old timestamp.
    Dates,
    Deletes,
}

const UPLOADED: &str = "up.csv";

fn action() -> impl Strategy<Value = Action> {
    let path = || prop::sample::select(vec!["a.md", "b/c.md", "d.md"]);
    prop_oneof![
        4 => (any::<usize>(), path(), any::<u8>()).prop_map(|(of, path, text)| Action::Write(of, path, text)),
        1 => (any::<usize>(), path()).prop_map(|(of, path)| Action::Remove(of, path)),
        3 => (any::<usize>(), path(), prop::sample::select(vec![How::Writes, How::Dates, How::Deletes]))
            .prop_map(|(of, path, how)| Action::Command(of, path, how)),
        1 => any::<usize>().prop_map(Action::Upload),
        3 => (any::<usize>(), any::<usize>()).prop_map(|(of, at)| Action::Fork(of, at)),
    ]
}

/// The test's model of a thread.
#[derive(Clone, Debug, Default)]
struct Known {
    thread: String,
    /// Positions without an active run, where a fork may begin.
    ends: Vec<Seq>,
    /// Files that commands changed in its history, with positions.
    commands: Vec<(Seq, String)>,
    /// Files that its fork reported.
    named: BTreeSet<String>,
    /// Files that commands gave an old timestamp.
    dated: BTreeSet<String>,
}

impl Known {
    /// The model of its fork, which ends at `head`.
    fn forked(&self, (at, head): (Seq, Seq), made: &ForkedThread, mut named: BTreeSet<String>) -> Self {
        // A fork has one more event than an original thread: its origin.
        let shift = |seq: Seq| Seq(seq.0 + u64::from(self.thread == "t"));
        let mut ends: Vec<Seq> = self.ends.iter().filter(|end| **end <= at).map(|end| shift(*end)).collect();
        ends.push(head);
        let commands = self.commands.iter().filter(|(seq, _)| *seq <= at);
        let commands: Vec<_> = commands.map(|(seq, path)| (shift(*seq), path.clone())).collect();
        named.extend(self.named.iter().cloned());
        // A restored file has lost the timestamp that a command in its history set.
        let restored = made.files.restored.iter().map(|file| &file.path);
        named.extend(restored.filter(|path| commands.iter().any(|(_, changed)| changed == *path)).cloned());
        Self { thread: made.thread.to_string(), ends, commands, named, dated: self.dated.clone() }
    }

    fn is_excepted(&self, path: &str) -> bool {
        // Files that a fork cannot know are judged where it is created.
        let may_be_dated = self.thread != "t" && self.dated.contains(path);
        self.named.contains(path) || may_be_dated || self.commands.iter().any(|(_, changed)| changed == path)
    }
}

/// The files of a thread by its history up to an event: the content after each recorded change; `None` if the file was
/// removed.
async fn by_history(engine: &Engine, thread: &str, until: Seq) -> BTreeMap<String, Option<Digest>> {
    let events = engine.thread(&thread.into()).events(Seq(0), 10_000).await.unwrap();
    let changes = events.iter().filter(|recorded| recorded.seq <= until);
    let changes = changes.filter_map(|recorded| match &recorded.event.fact {
        Fact::FileChanging { change, .. } => Some((change.path.clone(), change.after.digest())),
        _ => None,
    });
    changes.collect()
}

/// The files in a thread's folder.
fn in_folder(homes: &Homes, thread: &str) -> BTreeMap<String, Digest> {
    homes.files(thread).into_iter().map(|(path, bytes)| (path, Digest::of(&bytes))).collect()
}

/// A fork's folder equals the history up to the event, except for reported files and those that only commands of that
/// history changed.
async fn check_fork(engine: &Engine, homes: &Homes, origin: &Known, at: Seq, made: &ForkedThread) {
    let (history, found) =
        (by_history(engine, &origin.thread, at).await, in_folder(homes, made.thread.as_str()));
    // In a folder younger than the event, such as a copy, a timestamp set by a command is trusted. A file system's
    // clock ticks at least every 10 ms.
    let born = fs::metadata(homes.folder(&origin.thread)).unwrap().created().unwrap();
    let events = engine.thread(&origin.thread.as_str().into()).events(Seq(0), 10_000).await.unwrap();
    let event = events.iter().find(|recorded| recorded.seq == at).unwrap();
    let is_young = born > UNIX_EPOCH + Duration::from_millis(event.event.at.0.saturating_sub(10));
    let is_named = |path: &str| made.files.not_restored.iter().any(|file| file.path == path);
    for path in found.keys().chain(history.keys()) {
        let is_as_then = match history.get(path) {
            Some(left) => found.get(path) == left.as_ref(),
            // The file existed at the event, or was reported by the fork that created the folder.
            None => {
                origin.named.contains(path)
                    || origin.commands.iter().any(|(seq, changed)| changed == path && *seq <= at)
            }
        };
        let may_be_dated = is_young && origin.dated.contains(path);
        assert!(is_as_then || is_named(path) || may_be_dated, "{path} at {at:?}: {made:#?} of {origin:#?}");
    }
}

async fn check(engine: &Engine, homes: &Homes, all: &[Known]) {
    for known in all {
        let is_compared = |path: &String| !known.is_excepted(path);
        let expected = by_history(engine, &known.thread, Seq(u64::MAX)).await.into_iter();
        let expected = expected.filter_map(|(path, left)| Some((path, left?)));
        let expected: BTreeMap<_, _> = expected.filter(|(path, _)| is_compared(path)).collect();
        let mut found = in_folder(homes, &known.thread);
        found.retain(|path, _| is_compared(path));
        assert_eq!(found, expected, "{known:?}");
    }
}

async fn play(actions: &[Action]) {
    let homes = Homes::new();
    let engine = homes.engine().await;
    let first = call(&engine, "t", &writes("a.md", "first")).await;
    let mut all = vec![Known { thread: "t".into(), ends: vec![first], ..Known::default() }];
    for action in actions {
        let (of, text, command) = match action {
            Action::Write(of, path, text) => (*of, writes(path, &text.to_string()), None),
            Action::Remove(of, path) => (*of, format!("Remove {}", json!({ "text": path })), None),
            Action::Command(of, path, how) => {
                (*of, format!("Round {}", json!({ "text": path })), Some((*path, *how)))
            }
            Action::Upload(of) => {
                let index = of % all.len();
                let known = &mut all[index];
                homes.put(&known.thread, UPLOADED, "x,y\n");
                let head = engine.thread(&known.thread.as_str().into()).row().await.unwrap().head;
                known.commands.push((Seq(head.0 + 1), UPLOADED.to_owned()));
                continue;
            }
            Action::Fork(of, at) => {
                let origin = all[of % all.len()].clone();
                let at = origin.ends[at % origin.ends.len()];
                let before = homes.files(&origin.thread);
                let made = fork(&engine, &origin.thread, at).await.unwrap();
                assert_eq!(homes.files(&origin.thread), before, "the other folder is never changed");
                let named: BTreeSet<_> =
                    made.files.not_restored.iter().map(|file| file.path.clone()).collect();
                let is_known = |path: &String| origin.is_excepted(path);
                assert!(named.iter().all(is_known), "no command changed one of {named:?} in {origin:?}");
                let head = engine.thread(&made.thread).row().await.unwrap().head;
                check_fork(&engine, &homes, &origin, at, &made).await;
                all.push(origin.forked((at, head), &made, named));
                check(&engine, &homes, &all).await;
                continue;
            }
        };
        let index = of % all.len();
        let known = &mut all[index];
        if let Some((path, _)) = command {
            fs::create_dir_all(homes.folder(&known.thread).join("b")).unwrap();
            let begun = engine.thread(&known.thread.as_str().into()).row().await.unwrap().head;
            known.commands.push((Seq(begun.0 + 1), path.to_owned()));
        }
        known.ends.push(call(&engine, &known.thread, &text).await);
        if let Some((path, how)) = command {
            let file = homes.folder(&known.thread).join(path);
            match how {
                How::Writes => {}
                How::Dates => {
                    let old = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
                    fs::File::open(&file).unwrap().set_modified(old).unwrap();
                    known.dated.insert(path.to_owned());
                }
                How::Deletes => fs::remove_file(&file).unwrap(),
            }
        }
        check(&engine, &homes, &all).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    /// Every thread's folder equals its history, except for files reported as changed by commands.
    // rows: ZE-P9
    #[test]
    fn each_folder_is_what_its_own_history_says(actions in prop::collection::vec(action(), 1..16)) {
        runtime().block_on(play(&actions));
    }
}
