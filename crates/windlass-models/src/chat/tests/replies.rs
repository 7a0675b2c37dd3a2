//! Recorded and damaged replies: both decoders read the same from them, and no cut makes a reply complete.
//!
//! The bytes of a reply can arrive in any pieces.

use bytes::Bytes;
use rig_core::completion::CompletionRequest;
use rig_core::driver::Model;
use rig_core::message::Message;

use super::{endpoint, library, origin, wire};
use crate::config::WireKind;
use crate::oracle::{Oracle, Reading, Recorded, failed_with, read_library, reading, recorded};
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
    // A call that cannot be answered makes the reply incomplete, while the library leaves it out. And an empty reason is
    // no reason: `[DONE]` alone does not show that the arguments are whole.
    explained: |ours| {
        failed_with(ours, "a tool call without a name")
            || failed_with(ours, "a tool call that was not finished")
    },
    // Where the reason has arrived, only the usage and the end of the stream are missing.
    end: |frame| frame.contains("[DONE]") || frame.contains("\"finish_reason\":\""),
};

fn theirs(body: &[u8]) -> Reading {
    let endpoint = endpoint("openai-compatible");
    let library = library(&wire(&endpoint, "model-x"));
    let mut request = CompletionRequest::from(vec![Message::user("-")]);
    request.accept_unknown_finish_reasons = true;
    let stream = Model::new(library, Recorded(Bytes::copy_from_slice(body))).stream(request).unwrap();
    read_library(WireKind::OpenaiChat, origin(), stream)
}

#[test]
fn recorded_replies_are_read_alike() {
    ORACLE.check_recorded();
    // The input of a custom call has a JSON form only once it is whole, so it is not shown while it streams.
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
