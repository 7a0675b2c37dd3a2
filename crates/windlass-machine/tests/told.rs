//! Facts, blocks and texts as a transcript shows them: each on one line.

use std::fmt::Write;

use windlass_machine::*;

/// When a transcript begins.
pub const START: u64 = 1_000_000;

/// A value that JSON shows as a text.
pub fn text(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value).unwrap() {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}

pub fn shown(content: &Content) -> String {
    match content {
        Content::Inline(text) => text.clone(),
        Content::Blob(blob) => format!("<{} bytes>", blob.size_bytes),
    }
}

pub fn block(block: &Block) -> String {
    match block {
        Block::Text { text, .. } => format!("{:?}", shown(text)),
        Block::Image { .. } => "image".into(),
        Block::File { name, .. } => format!("file {name}"),
        Block::Reasoning { text, .. } => format!("reasoning {:?}", shown(text)),
        Block::ToolCall(call) => format!("call {} {} {}", call.id, call.name, shown(&call.asked)),
        Block::ToolResult(result) => {
            let content: Vec<String> = result.content.iter().map(self::block).collect();
            let error = if result.error { " error" } else { "" };
            format!("result {}{error} {}", result.call_id, content.join(" "))
        }
        Block::Opaque { .. } => "opaque".into(),
    }
}

/// A fact on one line. Exhaustive, so that a new kind is told too.
pub fn told(fact: &Fact) -> String {
    match fact {
        Fact::ThreadCreated { thread, .. } => format!("thread.created {thread}"),
        Fact::ThreadTitled { title, by } => format!("thread.titled {title:?} by {by}"),
        Fact::MessageReceived { id, message, .. } => {
            format!("message.received {id} {:?}", message.plain_text())
        }
        Fact::MessageQueued { id, queued } => format!("message.queued {id} {}", text(&queued.place)),
        Fact::MessageTaken { id } => format!("message.taken {id}"),
        Fact::MessageWithdrawn { id } => format!("message.withdrawn {id}"),
        Fact::RunStarted { .. } => "run.started".into(),
        Fact::RunFinished { status, output, error, fallback, totals } => {
            let mut line = format!("run.finished {}", text(status));
            if let Some((first, last)) = output.replies {
                write!(line, " says replies {first}-{last}").unwrap();
            }
            if let Some(output) = &output.text {
                write!(line, " {:?}", shown(output)).unwrap();
            }
            if let Some(error) = error {
                let again = if error.retryable { " (retryable)" } else { "" };
                write!(line, " {}{again} {:?}", error.code, error.message).unwrap();
            }
            if *fallback {
                line.push_str(" fallback");
            }
            let cost = totals.cost.map_or("unknown".into(), |cost| cost.0.to_string());
            write!(line, " [{} steps, {} calls, cost {cost}]", totals.steps, totals.calls).unwrap();
            line
        }
        Fact::RunWithdrawn { effects } => format!("run.withdrawn {effects:?}"),
        Fact::StepStarted { attempt, model, mode } => {
            let mode = if *mode == StepMode::Plain { String::new() } else { format!(" {}", text(mode)) };
            format!("step.started {}.{} {model}{mode}", attempt.step, attempt.attempt)
        }
        Fact::StepReplied { attempt, message, stop, .. } => {
            let calls = message.calls().count();
            let said = message.plain_text();
            format!("step.replied {}.{} {said:?} {calls} calls {}", attempt.step, attempt.attempt, text(stop))
        }
        Fact::StepFailed { attempt, class, partial, retry_at, .. } => {
            let mut line = format!("step.failed {}.{} {}", attempt.step, attempt.attempt, text(class));
            if let Some(partial) = partial {
                write!(line, " partial {:?}", shown(partial)).unwrap();
            }
            if let Some(at) = retry_at {
                write!(line, " retry at +{} s", at.since(Timestamp(START)) as f64 / 1000.0).unwrap();
            }
            line
        }
        Fact::CallJudged { .. }
        | Fact::InterruptOpened { .. }
        | Fact::InterruptClosed { .. }
        | Fact::ToolStarted { .. }
        | Fact::ToolFinished { .. }
        | Fact::ToolInDoubt { .. } => told_of_call(fact),
        Fact::WindowMoved { start } => format!("window.moved {start}"),
        Fact::ModelSwitched { model, reason } => format!("model.switched {model} {reason:?}"),
        Fact::CancelRequested { by, reason } => format!("cancel.requested {} by {by}", text(reason)),
        Fact::LimitReached { limit, figure } => format!("limit.reached {limit} {figure}"),
        Fact::Note { name, .. } => format!("note {name}"),
    }
}

fn told_of_call(fact: &Fact) -> String {
    let at = |call: &CallKey| format!("{}/{}", call.step, call.index);
    match fact {
        Fact::CallJudged { call, verdict, rule, class, arguments, .. } => {
            let sent = arguments.as_ref().map(|sent| format!(" sends {}", shown(sent))).unwrap_or_default();
            format!("call.judged {} {} by {rule} {}{sent}", at(call), text(verdict), text(class))
        }
        Fact::InterruptOpened { interrupt, kind, call } => {
            let kind = match kind {
                InterruptKind::Approval { tool, .. } => format!("approval of {tool}"),
                InterruptKind::InDoubt { tool } => format!("doubt about {tool}"),
            };
            format!("interrupt.opened {interrupt} {kind} {}", at(call))
        }
        Fact::InterruptClosed { interrupt, answer, by } => {
            format!(
                "interrupt.closed {interrupt} {} by {by}",
                serde_json::to_value(answer).unwrap()["answer"]
            )
        }
        Fact::ToolStarted { call, .. } => format!("tool.started {}", at(call)),
        Fact::ToolFinished { call, outcome, content, error, .. } => {
            let content: Vec<String> = content.iter().map(block).collect();
            let error = if *error { " error" } else { "" };
            format!("tool.finished {} {}{error} {}", at(call), text(outcome), content.join(" "))
        }
        Fact::ToolInDoubt { call, reason, .. } => format!("tool.in_doubt {} {reason:?}", at(call)),
        other => unreachable!("{other:?} is not about a call"),
    }
}
