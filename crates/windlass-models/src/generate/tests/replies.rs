//! The model library as the oracle of the Gemini decoder.
//!
//! Each event is whole; a reply is complete once a chunk has stated a finish reason.

use crate::config::WireKind;
use crate::oracle::{Oracle, failed_with, library_reading, reading};
use crate::testing;

const ORACLE: Oracle = Oracle {
    ours: |pieces| reading(testing::read_generate_reply(pieces)),
    theirs: |body| library_reading(WireKind::Gemini, "gemini", body),
    scenarios: &["gem-ok", "gem-cut", "gem-safety", "gem-blocked", "gem-errmid", "gem-odd"],
    // A call that cannot be answered makes the reply incomplete. The library omits the call.
    explained: |ours| failed_with(ours, "a tool call without a name"),
    end: |frame| frame.contains("\"finishReason\":\"") || frame.contains("blockReason"),
};

#[test]
fn recorded_replies_are_read_alike() {
    ORACLE.check_recorded();
}

#[test]
fn damaged_replies_are_judged_alike() {
    ORACLE.check_damaged();
}

#[test]
fn a_cut_reply_is_never_complete() {
    ORACLE.check_cut();
}
