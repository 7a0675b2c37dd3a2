//! The model library as the oracle of the messages decoder.
//!
//! The library ends a reply at the last event but one. In Windlass, `message_stop` completes a reply.

use crate::config::WireKind;
use crate::failure;
use crate::oracle::{Oracle, Reading, failed_with, library_reading, reading};
use crate::testing;

const ORACLE: Oracle = Oracle {
    ours: |pieces| reading(testing::read_messages_reply(pieces)),
    theirs,
    scenarios: &[
        "anth-ok",
        "anth-inter",
        "anth-emptythink",
        "anth-server",
        "anth-unknown",
        "anth-refusal",
        "anth-pause",
        "anth-stopseq",
        "anth-newstop",
        "anth-maxtok",
        "anth-errevent",
        "anth-cut",
        "anth-cut-afterdelta",
        "anth-cut-nostop",
    ],
    // A call that cannot be answered makes the reply incomplete, while the library omits the call. An event named
    // `error` is an error even if its data has another type.
    explained: |ours| failed_with(ours, "a tool call without a name") || failed_with(ours, "Overloaded"),
    end: |frame| frame.contains("message_stop"),
};

fn theirs(body: &[u8]) -> Reading {
    let mut reading = library_reading(WireKind::Anthropic, "anthropic", body);
    if reading.outcome.is_ok() && !ends(body) {
        reading.outcome = Err(failure::truncated());
    }
    reading
}

/// Whether the body contains the last event.
fn ends(body: &[u8]) -> bool {
    const LAST: &[u8] = b"\ndata: {\"type\":\"message_stop\"}\n\n";
    memchr::memmem::find(body, LAST).is_some()
}

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
