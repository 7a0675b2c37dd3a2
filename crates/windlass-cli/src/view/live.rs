//! Displays a run's progress: streamed text, one line per call, and open requests.
//!
//! On a terminal, the text is streamed to standard output. In a pipe, only the complete answer is printed, after it is
//! recorded. If a reply is cut off after part of its text was displayed, a note states that this text is discarded.

mod end;
mod reply;
mod result;

use std::collections::{BTreeMap, BTreeSet};

use windlass::clock::SystemClock;
use windlass::machine::{
    Block, CallKey, Content, Event, Fact, InputId, Message, Outcome as CallOutcome, Timestamp,
};
use windlass::port::clock::Clock;
use windlass::port::journal::Recorded;
use windlass::port::model::Delta;
use windlass::{Engine, EngineError, Update};
use windlass_server::text::{first_line, shown};

use self::reply::ReplyText;
use self::result::EndedCall;
use super::call::{label, of_server, seconds};
use super::story::servers;
use crate::console::{Console, moves_cursor};

/// Maximum width of the status line in columns. The line must not wrap, because a wrapped line could not be erased.
const STATUS_COLUMNS: usize = 76;

/// Maximum length of an error or a reason, in characters.
const REASON_CHARS: usize = 100;

/// The destination of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// The terminal, to which text is streamed.
    Terminal,
    /// Standard output, which receives only the complete answer.
    Answer,
    /// No destination: the caller prints the outcome for a program.
    Progress,
}

/// The content of the terminal's last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Empty,
    Text,
    Reasoning,
    Status,
}

/// The run's activity, for the status line.
enum Doing {
    Nothing,
    Asking { model: String, since_ms: u64 },
    Retrying { at: Timestamp },
}

/// Displays a run's updates on a console.
pub struct Live {
    console: Console,
    clock: SystemClock,
    show: Show,
    line: Line,
    doing: Doing,
    /// Displayed text of the reply in progress.
    said: String,
    /// Whether the displayed text is not a prefix of the reply.
    gap: bool,
    /// Recorded and displayed text since the last results. It is compared with the answer, so
    /// that the answer is not printed twice.
    answer: String,
    labels: BTreeMap<CallKey, String>,
    /// The rendered reply, on a chat's screen only.
    reply: Option<ReplyText>,
    /// Tool and arguments of each call, on a chat's screen only.
    calls: BTreeMap<CallKey, (String, String)>,
    /// Calls for which an approval was requested.
    asked: BTreeSet<CallKey>,
    running: Vec<(CallKey, u64)>,
    /// Queued messages. Each is printed again when it is sent.
    queued: BTreeMap<InputId, String>,
}

impl Live {
    pub fn new(console: &Console, show: Show) -> Self {
        Self {
            console: console.clone(),
            clock: SystemClock::new(),
            show,
            line: Line::Empty,
            doing: Doing::Nothing,
            said: String::new(),
            gap: false,
            answer: String::new(),
            labels: BTreeMap::new(),
            reply: ReplyText::on(console),
            calls: BTreeMap::new(),
            asked: BTreeSet::new(),
            running: Vec::new(),
            queued: BTreeMap::new(),
        }
    }

    pub async fn update(&mut self, engine: &Engine, update: &Update) -> Result<(), EngineError> {
        match update {
            Update::Event(recorded) => self.event(engine, &recorded.event).await?,
            Update::Delta { delta, .. } => self.delta(delta),
            Update::Snapshot { parts, .. } => self.snapshot(parts),
            Update::Progress { call, text } => {
                let label = self.label(*call);
                self.note(&format!("  {label}: {}", first_line(&shown(text), REASON_CHARS)));
            }
            Update::Status(_) | Update::Stopped { .. } => {}
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Delta) {
        if self.show != Show::Terminal || self.gap {
            return;
        }
        match delta {
            Delta::Text { text, .. } => {
                self.said.push_str(text);
                self.text(text);
            }
            Delta::Reasoning { text, .. } => {
                self.start(Line::Reasoning);
                for line in shown(text).split_inclusive('\n') {
                    self.console.out(&self.console.out_paint.dim(line.trim_end_matches('\n')));
                    self.console.out(if line.ends_with('\n') { "\n" } else { "" });
                }
            }
            Delta::Call { .. } => {}
        }
    }

    /// Prints the part of the current reply that is not displayed yet.
    fn snapshot(&mut self, parts: &[Delta]) {
        if self.show != Show::Terminal {
            return;
        }
        let texts = parts.iter().filter_map(|part| match part {
            Delta::Text { text, .. } => Some(&**text),
            Delta::Reasoning { .. } | Delta::Call { .. } => None,
        });
        let whole: String = texts.collect();
        match whole.strip_prefix(self.said.as_str()) {
            Some(rest) => {
                self.text(rest);
                self.said = whole;
            }
            // Later, the recorded reply replaces the displayed text.
            None => self.gap = true,
        }
    }

    async fn event(&mut self, engine: &Engine, event: &Event) -> Result<(), EngineError> {
        match &event.fact {
            Fact::StepStarted { model, .. } => {
                (self.said, self.gap) = (String::new(), false);
                self.doing = Doing::Asking { model: model.to_string(), since_ms: self.clock.monotonic_ms() };
            }
            Fact::StepReplied { attempt, message, usage, cost, .. } => {
                self.doing = Doing::Nothing;
                if let Some(screen) = self.console.screen() {
                    screen.update_status(|status| status.add(usage, *cost));
                }
                self.learn_labels(engine, attempt.step, message).await?;
                let text = text_of(engine, message).await?;
                self.replied(&text, message.calls().next().is_some());
            }
            Fact::StepFailed { message, retry_at, .. } => self.failed(message, *retry_at),
            Fact::ModelSwitched { model, reason } => {
                self.note(&format!("switched to `{model}`: {}", first_line(&shown(reason), REASON_CHARS)));
            }
            Fact::ToolStarted { call, .. } => {
                self.answer.clear();
                self.running.push((*call, self.clock.monotonic_ms()));
            }
            Fact::ToolUndispatched { call } => self.running.retain(|(running, _)| running != call),
            Fact::ToolFinished { call, outcome, content, error, duration_ms } => {
                // A call that was denied never started, and its result separates the texts just the same.
                self.answer.clear();
                self.running.retain(|(running, _)| running != call);
                self.finished(*call, *outcome, content, *error, *duration_ms);
                if *outcome == CallOutcome::Returned {
                    self.show_output(engine, *call, content, *error).await?;
                }
            }
            Fact::InterruptOpened { call: Some(call), .. } => {
                self.asked.insert(*call);
            }
            Fact::ToolInDoubt { call, reason, .. } => {
                self.running.retain(|(running, _)| running != call);
                self.in_doubt(*call, reason);
            }
            Fact::LimitReached { limit, figure, .. } => {
                self.note(&format!("limit reached: `{limit}` is {figure}"))
            }
            Fact::MessageQueued { id, queued } => {
                self.queued.insert(id.clone(), text_of(engine, &queued.message).await?);
            }
            Fact::MessageTaken { id } => {
                if let Some(text) = self.queued.remove(id) {
                    let text = first_line(&shown(&text), STATUS_COLUMNS);
                    self.note(&self.console.paint.dim(&format!("› {text}")));
                }
            }
            Fact::RunStarted { .. } => self.answer.clear(),
            _ => {} // tidy: the other kinds are no news to a person
        }
        Ok(())
    }

    async fn learn_labels(
        &mut self,
        engine: &Engine,
        step: u32,
        message: &Message,
    ) -> Result<(), EngineError> {
        if message.calls().next().is_none() {
            return Ok(());
        }
        let servers = servers(engine);
        for (index, call) in message.calls().enumerate() {
            let arguments = engine.text(&call.asked).await?;
            let key = CallKey { step, index: index as u32 };
            let label = label(call.name.as_str(), &arguments);
            self.labels.insert(key, of_server(servers.get(&call.name).map(String::as_str), label));
            if self.reply.is_some() {
                self.calls.insert(key, (call.name.to_string(), arguments.to_string()));
            }
        }
        Ok(())
    }

    fn label(&self, call: CallKey) -> String {
        self.labels.get(&call).cloned().unwrap_or_else(|| format!("call {}.{}", call.step, call.index + 1))
    }

    /// Handles the complete recorded reply: prints the part that is not displayed yet.
    fn replied(&mut self, text: &str, has_calls: bool) {
        match self.show {
            Show::Terminal => match text.strip_prefix(self.said.as_str()) {
                Some(rest) => self.text(rest),
                None => {
                    self.note("(the text above differs from the recorded reply, which follows)");
                    self.text(text);
                }
            },
            // Text beside calls is progress.
            Show::Answer | Show::Progress if has_calls && !text.trim().is_empty() => {
                self.note(&self.console.paint.dim(shown(text).trim()));
            }
            Show::Answer | Show::Progress => {}
        }
        self.start(Line::Empty);
        (self.said, self.gap) = (String::new(), false);
        self.answer.push_str(text);
    }

    fn failed(&mut self, message: &str, retry_at: Option<Timestamp>) {
        let broke_off = !self.said.is_empty() || self.line == Line::Reasoning;
        let why = first_line(&shown(message), REASON_CHARS);
        let next = match retry_at {
            Some(at) => format!("; retrying in {} s", at.since(self.clock.now()).div_ceil(1000)),
            None => String::new(),
        };
        let what = if broke_off {
            "the reply was cut off and its text above is discarded"
        } else {
            "the model call failed"
        };
        self.note(&format!("({what}: {why}{next})"));
        (self.said, self.gap) = (String::new(), false);
        self.doing = retry_at.map_or(Doing::Nothing, |at| Doing::Retrying { at });
    }

    fn finished(
        &mut self,
        call: CallKey,
        outcome: CallOutcome,
        content: &[Block],
        error: bool,
        duration_ms: u64,
    ) {
        let paint = self.console.paint;
        let reason = || first_line(&shown(&plain(content)), REASON_CHARS);
        let ended = match (outcome, error) {
            (CallOutcome::Returned, false) => format!("{} {}", paint.green("✓"), seconds(duration_ms)),
            (CallOutcome::Returned, true) => format!("{} {}", paint.red("✗ failed:"), reason()),
            (CallOutcome::Refused, _) => format!("{} {}", paint.red("✗ refused:"), reason()),
            (CallOutcome::Unavailable, _) => format!("{} {}", paint.red("✗ not available:"), reason()),
            (CallOutcome::Denied, _) => paint.yellow("⊘ denied").into_owned(),
            (CallOutcome::Cancelled, _) => "– not run".to_owned(),
            (CallOutcome::InDoubt, _) => format!("{} {}", paint.yellow("? in doubt:"), reason()),
            (CallOutcome::Told, _) => format!("{} result entered by a person", paint.green("✓")),
            (CallOutcome::Reconciled, _) => format!("{} confirmed by a read", paint.green("✓")),
        };
        let label = self.label(call);
        self.note(&format!("• {label}  {ended}"));
    }

    /// Prints a few lines of a call's output, on a chat's screen only.
    async fn show_output(
        &mut self,
        engine: &Engine,
        call: CallKey,
        content: &[Block],
        has_failed: bool,
    ) -> Result<(), EngineError> {
        let Some(screen) = self.console.screen().cloned() else { return Ok(()) };
        let mut text = String::new();
        for block in content {
            if let Block::Text { text: part, .. } = block {
                text.push_str(&engine.text(part).await?);
            }
        }
        let number = screen.keep_output(&self.label(call), &text);
        let Some((tool, arguments)) = self.calls.get(&call) else { return Ok(()) };
        let was_asked = self.asked.contains(&call);
        let ended = EndedCall { tool, arguments, text: &text, number, was_asked, has_failed };
        let bar = self.console.paint.dim("│").into_owned();
        for line in result::lines(&ended, self.console.paint) {
            self.note(&format!("  {bar} {line}"));
        }
        Ok(())
    }

    /// Prints a summary of an event from before this process followed the run.
    pub async fn past(&mut self, engine: &Engine, recorded: &Recorded) -> Result<(), EngineError> {
        match &recorded.event.fact {
            Fact::StepReplied { attempt, message, .. } => {
                self.learn_labels(engine, attempt.step, message).await?;
                self.answer = text_of(engine, message).await?;
                let text = first_line(&shown(&self.answer), STATUS_COLUMNS);
                if !text.is_empty() {
                    self.note(&self.console.paint.dim(&format!("  {text}")));
                }
                // The displayed line is truncated. If the text is the answer, the full text must still be printed.
                self.answer.clear();
            }
            Fact::ToolFinished { call, outcome, content, error, duration_ms } => {
                self.finished(*call, *outcome, content, *error, *duration_ms);
            }
            Fact::ToolInDoubt { call, reason, .. } => self.in_doubt(*call, reason),
            _ => {} // tidy: the other kinds are no news to a person
        }
        Ok(())
    }

    fn in_doubt(&mut self, call: CallKey, reason: &str) {
        let label = self.label(call);
        self.note(&format!("? {label} is in doubt: {}", first_line(&shown(reason), REASON_CHARS)));
    }

    pub fn note(&mut self, text: &str) {
        self.start(Line::Empty);
        self.console.note(text);
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.start(Line::Text);
        if let Some(reply) = &mut self.reply {
            reply.push(text);
            return;
        }
        self.console.out(&shown(text));
        if text.ends_with('\n') {
            self.line = Line::Empty;
        }
    }

    /// Ends the terminal's last line if the line is of another kind, and sets its new kind.
    fn start(&mut self, line: Line) {
        match (self.line, line) {
            (Line::Status, _) => self.console.err("\r\x1b[2K"),
            (Line::Text, Line::Empty | Line::Reasoning) if self.reply.is_some() => {
                self.reply.iter_mut().for_each(ReplyText::finish);
            }
            (Line::Text, Line::Empty | Line::Reasoning) | (Line::Reasoning, Line::Empty | Line::Text) => {
                self.console.out("\n");
            }
            (Line::Empty | Line::Text | Line::Reasoning, _) => {}
        }
        self.line = line;
    }

    /// Releases the terminal to other output.
    pub fn pause(&mut self) {
        self.start(Line::Empty);
        if let Some(screen) = self.console.screen() {
            screen.show_activity("");
        }
    }

    /// Redraws the status line, if the output is a terminal and the last line is not text.
    pub fn tick(&mut self) {
        if let Some(screen) = self.console.screen() {
            screen.show_activity(&self.status().unwrap_or_default());
            return;
        }
        if !self.console.err_terminal || !moves_cursor() || matches!(self.line, Line::Text | Line::Reasoning)
        {
            return;
        }
        let Some(status) = self.status() else {
            self.start(Line::Empty);
            return;
        };
        let status: String = status.chars().take(STATUS_COLUMNS).collect();
        self.console.err(&format!("\r\x1b[2K{}", self.console.paint.dim(&status)));
        self.line = Line::Status;
    }

    fn status(&self) -> Option<String> {
        let for_ms = |since: u64| seconds_whole(self.clock.monotonic_ms().saturating_sub(since));
        if let Some((call, since)) = self.running.first() {
            let more = match self.running.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            return Some(format!("• {}{more} … {}", self.label(*call), for_ms(*since)));
        }
        match &self.doing {
            Doing::Nothing => None,
            Doing::Asking { model, since_ms } => Some(format!("… {model} {}", for_ms(*since_ms))),
            Doing::Retrying { at } => {
                Some(format!("… retrying in {} s", at.since(self.clock.now()).div_ceil(1000)))
            }
        }
    }
}

fn seconds_whole(ms: u64) -> String {
    format!("{} s", ms / 1000)
}

/// Returns the visible text of a message.
pub async fn text_of(engine: &Engine, message: &Message) -> Result<String, EngineError> {
    let mut all = String::new();
    for block in &message.blocks {
        if let Block::Text { text, .. } = block {
            all.push_str(&engine.text(text).await?);
        }
    }
    Ok(all)
}

/// Formats a call's result as text. The engine encodes its own errors as an object; the
/// function extracts the error's text.
fn plain(content: &[Block]) -> String {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Refusal {
        error: String,
    }
    let texts = content.iter().filter_map(|block| match block {
        Block::Text { text: Content::Inline(text), .. } => Some(text.as_str()),
        _ => None, // tidy: only inline text fits a line
    });
    let text: String = texts.collect();
    serde_json::from_str::<Refusal>(&text).map_or(text, |refusal| refusal.error)
}
