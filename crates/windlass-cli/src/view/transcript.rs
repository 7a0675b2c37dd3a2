//! Formats a conversation for reading, from its events.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass::machine::{
    Answer, Block, CallKey, Fact, InputId, Message, Outcome as CallOutcome, Role, RunStatus, Seq, ThreadId,
};
use windlass::port::journal::Recorded;
use windlass::{Engine, EngineError};
use windlass_server::text::{first_line, shown};

use super::call::{label, seconds};
use super::live::text_of;
use crate::console::Console;

/// Number of events per page.
const PAGE: usize = 512;

/// Maximum length of an answer's reason, in characters.
const REASON_CHARS: usize = 100;

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Plain,
    Markdown,
}

enum Part {
    /// A message.
    Said { who: &'static str, text: String },
    /// A finished tool call.
    Call { label: String, ended: String, result: String },
    /// Any other event.
    Note(String),
}

/// Reads all events of a thread, page by page.
pub async fn events(engine: &Engine, thread: &ThreadId) -> Result<Vec<Recorded>, EngineError> {
    let (mut all, mut after) = (Vec::new(), Seq::default());
    loop {
        let page = engine.thread(thread).events(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(all) };
        after = last.seq;
        all.extend(page);
    }
}

/// Formats a conversation.
pub async fn write(
    console: &Console,
    engine: &Engine,
    thread: &ThreadId,
    form: Form,
) -> Result<String, EngineError> {
    let row = engine.thread(thread).row().await?;
    let title = row.view.title.unwrap_or_else(|| thread.to_string());
    let mut text = match form {
        Form::Plain => format!("{}\n", console.out_paint.bold(&shown(&title))),
        Form::Markdown => format!("# {title}\n"),
    };
    let mut known = Known::default();
    for recorded in events(engine, thread).await? {
        if let Some(part) = part(engine, &recorded, &mut known).await? {
            text.push('\n');
            text.push_str(&render(console, form, &part));
        }
    }
    Ok(text)
}

/// Data from earlier events that later ones refer to.
#[derive(Default)]
struct Known {
    labels: BTreeMap<(String, CallKey), String>,
    queued: BTreeMap<InputId, Arc<Message>>,
}

async fn part(engine: &Engine, recorded: &Recorded, known: &mut Known) -> Result<Option<Part>, EngineError> {
    let run = recorded.event.run.as_ref().map(ToString::to_string).unwrap_or_default();
    let label_of = |known: &Known, call: CallKey| {
        known
            .labels
            .get(&(run.clone(), call))
            .cloned()
            .unwrap_or_else(|| format!("call {}.{}", call.step, call.index + 1))
    };
    Ok(match &recorded.event.fact {
        Fact::MessageReceived { message, .. } => said(engine, message).await?,
        Fact::MessageQueued { id, queued } => {
            known.queued.insert(id.clone(), queued.message.clone());
            None
        }
        Fact::MessageTaken { id } => match known.queued.remove(id) {
            Some(message) => said(engine, &message).await?,
            None => None,
        },
        Fact::StepReplied { attempt, message, .. } => {
            for (index, call) in message.calls().enumerate() {
                let key = CallKey { step: attempt.step, index: index as u32 };
                let arguments = engine.text(&call.asked).await?;
                known.labels.insert((run.clone(), key), label(call.name.as_str(), &arguments));
            }
            said(engine, message).await?
        }
        Fact::StepFailed { message, .. } => Some(Part::Note(format!("the model call failed: {message}"))),
        Fact::ToolFinished { call, outcome, content, error, duration_ms } => {
            let mut result = String::new();
            for block in content {
                match block {
                    Block::Text { text, .. } => result.push_str(&engine.text(text).await?),
                    Block::Image { blob } => result.push_str(&format!("[image, {} bytes]", blob.size_bytes)),
                    Block::File { name, blob } => {
                        result.push_str(&format!("[file {name}, {} bytes]", blob.size_bytes));
                    }
                    _ => {} // tidy: no other kind stands in a result
                }
            }
            let ended = ended(*outcome, *error, *duration_ms);
            Some(Part::Call { label: label_of(known, *call), ended, result })
        }
        Fact::InterruptClosed { answer, by, .. } => {
            answered(answer).map(|word| Part::Note(format!("{word} by {by}")))
        }
        Fact::ToolInDoubt { call, reason, .. } => {
            Some(Part::Note(format!("{} is in doubt: {reason}", label_of(known, *call))))
        }
        Fact::ModelSwitched { model, .. } => Some(Part::Note(format!("switched to `{model}`"))),
        Fact::RunFinished { status, error, .. } => match (status, error) {
            (RunStatus::Done, _) => None,
            (RunStatus::Failed, Some(error)) => {
                Some(Part::Note(format!("the run failed: {} (`{}`)", error.message, error.code)))
            }
            (RunStatus::Failed, None) => Some(Part::Note("the run failed".into())),
            (RunStatus::Cancelled, _) => Some(Part::Note("the run was cancelled".into())),
        },
        Fact::RunWithdrawn { .. } => Some(Part::Note("the run's messages were withdrawn".into())),
        _ => None, // tidy: the other kinds are bookkeeping
    })
}

async fn said(engine: &Engine, message: &Message) -> Result<Option<Part>, EngineError> {
    let who = match message.role {
        Role::User => "You",
        Role::Assistant => "Agent",
        Role::System => "System",
        Role::Tool => "Tool",
    };
    let text = text_of(engine, message).await?;
    Ok(Some(Part::Said { who, text }).filter(|_| message.has_answer()).filter(|part| !part.is_empty()))
}

impl Part {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Said { text, .. } if text.trim().is_empty())
    }
}

/// Returns the displayed name of a call's outcome.
pub fn ended(outcome: CallOutcome, error: bool, duration_ms: u64) -> String {
    match (outcome, error) {
        (CallOutcome::Returned, false) => format!("✓ {}", seconds(duration_ms)),
        (CallOutcome::Returned, true) => format!("✗ failed, {}", seconds(duration_ms)),
        (CallOutcome::Refused, _) => "✗ refused".into(),
        (CallOutcome::Unavailable, _) => "✗ not available".into(),
        (CallOutcome::Denied, _) => "⊘ denied".into(),
        (CallOutcome::Cancelled, _) => "– not run".into(),
        (CallOutcome::InDoubt, _) => "? in doubt".into(),
        (CallOutcome::Told, _) => "✓ result entered by a person".into(),
        (CallOutcome::Reconciled, _) => "✓ confirmed by a read".into(),
    }
}

/// Describes an answer. Returns `None` if no person answered.
pub fn answered(answer: &Answer) -> Option<String> {
    let with = |word: &str, reason: &Option<String>| match reason {
        Some(reason) => format!("{word} ({})", first_line(reason, REASON_CHARS)),
        None => word.to_owned(),
    };
    match answer {
        Answer::Approve => Some("approved".into()),
        Answer::Edit { .. } => Some("edited and approved".into()),
        Answer::Deny { reason } => Some(with("denied", reason)),
        Answer::Reply(reply) => {
            let values = reply.values.as_ref().map(ToString::to_string);
            let said = [&reply.selected, &reply.text, &values].into_iter().flatten();
            let said: Vec<&str> = said.map(String::as_str).collect();
            Some(with("answered", &Some(said.join("; ")).filter(|said| !said.is_empty())))
        }
        Answer::Done { .. } => Some("marked as done".into()),
        Answer::Retry => Some("retried".into()),
        Answer::Fail { reason } => Some(with("marked as failed", reason)),
        Answer::Raise { to } => Some(format!("limit raised to {to}")),
        Answer::Stop => Some("stopped at the limit".into()),
        Answer::Withdrawn => None,
    }
}

fn render(console: &Console, form: Form, part: &Part) -> String {
    let paint = console.out_paint;
    match (form, part) {
        (Form::Plain, Part::Said { who, text }) => {
            format!("{}\n{}\n", paint.cyan(who), shown(text.trim_end()))
        }
        (Form::Plain, Part::Call { label, ended, result }) => {
            let mut all = format!("• {label}  {ended}\n");
            for line in shown(result.trim_end()).lines() {
                all.push_str(&format!("  {} {line}\n", paint.dim("│")));
            }
            all
        }
        (Form::Plain, Part::Note(note)) => format!("{}\n", paint.dim(&format!("({})", shown(note)))),
        (Form::Markdown, Part::Said { who, text }) => format!("## {who}\n\n{}\n", text.trim_end()),
        (Form::Markdown, Part::Call { label, ended, result }) => {
            let fence = fence(result);
            format!("- `{}` {ended}\n\n{fence}\n{}\n{fence}\n", label.replace('`', "'"), result.trim_end())
        }
        (Form::Markdown, Part::Note(note)) => format!("*{note}*\n"),
    }
}

/// Returns a code fence longer than any in the text.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    "`".repeat(longest.max(2) + 1)
}
