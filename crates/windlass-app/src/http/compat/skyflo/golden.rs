//! Golden transcripts of the mapping: `golden/*.txt`, whose listing is the list of behaviours.
//!
//! `= ` is an event before the stream began, `> ` an update, and what follows is what goes out. `UPDATE=1` rewrites that.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Map, Value, json};
use windlass::Update;
use windlass::machine::{Event, RunId, Seq, State, Timestamp};
use windlass::port::journal::{Recorded, ThreadStatus};

use super::speak::{Offer, Speaker};
use super::word::{Scene, Word};

const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What an event of a kind has that no transcript is about.
fn usual(kind: &str) -> Value {
    match kind {
        "thread.created" => json!({"thread": "thr_1", "workspace": "default", "owner": "ann"}),
        "run.started" => json!({"agent": {"name": "default", "models": ["test/a"]}, "by": "ann"}),
        "message.received" => json!({"id": "msg_1", "by": "ann"}),
        "step.started" => json!({"model": "test/a"}),
        "step.replied" => json!({"stop": "end", "request": ZEROS, "duration_ms": 100, "ttft_ms": 20}),
        "call.judged" => json!({"rule": "mode", "class": "once", "view": 1, "approval": ZEROS}),
        "call.edited" => json!({"approval": ZEROS, "by": "ann"}),
        "tool.started" => json!({"effect": "e", "arguments": ZEROS}),
        "interrupt.closed" => json!({"by": "ann"}),
        "run.finished" => json!({"totals": {"steps": 1}}),
        _ => json!({}),
    }
}

/// One stream.
struct Stage {
    before: State,
    speaker: Option<Speaker>,
    seq: u64,
    now: u64,
}

impl Stage {
    fn new() -> Self {
        Self { before: State::default(), speaker: None, seq: 0, now: 0 }
    }

    /// `TIME KIND {the rest}`.
    fn event(&mut self, line: &str) -> Event {
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

    fn update(&mut self, line: &str) -> Update {
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
                other => panic!("no status: {other}"),
            }),
            "stopped" => Update::Stopped { why: rest.into() },
            _ => {
                let event = self.event(line);
                Update::Event(Recorded { seq: Seq(self.seq), event })
            }
        }
    }

    /// Begins the stream, beside a run that goes on where there is one. What that asks is told again, or not.
    fn begin(&mut self, again: bool) -> Vec<Word> {
        let active = self.before.run.as_ref();
        let run = active.map_or_else(|| "run_1".to_owned(), |_| format!("run_1-{}", self.seq + 1));
        let scene = Scene { conversation: "thr_1".into(), run };
        let offer = Offer { tools: 7, max_steps: 25 };
        let mut speaker = Speaker::new(scene, RunId::from("run_1"), Timestamp(self.now), offer);
        if let Some(run) = active {
            speaker = speaker.beside(run);
        }
        let words = speaker.begin(active.filter(|_| again));
        self.speaker = Some(speaker);
        words
    }

    fn line(&mut self, line: &str) -> Vec<Word> {
        if let Some(event) = line.strip_prefix("= ") {
            let event = self.event(event);
            self.before.apply(&event);
            return Vec::new();
        }
        let Some(line) = line.strip_prefix("> ") else { return Vec::new() };
        if let Some(how) = line.strip_prefix("begin") {
            return self.begin(how == " again");
        }
        let update = self.update(line);
        let now = Timestamp(self.now);
        let speaker = self.speaker.as_mut().expect("the stream has begun");
        assert!(!speaker.is_over(), "it was over before `{line}`");
        speaker.hear(&update, now)
    }
}

fn played(script: &str) -> String {
    let mut stage = Stage::new();
    let mut out = String::new();
    for line in script.lines().filter(|line| ["= ", "> ", "# "].iter().any(|mark| line.starts_with(mark))) {
        writeln!(out, "{line}").unwrap();
        for word in stage.line(line) {
            writeln!(out, "{}", word.frame().trim_end()).unwrap();
        }
    }
    let over = stage.speaker.is_some_and(|speaker| speaker.is_over());
    writeln!(out, "{}", if over { "the end" } else { "…" }).unwrap();
    out
}

// rows: SK-E1, SK-E3, SK-E4, SK-E5, SK-E6, SK-E7, SK-E8, SK-E9, SK-E10, SK-E11, SK-E12, SK-E13, SK-E14, SK-E15
// rows: SK-E23, SK-E24, SK-E25, SK-E26, SK-G19, SK-L6, SK-L7, SK-X9, SK-X10
#[test]
fn golden() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/compat/skyflo/golden");
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let played = played(&text);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &played).unwrap();
        } else if played != text {
            wrong.push(format!("{}:\n{played}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
