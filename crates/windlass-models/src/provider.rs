//! A model of a provider: builds the request and opens the stream.
//!
//! The model retries nothing and keeps no state between calls.

pub(super) mod endpoint;
pub(super) mod preset;

use std::borrow::Cow;
use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use windlass_engine::port::model::{Model, ModelCall, ModelError, ModelEvent, ModelInfo};
use windlass_machine::{FailureClass, ModelName, Origin};

#[cfg(any(feature = "vertex", not(feature = "bedrock")))]
use crate::cloud::Cloud;
#[cfg(feature = "bedrock")]
use crate::cloud::bedrock::Converse;
#[cfg(feature = "vertex")]
use crate::cloud::vertex::Route;
use crate::config::{Auth, ProviderConfig, Secret, WireKind};
use crate::info;
use crate::provider::endpoint::Endpoint;
use crate::provider::preset::Preset;
use crate::settings::Facts;
use crate::stream::events::EventStream;
use crate::table::{self, ModelSpec};
use crate::transport::{Endings, Link, LinkOptions, bearer, sensitive};
use crate::wire::Wire;

/// A model of a provider.
pub(super) struct ProviderModel {
    info: ModelInfo,
    kind: WireKind,
    preset: &'static Preset,
    config: ProviderConfig,
    spec: Option<ModelSpec>,
    origin: Arc<Origin>,
    channel: Channel,
    /// Whether requests to this model on the chat wire contain prompt-cache marks.
    marked: bool,
}

/// The transport of requests to the model.
enum Channel {
    /// Over HTTP.
    Http { wire: Wire, http: reqwest::Client, link: Result<Arc<LinkOptions>, ModelError> },
    /// Over the AWS SDK.
    #[cfg(feature = "bedrock")]
    Converse(Box<Converse>),
}

impl ProviderModel {
    /// Creates the model without any request. Fails if this build lacks the model's wire.
    pub(super) fn new(
        mut endpoint: Endpoint,
        model: &str,
        http: reqwest::Client,
    ) -> Result<Self, ModelError> {
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
                // The price comes from the cloud's table row (`listed`). The capabilities come from the maker's row,
                // which lists more of them.
                spec = table::find_claude(&wire_name).or(listed);
            }
        }
        let channel = match Wire::new(kind, &endpoint, &wire_name)? {
            Some(wire) => Channel::Http { wire, http, link },
            None => converse(&endpoint, &wire_name)?,
        };
        Ok(Self {
            info: info::describe(&name, kind.api(), listed, endpoint.config.models.get(model)),
            kind,
            preset: endpoint.preset,
            spec,
            origin: Arc::new(Origin { api: kind.api().to_owned(), model: ModelName::new(name) }),
            channel,
            marked: kind == WireKind::OpenaiChat
                && endpoint.preset.marked.is_some_and(|family| model.starts_with(family)),
            config: endpoint.config,
        })
    }

    fn open(
        &self,
        call: &ModelCall,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        let facts = Facts {
            kind: self.kind,
            preset: self.preset,
            spec: self.spec,
            info: &self.info,
            lenient: self.config.lenient,
            tools: !call.tools.is_empty(),
        };
        let extra_body = &self.config.extra_body;
        match &self.channel {
            Channel::Http { wire, http, link } => {
                let options = link.clone()?;
                let request = wire.request(call, &self.origin, &facts, extra_body, self.marked)?;
                let link = Link::new(http.clone(), Arc::clone(&options));
                let decoder = wire.decoder(Arc::clone(&self.origin));
                Ok(EventStream::new(link, request, options, decoder).boxed())
            }
            #[cfg(feature = "bedrock")]
            Channel::Converse(wire) => Ok(wire.open(call, &self.origin, &facts, extra_body)?.boxed()),
        }
    }
}

#[cfg(feature = "bedrock")]
fn converse(endpoint: &Endpoint, model: &str) -> Result<Channel, ModelError> {
    Ok(Channel::Converse(Box::new(Converse::new(endpoint, model)?)))
}

#[cfg(not(feature = "bedrock"))]
fn converse(_: &Endpoint, _: &str) -> Result<Channel, ModelError> {
    Err(Cloud::Bedrock.left_out())
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
        // Without a key, the wire would send an empty authentication header, so the header is removed.
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
    ModelError::new(FailureClass::Config, format!("header `{name}` has an invalid name or value"))
}
