//! One call of a service, from the model's arguments to the result.
//!
//! The call is validated completely before it is authenticated. No request is sent twice.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;
use windlass_engine::port::tool::{CallContext, ToolOutput};
use windlass_engine::tool::key_of;
use windlass_outbound::{HopCheck, Limits, OutboundError, Redirects, Request, Response, Sent, Url};

use super::auth::{AuthCall, Signed, sign};
use super::headers::{Said, sanitised};
use super::method::METHODS;
use super::openapi;
use super::path::{Path, normal};
use super::service::Ready;
use super::{ApiCall, ApiObserver, ApiRequest, ApiResponse, Arguments, BodyEncoding, answer};
use crate::charset::media_type;

/// The result of a call that was cancelled before any byte was sent.
const CANCELLED: &str = "the call was cancelled";

/// A validated call.
struct Checked<'a> {
    service: &'a Ready,
    method: Method,
    path: Path,
    url: Url,
    said: Said,
    body: Option<Bytes>,
}

impl ApiCall {
    /// Makes a call. An error means that the outcome of the call is unknown.
    pub(super) async fn carry_out(
        &self,
        context: &CallContext,
        arguments: Arguments,
    ) -> Result<ToolOutput, String> {
        let checked = match self.check(arguments) {
            Ok(checked) => checked,
            Err(why) => return Ok(ToolOutput::error(why)),
        };
        let call = AuthCall {
            service: &checked.service.definition.name,
            method: checked.method.as_str(),
            path: &checked.path.path,
            body: checked.body.as_deref().unwrap_or_default(),
        };
        let resolver = self.api.resolve_auth.as_deref();
        let signed = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Ok(ToolOutput::error(CANCELLED)),
            signed = sign(&checked.service.definition.auth, &*self.api.secrets, resolver, &call) => signed,
        };
        let Signed { headers, mask } = match signed {
            Ok(signed) => signed,
            Err(why) => return Ok(ToolOutput::error(why)),
        };
        let changes = !checked.method.is_safe();
        if context.cancel.is_cancelled() {
            return Ok(ToolOutput::error(CANCELLED));
        }
        let service = &checked.service.definition.name;
        let left_out = checked.said.left_out.clone();
        let sending = self.send(context, checked, headers);
        let sent = match changes {
            // The request may have been sent and may have an effect, so the grace period of the cancelled
            // call is used to learn the outcome.
            true => sending.await,
            false => tokio::select! {
                biased;
                () = context.cancel.cancelled() => return Ok(ToolOutput::error(CANCELLED)),
                sent = sending => sent,
            },
        };
        match sent {
            Ok(response) if changes && leaves_open(&response) => {
                let status = response.status;
                Err(format!(
                    "`{service}` returned status {status}: it is unknown whether the request took effect"
                ))
            }
            Ok(response) => Ok(answer::show(response, &left_out, &mask)),
            Err(error) => {
                let why = mask.text(&error.to_string());
                match error.sent() {
                    Sent::Perhaps if changes => Err(why),
                    Sent::Perhaps | Sent::Nothing => Ok(ToolOutput::error(why)),
                }
            }
        }
    }

    /// Validates the arguments. The model reads the error.
    fn check(&self, arguments: Arguments) -> Result<Checked<'_>, String> {
        let Arguments { service, method, path, headers, body, body_encoding } = arguments;
        let names = || {
            let names: Vec<&str> = self.services.iter().map(|known| known.definition.name.as_str()).collect();
            names.join(", ")
        };
        let service = self
            .find(&service)
            .ok_or_else(|| format!("unknown service `{service}`; available: {}", names()))?;
        let known = METHODS.into_iter().find(|known| known.as_str() == method);
        let method = known.filter(|known| service.methods.contains(known)).ok_or_else(|| {
            let methods: Vec<&str> = service.methods.iter().map(Method::as_str).collect();
            format!(
                "`{}` does not allow the method `{method}`; allowed: {}",
                service.definition.name,
                methods.join(", ")
            )
        })?;
        let asked = path;
        let path = normal(&asked)?;
        // The gate evaluated the arguments as written, so the request is
        // sent only if they are in the canonical form.
        let form = path.form();
        if form != asked {
            return Err(format!("write the path as `{form}`: policy rules match it exactly as written"));
        }
        if !service.allows_path(&path.path) {
            let allowed = service.definition.allowed_paths.join(" or ");
            return Err(format!("the path `{}` is not allowed; it must match {allowed}", path.path));
        }
        let url = address(service, &path)?;
        let mut said = sanitised(&headers, &service.own)?;
        let bytes = encode(service, &method, body.as_ref(), body_encoding)?;
        if bytes.is_some() && !said.headers.contains_key(CONTENT_TYPE) {
            let usual = match body_encoding {
                BodyEncoding::Json => "application/json",
                BodyEncoding::Raw => "text/plain",
            };
            said.headers.insert(CONTENT_TYPE, HeaderValue::from_static(usual));
        }
        for (name, value) in &service.headers {
            said.headers.insert(name.clone(), value.clone());
        }
        if let Some(document) = &service.document {
            let kind = said.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(media_type);
            let names: Vec<&str> = said
                .headers
                .keys()
                .map(HeaderName::as_str)
                .chain(service.own.iter().map(HeaderName::as_str))
                .collect();
            document.check(&openapi::Asked {
                method: &method,
                path: &path.path,
                query: path.query.as_deref(),
                headers: &names,
                media_type: kind.as_deref(),
                body: body.as_ref(),
                raw: body_encoding == BodyEncoding::Raw,
            })?;
        }
        Ok(Checked { service, method, path, url, said, body: bytes })
    }

    async fn send(
        &self,
        context: &CallContext,
        checked: Checked<'_>,
        credentials: HeaderMap,
    ) -> Result<Response, OutboundError> {
        let Checked { service, method, path, url, said, body } = checked;
        let mut headers = said.headers;
        if !method.is_safe()
            && let Ok(key) = HeaderValue::try_from(key_of(&context.effect_id))
        {
            headers.insert("idempotency-key", key);
        }
        let request =
            ApiRequest { service: &service.definition.name, method: method.as_str(), path: &path.path };
        let limits = Limits {
            within: Duration::from_millis(service.definition.timeout_ms),
            max_bytes: service.definition.max_response_bytes,
        };
        let redirects = if method.is_safe() { within(service) } else { Redirects::Stay };
        let named_port = service.base.port();
        self.tell(|observer| observer.on_request(&request));
        let begun = self.clock.monotonic_ms();
        let sent = Request {
            method: method.clone(),
            url,
            headers,
            credentials,
            body,
            limits,
            redirects,
            named_port,
        };
        let answered = self.outbound.send(sent).await;
        let told = ApiResponse {
            request,
            status: answered.as_ref().ok().map(|response| response.status.as_u16()),
            latency_ms: self.clock.monotonic_ms().saturating_sub(begun),
            bytes_in: answered.as_ref().map_or(0, |response| response.body.bytes_in),
        };
        self.tell(|observer| observer.on_response(&told));
        tracing::debug!(
            service = request.service,
            method = request.method,
            path = request.path,
            status = told.status,
            latency_ms = told.latency_ms,
            "called an API"
        );
        answered
    }

    /// Notifies the observer. A panic in the observer must not fail the call.
    fn tell(&self, tell: impl FnOnce(&dyn ApiObserver)) {
        if let Some(observer) = &self.api.observer
            && catch_unwind(AssertUnwindSafe(|| tell(&**observer))).is_err()
        {
            tracing::warn!("the observer of API calls panicked");
        }
    }
}

/// Whether a response leaves the outcome unknown: a gateway or the service timed out. A response that asks
/// for a later retry means that the service did not execute the request. (RFC 9110, sections 15.5.9 and 15.6)
fn leaves_open(response: &Response) -> bool {
    match response.status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => true,
        StatusCode::SERVICE_UNAVAILABLE => !response.headers.contains_key(RETRY_AFTER),
        _ => false, // tidy: not our enum
    }
}

/// Returns the URL of a path. The parsed URL must be identical to the text that the gate evaluated.
fn address(service: &Ready, path: &Path) -> Result<Url, String> {
    let whole = format!("{}{}", service.base.path().trim_end_matches('/'), path.path);
    let mut url = service.base.clone();
    url.set_path(&whole);
    url.set_query(path.query.as_deref());
    if url.path() != whole || url.query() != path.query.as_deref() || url.origin() != service.base.origin() {
        return Err(format!("the path `{}` cannot be sent as written", path.path));
    }
    Ok(url)
}

/// Allows redirects to permitted paths of the same service. Only reads follow redirects.
fn within(service: &Ready) -> Redirects {
    let (origin, base) = (service.base.origin(), service.base.path().trim_end_matches('/').to_owned());
    let paths = service.paths.clone();
    let check = move |_: &Url, to: &Url| {
        let Some(path) = to.path().strip_prefix(&base).filter(|_| to.origin() == origin) else {
            return false;
        };
        normal(path)
            .is_ok_and(|path| paths.is_empty() || paths.iter().any(|known| known.is_match(&path.path)))
    };
    let check: Arc<HopCheck> = Arc::new(check);
    Redirects::Follow(check)
}

/// Encodes a body. (LM-I10)
fn encode(
    service: &Ready,
    method: &Method,
    body: Option<&Value>,
    encoding: BodyEncoding,
) -> Result<Option<Bytes>, String> {
    let Some(body) = body else { return Ok(None) };
    if method.is_safe() {
        return Err(format!("`{method}` requests cannot have a body"));
    }
    let bytes = match (encoding, body) {
        (BodyEncoding::Raw, Value::String(text)) => text.clone().into_bytes(),
        (BodyEncoding::Raw, _) => {
            return Err(
                "ERR_API_RAW_BODY_NOT_STRING: `body` must be a string if `bodyEncoding` is `raw`".to_owned()
            );
        }
        (BodyEncoding::Json, body) => body.to_string().into_bytes(),
    };
    let most = service.definition.max_body_bytes;
    if bytes.len() > most {
        return Err(format!(
            "the body has {} bytes; `{}` accepts at most {most}",
            bytes.len(),
            service.definition.name
        ));
    }
    Ok(Some(Bytes::from(bytes)))
}
