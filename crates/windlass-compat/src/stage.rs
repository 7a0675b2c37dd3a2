//! Plays golden transcripts of a dialect's mapping. The directory listing is the list of behaviours.
//!
//! A line `= ` is an event before the stream began, `> ` an update; the lines after it are the encoded output.
//! `UPDATE=1` rewrites them.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Map, Value, json};
use windlass::Update;
use windlass::machine::{Event, Run, Seq, State, Timestamp};
use windlass::port::journal::{Recorded, ThreadStatus};

use super::stream::Speaker;

const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Returns the default members of an event of this kind.
fn usual(kind: &str) -> Value {
    match kind {
        "thread.created" => json!({"thread": "thr_1", "workspace": "default", "owner": "ann"}),
        "run.started" => json!({"agent": {"name": "default", "models": ["test/a"]}, "by": "ann"}),
        "message.received" => json!({"id": "msg_1", "by": "ann"}),
        "step.started" => json!({"model": "test/a"}),
        "step.replied" => json!({"stop": "end", "request": &ZEROS[..32], "duration_ms": 100, "ttft_ms": 20}),
        "call.judged" => json!({"rule": "auto-run", "class": "once", "view": 1, "approval": ZEROS}),
        "call.edited" => json!({"approval": ZEROS, "by": "ann"}),
        "interrupt.closed" => json!({"by": "ann"}),
        "run.finished" => json!({"totals": {"steps": 1}}),
        _ => json!({}),
    }
}

/// Parses a transcript's lines in order.
#[derive(Debug, Default)]
pub struct Script {
    /// Number of events so far.
    pub seq: u64,
    /// The current time in milliseconds.
    pub now: u64,
}

impl Script {
    /// Parses `TIME KIND {other members}`; a member `"run"` names a run other than the first.
    pub fn event(&mut self, line: &str) -> Event {
        let (at, rest) = line.split_once(' ').expect("a time");
        let (kind, rest) = rest.split_once(' ').unwrap_or((rest, "{}"));
        self.now = at.parse().unwrap_or_else(|_| panic!("no time: {line}"));
        self.seq += 1;
        let mut event = json!({"at": self.now, "run": "run_1", "type": kind});
        let all = event.as_object_mut().expect("an object");
        for part in
            [usual(kind), serde_json::from_str(rest).unwrap_or_else(|error| panic!("{error}: {line}"))]
        {
            let Value::Object(part): Value = part else { panic!("no object: {line}") };
            all.extend::<Map<String, Value>>(part);
        }
        Event::decode(&event.to_string()).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Parses an event, a fragment, a snapshot of fragments, a status, or the end of driving.
    pub fn update(&mut self, line: &str) -> Update {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let seq = Seq(self.seq);
        match word {
            "delta" => {
                self.now += 10;
                Update::Delta { seq, number: 1, delta: serde_json::from_str(rest).expect("a fragment") }
            }
            "snapshot" => {
                self.now += 10;
                let parts: Vec<_> = serde_json::from_str(rest).expect("fragments");
                Update::Snapshot { seq, number: 9, parts: parts.into() }
            }
            "status" => Update::Status(match rest {
                "idle" => ThreadStatus::Idle,
                "running" => ThreadStatus::Running,
                "waiting" => ThreadStatus::Waiting,
                "sleeping" => ThreadStatus::Sleeping,
                other => panic!("no status: {other}"),
            }),
            "stopped" => Update::Stopped { why: rest.into() },
            _ => {
                let event = self.event(line);
                Update::Event(Recorded { seq: Seq(self.seq), event })
            }
        }
    }
}

/// State of one transcript.
struct Stage<S> {
    script: Script,
    before: State,
    begin: fn(Option<&Run>) -> S,
    speaker: Option<S>,
}

impl<S: Speaker> Stage<S> {
    fn line(&mut self, line: &str) -> Vec<String> {
        if let Some(event) = line.strip_prefix("= ") {
            let event = self.script.event(event);
            self.before.apply(&event);
            return Vec::new();
        }
        let Some(line) = line.strip_prefix("> ") else { return Vec::new() };
        let update = self.script.update(line);
        let (begin, before) = (self.begin, &self.before);
        let speaker = self.speaker.get_or_insert_with(|| begin(before.run.as_ref()));
        assert!(!speaker.is_over(), "it was over before `{line}`");
        speaker.hear(&update, Timestamp(self.script.now))
    }
}

fn played<S: Speaker>(begin: fn(Option<&Run>) -> S, script: &str) -> String {
    let mut stage = Stage { script: Script::default(), before: State::default(), begin, speaker: None };
    let mut out = String::new();
    for line in script.lines().filter(|line| ["= ", "> ", "# "].iter().any(|mark| line.starts_with(mark))) {
        writeln!(out, "{line}").unwrap();
        for frame in stage.line(line) {
            writeln!(out, "{}", frame.trim_end()).unwrap();
        }
    }
    let over = stage.speaker.is_some_and(|speaker| speaker.is_over());
    writeln!(out, "{}", if over { "the end" } else { "…" }).unwrap();
    out
}

/// Plays every transcript of a dialect. `begin` creates the encoder, for the active run or for `run_1`.
pub fn check<S: Speaker>(dialect: &str, begin: fn(Option<&Run>) -> S) {
    check_as(dialect, |script| played(begin, script));
}

/// Plays every transcript of a dialect with a custom player.
pub fn check_as(dialect: &str, play: impl Fn(&str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/{dialect}/golden"));
    let (mut wrong, mut count) = (Vec::new(), 0);
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let played = play(&text);
        count += 1;
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &played).unwrap();
        } else if played != text {
            wrong.push(format!("{}:\n{played}", path.display()));
        }
    }
    assert!(count > 0, "no transcripts in {}", folder.display());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
