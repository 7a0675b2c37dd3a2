//! Amazon Bedrock's Converse API over the AWS SDK, which finds credentials, signs requests, and reads the event stream.
//!
//! The library's wire encodes the body and decodes the replies. This module disables the SDK's retries and
//! stream limits (the machine retries), types stalls and broken bodies, and places cache marks.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_bedrockruntime::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_bedrockruntime::config::retry::RetryConfig;
use aws_sdk_bedrockruntime::config::timeout::TimeoutConfig;
use aws_sdk_bedrockruntime::config::{
    BehaviorVersion, ConfigBag, Credentials, Intercept, ProvideCredentials, Region, RuntimeComponents,
    StalledStreamProtectionConfig, Token,
};
use aws_sdk_bedrockruntime::error::BoxError;
use futures::{Stream, StreamExt, stream};
use rig_bedrock::client::BedrockRuntime;
use rig_bedrock::completion::{self, ConverseFrame, ConverseRequest, Family};
use rig_core::completion::options::{FinalBody, RawAt, request_params};
use rig_core::completion::{CacheRetention, CompletionRequest};
use rig_core::driver::{Exchange, Model, Opening, Transport};
use rig_core::error::ProviderError;
use rig_core::http_client::Error as HttpError;
use rig_core::message::Message as RigMessage;
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{CacheMarks, FailureClass, Origin};

use crate::config::{Auth, Secret, WireKind};
use crate::library::stream::ReplyStream;
use crate::library::{self, failure};
use crate::provider::endpoint::{CONNECT_TIMEOUT, Endpoint};
use crate::settings::Facts;
use crate::transport::{LinkError, root_cause};

/// The location of additional fields: the wire merges fields that have no setting into this object.
const MODEL_FIELDS: &str = "/additionalModelRequestFields";

/// One model on Bedrock.
#[derive(Clone)]
pub(crate) struct Converse {
    wire: completion::Converse,
    account: Arc<Account>,
    marks: CacheMarks,
}

/// The SDK's client, created with the first call, because it searches files and the network for credentials.
struct Account {
    settings: Settings,
    client: OnceCell<BedrockRuntime>,
}

/// The configured settings; the SDK reads the rest from its files and variables.
struct Settings {
    address: Option<String>,
    region: Option<String>,
    token: Option<Secret>,
    keys: Option<Credentials>,
    headers: Vec<(String, Secret)>,
    stall_timeout: Duration,
}

impl Converse {
    /// Creates the model without any request.
    pub(crate) fn new(endpoint: &Endpoint, model: &str) -> Result<Self, ModelError> {
        let config = &endpoint.config;
        if let Auth::Header(name) = &config.auth {
            let message =
                format!("Bedrock does not support a key in a custom header; remove `{name}` from `auth`");
            return Err(ModelError::new(FailureClass::Config, message));
        }
        let variable = |name: &str| (endpoint.lookup)(name);
        let keys =
            variable("AWS_ACCESS_KEY_ID").zip(variable("AWS_SECRET_ACCESS_KEY")).map(|(id, secret)| {
                let session = variable("AWS_SESSION_TOKEN");
                Credentials::new(id, secret, session, None, "environment")
            });
        let settings = Settings {
            address: endpoint.base_url.clone(),
            region: variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")),
            token: endpoint.api_key.clone(),
            keys,
            headers: config.headers.clone(),
            stall_timeout: config.stall_timeout,
        };
        Ok(Self {
            wire: completion::Converse::new(model),
            account: Arc::new(Account { settings, client: OnceCell::new() }),
            marks: CacheMarks::Off,
        })
    }

    /// Opens a streamed reply. The request is sent when the stream is first polled.
    pub(crate) fn open(
        &self,
        call: &ModelCall,
        origin: &Arc<Origin>,
        facts: &Facts<'_>,
        extra_body: &Map<String, Value>,
    ) -> Result<ReplyStream, ModelError> {
        let request = library::request(call, &self.wire, origin, facts, extra_body)?;
        let transport = Self { marks: call.request.settings.cache, ..self.clone() };
        let opened = Model::new(self.wire.clone(), transport).stream(request);
        let stream = opened.map_err(|error| failure::typed(&error))?;
        Ok(ReplyStream::new(stream, WireKind::Converse, Arc::clone(origin)))
    }

    /// Places cache marks after the instructions and after the tools. Only known models accept marks; others
    /// reject the call. The library's option would mark the last message, which changes with every step,
    /// instead of the tools. (SK-C11)
    fn marked(&self, request: ConverseRequest) -> ConverseRequest {
        let body = mark(&request.model, self.marks).and_then(|mark| self.with_marks(&request.body, mark));
        match body {
            Some(body) => ConverseRequest { body, ..request },
            None => request,
        }
    }

    #[expect(clippy::result_large_err, reason = "the error is the library's")]
    fn with_marks(&self, body: &FinalBody, mark: Value) -> Option<FinalBody> {
        let Ok(Value::Object(mut body)) = serde_json::to_value(body) else { return None };
        let tools = body.get_mut("toolConfig").and_then(|config| config.get_mut("tools"));
        if let Some(Value::Array(tools)) = tools {
            tools.push(mark.clone());
        }
        if let Some(Value::Array(system)) = body.get_mut("system") {
            system.push(mark);
        }
        // Only the library can create a request. Start with an empty one and replace its body.
        let empty = CompletionRequest::from(Vec::<RigMessage>::new());
        request_params(&self.wire, &empty, |_| Ok(body), RawAt::Under(MODEL_FIELDS), &[]).ok()
    }
}

impl Transport<completion::Converse> for Converse {
    fn send(&self, payload: ConverseRequest, exchange: Exchange) -> Opening<ConverseFrame> {
        let this = self.clone();
        Opening::new(async move {
            let stall = this.account.settings.stall_timeout;
            let opening = async {
                let client = this.account.client().await.map_err(unready)?;
                let request = this.marked(payload);
                Transport::<completion::Converse>::send(&client, request, exchange).await
            };
            match timeout(stall, opening).await {
                Ok(opened) => Ok(opened?.map_frames(|frames| watched(frames, stall))),
                Err(_) => Err(link(LinkError::Stalled(stall))),
            }
        })
    }
}

impl Account {
    async fn client(&self) -> Result<BedrockRuntime, ModelError> {
        self.client.get_or_try_init(|| self.settings.connect()).await.cloned()
    }
}

impl Settings {
    /// Finds the region and the credentials. The error names the missing setting.
    async fn connect(&self) -> Result<BedrockRuntime, ModelError> {
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .retry_config(RetryConfig::disabled())
            // A model may think longer than the SDK's limit for a download.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).build());
        if let Some(region) = &self.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(address) = &self.address {
            loader = loader.endpoint_url(address);
        }
        loader = match (&self.token, &self.keys) {
            (Some(_), _) => loader.no_credentials(),
            (None, Some(keys)) => loader.credentials_provider(keys.clone()),
            (None, None) => loader,
        };
        let shared = loader.load().await;
        if shared.region().is_none() {
            let message = "no AWS region: set AWS_REGION, or `region` in the profile";
            return Err(ModelError::new(FailureClass::Config, message));
        }
        let mut config = aws_sdk_bedrockruntime::config::Builder::from(&shared);
        match &self.token {
            Some(token) => config = config.bearer_token(Token::new(token.expose(), None)),
            None => signed_in(&shared).await?,
        }
        if !self.headers.is_empty() {
            config = config.interceptor(Headers(self.headers.clone()));
        }
        Ok(aws_sdk_bedrockruntime::Client::from_conf(config.build()).into())
    }
}

/// Returns an error if the SDK finds no credentials: a request without them fails with an unclear message.
async fn signed_in(shared: &aws_config::SdkConfig) -> Result<(), ModelError> {
    let found = match shared.credentials_provider() {
        Some(provider) => provider.provide_credentials().await.map_err(|error| root_cause(&error)),
        None => Err("none are configured".to_owned()),
    };
    let message = |why: String| {
        format!(
            "no AWS credentials: {why}\nset AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    };
    found.map(|_| ()).map_err(|why| ModelError::new(FailureClass::Auth, message(why)))
}

/// Returns the cache mark for a model; `None` if the model accepts none.
fn mark(model: &str, marks: CacheMarks) -> Option<Value> {
    let takes = |retention: CacheRetention| {
        Family::of(model) == Family::Claude
            && completion::spec(model).is_some_and(|spec| spec.caching.retention.contains(&retention))
    };
    let hour = || json!({"cachePoint": {"type": "default", "ttl": "1h"}});
    let short = || json!({"cachePoint": {"type": "default"}});
    match marks {
        CacheMarks::Hour if takes(CacheRetention::Long) => Some(hour()),
        CacheMarks::Hour | CacheMarks::Short if takes(CacheRetention::Short) => Some(short()),
        CacheMarks::Off | CacheMarks::Short | CacheMarks::Hour => None,
    }
}

/// Wraps the frames of a reply. The stream fails if no frame arrives
/// within the limit, or if the body ends early.
fn watched<S>(frames: S, stall: Duration) -> impl Stream<Item = Result<ConverseFrame, ProviderError>> + Send
where
    S: Stream<Item = Result<ConverseFrame, ProviderError>> + Send + Unpin,
{
    stream::unfold(Some((frames, Begun::No)), move |state| async move {
        let (mut frames, begun) = state?;
        match timeout(stall, frames.next()).await {
            Err(_) => Some((Err(link(LinkError::Stalled(stall))), None)),
            Ok(None) => None,
            Ok(Some(Ok(frame))) => Some((Ok(frame), Some((frames, Begun::Yes)))),
            Ok(Some(Err(ProviderError::Http(error)))) if matches!(begun, Begun::Yes) => {
                tracing::debug!(cause = %root_cause(error.as_ref()), "the connection was lost during a reply");
                Some((Err(link(LinkError::Cut)), None))
            }
            Ok(Some(Err(error))) => Some((Err(error), None)),
        }
    })
}

/// Whether a reply has begun.
enum Begun {
    No,
    Yes,
}

fn unready(error: ModelError) -> ProviderError {
    link(LinkError::Unready(Box::new(error)))
}

fn link(error: LinkError) -> ProviderError {
    ProviderError::Http(HttpError::instance(error).into())
}

/// Sets the configured headers before the request is signed.
#[derive(Clone)]
struct Headers(Vec<(String, Secret)>);

impl std::fmt::Debug for Headers {
    /// Prints the names only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Intercept for Headers {
    fn name(&self) -> &'static str {
        "windlass::Headers"
    }

    fn modify_before_signing(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _runtime_components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let headers = context.request_mut().headers_mut();
        for (name, value) in &self.0 {
            headers.try_insert(name.to_ascii_lowercase(), value.expose().to_owned())?;
        }
        Ok(())
    }
}
