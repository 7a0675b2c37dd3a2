//! The model library as the oracle of the chat wire: both encode the same history and decode the same bytes.
//!
//! Each intended difference is listed with its reason in the test that encounters it.

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
