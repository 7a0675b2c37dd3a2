//! The fields of a request other than its messages, with its URL and headers.
//!
//! The fields depend only on settings and tools, so they are encoded once and cached.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Uri};
use serde_json::{Map, Value};
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{FailureClass, ModelSettings, ToolSpec};

use crate::body::Body;
use crate::transport::sensitive;

/// Maximum number of cached envelopes per model. Each agent that uses the model needs about one.
const KEPT: usize = 32;

/// The envelopes of one model, most recently used first.
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
    /// The body up to the value of the messages.
    before: Vec<u8>,
    /// The body after the value of the messages.
    after: Vec<u8>,
    /// The wire's decision about reasoning. On the chat wire: whether reasoning is on. On the messages wire:
    /// whether reasoning is sent back.
    pub reasoning: bool,
    /// Whether the request offers tools.
    pub has_tools: bool,
}

impl Envelope {
    /// Creates the envelope of a body. The field `slot` marks the position of the messages.
    pub(crate) fn new(head: Parts, fields: &Map<String, Value>, slot: &str, reasoning: bool) -> Self {
        let declared = |tools: &Value| tools.as_array().is_some_and(|tools| !tools.is_empty());
        let has_tools = fields.get("tools").is_some_and(declared);
        let (mut before, mut after) = (b"{".to_vec(), Vec::new());
        let mut is_before = true;
        for (key, value) in fields {
            let part = if is_before { &mut before } else { &mut after };
            if part.last().is_none_or(|last| *last != b'{') {
                part.push(b',');
            }
            part.extend(Value::from(key.as_str()).to_string().bytes());
            part.push(b':');
            if key == slot {
                is_before = false;
            } else {
                part.extend(value.to_string().bytes());
            }
        }
        after.push(b'}');
        Self { head, before, after, reasoning, has_tools }
    }

    /// Creates the request, with messages written by `write`.
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
    /// Returns the envelope of a call: a cached one, or a new one that `encode` creates.
    pub(crate) fn of(
        &self,
        call: &ModelCall,
        encode: impl FnOnce() -> Result<Envelope, ModelError>,
    ) -> Result<Arc<Envelope>, ModelError> {
        if let Some(known) = self.find(call) {
            return Ok(known);
        }
        let envelope = Arc::new(encode()?);
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

    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        // A panic cannot leave the list invalid: each change is complete in itself.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Builds the URL and the headers of a request. Header values are not logged, because one of them is the key.
pub(crate) fn head(address: &str, headers: &[(&'static str, &str)]) -> Result<Parts, ModelError> {
    let uri: Uri = address
        .parse()
        .map_err(|error| ModelError::new(FailureClass::Config, format!("the URL is not valid: {error}")))?;
    let (mut head, ()) = Request::post(uri).body(()).unwrap_or_default().into_parts();
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    head.headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).map_err(|_| {
            let text = format!("header `{name}` has an invalid name or value");
            ModelError::new(FailureClass::Config, text)
        })?;
        head.headers.insert(HeaderName::from_static(name), sensitive(value));
    }
    Ok(head)
}

/// Adds the configuration's tools to those of the call.
pub(crate) fn with_tools(
    mut tools: Vec<Value>,
    extra_body: &mut Map<String, Value>,
) -> Result<Vec<Value>, ModelError> {
    match extra_body.shift_remove("tools") {
        None | Some(Value::Null) => {}
        Some(Value::Array(more)) => tools.extend(more),
        Some(_) => {
            let text = "`tools` in the configured `extra_body` is not a list";
            return Err(ModelError::new(FailureClass::Config, text));
        }
    }
    Ok(tools)
}

fn schemas(tools: &[ToolSpec]) -> impl Iterator<Item = &Value> {
    tools.iter().map(|tool| &tool.input_schema)
}

/// Whether equal values have their keys in the same order. Equality
/// ignores this order, but the model receives it.
fn same_order<'v>(one: impl Iterator<Item = &'v Value>, other: impl Iterator<Item = &'v Value>) -> bool {
    one.map(Value::to_string).eq(other.map(Value::to_string))
}
