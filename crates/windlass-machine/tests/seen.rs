//! Parses the description of a call in a transcript.

use std::sync::Arc;

use windlass_machine::*;

use crate::fixture::{approvers, as_asked, known, known_call, rule};

/// The flags after the first word: `ask,previews,quorum:2`.
#[derive(Default)]
pub struct Flags<'a> {
    words: Vec<&'a str>,
    pub terms: Terms,
}

impl<'a> Flags<'a> {
    pub fn of(how: &'a str) -> Self {
        let words: Vec<&str> = how.split(',').skip(1).collect();
        let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
        let list = |name: &str| {
            let names: Vec<&str> = value(name).into_iter().flat_map(|names| names.split('+')).collect();
            approvers(&names)
        };
        let ms = |name: &str| value(name).map(|seconds| 1000 * seconds.parse::<u64>().unwrap());
        let count = value("quorum").map_or(1, |quorum| quorum.parse().unwrap());
        let terms = Terms {
            quorums: [Quorum { count, of: list("by") }].into(),
            expires_in_ms: ms("expires"),
            on_expiry: if words.contains(&"approves") { Expiry::Approve } else { Expiry::Deny },
            remind_in_ms: ms("reminds"),
            escalate_in_ms: ms("escalates"),
            escalate_to: list("to"),
        };
        Self { words, terms }
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// Returns the interrupt that a call or a tool opens.
    pub fn asks(&self, what: &str) -> InterruptKind {
        match what {
            "question" => InterruptKind::Question(Box::new(Question {
                summary: "Which one?".into(),
                options: if self.has("options") { vec!["red".into(), "blue".into()] } else { Vec::new() },
                free_input: self.has("free"),
                ..Question::default()
            })),
            "signin" => {
                InterruptKind::SignIn { server: "mail".into(), url: "https://mail/in".into(), message: None }
            }
            "handoff" => InterruptKind::Handoff { runner: "clerk".into() },
            "doubt" => InterruptKind::InDoubt { tool: "Pay".into() },
            other => panic!("unexpected question `{other}`"),
        }
    }
}

/// Returns the rule that the flags of a call describe.
pub fn rule_of(tool: &str, how: &str) -> Option<Rule> {
    let terms = Flags::of(how).terms;
    let is_asked = terms != Terms::default() && !how.starts_with("question");
    is_asked.then(|| rule(Verdict::Ask, tool, terms))
}

/// Parses arguments for the conditions of rules.
pub fn read(arguments: &str) -> Option<Arc<serde_json::Value>> {
    serde_json::from_str(arguments).ok().map(Arc::new)
}

/// Returns the view of a call from its description: the class or the deviation from the default, then flags.
pub fn seen(how: &str, arguments: &str) -> CallView {
    let flags = Flags::of(how);
    let once = |allowed| known_call(EffectClass::Once, allowed, as_asked(arguments));
    let mut known = match how.split(',').next().unwrap_or_default() {
        "" | "pure" => known_call(EffectClass::Pure, true, as_asked(arguments)),
        "allow" => once(true),
        "ask" => once(false),
        "idempotent" => known_call(EffectClass::Idempotent, true, as_asked(arguments)),
        "keyed" => known_call(EffectClass::Keyed, true, as_asked(arguments)),
        "reconcile" => known_call(EffectClass::Reconcile { wait_ms: 10_000 }, true, as_asked(arguments)),
        "question" => KnownCall { asks: Some((flags.asks("question"), flags.terms.clone())), ..once(true) },
        "unknown" => return CallView::Unknown,
        "invalid" => {
            let reason = "`path` is missing".into();
            return known(EffectClass::Once, true, Arguments::Invalid { reason });
        }
        "repaired" => {
            let (value, repaired) = repair_arguments(arguments).expect("arguments that can be repaired");
            assert!(repaired);
            let arguments = value.to_string();
            let digest = Digest::of(arguments.as_bytes());
            known_call(EffectClass::Pure, true, Arguments::Repaired { arguments: arguments.into(), digest })
        }
        other => panic!("`{other}` is no way of a call"),
    };
    known.previews = flags.has("previews");
    known.annotations.read_only_hint &= !flags.has("asked");
    known.value = read(arguments);
    if flags.has("hook-asks") {
        known.hook = Some(HookVerdict::Ask { reason: "an odd hour".into() });
    }
    if flags.has("hook-denies") {
        known.hook = Some(HookVerdict::Deny { reason: "not at night".into() });
    }
    CallView::Known(Box::new(known))
}

/// Applies a later change to a call.
pub fn mark(call: &mut CallView, word: &str) {
    match (word, &mut *call) {
        ("gone", _) => *call = CallView::Unknown,
        ("ask", CallView::Known(known)) => known.annotations.read_only_hint = false,
        ("allow", CallView::Known(known)) => known.annotations.read_only_hint = true,
        ("deny" | "denied", CallView::Known(known)) => {
            known.hook = Some(HookVerdict::Deny { reason: "not at night".into() });
        }
        ("turns-pure", CallView::Known(known)) => known.class = EffectClass::Pure,
        ("schema", CallView::Known(known)) => known.schema = Digest::of(b"another schema"),
        ("unfit", CallView::Known(known)) => {
            (known.schema, known.arguments) =
                (Digest::of(b"another schema"), Arguments::Invalid { reason: "`path` is missing".into() });
        }
        _ => {} // tidy: other words are about something else
    }
}
