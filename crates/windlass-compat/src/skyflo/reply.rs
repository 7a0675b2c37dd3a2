//! Encodes a reply while it streams, and tracks which part was sent, so that the fragments add up to the whole reply.
//!
//! This dialect cannot retract a fragment. After a failed attempt, its text remains, and the next attempt
//! continues the text as far as both agree.

use serde_json::json;
use windlass::machine::{Block, Fact, FailureClass, Message, MicroUsd, Timestamp, Usage};
use windlass::port::model::Delta;

use super::super::flow::{Flow, said};
use super::word::{Scene, Word};
use crate::call::text;

/// The reply of the current step.
#[derive(Debug, Default)]
pub struct Reply {
    text: Flow,
    thinking: Flow,
    /// Number of text fragments sent.
    tokens: u64,
    /// Number of failed attempts, by the kind reported to the client.
    rate_limits: u32,
    transients: u32,
}

impl Reply {
    /// Encodes a fragment.
    pub fn fragment(&mut self, scene: &Scene, delta: &Delta, now: Timestamp) -> Option<Word> {
        match delta {
            Delta::Text { text, .. } => {
                let shown = self.text.push(text)?;
                Some(self.token(scene, &shown))
            }
            Delta::Reasoning { text, .. } => {
                let shown = self.thinking.push(text)?;
                Some(thinking(scene, now, &shown))
            }
            Delta::Call { .. } => None,
        }
    }

    /// Encodes the parts received so far, after fragments were missed.
    pub fn snapshot(&mut self, scene: &Scene, parts: &[Delta], now: Timestamp) -> Vec<Word> {
        let (mut said, mut thought) = (String::new(), String::new());
        for part in parts {
            match part {
                Delta::Text { text, .. } => said.push_str(text),
                Delta::Reasoning { text, .. } => thought.push_str(text),
                Delta::Call { .. } => {}
            }
        }
        self.whole(scene, &said, &thought, now)
    }

    /// Sends the part of the reply that was not sent yet.
    fn whole(&mut self, scene: &Scene, said: &str, thought: &str, at: Timestamp) -> Vec<Word> {
        let thinking = self.thinking.set(thought).map(|rest| thinking(scene, at, &rest));
        let token = self.text.set(said).map(|rest| self.token(scene, &rest));
        thinking.into_iter().chain(token).collect()
    }

    /// Encodes the whole reply. (SK-E5..E9)
    pub fn finish(&mut self, scene: &Scene, at: Timestamp, replied: &Replied<'_>) -> Vec<Word> {
        let (said, thought) = (said(replied.message), thought(replied.message));
        let mut words = self.whole(scene, &said, &thought, at);
        words.extend(usage(scene, at, replied));
        if !thought.is_empty() {
            let data = json!({"content": thought, "duration_ms": replied.thinking_ms});
            words.push(scene.word("thinking.complete", at, data));
        }
        let mut data = json!({
            "tokens_generated": self.tokens,
            "tool_calls": replied.message.calls().count(),
            "content": said,
        });
        if !thought.is_empty() {
            data["thinking_content"] = thought.into();
        }
        words.push(scene.word("generation.complete", at, data));
        words
    }

    /// Reports a failed attempt that will be retried. (SK-E15)
    pub fn retry(&mut self, scene: &Scene, at: Timestamp, fact: &Fact) -> Option<Word> {
        let Fact::StepFailed { class, message, retry_at, .. } = fact else { return None };
        self.text.fail();
        self.thinking.fail();
        let retry_in = retry_at.as_ref()?.since(at).div_ceil(1000);
        Some(if *class == FailureClass::RateLimited {
            self.rate_limits += 1;
            let data =
                json!({"retry_in": retry_in, "attempt": self.rate_limits, "max_retries": RATE_LIMIT_RETRIES});
            scene.word("rate_limit", at, data)
        } else {
            self.transients += 1;
            let data = json!({"error": message, "retry_in": retry_in, "attempt": self.transients});
            scene.word("transient_error", at, data)
        })
    }

    /// Sends text that is in none of the run's replies: the engine's own text, or that of a failed attempt. Does not
    /// repeat text that was already sent.
    pub fn last_words(&mut self, scene: &Scene, words: &str) -> Option<Word> {
        let shown = self.text.push(words)?;
        Some(self.token(scene, &shown))
    }

    fn token(&mut self, scene: &Scene, text: &str) -> Word {
        self.tokens += 1;
        scene.fragment("token", json!({"text": text, "tokens_generated": self.tokens}))
    }
}

/// Maximum number of retries of a call after a rate limit. (SK-L6)
pub const RATE_LIMIT_RETRIES: u32 = 3;

fn thinking(scene: &Scene, at: Timestamp, text: &str) -> Word {
    scene.word("thinking", at, json!({"text": text}))
}

/// A whole reply with its figures.
pub struct Replied<'a> {
    pub message: &'a Message,
    pub model: &'a str,
    /// Token usage as the provider reported it.
    pub usage: &'a Usage,
    /// Cost of the reply; `None` if the price is unknown.
    pub cost: Option<MicroUsd>,
    /// Time the model spent reasoning, in milliseconds. The duration of the reply if its reasoning was not streamed.
    pub thinking_ms: u64,
}

impl<'a> Replied<'a> {
    /// Returns the reply that an event records.
    pub fn of(fact: &'a Fact, model: &'a str) -> Option<Self> {
        let Fact::StepReplied { message, usage, cost, ttft_ms, duration_ms, thoughts_ms, .. } = fact else {
            return None;
        };
        let thinking_ms = match thoughts_ms.is_empty() {
            true => duration_ms.saturating_sub(ttft_ms.unwrap_or(0)),
            false => thoughts_ms.iter().sum(),
        };
        Some(Self { message, model, usage, cost: *cost, thinking_ms })
    }
}

/// Encodes tokens and cost. Returns `None` if the provider reported none. An unknown
/// price is encoded as 0. (SK-E7, SK-L12)
fn usage(scene: &Scene, at: Timestamp, replied: &Replied<'_>) -> Option<Word> {
    let usage = replied.usage;
    usage.input.or(usage.output)?;
    let (prompt, completion) = (usage.input.unwrap_or(0), usage.output.unwrap_or(0));
    let data = json!({
        "source": "main",
        "model": replied.model,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt.saturating_add(completion),
        "cached_tokens": usage.cached,
        "cost": dollars(replied.cost.unwrap_or_default()),
    });
    Some(scene.word("token.usage", at, data))
}

/// Converts an amount to US dollars, the unit that clients read.
pub fn dollars(cost: MicroUsd) -> f64 {
    cost.0 as f64 / 1e6
}

/// Returns the reasoning of a message.
pub fn thought(message: &Message) -> String {
    let thoughts = message.blocks.iter().filter_map(|block| match block {
        Block::Reasoning { text: thought, .. } => Some(text(thought)),
        Block::Text { .. }
        | Block::Image { .. }
        | Block::File { .. }
        | Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Opaque { .. } => None,
    });
    thoughts.collect()
}
