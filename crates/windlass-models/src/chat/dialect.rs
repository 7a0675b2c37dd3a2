//! The differences between chat endpoints and OpenAI's.
//!
//! Each flag names the provider that needs it; other providers use the common form.

use windlass_machine::{FailureClass, StopReason};

/// The differences of one endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    /// Appends system messages after the first user message to the leading one. (Mistral)
    pub leading_system: bool,
    /// Sends a PDF as a `document_url` part. (Mistral)
    pub document_urls: bool,
    /// Sends text-only content as one string, because parts consume the output budget. (Perplexity)
    pub text_as_string: bool,
    /// Call ids have at most 40 characters. (OpenAI, Azure)
    pub short_ids: bool,
    /// Call ids have exactly nine letters and digits. (Mistral)
    pub nine_letter_ids: bool,
    /// The endpoint accepts tools. (Not Perplexity, not Hyperbolic)
    pub tools: bool,
    /// Requests the usage; the other providers report it without a
    /// request. (Not Mistral, OpenRouter, Perplexity)
    pub stream_usage: bool,
    /// Reads `native_finish_reason` if `finish_reason` is empty. (OpenRouter)
    pub native_finish_reason: bool,
    /// The reasoning count is part of the output count. (Not Doubleword)
    pub counts_reasoning: bool,
    /// `[DONE]` ends a reply without a reason: some gateways never send one.
    pub done_ends: bool,
    /// Whether an unknown finish reason is returned unchanged instead of failing the reply.
    pub lenient: bool,
    /// Additional reasons of this provider.
    pub finish_reasons: &'static [(&'static str, StopReason)],
    /// A field that each assistant message must have, empty if it has no reasoning. (DeepSeek, MiMo, Kimi)
    pub reasoning_field: Option<&'static str>,
}

impl Dialect {
    /// Returns the differences of a provider, by the name of its preset.
    pub(crate) fn of(provider: &str, lenient: bool) -> Self {
        let mistral = provider == "mistral";
        Self {
            leading_system: mistral,
            document_urls: mistral,
            nine_letter_ids: mistral,
            text_as_string: provider == "perplexity",
            short_ids: matches!(provider, "openai" | "openai-chat" | "azure"),
            tools: !matches!(provider, "perplexity" | "hyperbolic"),
            stream_usage: !matches!(provider, "mistral" | "openrouter" | "perplexity"),
            native_finish_reason: provider == "openrouter",
            counts_reasoning: provider != "doubleword",
            done_ends: lenient,
            lenient,
            finish_reasons: if provider == "zai" { ZAI } else { &[] },
            reasoning_field: None,
        }
    }

    /// Maps a finish reason to a stop reason.
    pub(crate) fn stop(&self, reason: &str) -> StopReason {
        let known = self.finish_reasons.iter().find(|(name, _)| *name == reason);
        known
            .map(|(_, stop)| stop.clone())
            .or_else(|| common(reason))
            .unwrap_or_else(|| StopReason::Other(reason.to_owned()))
    }

    /// Returns the failure class of a finish reason that reports a failure.
    pub(crate) fn failure(reason: &str) -> Option<FailureClass> {
        match reason {
            // OpenRouter and Mistral; vLLM and SGLang; Z.AI.
            "error" | "abort" | "network_error" => Some(FailureClass::Transient),
            // DeepSeek.
            "insufficient_system_resource" => Some(FailureClass::Overloaded),
            _ => None,
        }
    }

    /// Maps the reason of a provider behind a gateway to a stop reason.
    pub(crate) fn native_stop(reason: &str) -> StopReason {
        let reason = reason.to_ascii_lowercase();
        match reason.as_str() {
            "stop" | "end_turn" | "stop_sequence" | "complete" | "completed" => StopReason::End,
            "length" | "max_tokens" | "max_output_tokens" | "model_length" => StopReason::MaxTokens,
            "tool_calls" | "function_call" | "tool_use" => StopReason::ToolCalls,
            "content_filter" | "safety" | "blocklist" | "prohibited_content" | "spii" => StopReason::Refusal,
            _ => StopReason::Other(reason),
        }
    }
}

const ZAI: &[(&str, StopReason)] =
    &[("model_context_window_exceeded", StopReason::MaxTokens), ("sensitive", StopReason::Refusal)];

/// Maps the reasons that chat endpoints share, in the spellings that compatible servers use.
fn common(reason: &str) -> Option<StopReason> {
    Some(match reason {
        "stop" | "end" | "eos" | "end_turn" | "stop_sequence" => StopReason::End,
        "length" | "max_tokens" | "model_length" => StopReason::MaxTokens,
        "tool_calls" | "function_call" => StopReason::ToolCalls,
        "content_filter" => StopReason::Refusal,
        _ => return None,
    })
}
