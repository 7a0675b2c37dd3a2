//! The model library as the oracle of the Gemini wire.
//!
//! Each event is whole; a reply is complete once a chunk has given its reason.

use std::sync::Arc;

use bytes::Bytes;
use rig_core::completion::CompletionRequest;
use rig_core::driver::Model;
use rig_core::message::Message;
use windlass_machine::Origin;

use crate::config::{ProviderConfig, WireKind};
use crate::oracle::{Oracle, Reading, Recorded, failed_with, read_library, reading};
use crate::provider::endpoint::Endpoint;
use crate::provider::preset;
use crate::testing;
use crate::wire::{LibraryWire, Wire};

const ORACLE: Oracle = Oracle {
    ours: |pieces| reading(testing::read_generate_reply(pieces)),
    theirs,
    scenarios: &["gem-ok", "gem-cut", "gem-safety", "gem-blocked", "gem-errmid", "gem-odd"],
    // A call that cannot be answered makes the reply incomplete. The library leaves it out.
    explained: |ours| failed_with(ours, "a tool call without a name"),
    end: |frame| frame.contains("\"finishReason\":\"") || frame.contains("blockReason"),
};

fn theirs(body: &[u8]) -> Reading {
    let preset = preset::by_name("gemini").unwrap();
    let endpoint = Endpoint {
        provider: "gemini".to_owned(),
        preset,
        config: ProviderConfig::default(),
        base_url: preset.base_url.map(str::to_owned),
        api_key: None,
        api_version: None,
        #[cfg(feature = "bedrock")]
        lookup: Arc::new(|_| None),
    };
    let Ok(Wire::Library(LibraryWire::Gemini(wire))) = Wire::new(WireKind::Gemini, &endpoint, "gemini-x")
    else {
        panic!("the requests of the Gemini wire are the library's")
    };
    let mut request = CompletionRequest::from(vec![Message::user("-")]);
    request.accept_unknown_finish_reasons = true;
    let stream = Model::new(*wire, Recorded(Bytes::copy_from_slice(body))).stream(request).unwrap();
    let origin = Arc::new(Origin { api: WireKind::Gemini.api().to_owned(), model: "p/m".into() });
    read_library(WireKind::Gemini, origin, stream)
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
