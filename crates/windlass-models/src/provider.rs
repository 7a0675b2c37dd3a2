//! A model of a provider: builds the request and opens the stream.
//!
//! It retries nothing and keeps nothing between calls.

pub(super) mod endpoint;
pub(super) mod preset;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use rig_core::catalog::ModelSpec;
use rig_core::completion::history::adapt;
use rig_core::completion::{CompletionRequest, ReplayTarget};
use rig_core::message::{
    AssistantContent, Message as RigMessage, ToolChoice, ToolResultContent, UserContent,
};
use rig_core::providers::anthropic::completion::claude_spec;
use rig_reqwest::ReqwestClient;
use windlass_engine::port::model::{Model, ModelCall, ModelError, ModelEvent, ModelInfo};
use windlass_machine::{FailureClass, ModelName, Origin};

#[cfg(feature = "vertex")]
use super::cloud::Cloud;
use super::config::{Auth, ProviderConfig, Secret, WireKind};
use super::history::{self, History, Target};
use super::settings::{self, Facts};
use super::stream::ReplyStream;
use super::transport::{Endings, Link, LinkOptions, bearer, sensitive};
use super::wire::{LibraryWire, Wire};
use super::{info, schema};
use crate::chat::ChatWire;
#[cfg(feature = "vertex")]
use crate::cloud::vertex::Route;
use crate::provider::endpoint::Endpoint;
use crate::provider::preset::Preset;
use crate::stream::events::EventStream;

/// A model of a provider over HTTP.
pub(super) struct ProviderModel {
    info: ModelInfo,
    kind: WireKind,
    preset: &'static Preset,
    config: ProviderConfig,
    spec: Option<&'static ModelSpec>,
    origin: Arc<Origin>,
    wire: Wire,
    http: ReqwestClient,
    link: Result<Arc<LinkOptions>, ModelError>,
    /// Whether the chat wire carries cache marks to it.
    marked: bool,
}

impl ProviderModel {
    /// Makes the model; talks to nobody. Fails where this build lacks its wire.
    pub(super) fn new(mut endpoint: Endpoint, model: &str, http: ReqwestClient) -> Result<Self, ModelError> {
        let kind = endpoint.kind(model);
        let name = format!("{}/{model}", endpoint.provider);
        let listed = info::find(endpoint.preset.dialect, model);
        let mut spec = listed;
        let link = link_options(&endpoint, kind, model).map(Arc::new);
        let mut wire_name = Cow::Borrowed(model);
        if let Some(cloud) = endpoint.preset.cloud {
            wire_name = cloud.wire_name(model);
            endpoint.base_url = endpoint.base_url.map(|address| cloud.wire_address(kind, &address));
            if kind == WireKind::Anthropic {
                // The price is the cloud's; of its quirks the maker's own row knows more.
                spec = claude_spec(&wire_name).or(listed);
            }
        }
        Ok(Self {
            info: info::describe(&name, kind.api(), listed, endpoint.config.models.get(model)),
            kind,
            preset: endpoint.preset,
            spec,
            origin: Arc::new(Origin { api: kind.api().to_owned(), model: ModelName::new(name) }),
            wire: Wire::new(kind, &endpoint, &wire_name)?,
            http,
            link,
            marked: kind == WireKind::OpenaiChat
                && endpoint.preset.marked.is_some_and(|family| model.starts_with(family)),
            config: endpoint.config,
        })
    }

    fn open(
        &self,
        call: &ModelCall,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        match &self.wire {
            Wire::Chat(wire) => Ok(self.open_chat(wire, call)?.boxed()),
            Wire::Library(wire) => self.open_library(wire, call),
        }
    }

    fn facts(&self, call: &ModelCall) -> Facts<'_> {
        Facts {
            kind: self.kind,
            preset: self.preset,
            spec: self.spec,
            info: &self.info,
            lenient: self.config.lenient,
            tools: !call.tools.is_empty(),
        }
    }

    fn open_chat(&self, wire: &ChatWire, call: &ModelCall) -> Result<EventStream, ModelError> {
        let options = self.link.clone()?;
        let request =
            wire.request(call, &self.origin, &self.facts(call), &self.config.extra_body, self.marked)?;
        let link = Link::new(self.http.clone(), Arc::clone(&options));
        let decoder = Box::new(wire.decoder(Arc::clone(&self.origin)));
        Ok(EventStream::new(link, request, options, decoder))
    }

    fn open_library(
        &self,
        wire: &LibraryWire,
        call: &ModelCall,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        let options = self.link.clone()?;
        let target = wire.target();
        let target = Target {
            kind: self.kind,
            origin: &self.origin,
            library: history::library_origin(target.api(), target.provider(), target.model()),
            nine_letter_ids: self.preset.name == "mistral",
        };
        let history = history::build(call, &target)?;
        let mut request = CompletionRequest::from(Vec::<RigMessage>::new());
        request.model = Some(target.library.model.clone());
        request.tools = schema::tools(call, self.kind)?;
        let tools = !request.tools.is_empty();
        // Said and not left to defaults, because gateways differ in theirs. (SK-L2)
        request.tool_choice = tools.then_some(ToolChoice::Auto);
        settings::apply(&mut request, &call.request.settings, &self.facts(call), &self.config.extra_body)?;
        if cfg!(debug_assertions) {
            check_unrepaired(&history, tools, wire.target());
        }
        request.chat_history = history.messages;
        let link = Link::new(self.http.clone(), Arc::clone(&options));
        let cache = call.request.settings.cache;
        if let Some(decoder) = wire.decoder(&self.origin, self.config.lenient) {
            let request = wire.encode(request, cache)?;
            return Ok(EventStream::new(link, request, options, decoder).boxed());
        }
        let remainder = link.remainder();
        let stream = wire.stream(request, cache, link)?;
        Ok(ReplyStream::new(stream, self.kind, Arc::clone(&self.origin), remainder, options).boxed())
    }
}

impl Model for ProviderModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, call: ModelCall) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        match self.open(&call) {
            Ok(reply) => reply,
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        }
    }
}

/// The library repairs what it does not like without a word; a plain history of ours must not need it.
fn check_unrepaired(history: &History, tools: bool, target: &dyn ReplayTarget) {
    let system = |message: &RigMessage| matches!(message, RigMessage::System { .. });
    let later_system = history.messages.iter().skip_while(|message| system(message)).any(system);
    // Ids are unique within a reply only; across replies the library tells equal ones apart.
    let mut ids = HashSet::new();
    let calls = history.messages.iter().filter_map(|message| match message {
        RigMessage::Assistant(turn) => Some(turn.tool_calls()),
        RigMessage::System { .. } | RigMessage::User { .. } => None,
    });
    let distinct = calls.flatten().all(|call| ids.insert(&call.id));
    if tools && distinct && !later_system && history.messages.iter().all(is_plain) {
        let adapted = adapt(&history.messages, target);
        debug_assert_eq!(adapted, history.messages, "the model library changed a history before sending it");
    }
}

/// Whether a message has nothing that the library may rightly change: another origin's blocks, media that
/// the model does not read, a provider's items that only go in pairs.
fn is_plain(message: &RigMessage) -> bool {
    match message {
        RigMessage::System { .. } => true,
        RigMessage::User { content } => content.iter().all(|part| match part {
            UserContent::Text(_) => true,
            // Some wires have one text for a result: several are joined.
            UserContent::ToolResult(result) => {
                matches!(result.content.as_slice(), [ToolResultContent::Text(_)])
            }
            UserContent::Image(_)
            | UserContent::Audio(_)
            | UserContent::Video(_)
            | UserContent::Document(_) => false,
        }),
        RigMessage::Assistant(turn) => {
            let paired = |block: &AssistantContent| matches!(block, AssistantContent::Opaque(_));
            turn.origin.is_some()
                && !turn.content.iter().any(paired)
                && !matches!(turn.content.last(), Some(AssistantContent::Reasoning(_)))
        }
    }
}

#[cfg_attr(
    not(feature = "vertex"),
    expect(unused_variables, reason = "only a cloud asks what is sent where")
)]
fn link_options(endpoint: &Endpoint, kind: WireKind, model: &str) -> Result<LinkOptions, ModelError> {
    let mut headers = HeaderMap::new();
    let mut removed = Vec::new();
    let key = endpoint.api_key.as_ref().map(Secret::expose);
    let cloud = endpoint.preset.cloud;
    let moved = match (&endpoint.config.auth, key) {
        (Auth::Provider, Some(_)) if cloud.is_none() => None,
        (_, None) => None,
        (Auth::Provider | Auth::Bearer, Some(key)) => {
            Some(bearer(key).ok_or_else(|| bad_header("authorization"))?)
        }
        (Auth::Header(name), Some(key)) => Some(header(name, key)?),
    };
    if let Some((name, value)) = moved {
        removed = vec![
            AUTHORIZATION,
            HeaderName::from_static("x-api-key"),
            HeaderName::from_static("api-key"),
            HeaderName::from_static("x-goog-api-key"),
        ];
        headers.insert(name, value);
    } else if key.is_none() {
        // Without a key the wire would send an empty one.
        removed = vec![
            AUTHORIZATION,
            HeaderName::from_static("x-api-key"),
            HeaderName::from_static("x-goog-api-key"),
        ];
    }
    for (name, value) in &endpoint.config.headers {
        let (name, value) = header(name, value.expose())?;
        headers.insert(name, value);
    }
    Ok(LinkOptions {
        stall_timeout: endpoint.config.stall_timeout,
        headers,
        removed,
        endings: Endings::default(),
        #[cfg(feature = "vertex")]
        route: match cloud {
            Some(Cloud::Vertex) => Some(Route::new(endpoint, kind, model)?),
            Some(Cloud::Bedrock) | None => None,
        },
    })
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), ModelError> {
    let parsed = HeaderName::try_from(name).map_err(|_| bad_header(name))?;
    let value = HeaderValue::from_str(value).map_err(|_| bad_header(name))?;
    Ok((parsed, sensitive(value)))
}

fn bad_header(name: &str) -> ModelError {
    ModelError::new(
        FailureClass::Config,
        format!("header `{name}` has a name or value that HTTP does not take"),
    )
}
