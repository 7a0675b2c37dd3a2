//! The story of a seed: its agents, its messages, and the model's reply at each step.

use std::sync::Arc;

use windlass_machine::*;

use crate::fixture::{self, Dice, as_asked, known, known_call, reply};
use crate::world::{Tale, World};

pub fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

impl World {
    /// The agent of a message; two messages after each other have the same.
    pub fn agent(&self, number: u64) -> Agent {
        let mut dice = fixture::dice(&[self.seed, 77, number - number % 2]);
        let mut agent = fixture::agent();
        let limits = &mut agent.limits;
        limits.max_steps = 1 + dice.below(6) as u32;
        limits.max_parallel_calls = 1 + dice.below(3) as u32;
        limits.max_calls_per_step = 2 + dice.below(4) as u32;
        limits.window_messages = [0, 6, 8, 40][dice.below(4) as usize];
        limits.max_call_starts = 1 + dice.below(3) as u32;
        limits.max_queued = 3;
        limits.max_same_calls = [0, 2, 4][dice.below(3) as usize];
        limits.run_timeout_ms = 0;
        if self.tale == Tale::Wild {
            limits.run_timeout_ms = [0, 60_000, 7_200_000][dice.below(3) as usize];
            if dice.one_in(3) {
                for tool in ["Tool", GUARDED[0]] {
                    limits.max_calls.insert(tool.into(), 1 + dice.below(4) as u32);
                }
            }
        }
        if dice.one_in(2) {
            agent.instructions.clear();
        }
        if self.tale == Tale::Wild && dice.one_in(2) {
            agent.models.push("test/b".into());
        }
        agent
    }

    pub fn message(&mut self) -> Input {
        let number = self.sent;
        self.sent += 1;
        let mut dice = fixture::dice(&[self.seed, 78, number]);
        let agent = Arc::new(self.agent(number));
        let mut new = fixture::new_message(&format!("m{number}"), "Do it.", &format!("r{number}"), agent);
        new.options.serialized = dice.one_in(4);
        new.options.surface = Surface::Chat;
        new.options.at_limit = [None, Some(AtLimit::Answer), Some(AtLimit::Fail)][dice.below(3) as usize];
        let mut dice_of_mode = fixture::dice(&[self.seed, 82, number]);
        if dice_of_mode.one_in(3) {
            new.options.mode = Some(Mode::ALL[dice_of_mode.below(3) as usize]);
        }
        if self.tale == Tale::Wild {
            new.when_busy = match self.dice.below(6) {
                0 => WhenBusy::Reject,
                1 => WhenBusy::Steer,
                2 => WhenBusy::Replace,
                3 => WhenBusy::Rollback,
                _ => WhenBusy::Queue,
            };
            if dice.one_in(2) {
                new.options.surface = Surface::Headless;
            }
        }
        Input::Message(Box::new(new))
    }

    /// Returns the model's reply, which depends on seed, run and step alone.
    pub fn model_says(&self, run: &RunId, attempt: Attempt) -> Input {
        let mut dice = fixture::dice(&[self.seed, hash(run.as_str()), u64::from(attempt.step)]);
        let mut calls = Vec::new();
        let text = |text: &str| vec![Block::text(format!("{text} {run} {}", attempt.step))];
        let (blocks, stop) = match dice.below(12) {
            0 => (Vec::new(), StopReason::End),
            1 => (text("cut"), StopReason::MaxTokens),
            2 => (Vec::new(), StopReason::MaxTokens),
            3 => (text("pause"), StopReason::Pause),
            4 if self.tale == Tale::Wild => (text("no"), StopReason::Refusal),
            5 if self.tale == Tale::Wild => (text("odd"), StopReason::Other("odd".into())),
            4 | 5 => (text("answer"), StopReason::End),
            _ => {
                let mut blocks = if dice.one_in(2) { text("calling") } else { Vec::new() };
                for index in 0..1 + dice.below(5) {
                    let arguments = format!("{{\"n\":{index}}}");
                    let (tool, seen) = some_call(&mut dice, &arguments);
                    let id = format!("c{}-{index}", attempt.step);
                    blocks.push(fixture::call(&id, tool, &arguments));
                    calls.push(seen);
                }
                (blocks, StopReason::ToolCalls)
            }
        };
        reply(attempt, blocks, stop, self.with_policy(calls))
    }
}

/// Returns a random call with its view.
pub fn some_call(dice: &mut Dice, arguments: &str) -> (&'static str, CallView) {
    let class = match dice.below(6) {
        0 => EffectClass::Idempotent,
        1 => EffectClass::Keyed,
        2 => EffectClass::Once,
        3 => EffectClass::Reconcile { wait_ms: 1_000 * (1 + dice.below(4)) },
        _ => EffectClass::Pure,
    };
    let allowed = class == EffectClass::Pure || dice.one_in(2);
    match dice.below(12) {
        0 => ("Nope", CallView::Unknown),
        1 => ("Bad", known(class, allowed, Arguments::Invalid { reason: "`n` is missing".into() })),
        2 => {
            let arguments =
                Arguments::Repaired { arguments: "{\"n\":1}".into(), digest: Digest::of(b"{\"n\":1}") };
            ("Mended", known(class, allowed, arguments))
        }
        3 => ("Question", CallView::Known(Box::new(question(dice)))),
        _ => {
            let mut known = known_call(class, allowed, as_asked(arguments));
            known.previews = dice.one_in(3);
            let tool = match dice.below(12) {
                0 => {
                    known.hook = Some(HookVerdict::Deny { reason: "not at night".into() });
                    "Tool"
                }
                1 => {
                    known.hook = Some(HookVerdict::Ask { reason: "an odd hour".into() });
                    "Tool"
                }
                2 | 3 => GUARDED[dice.below(GUARDED.len() as u64) as usize],
                4 => {
                    known.annotations.read_only_hint = false;
                    GRANTED
                }
                _ => "Tool",
            };
            (tool, CallView::Known(Box::new(known)))
        }
    }
}

fn question(dice: &mut Dice) -> KnownCall {
    let question = Question {
        summary: "Which?".into(),
        options: if dice.one_in(2) { vec!["yes".into()] } else { Vec::new() },
        free_input: true,
        ..Question::default()
    };
    let asks = Some((InterruptKind::Question(Box::new(question)), Terms::default()));
    let class = if dice.one_in(2) { EffectClass::Pure } else { EffectClass::Idempotent };
    KnownCall { asks, area: Area::People, ..known_call(class, dice.one_in(2), as_asked("{}")) }
}

/// Tools with rules that require approval.
pub const GUARDED: [&str; 2] = ["Pay", "Send"];

/// A tool with a grant.
const GRANTED: &str = "Deploy";

/// Returns the initial policy of a tale. With a counted grant the outcome depends on timing, so those only occur in
/// wild tales.
pub fn policy(seed: u64, tale: Tale) -> Policy {
    let mut dice = fixture::dice(&[seed, 80]);
    let rules = GUARDED
        .map(|tool| fixture::rule(Verdict::Ask, tool, some_terms(&mut dice, tale)))
        .into_iter()
        .collect();
    let remaining = (tale == Tale::Wild && dice.one_in(2)).then(|| 1 + dice.below(2) as u32);
    let grant = Grant {
        id: "g1".into(),
        tool: GRANTED.into(),
        server: None,
        schema: None,
        arguments: Vec::new(),
        remaining,
        expires_at: None,
        by: "ann".into(),
    };
    Policy { rules, grants: vec![grant], ..Policy::default() }
}

/// Returns terms that the people can meet. With an expiry the outcome depends on timing, so those only occur in wild
/// tales.
pub fn some_terms(dice: &mut Dice, tale: Tale) -> Terms {
    let mut terms = match dice.below(3) {
        0 => fixture::terms(2, &[], None),
        1 => fixture::terms(1, &["user:eve", "role:ops"], None),
        _ => fixture::terms(2, &["role:ops", "user:ann"], None),
    };
    if tale == Tale::Wild {
        let mut ms = || dice.one_in(2).then(|| 1_000 * dice.below(4));
        (terms.expires_in_ms, terms.remind_in_ms, terms.escalate_in_ms) = (ms(), ms(), ms());
        terms.on_expiry = if dice.one_in(2) { Expiry::Approve } else { Expiry::Deny };
        terms.escalate_to = fixture::approvers(&["role:boss"]);
    }
    terms
}
