//! What the tests are made of: an agent, messages, calls and views, and dice that a seed decides.

use std::sync::Arc;

use windlass_machine::*;

/// Pseudo-random numbers from a seed. (SplitMix64, S. Vigna)
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Dice that several words decide.
pub fn dice(words: &[u64]) -> Dice {
    let mut dice = Dice(0x5eed);
    for word in words {
        dice.0 ^= *word;
        dice.roll();
    }
    dice
}

pub fn agent() -> Agent {
    Agent {
        name: "tester".into(),
        models: vec!["test/a".into()],
        instructions: vec!["Be brief.".into()],
        tools: None,
        settings: ModelSettings::default(),
        limits: Limits::default(),
    }
}

pub fn new_message(id: &str, text: &str, run: &str, agent: Arc<Agent>) -> NewMessage {
    NewMessage {
        id: id.into(),
        message: Arc::new(Message::text(Role::User, text)),
        by: "ann".into(),
        workspace: "w".into(),
        folder: None,
        run: run.into(),
        agent,
        options: RunOptions::default(),
        when_busy: WhenBusy::Queue,
    }
}

pub fn call(id: &str, tool: &str, arguments: &str) -> Block {
    Block::ToolCall(ToolCall { id: id.into(), name: tool.into(), asked: arguments.into(), native: None })
}

/// What is known of a call: allowed calls are those whose hints say that they change nothing.
pub fn known(class: EffectClass, allowed: bool, arguments: Arguments) -> CallView {
    let annotations = Annotations { read_only_hint: allowed, ..Annotations::default() };
    CallView::Known { class, annotations, arguments }
}

pub fn as_asked(arguments: &str) -> Arguments {
    Arguments::AsAsked { digest: Digest::of(arguments.as_bytes()) }
}

pub fn reply(attempt: Attempt, blocks: Vec<Block>, stop: StopReason, view: View) -> Input {
    Input::ModelReplied(Box::new(ModelReplied {
        attempt,
        blocks,
        stop,
        usage: Usage { input: Some(10), output: Some(2), ..Usage::default() },
        cost: Some(MicroUsd(5)),
        request: Digest::default(),
        ttft_ms: None,
        duration_ms: 7,
        view,
    }))
}

pub fn failure(attempt: Attempt, class: FailureClass) -> ModelFailed {
    ModelFailed { attempt, class, message: "it broke".into(), retry_after_ms: None, partial: None }
}
