//! The model library as the oracle of the chat wire: it encodes the same history and reads the same bytes.
//!
//! Where the two differ on purpose, the difference is listed with its reason in the test that meets it.

mod replies;
mod requests;

use crate::chat::ChatWire;
use crate::config::WireKind;
use crate::library::wire::LibraryWire;
use crate::provider::endpoint::Endpoint;

fn endpoint(provider: &str) -> Endpoint {
    Endpoint::sample(provider, WireKind::OpenaiChat)
}

fn wire(endpoint: &Endpoint, model: &str) -> ChatWire {
    ChatWire::new(endpoint, model).unwrap()
}

fn library(endpoint: &Endpoint, model: &str) -> LibraryWire {
    LibraryWire::new(WireKind::OpenaiChat, endpoint, model)
}
