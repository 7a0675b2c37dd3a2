//! Describes an interrupt for the person who answers it: the request, its content, and its terms.
//!
//! Only describes an interrupt; `view/question.rs` offers the choices.

use std::path::Path;

use serde_json::Value;
use windlass::OpenInterrupt;
use windlass::machine::{Expiry, InterruptKind, LimitAsked, Question, Terms, Timestamp};
use windlass_server::text::{shown, shown_line};

use super::call::{label, moment, of_server, span};
use super::preview;
use super::story::Background;
use crate::paint::Paint;

pub struct Card {
    /// The kind of request, in one or two words.
    pub word: &'static str,
    /// The request in one line.
    pub title: String,
    /// Additional facts: the reason, missing approvals, the expiry.
    pub notes: Vec<String>,
    /// The full content of the request.
    pub lines: Vec<String>,
}

/// The inputs of a description besides the interrupt.
#[derive(Clone, Copy)]
pub struct Light<'a> {
    pub folder: &'a Path,
    pub now: Timestamp,
    pub paint: Paint,
}

impl Card {
    pub fn of(open: &OpenInterrupt, background: &Background, light: Light<'_>) -> Self {
        let tool = open.tool.as_deref().unwrap_or_default();
        let arguments = open.arguments.as_deref().unwrap_or_default();
        let server = open.server.as_deref().or(background.server.as_deref());
        let mut card = Self {
            word: word(&open.kind),
            title: title_of(open, server),
            notes: Vec::new(),
            lines: preview::lines(tool, arguments, light.paint),
        };
        match &open.kind {
            InterruptKind::Approval { .. } => {
                card.title = of_server(server, preview::headline(tool, arguments, light.folder));
                if let Some(preview) = &open.preview {
                    let is_all = preview::is_all(tool, preview);
                    let mut told = preview::told(preview, light.paint);
                    if !is_all {
                        told.push(light.paint.dim("arguments").into_owned());
                        told.append(&mut card.lines);
                    }
                    card.lines = told;
                }
            }
            InterruptKind::Hook { reason, .. } => card.notes.push(format!("why: {}", shown_line(reason))),
            InterruptKind::Question(question) => card.lines = question_lines(question),
            InterruptKind::SignIn { url, message, .. } => {
                card.notes.extend(message.as_ref().map(|message| format!("why: {}", shown_line(message))));
                card.notes.push(format!("at {}", shown_line(url)));
            }
            InterruptKind::Handoff { .. } => {}
            InterruptKind::InDoubt { .. } => {
                card.notes.push(
                    "it was started, but its outcome was lost: it may or may not have completed".into(),
                );
                card.notes.extend(preview::evidence(tool, arguments, light.folder));
            }
            InterruptKind::Limit(_) => card.lines = Vec::new(),
        }
        if let (InterruptKind::Question(_), Some(server)) = (&open.kind, server) {
            card.notes.push(format!("asked by the tool server `{}`", shown_line(server)));
        }
        card.background(background, light.now);
        card.notes.extend(terms(open, light.now));
        card
    }

    fn background(&mut self, background: &Background, now: Timestamp) {
        if let Some(rule) = background.asking_rule() {
            self.notes.push(format!("asked by: {}", shown_line(rule)));
        }
        if let (Some(effect), Some(at)) = (&background.effect, background.started_at) {
            let ago = span(now.since(at));
            self.notes.push(format!("effect {effect}, started {ago} ago ({})", moment(at)));
        }
    }
}

/// Returns the displayed name of an interrupt's kind.
pub fn word(kind: &InterruptKind) -> &'static str {
    match kind {
        InterruptKind::Approval { .. } | InterruptKind::Hook { .. } => "approve",
        InterruptKind::Question(_) => "question",
        InterruptKind::SignIn { .. } => "sign in",
        InterruptKind::Handoff { .. } => "hand-off",
        InterruptKind::InDoubt { .. } => "in doubt",
        InterruptKind::Limit(_) => "limit",
    }
}

/// Returns an interrupt's title, in one line.
pub fn title(open: &OpenInterrupt) -> String {
    title_of(open, open.server.as_deref())
}

fn title_of(open: &OpenInterrupt, server: Option<&str>) -> String {
    let call = || {
        let arguments = open.arguments.as_deref().unwrap_or_default();
        let label = label(open.tool.as_deref().unwrap_or("the call"), arguments);
        of_server(server, label)
    };
    match &open.kind {
        InterruptKind::Question(question) => match &question.checkpoint {
            Some(checkpoint) => shown_line(checkpoint).into_owned(),
            None => shown_line(&question.summary).into_owned(),
        },
        InterruptKind::SignIn { server, .. } => format!("`{}`", shown_line(server)),
        InterruptKind::Handoff { runner } => format!("{} to `{}`", call(), shown_line(runner)),
        InterruptKind::Limit(limit) => {
            let (used, figure) = (amount(limit, limit.used), amount(limit, limit.figure));
            format!("{}: {used} of {figure} used", limit_name(limit))
        }
        InterruptKind::Approval { .. } | InterruptKind::Hook { .. } | InterruptKind::InDoubt { .. } => call(),
    }
}

fn question_lines(question: &Question) -> Vec<String> {
    let mut lines: Vec<String> = shown(&question.summary).lines().map(str::to_owned).collect();
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    if let Some(params) = &question.params {
        lines.extend(shown(&pretty(params)).lines().map(str::to_owned));
    }
    if let Some(schema) = &question.schema {
        lines.push("expects values that match this schema:".into());
        lines.extend(shown(&pretty(schema)).lines().map(str::to_owned));
    }
    for (nth, option) in question.options.iter().enumerate() {
        lines.push(format!("{:>3}  {}", nth + 1, shown_line(option)));
    }
    lines
}

/// Describes the missing approvals, and what happens at expiry.
fn terms(open: &OpenInterrupt, now: Timestamp) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(needed) = needed(&open.terms) {
        let so_far: Vec<&str> = open.approved_by.iter().map(|by| by.as_str()).collect();
        notes.push(match so_far.is_empty() {
            true => needed,
            false => format!("{needed}; approved by: {}", shown_line(&so_far.join(", "))),
        });
    }
    if let Some(at) = open.expires_at {
        let then = match (&open.kind, open.terms.on_expiry) {
            (_, Expiry::Approve) => "approved",
            (InterruptKind::Question(_), Expiry::Deny) => "declined",
            (_, Expiry::Deny) => "denied",
        };
        notes.push(format!(
            "{then} automatically in {} ({}) unless answered",
            span(at.since(now)),
            moment(at)
        ));
    }
    notes
}

/// Describes the required approvals. Returns `None` if any single approval suffices.
fn needed(terms: &Terms) -> Option<String> {
    if terms.quorums == Terms::default().quorums {
        return None;
    }
    let each = terms.quorums.iter().map(|quorum| {
        let of: Vec<String> = quorum.of.iter().map(ToString::to_string).collect();
        let from = if of.is_empty() { String::new() } else { format!(" from {}", of.join(", ")) };
        format!("{} {}{from}", quorum.count, preview::plural(quorum.count as usize, "approval"))
    });
    Some(format!("needs {}", each.collect::<Vec<_>>().join(" and ")))
}

/// Returns a limit's displayed name: its setting, or the owner of the budget.
fn limit_name(limit: &LimitAsked) -> String {
    let parts: Vec<&str> = limit.limit.split('/').collect();
    let name = match parts.as_slice() {
        [_, per, whose, unit] => format!("{unit} per {per} {whose}"),
        [_, per, whose, unit, day] => format!("{unit} per {per} {whose} on {day}"),
        _ => format!("`{}`", limit.limit),
    };
    shown_line(&name.replace("  ", " ")).into_owned()
}

/// Whether a limit is a budget. Other runs may release reserved amounts of a budget, so a retry can succeed.
pub fn is_budget(limit: &LimitAsked) -> bool {
    limit.next.is_some() && limit.limit.contains('/')
}

/// Whether a limit is an amount of money, in millionths of a dollar.
pub fn is_money(limit: &LimitAsked) -> bool {
    limit.limit.split('/').nth(3) == Some("usd")
}

/// Formats an amount in the limit's unit.
pub fn amount(limit: &LimitAsked, amount: u64) -> String {
    match is_money(limit) {
        true => format!("${}", windlass_server::config::Dollars(amount)),
        false => amount.to_string(),
    }
}
