//! The wires behind one type.
//!
//! This crate implements each wire except Bedrock's, which the model library implements.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use serde_json::{Map, Value};
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::Origin;

use crate::chat::ChatWire;
use crate::config::WireKind;
use crate::generate::GenerateWire;
use crate::messages::MessagesWire;
use crate::provider::endpoint::Endpoint;
use crate::responses::ResponsesWire;
use crate::settings::Facts;
use crate::stream::decoder::Decoder;

pub(crate) enum Wire {
    Chat(Box<ChatWire>),
    Responses(Box<ResponsesWire>),
    Messages(Box<MessagesWire>),
    Generate(Box<GenerateWire>),
}

impl Wire {
    /// Builds the wire of a model at an endpoint. Returns `None` for Bedrock's, which the AWS SDK sends.
    pub(crate) fn new(kind: WireKind, endpoint: &Endpoint, model: &str) -> Result<Option<Self>, ModelError> {
        Ok(Some(match kind {
            WireKind::OpenaiChat => Self::Chat(Box::new(ChatWire::new(endpoint, model)?)),
            WireKind::OpenaiResponses => Self::Responses(Box::new(ResponsesWire::new(endpoint, model)?)),
            WireKind::Anthropic => Self::Messages(Box::new(MessagesWire::new(endpoint, model)?)),
            WireKind::Gemini => Self::Generate(Box::new(GenerateWire::new(endpoint, model)?)),
            WireKind::Converse => return Ok(None),
        }))
    }

    /// Builds the HTTP request of a call. `marked`: a chat endpoint accepts Anthropic's cache marks.
    pub(crate) fn request(
        &self,
        call: &ModelCall,
        origin: &Origin,
        facts: &Facts<'_>,
        extra_body: &Map<String, Value>,
        marked: bool,
    ) -> Result<Request<Bytes>, ModelError> {
        match self {
            Self::Chat(wire) => wire.request(call, origin, facts, extra_body, marked),
            Self::Responses(wire) => wire.request(call, origin, facts, extra_body),
            Self::Messages(wire) => wire.request(call, origin, facts, extra_body),
            Self::Generate(wire) => wire.request(call, origin, facts, extra_body),
        }
    }

    /// Creates the decoder of a reply.
    pub(crate) fn decoder(&self, origin: Arc<Origin>) -> Box<dyn Decoder> {
        match self {
            Self::Chat(wire) => Box::new(wire.decoder(origin)),
            Self::Responses(wire) => Box::new(wire.decoder(origin)),
            Self::Messages(wire) => Box::new(wire.decoder(origin)),
            Self::Generate(wire) => Box::new(wire.decoder(origin)),
        }
    }
}
