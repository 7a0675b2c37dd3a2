//! Parses answers from arguments, checks that they fit the request, and formats the hints that suggest them.

use std::io::Read;

use clap::Args;
use windlass::OpenInterrupt;
use windlass::machine::{Answer, InterruptKind, LimitAsked, Party, Reply};
use windlass_server::config::Dollars;
use windlass_server::shell_quote::quoted;
use windlass_server::trouble::Trouble;

use crate::place::Ground;
use crate::view::card::{is_budget, is_money};
use crate::view::question::read;

/// Maximum size of a file or of standard input in bytes. No call has arguments of this size.
const TEXT_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Arguments of `answer`.
#[derive(Args, Debug)]
pub struct AnswerArgs {
    /// Select an option of a question by its number or text
    #[arg(long, value_name = "OPTION", group = "reply")]
    select: Option<String>,
    /// Answer in your own words, or give a hand-off's result
    #[arg(long, value_name = "TEXT", group = "reply")]
    text: Option<String>,
    /// Values for a question or edited values: JSON, `@FILE` or `-`
    #[arg(long, value_name = "JSON", group = "reply")]
    values: Option<String>,
    /// The call in doubt succeeded with this result
    #[arg(long, value_name = "RESULT", conflicts_with = "reply", group = "other")]
    done: Option<String>,
    /// Retry the call in doubt, or retry at a limit that has room again
    #[arg(long, conflicts_with = "reply", group = "other")]
    retry: bool,
    /// The call in doubt failed, with an optional reason
    #[arg(long, value_name = "REASON", conflicts_with = "reply", group = "other", num_args = 0..=1, default_missing_value = "")]
    fail: Option<String>,
    /// Raise the limit to this value for the rest of the run
    #[arg(long, value_name = "N", conflicts_with = "reply", group = "other")]
    raise: Option<String>,
    /// Keep the limit: the run ends
    #[arg(long, conflicts_with = "reply", group = "other")]
    stop: bool,
}

/// A parsed answer, before the request's kind is known.
#[derive(Clone)]
pub enum Typed {
    /// An answer that does not depend on the kind.
    Plain(Answer),
    /// A reply, which may name an option by its number.
    Reply(Reply),
    /// A new limit, which may be an amount of money.
    Raise {
        /// The new limit in its own unit.
        figure: Option<u64>,
        /// The new limit in millionths of a dollar.
        dollars: Option<u64>,
    },
}

impl AnswerArgs {
    /// Parses the arguments.
    pub fn read(&self) -> Result<Typed, Trouble> {
        if let Some(result) = &self.done {
            return Ok(Typed::Plain(Answer::Done { result: result.clone() }));
        }
        if let Some(reason) = &self.fail {
            let reason = Some(reason.clone()).filter(|reason| !reason.is_empty());
            return Ok(Typed::Plain(Answer::Fail { reason }));
        }
        if self.retry || self.stop {
            return Ok(Typed::Plain(if self.retry { Answer::Retry } else { Answer::Stop }));
        }
        if let Some(raise) = &self.raise {
            let figure = raise.parse::<u64>().ok();
            let dollars = raise.parse::<Dollars>().ok().map(|dollars| dollars.0);
            if figure.is_none() && dollars.is_none() {
                return Err(Trouble::usage(format!("`--raise {raise}` is not a number")));
            }
            return Ok(Typed::Raise { figure, dollars });
        }
        if self.select.is_none() && self.text.is_none() && self.values.is_none() {
            return Err(Trouble::usage("no answer given").hint(
                "pass one of `--select`, `--text`, `--values`, `--done`, `--retry`, `--fail`, `--raise` or `--stop`",
            ));
        }
        let values = match &self.values {
            Some(text) => {
                Some(read(&source(text)?).map_err(|fault| Trouble::usage(format!("`--values`: {fault}")))?)
            }
            None => None,
        };
        Ok(Typed::Reply(Reply { selected: self.select.clone(), text: self.text.clone(), values }))
    }
}

impl Typed {
    /// Converts the parsed answer for this kind of interrupt.
    pub fn for_kind(&self, kind: &InterruptKind) -> Answer {
        match (self, kind) {
            (Self::Plain(answer), _) => answer.clone(),
            (Self::Raise { dollars, .. }, InterruptKind::Limit(limit)) if is_money(limit) => {
                Answer::Raise { to: dollars.unwrap_or_default() }
            }
            (Self::Raise { figure, .. }, _) => Answer::Raise { to: figure.unwrap_or_default() },
            (Self::Reply(reply), InterruptKind::Question(question)) => {
                let mut reply = reply.clone();
                let number = reply.selected.as_ref().and_then(|text| text.parse::<usize>().ok());
                let named = |text: &String| question.options.contains(text);
                if let Some(number) = number.filter(|_| !reply.selected.as_ref().is_some_and(named))
                    && let Some(option) = number.checked_sub(1).and_then(|nth| question.options.get(nth))
                {
                    reply.selected = Some(option.clone());
                }
                Answer::Reply(Box::new(reply))
            }
            (Self::Reply(reply), _) => Answer::Reply(Box::new(reply.clone())),
        }
    }
}

/// Returns the text, or the content of a file (`@FILE`) or of standard input (`-`).
pub fn source(text: &str) -> Result<String, Trouble> {
    let failed = |what: &str, error: std::io::Error| Trouble::usage(format!("cannot read {what}: {error}"));
    let mut all = String::new();
    if text == "-" {
        let mut source = std::io::stdin().lock().take(TEXT_MAX_BYTES);
        source.read_to_string(&mut all).map_err(|error| failed("standard input", error))?;
        return Ok(all);
    }
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let named = format!("`{path}`");
    let file = std::fs::File::open(path).map_err(|error| failed(&named, error))?;
    file.take(TEXT_MAX_BYTES).read_to_string(&mut all).map_err(|error| failed(&named, error))?;
    Ok(all)
}

/// Returns an error if the answer does not fit the request. Runs before a server is started or the answer is saved;
/// the engine validates the answer again.
pub fn fits(open: &OpenInterrupt, answer: &Answer) -> Result<(), Trouble> {
    let is_reply = matches!(answer, Answer::Reply(_));
    let is_deny = matches!(answer, Answer::Deny { .. });
    let (fits, takes) = match &open.kind {
        InterruptKind::Approval { .. } => {
            let fits = matches!(answer, Answer::Approve | Answer::Edit { .. });
            (fits || is_deny, "`approve`, `edit` or `deny`")
        }
        InterruptKind::Hook { .. } => {
            let fits = matches!(answer, Answer::Approve | Answer::Edit { .. });
            (fits || is_deny || is_reply, "`approve`, `edit`, `deny` or `answer --text`")
        }
        InterruptKind::Question(_) => {
            (is_reply || is_deny, "`approve`, `deny` or `answer` with `--select`, `--text` or `--values`")
        }
        InterruptKind::SignIn { .. } => (is_reply || is_deny, "`approve` after the sign-in, or `deny`"),
        InterruptKind::Handoff { .. } => (is_reply || is_deny, "`answer --text` with its result, or `deny`"),
        InterruptKind::InDoubt { .. } => {
            let fits = matches!(answer, Answer::Done { .. } | Answer::Retry | Answer::Fail { .. });
            (fits, "`answer` with `--done`, `--retry` or `--fail`")
        }
        InterruptKind::Limit(limit) => {
            let fits = match answer {
                Answer::Retry => is_budget(limit),
                _ => is_deny || matches!(answer, Answer::Raise { .. } | Answer::Stop), // tidy: no other fits
            };
            (fits, limit_takes(limit))
        }
    };
    if fits {
        return Ok(());
    }
    Err(Trouble::usage(format!("`{}` accepts {takes}", open.interrupt)))
}

fn limit_takes(limit: &LimitAsked) -> &'static str {
    match is_budget(limit) {
        true => "`answer` with `--raise`, `--retry` or `--stop`",
        false => "`answer` with `--raise` or `--stop`",
    }
}

/// Returns commands that answer the request from another terminal, with the alternative flags in parentheses.
pub fn hints(open: &OpenInterrupt, party: &Party, ground: &Ground) -> Vec<String> {
    let (id, flags) = (&open.interrupt, ground.same_flags());
    let may = open.terms.may_approve(&party.principal, &party.roles);
    let voted = open.approved_by.contains(&party.principal);
    let or = |others: &str| if others.is_empty() { String::new() } else { format!(" (or {others})") };
    let hint = |words: &str, others: &str| format!("`windlass approvals {words} {id}{flags}`{}", or(others));
    let answer =
        |words: &str, others: &str| format!("`windlass approvals answer {id} {words}{flags}`{}", or(others));
    match &open.kind {
        InterruptKind::Approval { .. } | InterruptKind::Hook { .. } if may && !voted => {
            vec![hint("approve", "`edit`, `deny`")]
        }
        InterruptKind::Approval { .. } | InterruptKind::Hook { .. } => vec![hint("deny", "")],
        InterruptKind::Question(question) => {
            let mut hints = vec![hint("approve", "`deny`")];
            hints.extend((!question.options.is_empty()).then(|| answer("--select 1", "another option")));
            hints.extend(question.free_input.then(|| answer("--text TEXT", "")));
            let values = question.params.is_some() || question.schema.is_some();
            hints.extend(values.then(|| answer("--values JSON", "")));
            hints
        }
        // Windlass signs in again: the address in the question belongs to a process that may have ended.
        InterruptKind::SignIn { server, message: None, .. } => {
            let login = format!("`windlass mcp login {}{}` signs in", quoted(server), ground.place_flags());
            vec![login, hint("deny", "")]
        }
        InterruptKind::SignIn { .. } => vec![hint("approve", "`deny`")],
        InterruptKind::Handoff { .. } => vec![answer("--text RESULT", "")],
        InterruptKind::InDoubt { .. } => vec![answer("--done RESULT", "`--retry`, `--fail REASON`")],
        InterruptKind::Limit(_) => vec![answer("--raise N", "`--stop`")],
    }
}
