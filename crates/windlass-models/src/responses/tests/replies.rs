//! The model library as the oracle of the responses decoder.
//!
//! Each intended difference is listed with its reason in the test that encounters it.

use windlass_machine::Block;

use crate::config::WireKind;
use crate::oracle::{Oracle, failed_with, library_reading, reading};
use crate::testing;

const ORACLE: Oracle = Oracle {
    ours: |pieces| reading(testing::read_responses_reply(pieces)),
    theirs: |body| library_reading(WireKind::OpenaiResponses, "openai", body),
    scenarios: &[
        "resp-ok",
        "resp-cut",
        "resp-failed",
        "resp-incomplete",
        "resp-filter",
        "resp-refusal",
        "resp-errevent",
        "resp-custom",
        "resp-bare",
        "resp-hosted",
    ],
    // A call that cannot be answered, or that is incomplete, makes the reply incomplete. The library omits
    // the first kind and dispatches the second.
    explained: |ours| {
        failed_with(ours, "a tool call without a name") || failed_with(ours, "an incomplete tool call")
    },
    end: |frame| frame.contains("response.completed") || frame.contains("response.incomplete"),
};

#[test]
fn recorded_replies_are_read_alike() {
    ORACLE.check_recorded();
}

/// Decodes these events. Returns the stop reason or the failure class, then the blocks.
fn read(events: &[&str]) -> String {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    match testing::read_responses_reply([body.as_bytes()]).1 {
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
fn what_ends_a_response() {
    let begun = r#"{"type":"response.output_item.added","output_index":0,
        "item":{"type":"function_call","call_id":"c","name":"f","arguments":""}}"#
        .replace('\n', " ");
    let some = r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a\":"}"#;
    let rest = r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"1}"}"#;
    let ends = |status: &str, why: &str| {
        format!(
            r#"{{"type":"response.completed","response":{{"status":"{status}","incomplete_details":{why}}}}}"#
        )
    };
    let whole = ends("completed", "null");
    let filtered = ends("incomplete", r#"{"reason":"content_filter"}"#);
    let capped = ends("incomplete", r#"{"reason":"max_output_tokens"}"#);
    // In a complete response, a call without a final statement is valid if its arguments are complete.
    assert_eq!(read(&[&begun, some, &whole]), "Truncated");
    assert_eq!(read(&[&begun, some, rest, &whole]), "ToolCalls f{\"a\":1}");
    assert_eq!(read(&[&begun, some, rest, &filtered]), "Refusal");
    assert_eq!(read(&[&begun, &capped]), "MaxTokens");
    // Statuses that do not end a response.
    assert_eq!(read(&[&ends("failed", "null")]), "Transient");
    assert_eq!(read(&[&ends("cancelled", "null")]), "Transient");
    assert_eq!(read(&[&ends("in_progress", "null")]), "Truncated");
    assert_eq!(read(&[&ends("expired", "null")]), "Other(\"expired\")");
}

#[test]
fn too_many_items_are_refused() {
    let event = r#"{"type":"response.output_item.added","item":{"type":"message"}}"#;
    assert_eq!(read(&vec![event; 4_097]), "Malformed");
}

#[test]
fn damaged_replies_are_judged_alike() {
    ORACLE.check_damaged();
}

#[test]
fn a_cut_reply_is_never_complete() {
    ORACLE.check_cut();
}
