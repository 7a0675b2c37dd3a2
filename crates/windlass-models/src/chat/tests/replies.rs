//! Recorded and damaged replies: both decoders produce the same result,
//! and accept no truncated reply as complete.
//!
//! The bytes of a reply may arrive in chunks of any size.

use windlass_machine::{Block, FailureClass};

use crate::config::WireKind;
use crate::oracle::{Oracle, Reading, failed_with, library_reading, reading, recorded};
use crate::testing;

const SCENARIOS: [&str; 26] = [
    "oai-ok",
    "oai-nodone",
    "oai-cut",
    "oai-noindex",
    "oai-index0",
    "oai-noid",
    "oai-sameid",
    "oai-longid",
    "oai-spaces",
    "oai-badargs",
    "oai-title",
    "oai-rdetails",
    "oai-maxtok",
    "oai-newstop",
    "oai-filter",
    "oai-refusal",
    "oai-garbage",
    "oai-hugeusage",
    "oai-errmid",
    "oai-noreason",
    "oai-noreason-call",
    "oai-noreason-cut",
    "oai-flood-3",
    "oai-calls3",
    "oai-parts",
    "oai-odd",
];

const ORACLE: Oracle = Oracle {
    ours: |pieces| reading(testing::read_chat_reply(pieces)),
    theirs,
    scenarios: &SCENARIOS,
    // A call that cannot be answered makes the reply incomplete, while the library omits the call. An empty
    // reason is treated as absent: `[DONE]` alone does not prove that the arguments are complete.
    explained: |ours| {
        failed_with(ours, "a tool call without a name") || failed_with(ours, "an incomplete tool call")
    },
    // After the reason, only the usage and the end of the stream are missing.
    end: |frame| frame.contains("[DONE]") || frame.contains("\"finish_reason\":\""),
};

fn theirs(body: &[u8]) -> Reading {
    library_reading(WireKind::OpenaiChat, "openai-compatible", body)
}

#[test]
fn recorded_replies_are_read_alike() {
    ORACLE.check_recorded();
    // The input of a custom call has a JSON form only once it is complete, so it is not displayed while it streams.
    let body = recorded("oai-custom").concat();
    assert_eq!(reading(testing::read_chat_reply([body.as_bytes()])).outcome, theirs(body.as_bytes()).outcome);
}

#[test]
fn damaged_replies_are_judged_alike() {
    ORACLE.check_damaged();
}

#[test]
fn a_cut_reply_is_never_complete() {
    ORACLE.check_cut();
}

/// Decodes chunks with these choices. Returns the stop reason or the failure class, then the blocks.
fn read(choices: &[&str]) -> String {
    let frames = choices.iter().map(|choice| format!("data: {{\"choices\":[{choice}]}}\n\n"));
    let body = frames.collect::<String>() + "data: [DONE]\n\n";
    match testing::read_chat_reply([body.as_bytes()]).1 {
        Err(error) => format!("{:?}", error.class),
        Ok(reply) => {
            let shown = reply.blocks.iter().map(|block| match block {
                Block::ToolCall(call) => format!(" {}{}", call.name, call.asked.inline().unwrap()),
                Block::Text { text, .. } => format!(" {}", text.inline().unwrap()),
                other => format!(" {other:?}"),
            });
            format!("{:?}{}", reply.stop, shown.collect::<String>())
        }
    }
}

/// Cases that the library decodes differently, because it has no rule for them.
#[test]
fn what_single_endpoints_send() {
    let call = |id: &str, arguments: &str| {
        format!(
            r#"{{"delta":{{"tool_calls":[{{"index":0{id},"function":{{"name":"f","arguments":{arguments:?}}}}}]}}}}"#
        )
    };
    let ends = |reason: &str| format!(r#"{{"delta":{{}},"finish_reason":{reason:?}}}"#);
    let said = r#"{"delta":{"content":"Hi"}}"#;
    // OpenRouter, Mistral, vLLM and DeepSeek report failures as finish reasons.
    assert_eq!(read(&[said, &ends("error")]), "Transient");
    assert_eq!(read(&[said, &ends("abort")]), "Transient");
    assert_eq!(read(&[said, &ends("insufficient_system_resource")]), "Overloaded");
    // A call that a filter or the output cap truncated is not dispatched.
    assert_eq!(read(&[&call("", "{\"a\":"), &ends("content_filter")]), "Refusal");
    assert_eq!(read(&[&call("", ""), &ends("length")]), "MaxTokens");
    assert_eq!(read(&[&call("", ""), &ends("tool_calls")]), "ToolCalls f{}");
    // Gateways to Gemini give every call index 0.
    let two = [call("", "{\"a\":1}"), call("", "{\"a\":2}"), ends("tool_calls")];
    assert_eq!(read(&two.each_ref().map(String::as_str)), "ToolCalls f{\"a\":1} f{\"a\":2}");
    // MiniMax repeats the whole message at the end.
    let whole = r#"{"message":{"content":"Hi"},"finish_reason":"stop"}"#;
    assert_eq!(read(&[said, whole]), "End Hi");
    assert_eq!(
        read(&[r#"{"delta":{"content":[{"type":"refusal","refusal":"No."}]},"finish_reason":"stop"}"#]),
        "Refusal No."
    );
    // OpenRouter sends an error in the same chunk as a choice.
    let body = r#"data: {"error":{"code":502,"message":"gone"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#;
    let failed = testing::read_chat_reply([body.as_bytes(), b"\n\n"]).1.unwrap_err();
    assert_eq!((failed.class, failed.status), (FailureClass::Transient, Some(502)));
}

#[test]
fn reasoning_beside_the_completion_counts_as_output() {
    let usage = |total: u64| {
        let details = r#""completion_tokens_details":{"reasoning_tokens":30}"#;
        let usage =
            format!(r#"{{"prompt_tokens":10,"completion_tokens":5,"total_tokens":{total},{details}}}"#);
        let body = format!("data: {{\"choices\":[{{\"finish_reason\":\"stop\"}}],\"usage\":{usage}}}\n\n");
        testing::read_chat_reply([body.as_bytes()]).1.unwrap().usage.output
    };
    assert_eq!((usage(15), usage(45)), (Some(5), Some(35)));
}
