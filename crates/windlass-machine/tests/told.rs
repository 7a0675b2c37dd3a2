//! Formats facts, blocks and texts for a transcript, each on one line.

use std::fmt::Write;

use windlass_machine::*;

/// Start time of a transcript.
pub const START: u64 = 1_000_000;

/// Formats a value that JSON encodes as a text.
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

/// Formats a fact on one line. The match is exhaustive, so that a new kind must be added.
pub fn told(fact: &Fact) -> String {
    match fact {
        Fact::ThreadCreated { thread, .. } => format!("thread.created {thread}"),
        Fact::ThreadForked { from, until, by, .. } => format!("thread.forked {from} {until} by {by}"),
        Fact::ThreadTitled { title, by, made } => {
            let made = made.as_ref().map(|made| format!(" made {}", text(made))).unwrap_or_default();
            format!("thread.titled {title:?} by {by}{made}")
        }
        Fact::MessageReceived { id, message, .. } => {
            format!("message.received {id} {:?}", message.plain_text())
        }
        Fact::MessageQueued { id, queued } => format!("message.queued {id} {}", text(&queued.place)),
        Fact::MessageTaken { id } => format!("message.taken {id}"),
        Fact::MessageWithdrawn { id, by } => format!("message.withdrawn {id} by {by}"),
        Fact::MessageEdited { id, message, by } => {
            format!("message.edited {id} {:?} by {by}", message.plain_text())
        }
        Fact::MessagePromoted { id, by } => format!("message.promoted {id} by {by}"),
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
        Fact::StepStarted { attempt, model, mode, nudge: _ } => {
            let mode = if *mode == StepMode::Plain { String::new() } else { format!(" {}", text(mode)) };
            format!("step.started {}.{} {model}{mode}", attempt.step, attempt.attempt)
        }
        Fact::StepReplied { attempt, message, stop, .. } => {
            let calls = message.calls().count();
            let said = message.plain_text();
            format!("step.replied {}.{} {said:?} {calls} calls {}", attempt.step, attempt.attempt, text(stop))
        }
        Fact::StepFailed { attempt, class, partial, retry_at, attempts_max, .. } => {
            let mut line = format!("step.failed {}.{} {}", attempt.step, attempt.attempt, text(class));
            if let Some(partial) = partial {
                write!(line, " partial {:?}", shown(partial)).unwrap();
            }
            if let Some(at) = retry_at {
                write!(line, " retry at {}", time(*at)).unwrap();
            }
            if let Some(most) = attempts_max {
                write!(line, ", attempt {} of {most}", attempt.attempt + 1).unwrap();
            }
            line
        }
        Fact::InterruptOpened { .. }
        | Fact::InterruptVoted { .. }
        | Fact::InterruptReminded { .. }
        | Fact::InterruptEscalated { .. }
        | Fact::InterruptClosed { .. } => told_of_interrupt(fact),
        Fact::CallJudged { .. }
        | Fact::GrantUsed { .. }
        | Fact::CallEdited { .. }
        | Fact::CallPreviewing { .. }
        | Fact::CallPreviewed { .. }
        | Fact::ToolStarted { .. }
        | Fact::ToolFinished { .. }
        | Fact::ToolParked { .. }
        | Fact::ToolDeferred { .. }
        | Fact::ToolKept { .. }
        | Fact::FileChanging { .. }
        | Fact::ResultOffloaded { .. }
        | Fact::ToolUndispatched { .. }
        | Fact::ToolReconciling { .. }
        | Fact::ToolUnresolved { .. }
        | Fact::ToolInDoubt { .. } => told_of_call(fact),
        Fact::WindowMoved { start } => format!("window.moved {start}"),
        Fact::ModelSwitched { model, reason } => format!("model.switched {model} {reason:?}"),
        Fact::CancelRequested { by, reason } => format!("cancel.requested {} by {by}", text(reason)),
        Fact::LimitReached { limit, figure, refused } => {
            let mut line = format!("limit.reached {limit} {figure}");
            if let Some(Refused { taken, wanted, approvers: _ }) = refused {
                write!(line, " refuses {wanted}, {taken} taken").unwrap();
            }
            line
        }
        Fact::Note { name, .. } => format!("note {name}"),
    }
}

/// Formats a time as seconds since the start.
pub fn time(at: Timestamp) -> String {
    format!("+{} s", at.since(Timestamp(START)) as f64 / 1000.0)
}

fn told_of_call(fact: &Fact) -> String {
    let at = |call: &CallKey| format!("{}/{}", call.step, call.index);
    match fact {
        Fact::CallJudged { call, verdict, rule, class, arguments, previews, .. } => {
            let sent = arguments.as_ref().map(|sent| format!(" sends {}", shown(sent))).unwrap_or_default();
            let previews = if *previews { " previews" } else { "" };
            let class = match class {
                EffectClass::Reconcile { wait_ms } => format!("reconcile {} s", wait_ms / 1000),
                class => text(class),
            };
            format!("call.judged {} {} by {rule} {class}{sent}{previews}", at(call), text(verdict))
        }
        Fact::GrantUsed { call, grant } => format!("grant.used {} {grant}", at(call)),
        Fact::CallEdited { call, arguments, by, .. } => {
            format!("call.edited {} {} by {by}", at(call), shown(arguments))
        }
        Fact::CallPreviewing { call, recheck, terms } => {
            let again = if *recheck { " again" } else { "" };
            format!("call.previewing {}{again}{}", at(call), told_terms(terms))
        }
        Fact::CallPreviewed { call, preview, .. } => {
            format!("call.previewed {} {:?}", at(call), shown(preview))
        }
        Fact::ToolStarted { call, .. } => format!("tool.started {}", at(call)),
        Fact::ToolUndispatched { call } => format!("tool.undispatched {}", at(call)),
        Fact::ToolFinished { call, outcome, content, error, .. } => {
            let content: Vec<String> = content.iter().map(block).collect();
            let error = if *error { " error" } else { "" };
            format!("tool.finished {} {}{error} {}", at(call), text(outcome), content.join(" "))
        }
        Fact::ToolParked { call, state } => {
            let state = state.as_ref().map(|state| format!(" keeps {:?}", shown(state))).unwrap_or_default();
            format!("tool.parked {}{state}", at(call))
        }
        Fact::ToolDeferred { call, until, state, rest } => {
            let state = state.as_ref().map(|state| format!(" keeps {:?}", shown(state))).unwrap_or_default();
            let rest = if *rest == Rest::Repeatable { " repeatable" } else { "" };
            format!("tool.deferred {} until {}{state}{rest}", at(call), time(*until))
        }
        Fact::ResultOffloaded { call, reference, payload, summary } => {
            let bytes = payload.size_bytes;
            format!("result.offloaded {} {reference} <{bytes} bytes> {:?}", at(call), shown(summary))
        }
        Fact::ToolKept { call, name, value } => {
            format!("tool.kept {} {name} {:?}", at(call), shown(value))
        }
        Fact::FileChanging { call, change } => {
            format!(
                "file.changing {} {} {} -> {}",
                at(call),
                change.path,
                text(&change.before),
                text(&change.after)
            )
        }
        Fact::ToolReconciling { call, attempt, until } => {
            format!("tool.reconciling {} read {attempt} until {}", at(call), time(*until))
        }
        Fact::ToolUnresolved { call, reason, retry_at } => {
            format!("tool.unresolved {} {reason:?} again at {}", at(call), time(*retry_at))
        }
        Fact::ToolInDoubt { call, reason, .. } => format!("tool.in_doubt {} {reason:?}", at(call)),
        other => unreachable!("{other:?} is not about a call"),
    }
}

fn told_of_interrupt(fact: &Fact) -> String {
    match fact {
        Fact::InterruptOpened { interrupt, kind, call, terms } => {
            let at = call.map(|call| format!(" {}/{}", call.step, call.index)).unwrap_or_default();
            format!("interrupt.opened {interrupt} {}{at}{}", told_kind(kind), told_terms(terms))
        }
        Fact::InterruptVoted { interrupt, by, roles } => {
            format!("interrupt.voted {interrupt} by {by}{}", told_roles(roles))
        }
        Fact::InterruptReminded { interrupt } => format!("interrupt.reminded {interrupt}"),
        Fact::InterruptEscalated { interrupt, to } => {
            let to: Vec<String> = to.iter().map(Approver::to_string).collect();
            format!("interrupt.escalated {interrupt} to {}", to.join(","))
        }
        Fact::InterruptClosed { interrupt, answer, by, roles } => {
            let said = serde_json::to_value(answer).unwrap();
            let more = match answer {
                Answer::Edit { arguments } => format!(" {}", shown(arguments)),
                Answer::Reply(reply) => format!(" {}", serde_json::to_string(reply).unwrap()),
                Answer::Raise { to } => format!(" to {to}"),
                Answer::Approve
                | Answer::Deny { .. }
                | Answer::Done { .. }
                | Answer::Retry
                | Answer::Fail { .. }
                | Answer::Stop
                | Answer::Withdrawn => String::new(),
            };
            let said = &said["answer"];
            format!("interrupt.closed {interrupt} {said}{more} by {by}{}", told_roles(roles))
        }
        other => unreachable!("{other:?} is not about an interrupt"),
    }
}

/// Formats the roles of a person.
fn told_roles(roles: &[String]) -> String {
    if roles.is_empty() { String::new() } else { format!(" as {}", roles.join(",")) }
}

fn told_kind(kind: &InterruptKind) -> String {
    match kind {
        InterruptKind::Approval { tool, preview, .. } => {
            let preview = preview.as_ref().map(|text| format!(" showing {:?}", shown(text)));
            format!("approval of {tool}{}", preview.unwrap_or_default())
        }
        InterruptKind::Hook { tool, reason } => format!("hook about {tool} {reason:?}"),
        InterruptKind::Question(question) => format!("question {:?}", question.summary),
        InterruptKind::SignIn { server, url, message } => {
            let said = message.as_ref().map(|message| format!(" ({message})")).unwrap_or_default();
            format!("sign-in at {server} {url}{said}")
        }
        InterruptKind::Handoff { runner } => format!("hand-off to {runner}"),
        InterruptKind::InDoubt { tool } => format!("doubt about {tool}"),
        InterruptKind::Limit(asked) => {
            format!("limit {} {} with {} used", asked.limit, asked.figure, asked.used)
        }
    }
}

/// Formats the fields of the terms that differ from the default.
fn told_terms(terms: &Terms) -> String {
    let fields = |terms: &Terms| match serde_json::to_value(terms).unwrap() {
        serde_json::Value::Object(fields) => fields,
        other => panic!("{other} are no terms"),
    };
    let usual = fields(&Terms::default());
    let differing = fields(terms).into_iter().filter(|(name, value)| usual.get(name) != Some(value));
    differing.map(|(name, value)| format!(" {name}={value}")).collect()
}
