//! The model library as the oracle of the messages wire.
//!
//! The library takes the last but one event for the end of a reply. Here a reply is complete with `message_stop`.

use std::sync::Arc;

use bytes::Bytes;
use rig_core::completion::CompletionRequest;
use rig_core::driver::Model;
use rig_core::message::Message;
use windlass_machine::Origin;

use crate::config::{ProviderConfig, WireKind};
use crate::failure;
use crate::oracle::{Oracle, Reading, Recorded, failed_with, read_library, reading};
use crate::provider::endpoint::Endpoint;
use crate::provider::preset;
use crate::testing;
use crate::wire::{LibraryWire, Wire};

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
    // A call that cannot be answered makes the reply incomplete, while the library leaves it out. And an event that is
    // named `error` is one even if its data has another type.
    explained: |ours| failed_with(ours, "a tool call without a name") || failed_with(ours, "Overloaded"),
    end: |frame| frame.contains("message_stop"),
};

fn theirs(body: &[u8]) -> Reading {
    let preset = preset::by_name("anthropic").unwrap();
    let endpoint = Endpoint {
        provider: "anthropic".to_owned(),
        preset,
        config: ProviderConfig::default(),
        base_url: preset.base_url.map(str::to_owned),
        api_key: None,
        api_version: None,
        #[cfg(feature = "bedrock")]
        lookup: Arc::new(|_| None),
    };
    let Ok(Wire::Library(LibraryWire::Anthropic(wire))) =
        Wire::new(WireKind::Anthropic, &endpoint, "claude-x")
    else {
        panic!("the requests of the messages wire are the library's")
    };
    let mut request = CompletionRequest::from(vec![Message::user("-")]);
    request.accept_unknown_finish_reasons = true;
    let stream = Model::new(*wire, Recorded(Bytes::copy_from_slice(body))).stream(request).unwrap();
    let origin = Arc::new(Origin { api: WireKind::Anthropic.api().to_owned(), model: "p/m".into() });
    let mut reading = read_library(WireKind::Anthropic, origin, stream);
    if reading.outcome.is_ok() && !ends(body) {
        reading.outcome = Err(failure::truncated());
    }
    reading
}

/// Whether the last event is there.
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
