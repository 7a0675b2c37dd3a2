//! Golden transcripts of the mapping in `golden/*.txt`. The directory listing is the list of behaviours.
//!
//! A line `= ` is an event before the stream began, `> ` an update; the lines after it are the encoded output.
//! `UPDATE=1` rewrites them.

use std::fmt::Write;

use windlass::machine::{RunId, State, Timestamp};

use super::super::stage::{Script, check_as};
use super::speak::{Offer, Speaker};
use super::word::{Scene, Word};

/// State of one transcript.
#[derive(Default)]
struct Stage {
    script: Script,
    before: State,
    speaker: Option<Speaker>,
}

impl Stage {
    /// Begins the stream, with the active run if there is one. `again` selects whether its open interrupts are sent
    /// again.
    fn begin(&mut self, again: bool) -> Vec<Word> {
        let active = self.before.run.as_ref();
        let run = active.map_or_else(|| "run_1".to_owned(), |_| format!("run_1-{}", self.script.seq + 1));
        let scene = Scene { conversation: "thr_1".into(), run };
        let offer = Offer { tools: 7, max_steps: 25 };
        let mut speaker = Speaker::new(scene, RunId::from("run_1"), Timestamp(self.script.now), offer);
        if let Some(run) = active {
            speaker = speaker.beside(run);
        }
        let words = speaker.begin(active.filter(|_| again));
        self.speaker = Some(speaker);
        words
    }

    fn line(&mut self, line: &str) -> Vec<Word> {
        if let Some(event) = line.strip_prefix("= ") {
            let event = self.script.event(event);
            self.before.apply(&event);
            return Vec::new();
        }
        let Some(line) = line.strip_prefix("> ") else { return Vec::new() };
        if let Some(how) = line.strip_prefix("begin") {
            return self.begin(how == " again");
        }
        let update = self.script.update(line);
        let now = Timestamp(self.script.now);
        let speaker = self.speaker.as_mut().expect("the stream has begun");
        assert!(!speaker.is_over(), "it was over before `{line}`");
        speaker.hear(&update, now)
    }
}

fn played(script: &str) -> String {
    let mut stage = Stage::default();
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
    check_as("skyflo", played);
}
