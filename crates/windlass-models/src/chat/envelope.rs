//! The fields of a request beside its messages, and its address and headers.
//!
//! They depend on settings and tools alone, so the model library encodes them once and the bytes are kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http::request::Parts;
use rig_core::completion::CompletionRequest;
use rig_core::driver::Model;
use rig_core::message::{Message, ToolChoice};
use rig_core::providers::openai::wire::Chat;
use serde_json::{Map, Value};
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{FailureClass, ModelSettings, ToolSpec};

use crate::body::Body;
use crate::capture::capture;
use crate::config::WireKind;
use crate::failure;
use crate::schema;
use crate::settings::{self, Facts};

/// Maximum kept envelopes of a model; about one for each agent that uses it.
const KEPT: usize = 32;

/// The envelopes of one model, the last used first.
#[derive(Default)]
pub(crate) struct Envelopes(Mutex<VecDeque<Kept>>);

struct Kept {
    settings: ModelSettings,
    tools: Arc<[ToolSpec]>,
    envelope: Arc<Envelope>,
}

/// A request without its messages.
pub(crate) struct Envelope {
    head: Parts,
    /// The body up to the value of `messages`.
    before: Vec<u8>,
    /// The body from there on.
    after: Vec<u8>,
    /// The model reasons in this call.
    pub thinks: bool,
    /// The request offers tools.
    pub has_tools: bool,
}

impl Envelope {
    /// The request, its messages written by `write`.
    pub(crate) fn fill(
        &self,
        write: impl FnOnce(&mut Body) -> Result<(), ModelError>,
    ) -> Result<Request<Bytes>, ModelError> {
        let mut body = Body::new(&self.before, self.after.len() + 4_096);
        write(&mut body)?;
        body.bytes(&self.after);
        Ok(Request::from_parts(self.head.clone(), body.into()))
    }
}

impl Envelopes {
    /// The envelope of a call.
    pub(crate) fn of(
        &self,
        library: &Chat,
        call: &ModelCall,
        facts: &Facts<'_>,
        extra_body: &Map<String, Value>,
    ) -> Result<Arc<Envelope>, ModelError> {
        if let Some(known) = self.find(call) {
            return Ok(known);
        }
        let envelope = Arc::new(encode(library, call, facts, extra_body)?);
        let mut kept = self.kept();
        kept.truncate(KEPT - 1);
        kept.push_front(Kept {
            settings: call.request.settings.clone(),
            tools: Arc::clone(&call.tools),
            envelope: Arc::clone(&envelope),
        });
        Ok(envelope)
    }

    fn find(&self, call: &ModelCall) -> Option<Arc<Envelope>> {
        let mut kept = self.kept();
        let at = kept.iter().position(|kept| {
            let wanted = &call.request.settings;
            let same_schema = || same_order(kept.settings.output_schema.iter(), wanted.output_schema.iter());
            let same_tools =
                || kept.tools == call.tools && same_order(schemas(&kept.tools), schemas(&call.tools));
            kept.settings == *wanted
                && same_schema()
                && (Arc::ptr_eq(&kept.tools, &call.tools) || same_tools())
        })?;
        let found = kept.remove(at)?;
        let envelope = Arc::clone(&found.envelope);
        kept.push_front(found);
        Some(envelope)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, VecDeque<Kept>> {
        // Each change leaves a valid list.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn schemas(tools: &[ToolSpec]) -> impl Iterator<Item = &Value> {
    tools.iter().map(|tool| &tool.input_schema)
}

/// Whether equal values have their keys in the same order, which equality does not tell: order reaches the model.
fn same_order<'v>(one: impl Iterator<Item = &'v Value>, other: impl Iterator<Item = &'v Value>) -> bool {
    one.map(Value::to_string).eq(other.map(Value::to_string))
}

fn encode(
    library: &Chat,
    call: &ModelCall,
    facts: &Facts<'_>,
    extra_body: &Map<String, Value>,
) -> Result<Envelope, ModelError> {
    let mut request = CompletionRequest::from(vec![Message::user("-")]);
    request.model = Some(library.model.clone());
    request.tools = schema::tools(call, WireKind::OpenaiChat)?;
    // Said and not left to defaults, because gateways differ in theirs. (SK-L2)
    request.tool_choice = facts.tools.then_some(ToolChoice::Auto);
    let thinks = settings::apply(&mut request, &call.request.settings, facts, extra_body)?;
    let captured = capture(|transport| {
        Model::new(library.clone(), transport).stream(request).map_err(|error| failure::typed(&error))
    })?;
    let (head, body) = captured.into_parts();
    let Ok(Value::Object(fields)) = serde_json::from_slice(&body) else {
        return Err(ModelError::new(FailureClass::InvalidRequest, "the request has no JSON form"));
    };
    let declared = |tools: &Value| tools.as_array().is_some_and(|tools| !tools.is_empty());
    let has_tools = facts.tools || fields.get("tools").is_some_and(declared);
    let (mut before, mut after) = (b"{".to_vec(), Vec::new());
    let mut is_before = true;
    for (key, value) in &fields {
        let part = if is_before { &mut before } else { &mut after };
        if part.last().is_none_or(|last| *last != b'{') {
            part.push(b',');
        }
        part.extend(Value::from(key.as_str()).to_string().bytes());
        part.push(b':');
        if key == "messages" {
            is_before = false;
        } else {
            part.extend(value.to_string().bytes());
        }
    }
    after.push(b'}');
    Ok(Envelope { head, before, after, thinks, has_tools })
}
