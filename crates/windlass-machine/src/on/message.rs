//! A message arrives or enters the history, or the thread gets a title.
//!
//! This module does not interpret a message; it only checks that the message is not empty and can be recorded.

pub(super) mod queue;

use super::record::{Planned, Recorder, Situation, can_be_read, is_not_null};
use super::{cancel, next};
use crate::agent::ModelSettings;
use crate::event::{CancelReason, Fact, Place, Queued, TitleMade};
use crate::id::Principal;
use crate::input::{NewMessage, WhenBusy};
use crate::message::{Block, Message, Role};
use crate::policy::check_json;
use crate::reject::Reject;
use crate::state::ENGINE;

/// Maximum number of characters of a title. (SK-P7)
const TITLE_MAX_CHARS: usize = 60;

/// Maximum number of words of a title that is derived from the first message. (SK-P7)
const TITLE_WORDS: usize = 6;

pub(super) fn received<'i>(s: Situation<'_>, new: &'i NewMessage) -> Planned<'i> {
    check(new)?;
    check_ids(s, new)?;
    let Some(run) = &s.state.run else { return Ok(Box::new(move |r| start_run(r, new))) };
    let (place, cancels) = match new.when_busy {
        WhenBusy::Reject => return Err(Reject::Busy),
        WhenBusy::Queue => (Place::AfterRun, None),
        WhenBusy::Steer => (Place::AfterStep, None),
        WhenBusy::Replace => (Place::AfterCancel, Some(CancelReason::Replaced)),
        WhenBusy::Rollback => (Place::AfterCancel, Some(CancelReason::RolledBack)),
    };
    let limit = run.agent.limits.max_queued;
    if s.state.queue.len() >= limit as usize {
        return Err(Reject::QueueFull { limit });
    }
    Ok(Box::new(move |r| {
        queue(r, new, place);
        if let Some(reason) = cancels {
            cancel::begin(r, &new.by, reason);
        }
    }))
}

/// Starts the run of a message in a thread without an active run.
fn start_run(r: &mut Recorder<'_>, new: &NewMessage) {
    create(r, new);
    r.begin_run(&new.run);
    let options = next::in_mode(r.state(), &new.agent, &new.options);
    let agent = r.state().recorded(&new.agent);
    r.record(Fact::RunStarted { agent, options, by: new.by.clone() });
    r.record(Fact::MessageReceived { id: new.id.clone(), message: new.message.clone(), by: new.by.clone() });
    next::first_step(r);
}

fn queue(r: &mut Recorder<'_>, new: &NewMessage, place: Place) {
    let queued = Queued {
        message: new.message.clone(),
        by: new.by.clone(),
        place,
        run: new.run.clone(),
        agent: new.agent.clone(),
        options: new.options.clone(),
    };
    r.record(Fact::MessageQueued { id: new.id.clone(), queued: Box::new(queued) });
}

/// Checks the content of a message to the agent.
pub(super) fn check_said(message: &Message) -> Result<(), Reject> {
    if !message.is_worth_keeping() {
        return Err(Reject::Invalid { what: "the message is empty; write what the agent should do".into() });
    }
    let said = message.blocks.iter().all(|block| match block {
        Block::Text { .. } | Block::Image { .. } | Block::File { .. } => true,
        Block::Reasoning { .. } | Block::ToolCall(_) | Block::ToolResult(_) | Block::Opaque { .. } => false,
    });
    if message.role != Role::User || !said {
        let what = "a message to the agent is a user's, of text, images and files only".into();
        return Err(Reject::Invalid { what });
    }
    message.blocks.iter().try_for_each(|block| can_be_read("a block of the message", block.check()))
}

/// Checks external JSON and numbers in an agent's settings.
fn check_settings(settings: &ModelSettings) -> Result<(), Reject> {
    if let Some(schema) = &settings.output_schema {
        can_be_read("the agent's `output_schema`", check_json(schema))?;
        is_not_null("the agent's `output_schema`", schema)?;
    }
    match settings.temperature.filter(|temperature| !temperature.is_finite()) {
        Some(odd) => Err(Reject::Invalid { what: format!("the agent's `temperature` is {odd}, no number") }),
        None => Ok(()),
    }
}

fn check(new: &NewMessage) -> Result<(), Reject> {
    check_said(&new.message)?;
    check_settings(&new.agent.settings)?;
    if new.agent.models.is_empty() {
        return Err(Reject::Invalid { what: format!("agent `{}` names no model", new.agent.name) });
    }
    // The next fallback is found by the name of the failed model: a
    // duplicate name would cause an endless loop of attempts.
    let mut models = new.agent.models.iter().enumerate();
    if let Some((_, twice)) = models.find(|(at, model)| new.agent.models[..*at].contains(model)) {
        let what = format!("agent `{}` names model `{twice}` twice; name each model once", new.agent.name);
        return Err(Reject::Invalid { what });
    }
    Ok(())
}

/// Rejects ids that are in use. Effect ids are derived from the run's id, so no two runs may share an id. Only ids in
/// the state can be compared; the inbox checks older ids.
fn check_ids(s: Situation<'_>, new: &NewMessage) -> Result<(), Reject> {
    let state = s.state;
    if state.queue.iter().any(|waiting| waiting.id == new.id) {
        return Err(Reject::Invalid { what: format!("message `{}` already waits", new.id) });
    }
    let active = state.run.as_ref().map(|run| &run.id);
    let last = state.last.as_ref().map(|last| &last.run);
    let waiting = state.queue.iter().map(|waiting| &waiting.queued.run);
    if active.into_iter().chain(last).chain(waiting).any(|run| *run == new.run) {
        return Err(Reject::Invalid { what: format!("run `{}` exists already; give a fresh id", new.run) });
    }
    Ok(())
}

fn create(r: &mut Recorder<'_>, new: &NewMessage) {
    if r.state().thread.is_none() {
        let thread = r.situation().thread.clone();
        r.record(Fact::ThreadCreated {
            thread,
            workspace: new.workspace.clone(),
            folder: new.folder.clone(),
            owner: new.by.clone(),
        });
    }
    if r.state().title.is_none()
        && let Some(title) = title(&new.message.plain_text())
    {
        r.record(Fact::ThreadTitled { title, by: Principal::from(ENGINE), made: None });
    }
}

/// Returns the first words of a text.
fn title(text: &str) -> Option<String> {
    let words: Vec<_> = text.split_whitespace().take(TITLE_WORDS).collect();
    shortened(&words.join(" "))
}

fn shortened(title: &str) -> Option<String> {
    let title: String = title.trim().chars().filter(|c| !c.is_control()).take(TITLE_MAX_CHARS).collect();
    (!title.is_empty()).then_some(title)
}

pub(super) fn titled<'i>(title: &str, by: &'i Principal) -> Planned<'i> {
    let Some(title) = shortened(title) else {
        return Err(Reject::Invalid { what: "the title is empty".into() });
    };
    Ok(Box::new(move |r| r.record(Fact::ThreadTitled { title, by: by.clone(), made: None })))
}

/// Records the cost of a generated title, and the title unless a person has set one. (SK-P7)
pub(super) fn title_made<'i>(s: Situation<'_>, title: &str, made: &'i TitleMade) -> Planned<'i> {
    let Some(known) = s.state.title.clone() else {
        return Err(Reject::Invalid {
            what: "the thread has no message that a title could be made of".into(),
        });
    };
    let title = shortened(title).filter(|_| s.state.named_by.is_none()).unwrap_or(known);
    let by = s.state.named_by.clone().unwrap_or_else(|| Principal::from(ENGINE));
    Ok(Box::new(move |r| r.record(Fact::ThreadTitled { title, by, made: Some(Box::new(made.clone())) })))
}

#[cfg(test)]
mod tests {
    use super::*;

    // rows: SK-P7
    #[test]
    fn a_title_has_six_words_and_sixty_characters_at_most() {
        let six = title("one two three  four five\nsix seven");
        assert_eq!(six.as_deref(), Some("one two three four five six"));
        assert_eq!(shortened(&"é".repeat(61)).map(|title| title.chars().count()), Some(60));
        assert_eq!(title(&"w".repeat(70)).map(|title| title.len()), Some(60));
        assert_eq!(title(" \n\t "), None);
    }
}
