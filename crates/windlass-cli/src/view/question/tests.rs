//! Tests of the choices for each kind of question, and of the answers that they lead to.

use std::path::Path;

use windlass::machine::{Digest, LimitAsked, Question, Terms, Timestamp};
use windlass_server::account::people::user::local;

use super::*;
use crate::console::ColorChoice;
use crate::paint::Paint;

fn open(kind: InterruptKind) -> OpenInterrupt {
    OpenInterrupt {
        interrupt: "run_1.1.0.0".into(),
        kind,
        tool: Some("Send".into()),
        server: None,
        arguments: Some(r#"{"to":"ann"}"#.into()),
        preview: None,
        evidence: None,
        since: Timestamp(0),
        expires_at: None,
        terms: Terms::default(),
        approved_by: Vec::new(),
    }
}

/// Lists the choices, then the effect of each typed line.
fn check(kind: InterruptKind, typed: &[&str]) -> String {
    let console = Console::new(ColorChoice::Never).muted();
    let light = Light { folder: Path::new("."), now: Timestamp(0), paint: Paint::Plain };
    let mut asking = Asking::start(&console, vec![open(kind)], BTreeMap::new(), local(), light);
    let mut said = choices(&asking.items[0].choices(&local(), false));
    for line in typed {
        said.push_str(&match asking.take(&console, line) {
            Reply::Answers(given, words) => {
                format!("\n{words}: {}", serde_json::to_string(&given[0].answer).unwrap())
            }
            Reply::Grant(wish, _) => format!("\n{}", wish.said()),
            Reply::Edit(text) => format!("\nedit {text}"),
            Reply::Stop => "\nstop".into(),
            Reply::Again | Reply::NoAnswer => "\n…".into(),
        });
    }
    said
}

#[test]
fn a_sign_in_is_continued_or_declined() {
    let kind =
        || InterruptKind::SignIn { server: "mail".into(), url: "https://a.example/".into(), message: None };
    insta::assert_snapshot!(check(kind(), &["yes", "c"]), @r#"
    [c]ontinue, [d]ecline, [s]top the run
    …
    approved: {"answer":"reply"}
    "#);
    insta::assert_snapshot!(check(kind(), &["d", "not mine"]), @r#"
    [c]ontinue, [d]ecline, [s]top the run
    …
    denied: not mine: {"answer":"deny","reason":"not mine"}
    "#);
}

#[test]
fn a_hand_off_takes_its_result() {
    let kind = || InterruptKind::Handoff { runner: "browser".into() };
    insta::assert_snapshot!(check(kind(), &["r", "", "r", "it is done"]), @r#"
    [r]esult, [d]ecline, [v]iew all, [s]top the run
    …
    …
    …
    answered: it is done: {"answer":"reply","text":"it is done"}
    "#);
}

#[test]
fn a_call_that_a_hook_stopped_is_approved_and_not_granted() {
    let kind = || InterruptKind::Hook { tool: "Send".into(), reason: "odd".into() };
    insta::assert_snapshot!(check(kind(), &["g", "A"]), @r#"
    [a]pprove once, [e]dit, [d]eny, [v]iew all, [s]top the run
    …
    approved once: {"answer":"approve"}
    "#);
}

#[test]
fn a_limit_of_money_is_raised_in_dollars() {
    let limit = LimitAsked {
        limit: "default/user/local/usd/2026-11-21".into(),
        figure: 1_000_000,
        used: 990_000,
        next: None,
    };
    let kind = || InterruptKind::Limit(Box::new(limit.clone()));
    insta::assert_snapshot!(check(kind(), &["r", "much", "2.5"]), @r#"
    [r]aise, [s]top the run
    …
    …
    raised to $2.50: {"answer":"raise","to":2500000}
    "#);
    insta::assert_snapshot!(check(kind(), &["raise", ""]), @r#"
    [r]aise, [s]top the run
    …
    raised to $2.00: {"answer":"raise","to":2000000}
    "#);
    insta::assert_snapshot!(super::super::card::title(&open(kind())), @r#"usd per user local on 2026-11-21: $0.99 of $1.00 used"#);
}

#[test]
fn only_the_listed_words_count() {
    let kind = || InterruptKind::Approval { tool: "Send".into(), approval: Digest::default(), preview: None };
    for word in ["", "yes", "y", "ok", "approve it", "aa", "1", "\u{1b}a", "approve\n\nx", "null"] {
        let said = check(kind(), &[word]);
        assert!(said.ends_with("\n…"), "{word:?}: {said}");
    }
    let question = Question { summary: "?".into(), options: vec!["x".into()], ..Question::default() };
    for word in ["0", "2", "-1", "x", "1.0", "99999999999999999999"] {
        let said = check(InterruptKind::Question(Box::new(question.clone())), &[word]);
        assert!(said.ends_with("\n…"), "{word:?}: {said}");
    }
}
