//! Prompts the user about a run's open interrupts, line by line. A typed line either answers or leads to the next
//! prompt.
//!
//! Submits no answer. Only the listed choices are accepted, so that the user approves nothing by accident.

mod edit;
mod grant;
mod several;

use std::collections::BTreeMap;

use windlass::OpenInterrupt;
use windlass::machine::{Answer, Given, InterruptId, InterruptKind, Party, Reply as QuestionReply};
use windlass_server::config::Dollars;
use windlass_server::text::{first_line, shown};

use super::card::{Card, Light, amount, is_budget, is_money};
use super::story::Background;
use crate::console::Console;
use crate::view::preview::plural;

pub use edit::{pretty, read};
pub use grant::GrantWish;

/// Maximum number of lines of an interrupt displayed at once; `v` shows the rest.
const LINES: usize = 40;

/// Maximum length of an answer in its confirmation, in characters.
const ECHO_CHARS: usize = 60;

/// A prompt for one or more interrupts.
pub struct Asking {
    items: Vec<Item>,
    /// The user who answers.
    party: Party,
    /// Index of the current interrupt; `None` for the list of several.
    at: Option<usize>,
    stage: Stage,
}

/// An interrupt with its description.
struct Item {
    open: OpenInterrupt,
    card: Card,
    background: Background,
}

/// Interpretation of the next line.
enum Stage {
    Choice,
    DenyReason,
    Result,
    FailReason,
    Text,
    Raise,
    GrantCount,
    GrantTime(GrantWish),
    GrantScope(GrantWish),
    /// A rejected edit, with its text.
    Faulty(String),
}

/// The effect of a typed line.
pub enum Reply {
    /// The answers, which are submitted together, and the text that confirms them.
    Answers(Vec<Given>, String),
    /// A grant, and the answer that follows it.
    Grant(GrantWish, Given),
    /// Open the editor on this text.
    Edit(String),
    /// Cancel the run.
    Stop,
    /// Another prompt was printed.
    Again,
    /// The line is no answer; the prompt was printed again.
    NoAnswer,
}

impl Asking {
    /// Prints the interrupts and the first prompt. `open` must not be empty.
    pub fn start(
        console: &Console,
        open: Vec<OpenInterrupt>,
        mut backgrounds: BTreeMap<InterruptId, Background>,
        party: Party,
        light: Light<'_>,
    ) -> Self {
        let item = |open: OpenInterrupt| {
            let background = backgrounds.remove(&open.interrupt).unwrap_or_default();
            Item { card: Card::of(&open, &background, light), background, open }
        };
        let items: Vec<Item> = open.into_iter().map(item).collect();
        let at = (items.len() == 1).then_some(0);
        let asking = Self { items, party, at, stage: Stage::Choice };
        asking.show(console, Extent::Beginning);
        asking.prompt(console);
        asking
    }

    pub fn is_about(&self, interrupt: &InterruptId) -> bool {
        self.items.iter().any(|item| item.open.interrupt == *interrupt)
    }

    fn item(&self) -> Option<&Item> {
        self.items.get(self.at?)
    }

    /// Returns the characters that answer without Enter. Returns none while the prompt expects a text.
    fn answers(&self) -> String {
        let numbers =
            |count: usize| (1..=count.min(9)).filter_map(|number| char::from_digit(number as u32, 10));
        match (&self.stage, self.item()) {
            (Stage::Choice, Some(item)) => {
                let options = match &item.open.kind {
                    InterruptKind::Question(question) => question.options.len(),
                    _ => 0, // tidy: nothing else has options
                };
                let several = self.items.len() > 1;
                // Cancelling a run cannot be undone, so a single key must not do it.
                let choices = item.choices(&self.party, several).into_iter();
                let choices = choices.filter(|choice| choice.means != Means::StopRun);
                let letters = choices.filter_map(|choice| choice.word.chars().next());
                // With ten or more options, a number may have two digits.
                letters.chain(numbers(options).filter(|_| options < 10)).collect()
            }
            (Stage::Choice, None) => {
                let count = self.items.len();
                "adv".chars().chain(numbers(count).filter(|_| count < 10)).collect()
            }
            (Stage::Faulty(_), _) => "e".into(),
            (
                Stage::DenyReason
                | Stage::Result
                | Stage::FailReason
                | Stage::Text
                | Stage::Raise
                | Stage::GrantCount
                | Stage::GrantTime(_)
                | Stage::GrantScope(_),
                _,
            ) => String::new(),
        }
    }

    fn show(&self, console: &Console, extent: Extent) {
        console.note("");
        match self.item() {
            Some(item) => item.show(console, extent.lines(1), None),
            None => self.show_all(console, extent),
        }
    }

    fn prompt(&self, console: &Console) {
        let text = match (&self.stage, self.item()) {
            (Stage::Choice, Some(item)) => choices(&item.choices(&self.party, self.items.len() > 1)),
            (Stage::Choice, None) => self.choices_of_all(),
            (Stage::DenyReason, _) => "reason (optional; the model sees it)".into(),
            (Stage::Result, _) => "its result (the model sees it)".into(),
            (Stage::FailReason, _) => "what happened? (optional; the model sees it)".into(),
            (Stage::Text, _) => "your answer (the model sees it)".into(),
            (Stage::Raise, Some(item)) => {
                item.limit().map_or(String::new(), |limit| format!("new limit [{}]", doubled(limit)))
            }
            (Stage::Raise, None) => String::new(),
            (Stage::GrantCount, _) => "how many calls, including this one? [unlimited]".into(),
            (Stage::GrantTime(_), _) => "for how long, such as 30m, 8h or 2d? [no expiry]".into(),
            (Stage::GrantScope(_), _) => "for [e]xactly these arguments, or [a]ny? [e]".into(),
            (Stage::Faulty(_), _) => "[e]dit again, or Enter to discard the edit".into(),
        };
        if let Some(screen) = console.screen() {
            screen.take_answers(&self.answers());
        }
        console.err(&format!("  {text}: "));
    }

    /// Prints the prompt again.
    fn again(&mut self, console: &Console) -> Reply {
        self.prompt(console);
        Reply::Again
    }

    /// Handles a typed line.
    pub fn take(&mut self, console: &Console, line: &str) -> Reply {
        let text = line.trim();
        match std::mem::replace(&mut self.stage, Stage::Choice) {
            Stage::Choice => match self.at {
                Some(at) => self.choose(console, at, &text.to_lowercase()),
                None => self.choose_of_all(console, &text.to_lowercase()),
            },
            Stage::DenyReason => self.give(&Answer::Deny { reason: given(text) }, &said("denied", text)),
            Stage::FailReason => self.give(&Answer::Fail { reason: given(text) }, &said("failed", text)),
            Stage::Result if !text.is_empty() => {
                self.give(&Answer::Done { result: text.to_owned() }, &said("done", text))
            }
            Stage::Text if !text.is_empty() => {
                let reply = QuestionReply { text: Some(text.to_owned()), ..QuestionReply::default() };
                self.give(&Answer::Reply(Box::new(reply)), &said("answered", text))
            }
            Stage::Result | Stage::Text => self.again(console),
            Stage::Raise => self.raise(console, text),
            stage @ (Stage::GrantCount | Stage::GrantTime(_) | Stage::GrantScope(_)) => {
                self.take_grant(console, stage, text)
            }
            Stage::Faulty(left) => self.after_fault(console, left, text),
        }
    }

    /// Answers the current interrupt, or all calls if the list is displayed.
    fn give(&self, answer: &Answer, said: &str) -> Reply {
        let items = match self.item() {
            Some(item) => std::slice::from_ref(item),
            None => self.items.as_slice(),
        };
        let given = items.iter().filter(|item| self.at.is_some() || item.is_call());
        let given: Vec<Given> = given.map(|item| item.given(answer.clone())).collect();
        let said = match (self.at, given.len()) {
            (None, count) => format!("{count} {} {said}", plural(count, "call")),
            (Some(_), _) => said.to_owned(),
        };
        Reply::Answers(given, said)
    }

    fn choose(&mut self, console: &Console, at: usize, word: &str) -> Reply {
        let Some(item) = self.items.get(at) else { return self.again(console) };
        let known = item.choices(&self.party, self.items.len() > 1);
        if let (InterruptKind::Question(question), Ok(number)) = (&item.open.kind, word.parse::<usize>())
            && let Some(option) = number.checked_sub(1).and_then(|nth| question.options.get(nth))
        {
            let reply = QuestionReply { selected: Some(option.clone()), ..QuestionReply::default() };
            return self.give(&Answer::Reply(Box::new(reply)), &said("chosen", option));
        }
        let is = |choice: &&Choice| *word == choice.word[..1] || word == choice.word.replace(' ', "");
        let Some(choice) = known.iter().find(is) else {
            if word.is_empty() {
                return self.again(console);
            }
            console.note(&format!("  `{}` is not one of the answers", first_line(&shown(word), ECHO_CHARS)));
            self.prompt(console);
            return Reply::NoAnswer;
        };
        match choice.means {
            Means::Approve => {
                return match item.open.kind {
                    InterruptKind::Question(_) | InterruptKind::SignIn { .. } => {
                        self.give(&Answer::Reply(Box::default()), "approved")
                    }
                    _ if item.needs_others() => {
                        self.give(&Answer::Approve, "approved; more approvals are required") // tidy: as below
                    }
                    _ => self.give(&Answer::Approve, "approved once"), // tidy: the others are calls
                };
            }
            Means::Edit => return self.edit(console),
            Means::Retry => return self.give(&Answer::Retry, "retrying"),
            Means::StopAtLimit => return self.give(&Answer::Stop, "limit kept"),
            Means::StopRun => return Reply::Stop,
            Means::Deny => self.stage = Stage::DenyReason,
            Means::Grant => self.stage = Stage::GrantCount,
            Means::Text => self.stage = Stage::Text,
            Means::Done => self.stage = Stage::Result,
            Means::Fail => self.stage = Stage::FailReason,
            Means::Raise => self.stage = Stage::Raise,
            Means::View => self.show(console, Extent::Whole),
            Means::Back => {
                self.at = None;
                self.show(console, Extent::Beginning);
            }
        }
        self.again(console)
    }

    fn raise(&mut self, console: &Console, text: &str) -> Reply {
        let Some(limit) = self.item().and_then(Item::limit) else { return self.again(console) };
        let text = if text.is_empty() { doubled(limit) } else { text.to_owned() };
        let to = match is_money(limit) {
            true => text.parse::<Dollars>().map(|dollars| dollars.0).ok(),
            false => text.parse::<u64>().ok(),
        };
        match to {
            Some(to) => self.give(&Answer::Raise { to }, &format!("raised to {}", amount(limit, to))),
            None => {
                self.stage = Stage::Raise;
                self.again(console)
            }
        }
    }
}

/// Extent to which an interrupt is displayed.
#[derive(Clone, Copy)]
enum Extent {
    Beginning,
    Whole,
}

impl Extent {
    /// Returns the maximum number of displayed lines of each of `several` interrupts.
    fn lines(self, several: usize) -> usize {
        match self {
            Self::Beginning => (LINES / several.max(1)).max(4),
            Self::Whole => usize::MAX,
        }
    }
}

/// A choice in a prompt.
struct Choice {
    /// The word for the choice. Its first letter suffices as input.
    word: &'static str,
    means: Means,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Means {
    Approve,
    Edit,
    Deny,
    Grant,
    Text,
    Done,
    Retry,
    Fail,
    Raise,
    StopAtLimit,
    View,
    Back,
    StopRun,
}

/// Formats the choices for the prompt.
fn choices(choices: &[Choice]) -> String {
    let all: Vec<String> =
        choices.iter().map(|choice| format!("[{}]{}", &choice.word[..1], &choice.word[1..])).collect();
    all.join(", ")
}

impl Item {
    /// Whether the interrupt requests approval of a call.
    fn is_call(&self) -> bool {
        matches!(self.open.kind, InterruptKind::Approval { .. } | InterruptKind::Hook { .. })
    }

    /// Whether one more approval is not sufficient.
    fn needs_others(&self) -> bool {
        self.open.terms.quorum() as usize > self.open.approved_by.len() + 1
    }

    fn limit(&self) -> Option<&windlass::machine::LimitAsked> {
        match &self.open.kind {
            InterruptKind::Limit(limit) => Some(limit),
            _ => None, // tidy: nothing else is raised
        }
    }

    /// Builds the answer, bound to the displayed approval digest.
    fn given(&self, answer: Answer) -> Given {
        let approval = match &self.open.kind {
            InterruptKind::Approval { approval, .. } => Some(*approval),
            _ => None, // tidy: nothing else has a digest
        };
        Given { interrupt: self.open.interrupt.clone(), answer, approval }
    }

    fn choices(&self, party: &Party, several: bool) -> Vec<Choice> {
        use Means::*;
        let may_approve = self.open.terms.may_approve(&party.principal, &party.roles);
        let mut all: Vec<(bool, &'static str, Means)> = match &self.open.kind {
            InterruptKind::Approval { .. } | InterruptKind::Hook { .. } => {
                let grants = may_approve && self.may_be_granted();
                vec![
                    (may_approve, "approve once", Approve),
                    (may_approve, "edit", Edit),
                    (true, "deny", Deny),
                    (grants, "grant", Grant),
                    (true, "view all", View),
                ]
            }
            InterruptKind::Question(question) => vec![
                (true, "approve", Approve),
                (question.free_input, "text", Text),
                (question.params.is_some() || question.schema.is_some(), "edit the values", Edit),
                (true, "decline", Deny),
                (true, "view all", View),
            ],
            InterruptKind::SignIn { .. } => vec![(true, "continue", Approve), (true, "decline", Deny)],
            InterruptKind::Handoff { .. } => {
                vec![(true, "result", Text), (true, "decline", Deny), (true, "view all", View)]
            }
            InterruptKind::InDoubt { .. } => {
                vec![
                    (true, "done", Done),
                    (true, "retry", Retry),
                    (true, "failed", Fail),
                    (true, "view all", View),
                ]
            }
            InterruptKind::Limit(limit) => vec![
                (may_approve, "raise", Raise),
                (is_budget(limit), "try again", Retry),
                (true, "stop the run", StopAtLimit),
            ],
        };
        all.push((several, "back", Back));
        all.push((self.limit().is_none(), "stop the run", StopRun));
        all.into_iter()
            .filter(|(offered, ..)| *offered)
            .map(|(_, word, means)| Choice { word, means })
            .collect()
    }

    /// Whether the prompt offers a grant. It offers none if a rule asks, because a rule takes precedence over grants.
    fn may_be_granted(&self) -> bool {
        matches!(self.open.kind, InterruptKind::Approval { .. }) && self.background.asking_rule().is_none()
    }

    fn show(&self, console: &Console, count: usize, number: Option<usize>) {
        let (paint, card, alone) = (console.paint, &self.card, number.is_none());
        let number = number.map(|number| format!("{number} ")).unwrap_or_default();
        let word = format!("? {number}{}", card.word);
        console.note(&format!("{} {}", paint.yellow(&word), paint.bold(&card.title)));
        for note in &card.notes {
            console.note(&format!("  {}", shown(note)));
        }
        for line in card.lines.iter().take(count) {
            console.note(&format!("  {} {line}", paint.dim("│")));
        }
        let rest = card.lines.len().saturating_sub(count);
        if rest > 0 {
            console.note(&format!("  … {rest} more {}; [v]iew shows them", plural(rest, "line")));
        }
        match &self.open.kind {
            InterruptKind::InDoubt { .. } => {
                console.note("  done: enter the result for the model; failed: enter what happened");
                console.note("  retry: run it again, which repeats the effect if it was done");
            }
            InterruptKind::Question(question) if alone && !question.options.is_empty() => {
                console.note(&format!("  1 to {}: choose an option", question.options.len()));
            }
            _ => {} // tidy: the others explain themselves
        }
    }
}

/// Suggests twice the current limit.
fn doubled(limit: &windlass::machine::LimitAsked) -> String {
    let twice = limit.figure.max(limit.used).saturating_mul(2).max(1);
    amount(limit, twice).trim_start_matches('$').to_owned()
}

fn given(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn said(word: &str, text: &str) -> String {
    match text {
        "" => word.to_owned(),
        text => format!("{word}: {}", first_line(&shown(text), ECHO_CHARS)),
    }
}

#[cfg(test)]
mod tests;
