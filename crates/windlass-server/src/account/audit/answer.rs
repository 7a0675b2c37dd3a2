//! Audit entries for answers to interrupts, for HTTP, dialects and the terminal.

use windlass::machine::{
    Answer, Content, Digest, Given, InterruptId, InterruptKind, Machine, Phase, RunId, ThreadId,
};

use super::Note;

/// Action name of these entries.
pub const ANSWERED: &str = "interrupt.answered";

/// Builds the entry of an answer: the verdict and the call that it applies to. `note` contains the actor. `machine` is
/// the thread's state before the answer.
pub fn entry_of(note: Note, thread: &ThreadId, machine: &Machine, given: &Given) -> (InterruptId, Note) {
    let interrupt = given.interrupt.clone();
    let mut note = note
        .on(interrupt.as_str())
        .with("verdict", verdict(&given.answer))
        .with("thread", thread.as_str())
        .with("run", run_of(&interrupt).as_str());
    if let Answer::Edit { arguments } = &given.answer {
        let digest = match arguments {
            Content::Inline(text) => Digest::of(text.as_bytes()).to_string(),
            Content::Blob(blob) => blob.digest.to_string(),
        };
        note = note.with("arguments", digest);
    }
    let run = machine.state().run.as_ref();
    let Some((run, (index, asked))) = run.and_then(|run| Some((run, run.asking(&interrupt)?))) else {
        return (interrupt, note);
    };
    note = note.with("asked", kind(&asked.kind));
    let call = index.and_then(|index| match &run.phase {
        Phase::Calls(line) => line.calls.get(index),
        Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => None,
    });
    if let Some(call) = call {
        note = note.with("tool", call.tool.as_str()).with("approval", call.approval.to_string());
    }
    (interrupt, note)
}

fn verdict(answer: &Answer) -> &'static str {
    match answer {
        Answer::Approve => "approve",
        Answer::Edit { .. } => "edit",
        Answer::Deny { .. } => "deny",
        Answer::Reply(_) => "reply",
        Answer::Done { .. } => "done",
        Answer::Retry => "retry",
        Answer::Fail { .. } => "fail",
        Answer::Raise { .. } => "raise",
        Answer::Stop => "stop",
        Answer::Withdrawn => "withdrawn",
    }
}

fn kind(kind: &InterruptKind) -> &'static str {
    match kind {
        InterruptKind::Approval { .. } => "approval",
        InterruptKind::Hook { .. } => "hook",
        InterruptKind::Question(_) => "question",
        InterruptKind::SignIn { .. } => "sign_in",
        InterruptKind::Handoff { .. } => "handoff",
        InterruptKind::InDoubt { .. } => "in_doubt",
        InterruptKind::Limit(_) => "limit",
    }
}

/// Returns the run of an interrupt, whose id is the prefix of the interrupt's id. Empty if the engine did not generate
/// the id.
pub fn run_of(interrupt: &InterruptId) -> RunId {
    let run = interrupt.as_str().split_once('.').map_or("", |(run, _)| run);
    RunId::from(run)
}
