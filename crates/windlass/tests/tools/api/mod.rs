//! `ApiCall` as the driver calls it, against a system that echoes the request.

mod echo;
mod openapi;
mod request;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass::clock::SystemClock;
use windlass::port::tool::{Tool, ToolOutcome, ToolOutput};
use windlass::secret::Secret;
use windlass::tool::api::{
    Api, ApiCall, ApiObserver, ApiRequest, ApiResponse, AuthCall, ResolveAuth, Service,
};

use super::{context, show};
use crate::outbound::{Far, Reply, inside, way};

const TOKEN: &str = "sk-SENTINEL/9+x=";

/// The tool for these services, whose hosts are internal.
pub fn tool(services: Vec<Service>) -> Arc<ApiCall> {
    let env = [("t", TOKEN), ("u", "ann"), ("p", "pass-SENTINEL")];
    let env: BTreeMap<_, _> = env.map(|(name, value)| (name.to_owned(), Secret::new(value))).into();
    of(Api::new(services, env))
}

fn of(api: Api) -> Arc<ApiCall> {
    let outbound = way(inside(&["127.0.0.1"]), &[]);
    Arc::new(ApiCall::new(api, outbound, Arc::new(SystemClock::new())).unwrap().unwrap())
}

pub fn service(json: Value) -> Service {
    serde_json::from_value(json).unwrap()
}

/// Calls it as the driver does: arguments that violate its schema are rejected before.
async fn call(tool: &Arc<ApiCall>, arguments: Value) -> Result<ToolOutput, String> {
    let registry = windlass::registry().add(tool.clone()).unwrap();
    if let Err(problem) = registry.check_arguments("ApiCall", &arguments) {
        return Ok(ToolOutput::error(problem));
    }
    let outcome = tool.call(context(None, CancellationToken::new()), arguments).await;
    match outcome {
        ToolOutcome::Done(output) => Ok(output),
        ToolOutcome::Unknown { reason } => Err(reason),
        other => panic!("{other:?}"),
    }
}

/// The same, as text.
pub async fn said(tool: &Arc<ApiCall>, arguments: Value) -> String {
    call(tool, arguments).await.map_or_else(|why| format!("lost: {why}"), |output| show(&output))
}

/// A system that echoes the request, with the authentication header.
pub async fn mirror() -> Far {
    Far::start(|asked| {
        let who = asked.header("authorization").or(asked.header("x-key")).unwrap_or("nobody");
        let kind = asked.header("content-type").unwrap_or("-");
        let key = if asked.header("idempotency-key").is_some() { " keyed" } else { "" };
        let masked = if who == "nobody" { "nobody" } else { "somebody" };
        Reply::ok("text/plain", format!("{} by {masked} {kind}{key}: {}", asked.line(), asked.body))
    })
    .await
}

/// Records all notifications.
#[derive(Default)]
struct Noted(Mutex<Vec<String>>);

impl ApiObserver for Noted {
    fn on_request(&self, request: &ApiRequest<'_>) {
        self.0.lock().unwrap().push(format!("{request:?}"));
    }
    fn on_response(&self, response: &ApiResponse<'_>) {
        let ApiResponse { request, status, bytes_in, .. } = response;
        self.0.lock().unwrap().push(format!("{} {status:?} {bytes_in}", request.path));
    }
}

/// Signs with the call's data.
struct Signer;

#[async_trait]
impl ResolveAuth for Signer {
    async fn resolve(&self, id: &str, call: &AuthCall<'_>) -> Result<Vec<(String, Secret)>, String> {
        if id != "hmac" {
            return Err(format!("the scheme `{id}` is not known"));
        }
        let AuthCall { service, method, path, body } = call;
        let signature = format!("{service}|{method}|{path}|{}|SENTINEL", body.len());
        Ok(vec![("Authorization".to_owned(), Secret::new(signature))])
    }
}

/// The error for a definition.
pub fn described(definition: Value) -> String {
    let api = Api::new(vec![service(definition)], BTreeMap::new());
    let made = ApiCall::new(api, way(inside(&["127.0.0.1"]), &[]), Arc::new(SystemClock::new()));
    made.err().map_or("taken".to_owned(), |error| error.to_string())
}
