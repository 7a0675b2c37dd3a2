//! Policy files: the user's `policy.toml`, which contains the administrator's rules, and a folder's
//! `windlass.policy.toml`.
//!
//! In an untrusted file of a folder, only rules that tighten the policy are active. This module evaluates no calls.

mod cases;
#[cfg(test)]
mod documented;
mod file;
mod problem;
mod time;

use std::path::{Path, PathBuf};

use windlass::clock::SystemClock;
use windlass::machine::{Expiry, Rule, Verdict};
use windlass::port::clock::Clock;

use crate::shell_quote::quoted;
use crate::trouble::Trouble;

pub use cases::{CaseFile, word};
pub use problem::{Highlight, Problem, Word};
pub use time::Length;

/// The content of a policy file.
pub struct PolicyText {
    /// Path of the file.
    pub path: PathBuf,
    /// Content of the file.
    pub text: String,
    /// Its rules. Do not use them if the problems contain an error.
    pub rules: Vec<Rule>,
    /// Errors and warnings.
    pub problems: Vec<Problem>,
}

/// An active policy file.
#[derive(Clone)]
pub struct InForce {
    /// Path of the file.
    pub path: PathBuf,
    /// Content of the file.
    pub text: String,
    /// Its active rules.
    pub rules: Vec<Rule>,
    /// Whether these are all rules of the file.
    pub extent: Extent,
}

/// The extent to which the rules of a policy file are active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All rules.
    Whole,
    /// The file is not trusted: only its rules that deny or ask are active, and a timeout never approves.
    Tightening,
}

impl PolicyText {
    /// Parses a policy text.
    pub fn parse(path: &Path, text: &str) -> Self {
        let (mut rules, problems) = file::read(text, SystemClock::new().now());
        // A verdict names the rule that decided. An unnamed rule is identified by its file and number.
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        for (index, rule) in rules.iter_mut().enumerate() {
            rule.name.get_or_insert_with(|| format!("{file} #{}", index + 1));
        }
        Self { path: path.to_owned(), text: text.to_owned(), rules, problems }
    }

    /// Reads a file. Returns `None` if it does not exist.
    pub fn read(path: &Path) -> Result<Option<Self>, Trouble> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(Self::parse(path, &text))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Trouble::usage(format!("cannot read `{}`: {error}", path.display()))),
        }
    }

    /// Reads a file that must exist.
    pub fn read_named(path: &Path) -> Result<Self, Trouble> {
        Self::read(path)?.ok_or_else(|| Trouble::usage(format!("there is no file `{}`", path.display())))
    }

    /// Returns the number of errors and the number of warnings.
    pub fn count(&self) -> (usize, usize) {
        let errors = self.problems.iter().filter(|problem| problem.severity == Word::Error).count();
        (errors, self.problems.len() - errors)
    }

    /// Returns all rules of the file. Any error rejects the whole file, because the invalid rule may be the decisive
    /// one.
    pub fn whole(self) -> Result<Vec<Rule>, Trouble> {
        let path = self.path.display().to_string();
        match self.problems.iter().find(|problem| problem.severity == Word::Error) {
            None => Ok(self.rules),
            Some(problem) => {
                let trouble = Trouble::usage(problem.brief(&path));
                let trouble = problem.hint.iter().cloned().fold(trouble, Trouble::hint);
                Err(trouble
                    .hint(format!("run `windlass policy check {}` to list all problems", quoted(&path))))
            }
        }
    }

    /// Returns the file with its active rules.
    pub fn in_force(self, extent: Extent) -> Result<InForce, Trouble> {
        let (path, text) = (self.path.clone(), self.text.clone());
        let rules = match extent {
            Extent::Whole => self.whole(),
            Extent::Tightening => self.tightening(),
        };
        Ok(InForce { path, text, rules: rules?, extent })
    }

    /// Returns the active rules of an untrusted file: the rules that deny or ask, with a timeout that never approves.
    pub fn tightening(self) -> Result<Vec<Rule>, Trouble> {
        let mut rules = self.whole()?;
        rules.retain(|rule| rule.verdict != Verdict::Allow);
        for rule in &mut rules {
            rule.terms.on_expiry = Expiry::Deny;
        }
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> PolicyText {
        PolicyText::parse(Path::new("some/windlass.policy.toml"), text)
    }

    #[test]
    fn an_untrusted_policy_can_only_restrict() {
        let text = "[[rule]]\nname = 'a'\nverdict = 'allow'\n[[rule]]\nverdict = 'deny'\ntools = ['x']\n\
                    [[rule]]\nname = 'c'\nverdict = 'ask'\ntimeout = '1s'\non_timeout = 'approve'\n";
        let said = |rules: Vec<Rule>| {
            let said = |rule: Rule| {
                let approves = rule.terms.approves_in_time();
                (rule.name.unwrap(), rule.verdict, approves)
            };
            rules.into_iter().map(said).collect::<Vec<_>>()
        };
        let (deny, name) = (Verdict::Deny, "windlass.policy.toml #2".to_owned());
        let all = [
            ("a".into(), Verdict::Allow, false),
            (name.clone(), deny, false),
            ("c".into(), Verdict::Ask, true),
        ];
        assert_eq!(said(parse(text).whole().unwrap()), all);
        assert_eq!(
            said(parse(text).tightening().unwrap()),
            [(name, deny, false), ("c".into(), Verdict::Ask, false)]
        );
    }

    #[test]
    fn an_error_stops_all() {
        let text = "[[rule]]\nverdict = 'deny'\n[[rule]]\nverdict = 'allow'\ntools = []\n";
        for rules in [parse(text).whole(), parse(text).tightening()] {
            let trouble = rules.unwrap_err();
            let (message, hints) = trouble.parts();
            assert!(message.starts_with("some/windlass.policy.toml:5:1: the list is empty"), "{message}");
            assert_eq!(hints, ["run `windlass policy check some/windlass.policy.toml` to list all problems"]);
        }
        assert!(
            parse("[[rule]]\nverdict = 'deny'\nuntil = 2020-01-01\n").whole().is_ok(),
            "a warning does not"
        );
    }

    #[test]
    fn whatever_stands_in_a_file_is_said_and_never_stops_the_reader() {
        let whole = "[[rule]]\nname = \"n\u{e4}\"\ntools = ['a*']\nverdict = 'ask'\nquorum = 2\nuntil = 2026-01-01\n\
                     timeout = '1h30m'\n[[rule.when]]\nargument = '/a/b'\none_of = [1, 'x', { y = 2.5 }]\n";
        let mut seed = 7_u64;
        let mut roll = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..3_000 {
            let mut bytes = whole.as_bytes().to_vec();
            for _ in 0..=roll(3) {
                let at = roll(bytes.len());
                match roll(4) {
                    0 => bytes[at] = b"[]{}='\"\n\\/-+.9\0~"[roll(16)],
                    1 if bytes.len() > 1 => drop(bytes.remove(at)),
                    2 => bytes.truncate(at + 1),
                    _ => {
                        let part = bytes[at..bytes.len().min(at + 9)].to_vec();
                        bytes.splice(at..at, part);
                    }
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            let read = parse(&text);
            for problem in &read.problems {
                assert!(problem.line >= 1 && problem.column >= 1, "{text}");
                let said = problem.print("policy.toml", problem::plain);
                assert!(said.starts_with("error: ") || said.starts_with("warning: "), "{said}");
            }
        }
        for text in ["[".repeat(10_000), "a=[".repeat(10_000), format!("x={}1", "{a=".repeat(10_000))] {
            assert_eq!(parse(&text).count().0, 1);
        }
    }
}
