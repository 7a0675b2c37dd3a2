//! Golden transcripts of the mapping in `golden/*.txt`. The directory listing is the list of behaviours.
//!
//! A line `= ` is an event before the stream began, `> ` an update, `? ` a client's answers to interrupts. The lines
//! after it are the encoded output. `UPDATE=1` rewrites them.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use windlass::machine::{Event, InputId, InterruptId, RunId, Seq, Timestamp};
use windlass::port::journal::{Recorded, ThreadStatus};
use windlass::{OpenInterrupt, Position, Update};

use super::super::stage::check_as;
use super::history::History;
use super::input::Resume;
use super::interrupt::answers;
use super::reply::Said;
use super::speak::Speaker;
use super::word::{Scene, Word};

const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Returns default members of an event of this kind.
fn usual(kind: &str) -> Value {
    match kind {
        "thread.created" => json!({"thread": "thr_1", "workspace": "default", "owner": "ann"}),
        "run.started" => json!({"agent": {"name": "default", "models": ["test/a"]}, "by": "ann"}),
        "message.received" => json!({"id": "m1", "by": "ann"}),
        "step.started" => json!({"model": "test/a", "attempt": 1}),
        "step.replied" => json!({"stop": "end", "request": &ZEROS[..32], "duration_ms": 100, "attempt": 1}),
        "step.failed" => json!({"class": "overloaded", "message": "busy", "attempt": 1}),
        "call.judged" => json!({"rule": "auto-run", "class": "once", "view": 1, "approval": ZEROS}),
        "interrupt.closed" => json!({"by": "ann"}),
        "run.finished" => json!({"totals": {"steps": 1}}),
        _ => json!({}),
    }
}

/// State of one transcript.
#[derive(Default)]
struct Stage {
    history: History,
    speaker: Option<Speaker>,
    open: Vec<OpenInterrupt>,
    position: Position,
}

impl Stage {
    /// Parses `KIND {other members}` into an event.
    fn event(&mut self, line: &str) -> Event {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, "{}"));
        let mut event = json!({"at": 1, "run": "run_1", "type": kind});
        let all = event.as_object_mut().expect("an object");
        for part in
            [usual(kind), serde_json::from_str(rest).unwrap_or_else(|error| panic!("{error}: {line}"))]
        {
            let Value::Object(part): Value = part else { panic!("no object: {line}") };
            all.extend::<Map<String, Value>>(part);
        }
        let event = Event::decode(&event.to_string()).unwrap_or_else(|error| panic!("{error}: {line}"));
        let seq = Seq(self.position.seq.0 + 1);
        self.position.advance(&Update::Event(Recorded { seq, event: event.clone() }));
        event
    }

    fn update(&mut self, line: &str) -> Update {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (seq, number) = (self.position.seq, self.position.delta + 1);
        match word {
            "delta" => {
                self.position.delta = number;
                Update::Delta { seq, number, delta: serde_json::from_str(rest).expect("a fragment") }
            }
            "snapshot" => {
                self.position.delta = number + 8;
                let parts: Vec<_> = serde_json::from_str(rest).expect("fragments");
                Update::Snapshot { seq, number: number + 8, parts: parts.into() }
            }
            "idle" => Update::Status(ThreadStatus::Idle),
            "stopped" => Update::Stopped { why: rest.into() },
            _ => {
                let event = self.event(line);
                self.history.apply(self.position.seq, &event);
                Update::Event(Recorded { seq: self.position.seq, event })
            }
        }
    }

    fn waits(&mut self, line: &str) -> Vec<Said> {
        let asked: Value = serde_json::from_str(line).expect("interrupts");
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let open = asked.as_array().expect("several").iter().map(|asked| OpenInterrupt {
            interrupt: InterruptId::from(asked["interrupt"].as_str().expect("an id")),
            kind: serde_json::from_value(asked["kind"].clone()).expect("a kind"),
            tool: text(&asked["tool"]),
            server: None,
            arguments: text(&asked["arguments"]),
            preview: text(&asked["preview"]),
            evidence: None,
            since: Timestamp(1),
            expires_at: asked["expires_at"].as_u64().map(Timestamp),
            terms: Default::default(),
            approved_by: Vec::new(),
        });
        self.open = open.collect();
        let speaker = self.speaker.as_mut().expect("the stream has begun");
        speaker.waits(&self.open)
    }

    /// Begins the stream: `begin`, or `attach` for a client that reconnects.
    fn begin(&mut self, run: &str, comes_back: bool) -> Vec<Said> {
        let scene = Scene { thread: "t".into(), run: "r".into() };
        let mut speaker = Speaker::new(scene, RunId::from(run), &self.history);
        if !comes_back {
            speaker = speaker.after(InputId::from("m1"));
        }
        let mut said = speaker.begin(None, comes_back.then_some(&self.history));
        if let Some(ending) = self.history.ended.get(&RunId::from(run)) {
            said.extend(speaker.ended(ending));
        }
        self.speaker = Some(speaker);
        said
    }

    fn line(&mut self, line: &str) -> Vec<Said> {
        if let Some(event) = line.strip_prefix("= ") {
            let event = self.event(event);
            self.history.apply(self.position.seq, &event);
            return Vec::new();
        }
        let Some(line) = line.strip_prefix("> ") else { return Vec::new() };
        match line.split_once(' ') {
            Some(("begin", run)) => self.begin(run, false),
            Some(("attach", run)) => self.begin(run, true),
            Some(("waits", asked)) => self.waits(asked),
            _ => {
                let update = self.update(line);
                let speaker = self.speaker.as_mut().expect("the stream has begun");
                assert!(!speaker.is_over(), "it was over before `{line}`");
                speaker.hear(&update)
            }
        }
    }

    /// Returns the answers that are passed to the engine at the given time.
    fn answered(&self, line: &str) -> String {
        let (at, resume) = line.split_once(' ').expect("a moment");
        let resume: Vec<Resume> = serde_json::from_str(resume).expect("answers");
        match answers(&self.open, &resume, Timestamp(at.parse().expect("a number"))) {
            Ok(None) => "nothing is answered\n".into(),
            Ok(Some(given)) => given
                .iter()
                .fold(String::new(), |out, given| out + &serde_json::to_string(given).expect("JSON") + "\n"),
            Err(problem) => format!("{} {}\n", problem.code, problem.detail),
        }
    }

    fn written(&self, said: Said) -> String {
        let word = match said {
            Said::Word(word) => word,
            Said::History(more) => {
                let mut messages = self.history.messages();
                messages.extend(more);
                Word::MessagesSnapshot { messages }
            }
        };
        let frame = word.frame(None);
        let data = frame.strip_prefix("data: ").and_then(|rest| rest.strip_suffix("\n\n")).expect("a frame");
        assert!(!data.contains('\n') && !has_null(&serde_json::from_str(data).expect("JSON")), "{data}");
        data.to_owned()
    }
}

/// Whether a value contains `null`. AG-UI omits absent members.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn played(script: &str) -> String {
    let mut stage = Stage::default();
    let mut out = String::new();
    for line in
        script.lines().filter(|line| ["= ", "> ", "? ", "# "].iter().any(|mark| line.starts_with(mark)))
    {
        writeln!(out, "{line}").unwrap();
        for said in stage.line(line) {
            writeln!(out, "{}", stage.written(said)).unwrap();
        }
        if let Some(line) = line.strip_prefix("? ") {
            out.push_str(&stage.answered(line));
        }
    }
    let over = stage.speaker.is_some_and(|speaker| speaker.is_over());
    writeln!(out, "{}", if over { "the end" } else { "…" }).unwrap();
    out
}

// rows: OV-14, OV-15
#[test]
fn golden() {
    check_as("agui", played);
}
