//! Google Vertex AI: the addresses of its models, and the account's sign-in.
//!
//! Models on Vertex use the wires of their makers (Gemini's, Anthropic's, chat completions for the others).
//! Only the URL, the key and one field of Claude's body differ.

use bytes::Bytes;
use google_cloud_auth::credentials::{self, CacheableResource, Credentials};
use http::{Extensions, HeaderMap, Request, Uri};
use tokio::sync::OnceCell;
use windlass_engine::port::model::ModelError;
use windlass_machine::FailureClass;

use crate::config::WireKind;
use crate::provider::endpoint::Endpoint;

/// The URL and the credentials of a model's requests.
pub(crate) struct Route {
    /// The model's URL; `None` for the chat wire, whose body names the model.
    address: Option<Uri>,
    account: Account,
}

/// The account that signs in.
enum Account {
    /// A configured access token.
    Token,
    /// The application's default credentials, which the first call searches for.
    Default(OnceCell<Credentials>),
}

impl Route {
    /// Creates the route of a model. Sends no request.
    pub(crate) fn new(endpoint: &Endpoint, kind: WireKind, model: &str) -> Result<Self, ModelError> {
        let base = endpoint.base_url.as_deref().unwrap_or_default();
        let address = match kind {
            WireKind::Anthropic => {
                Some(format!("{base}/publishers/anthropic/models/{model}:streamRawPredict"))
            }
            WireKind::Gemini => {
                Some(format!("{base}/publishers/google/models/{model}:streamGenerateContent?alt=sse"))
            }
            WireKind::OpenaiChat | WireKind::OpenaiResponses | WireKind::Converse => None,
        };
        let address = address.map(|address| address.parse()).transpose().map_err(|error| {
            let message = format!("model `{model}` does not form a valid Vertex URL: {error}");
            ModelError::new(FailureClass::Config, message)
        })?;
        let account = match &endpoint.api_key {
            Some(_) => Account::Token,
            None => Account::Default(OnceCell::new()),
        };
        Ok(Self { address, account })
    }

    /// Changes a request of the maker's wire to the model's URL, and adds the credentials.
    pub(crate) async fn redirect(&self, request: Request<Bytes>) -> Result<Request<Bytes>, ModelError> {
        let (mut parts, body) = request.into_parts();
        if let Some(address) = &self.address {
            parts.uri = address.clone();
        }
        for (name, value) in &self.account.headers().await? {
            let mut value = value.clone();
            value.set_sensitive(true);
            parts.headers.insert(name, value);
        }
        Ok(Request::from_parts(parts, body))
    }
}

impl Account {
    async fn headers(&self) -> Result<HeaderMap, ModelError> {
        let Self::Default(found) = self else { return Ok(HeaderMap::new()) };
        let search = async || credentials::Builder::default().build();
        let account = found
            .get_or_try_init(search)
            .await
            .map_err(|error| not_signed_in(FailureClass::Auth, &error.to_string()))?;
        match account.headers(Extensions::new()).await {
            Ok(CacheableResource::New { data, .. }) => Ok(data),
            // Google's library returns this only to callers that send an entity tag. Windlass sends none.
            Ok(CacheableResource::NotModified) => Ok(HeaderMap::new()),
            // Without a credentials file, Google's library requests the credentials of the machine's service account
            // from the metadata server, which may be down or absent.
            Err(error) if error.is_transient() => {
                Err(not_signed_in(FailureClass::Transient, &error.to_string()))
            }
            Err(error) => Err(not_signed_in(FailureClass::Auth, &error.to_string())),
        }
    }
}

fn not_signed_in(class: FailureClass, why: &str) -> ModelError {
    let hint = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS or VERTEX_ACCESS_TOKEN";
    ModelError::new(class, format!("no Google Cloud credentials: {why}\n{hint}"))
}
