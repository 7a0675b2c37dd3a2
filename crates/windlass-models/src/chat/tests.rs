//! The model library as the oracle of the chat wire: it encodes the same history and reads the same bytes.
//!
//! Where the two differ on purpose, the difference is listed with its reason in the test that meets it.

#[cfg(feature = "testing")]
mod replies;
mod requests;

use std::sync::Arc;

use rig_core::providers::openai::wire::Chat;
use windlass_machine::Origin;

use crate::chat::ChatWire;
use crate::config::WireKind;
use crate::provider::endpoint::Endpoint;
use crate::wire::Wire;

fn endpoint(provider: &str) -> Endpoint {
    Endpoint::sample(provider, WireKind::OpenaiChat)
}

fn wire(endpoint: &Endpoint, model: &str) -> Box<ChatWire> {
    match Wire::new(WireKind::OpenaiChat, endpoint, model).unwrap() {
        Wire::Chat(wire) => wire,
        Wire::Library(_) => panic!("chat completions are Windlass's own wire"),
    }
}

fn library(wire: &ChatWire) -> Chat {
    wire.library.clone()
}

fn origin() -> Arc<Origin> {
    Arc::new(Origin { api: WireKind::OpenaiChat.api().to_owned(), model: "p/m".into() })
}
