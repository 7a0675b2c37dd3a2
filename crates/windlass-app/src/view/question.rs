//! Asking a person about an interrupt, line by line: what was typed either answers it or leads to the next question.

use windlass::OpenInterrupt;
use windlass::machine::{Answer, InterruptKind};

use crate::console::{Console, first_line, shown};
use crate::view::preview;

/// Lines of a preview that are shown at once; `v` shows the rest.
const PREVIEW_LINES: usize = 40;

/// Characters of an answer that are repeated.
const ECHO_CHARS: usize = 60;

/// An interrupt that is being asked about.
pub struct Question {
    /// What is asked.
    pub interrupt: OpenInterrupt,
    lines: Vec<String>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Choice,
    DenyReason,
    Result,
    FailReason,
}

/// What a typed line led to.
pub enum Reply {
    /// The answer, and how it is repeated.
    Answer(Answer, String),
    /// The run is to be stopped.
    Stop,
    /// The next question was asked.
    Again,
}

impl Question {
    /// Shows an interrupt and asks.
    pub fn ask(console: &Console, interrupt: OpenInterrupt, folder: &std::path::Path) -> Self {
        let paint = console.paint;
        let lines = preview::lines(&interrupt.tool, &interrupt.arguments, folder, paint);
        console.note("");
        match &interrupt.kind {
            InterruptKind::Approval { .. } => {
                let head = preview::headline(&interrupt.tool, &interrupt.arguments, folder);
                console.note(&format!("{} {}", paint.yellow("? approve"), paint.bold(&head)));
            }
            InterruptKind::InDoubt { .. } => {
                let head = crate::view::call::label(&interrupt.tool, &interrupt.arguments);
                console.note(&format!("{} {}", paint.yellow("? in doubt"), paint.bold(&head)));
                console.note("  It was started, and its outcome was lost: it may or may not have been done");
                if let Some(found) = preview::evidence(&interrupt.tool, &interrupt.arguments, folder) {
                    console.note(&format!("  {found}"));
                }
            }
        }
        let question = Self { interrupt, lines, stage: Stage::Choice };
        question.show(console, 0, PREVIEW_LINES);
        if matches!(question.interrupt.kind, InterruptKind::InDoubt { .. }) {
            console.note("  done: you tell the model its result; failed: you tell it what happened");
            console.note("  retry: it runs again, for a second time if it was done");
        }
        question.prompt(console);
        question
    }

    fn show(&self, console: &Console, from: usize, count: usize) {
        for line in self.lines.iter().skip(from).take(count) {
            console.note(&format!("  {} {line}", console.paint.dim("│")));
        }
        let rest = self.lines.len().saturating_sub(from.saturating_add(count));
        if rest > 0 {
            console.note(&format!("  … {rest} more {}; [v]iew shows them", preview::plural(rest, "line")));
        }
    }

    fn prompt(&self, console: &Console) {
        console.err(match (self.stage, &self.interrupt.kind) {
            (Stage::Choice, InterruptKind::Approval { .. }) => "  [a]pprove once, [d]eny, [s]top the run: ",
            (Stage::Choice, InterruptKind::InDoubt { .. }) => "  [d]one, [r]etry, [f]ailed, [s]top the run: ",
            (Stage::DenyReason, _) => "  why? (told to the model; empty for no reason): ",
            (Stage::Result, _) => "  what was its result? (told to the model): ",
            (Stage::FailReason, _) => "  what happened? (told to the model; empty for no reason): ",
        });
    }

    /// Takes a line. Only the listed words count: nothing is approved by accident.
    pub fn take(&mut self, console: &Console, line: &str) -> Reply {
        let text = line.trim();
        let given = || Some(text.to_owned()).filter(|text| !text.is_empty());
        let said = |word: &str| match text {
            "" => word.to_owned(),
            text => format!("{word}: {}", first_line(&shown(text), ECHO_CHARS)),
        };
        match self.stage {
            Stage::DenyReason => return Reply::Answer(Answer::Deny { reason: given() }, said("denied")),
            Stage::FailReason => return Reply::Answer(Answer::Fail { reason: given() }, said("failed")),
            Stage::Result if !text.is_empty() => {
                return Reply::Answer(Answer::Done { result: text.to_owned() }, said("done"));
            }
            Stage::Result | Stage::Choice => {}
        }
        let doubt = matches!(self.interrupt.kind, InterruptKind::InDoubt { .. });
        match (text.to_lowercase().as_str(), doubt) {
            ("a" | "approve", false) => return Reply::Answer(Answer::Approve, "approved once".into()),
            ("d" | "deny", false) => self.stage = Stage::DenyReason,
            ("d" | "done", true) => self.stage = Stage::Result,
            ("r" | "retry", true) => return Reply::Answer(Answer::Retry, "to be tried again".into()),
            ("f" | "failed", true) => self.stage = Stage::FailReason,
            ("s" | "stop", _) => return Reply::Stop,
            ("v" | "view", _) => self.show(console, 0, usize::MAX),
            _ => {}
        }
        self.prompt(console);
        Reply::Again
    }
}
