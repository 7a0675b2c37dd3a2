//! Messages for people about failed runs: what went wrong, and what to do. (ZE-X1..X3)
//!
//! The native API and the dialects use the same messages. Each response adds the provider's error message, and never
//! exposes server internals. (CF-5)

use windlass::machine::RunError;

/// The explanation of a failed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    /// Stable code: the code of the run's error, or a more specific code.
    pub code: &'a str,
    /// Description of the failure.
    pub words: &'static str,
    /// Instruction for the user.
    pub hint: &'static str,
}

/// The last message alone exceeds the model's input limit. (ZE-X1)
const INPUT_TOO_LONG: Failure<'static> = Failure {
    code: "ERR_INPUT_LENGTH",
    words: "the message exceeds the model's input limit",
    hint: "shorten the message, or put long texts in a file, which the agent can read in parts",
};

/// The conversation exceeds the model's context length. (ZE-X2)
const CONTEXT_TOO_LONG: Failure<'static> = Failure {
    code: "ERR_CONTEXT_LENGTH",
    words: "the conversation exceeds the model's context length",
    hint: "start a new conversation with a short summary of this one",
};

/// Error code, message, and hint.
const WORDS: &[(&str, &str, &str)] = &[
    (
        "ERR_RATE_LIMIT",
        "the model's provider has reached its rate limit",
        "try again in a minute, or choose another model",
    ),
    (
        "ERR_API_OVERLOADED",
        "the model's provider is overloaded",
        "try again in a few minutes, or choose another model",
    ),
    (
        "ERR_API",
        "the model's provider did not respond, or responded with an error",
        "try again; if the error persists, ask an administrator to check the provider's address and its \
         status page",
    ),
    ("ERR_STREAM_INCOMPLETE", "the provider's response was cut off", "try again"),
    (
        "ERR_STREAM_PARSE",
        "the provider's response cannot be parsed",
        "ask an administrator to check the provider's `base_url`: it may be the address of another service",
    ),
    (
        "ERR_AUTH",
        "the provider rejected the server's API key",
        "ask an administrator to set a valid key for the provider, or choose another model",
    ),
    (
        "ERR_REQUEST",
        "the provider rejected the request as invalid",
        "choose another model, or ask an administrator to check the model's name and settings",
    ),
    (
        "ERR_CONFIG",
        "the model's configuration is incomplete or invalid",
        "choose another model, or ask an administrator to complete the provider's configuration",
    ),
    ("ERR_EMPTY_REPLY", "the model returned an empty reply", "try again, or rephrase the message"),
    (
        "ERR_STORE",
        "a file of the conversation is missing or damaged",
        "start a new conversation, and ask an administrator to run `windlass doctor`",
    ),
    (
        "ERR_LOST",
        "the server stopped several times during the model call",
        "ask an administrator to check the server's log, then send the message again",
    ),
    ("ERR_REFUSED", "the model declined to answer", "rephrase the message"),
    (
        "ERR_UNEXPECTED_STOP",
        "the model stopped before its reply was complete",
        "ask the agent to continue, or choose another model",
    ),
    (
        "ERR_MAX_TOKENS",
        "the reply exceeds the model's output limit",
        "ask for a shorter reply, or for one part at a time",
    ),
    (
        "ERR_MAX_TURNS",
        "the run reached its step limit",
        "ask the agent to continue, or split the task; an administrator can raise `max_steps`",
    ),
    (
        "ERR_STALLED",
        "the agent repeated the same calls without progress",
        "give the agent different instructions; an administrator can raise `max_same_calls`",
    ),
    (
        "ERR_LIMIT",
        "a budget or a limit is used up",
        "wait until it is renewed, or ask an administrator to raise it",
    ),
    (
        "ERR_RUN_TIMEOUT",
        "the run exceeded its time limit",
        "split the task; an administrator can raise `run_timeout_ms`",
    ),
    ("CANCELLED", "the run was cancelled", "send the message again to start over"),
];

/// Phrases by which providers report that a single message is too long. A group of phrases matches if the error text
/// contains all of them.
const SAY_INPUT: &[&[&str]] =
    &[&["range of input length"], &["invalidparameter", "input"], &["invalidparameter", "length"]];

/// Phrases by which providers report that the conversation is too long.
const SAY_CONTEXT: &[&[&str]] = &[&["context length"], &["context window"], &["token limit"]];

/// Explains why a run failed. If the provider reports a length limit only in its message text, the text decides.
pub fn explain(error: &RunError) -> Failure<'_> {
    let code = error.code.as_str();
    if matches!(code, "ERR_REQUEST" | CONTEXT_CODE) {
        let said = error.message.to_ascii_lowercase();
        let says = |lines: &[&[&str]]| lines.iter().any(|line| line.iter().all(|words| said.contains(words)));
        if says(SAY_INPUT) {
            return INPUT_TOO_LONG;
        }
        if code == CONTEXT_CODE || says(SAY_CONTEXT) {
            return CONTEXT_TOO_LONG;
        }
    }
    let known = WORDS.iter().find(|(known, ..)| *known == code);
    let (words, hint) = known.map_or(("the run failed", "try again"), |(_, words, hint)| (*words, *hint));
    Failure { code, words, hint }
}

const CONTEXT_CODE: &str = CONTEXT_TOO_LONG.code;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use windlass::machine::{FailureClass, error_code};

    use super::*;

    fn explained(code: &str, message: &str) -> (String, &'static str) {
        let error = RunError { code: code.into(), message: message.into(), retryable: false };
        let Failure { code, words, hint } = explain(&error);
        assert!(!hint.is_empty());
        (code.to_owned(), words)
    }

    /// Returns every failure class that the decoder of provider responses can produce.
    fn classes() -> Vec<FailureClass> {
        use FailureClass as C;
        let all = [
            C::RateLimited,
            C::Overloaded,
            C::Transient,
            C::Timeout,
            C::Truncated,
            C::Malformed,
            C::Auth,
            C::ContextTooLong,
            C::InvalidRequest,
            C::Config,
            C::Empty,
            C::MissingBlob,
            C::Lost,
            C::Cancelled,
        ];
        // Add each new class to this list, too.
        for class in all {
            match class {
                C::RateLimited | C::Overloaded | C::Transient | C::Timeout | C::Truncated | C::Malformed => {}
                C::Auth | C::ContextTooLong | C::InvalidRequest | C::Config | C::Empty => {}
                C::MissingBlob | C::Lost | C::Cancelled => {}
            }
        }
        all.to_vec()
    }

    // rows: ZE-X1, ZE-X2, ZE-X3
    #[test]
    fn every_class_of_failure_has_words_of_its_own() {
        let codes: BTreeSet<&str> = classes().into_iter().map(|class| error_code(class).0).collect();
        let told: Vec<_> = codes.iter().map(|code| explained(code, "said")).collect();
        let same: Vec<&str> = told.iter().map(|(code, _)| code.as_str()).collect();
        assert_eq!(same, codes.iter().copied().collect::<Vec<_>>());
        let words: BTreeSet<&str> = told.iter().map(|(_, words)| *words).collect();
        assert_eq!(words.len(), codes.len());
        assert!(!words.contains("the run failed"), "{told:?}");
    }

    // rows: ZE-X1, ZE-X2
    #[test]
    fn a_length_is_understood_from_the_providers_sentence() {
        let input = "ERR_INPUT_LENGTH";
        for (code, message, wanted) in [
            ("ERR_REQUEST", "HTTP 400: Range of input length should be [1, 30720]", input),
            ("ERR_CONTEXT_LENGTH", "HTTP 400: Range of input length should be [1, 30720]", input),
            ("ERR_REQUEST", "HTTP 400: InvalidParameter: the input is too large", input),
            ("ERR_REQUEST", "HTTP 400: InvalidParameter: temperature must be below 2", "ERR_REQUEST"),
            (
                "ERR_REQUEST",
                "HTTP 400: This model's maximum Context Length is 8192 tokens",
                "ERR_CONTEXT_LENGTH",
            ),
            ("ERR_REQUEST", "HTTP 400: the token limit was exceeded", "ERR_CONTEXT_LENGTH"),
            ("ERR_CONTEXT_LENGTH", "HTTP 413: too long", "ERR_CONTEXT_LENGTH"),
            ("ERR_REQUEST", "HTTP 400: bad field", "ERR_REQUEST"),
            // A rejected API key is not a length error, even if the message mentions a length.
            ("ERR_AUTH", "HTTP 401: context length", "ERR_AUTH"),
        ] {
            assert_eq!(explained(code, message).0, wanted, "{message}");
        }
        assert!(INPUT_TOO_LONG.hint.contains("shorten"));
        assert!(CONTEXT_TOO_LONG.hint.contains("new conversation"));
    }
}
