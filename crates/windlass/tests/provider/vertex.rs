//! Vertex: each maker's wire at the project's URL, signed in with the account's token.

use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use windlass::models::{ProviderCatalog, ProviderConfig, Secret};
use windlass::port::model::{ModelCall, ModelError, Models};
use windlass::testing::provider::{LoggedRequest, ProviderServer};
use windlass_machine::{CacheMarks, FailureClass, ModelName, Reasoning, StopReason};

use super::request::sent;
use super::{ALONE, answered, ask, call, model, place, read};

const PROJECT: &str = "/v1/projects/house/locations/europe-west1";

/// Selects the wire by the model's name.
fn by_name(config: &mut ProviderConfig) {
    config.wire = None;
    config.base_url = config.base_url.take().map(|base| base.trim_end_matches("/v1").to_owned());
}

#[tokio::test]
async fn gemini_streams_from_the_projects_address() {
    let request = sent("gem-ok", "vertex/gemini-2.5-flash", by_name, |_| {}).await;
    assert_eq!(
        request.path,
        format!("{PROJECT}/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse")
    );
    assert_eq!(request.header("authorization"), Some("Bearer test-key"));
    assert_eq!(request.header("x-goog-api-key"), None);
    assert_eq!(request.body["contents"][0]["parts"][0]["text"], "What is the weather?");
}

#[tokio::test]
async fn gemini_signatures_go_back_to_vertex() {
    let server = ProviderServer::start().await.unwrap();
    let name = "vertex/gemini-3.8-flash";
    let model = model(&server, "gem-ok", name, by_name);
    let (parts, outcome) = read(&*model, call(name, ask())).await;
    let first = outcome.unwrap();
    assert_eq!((parts.len(), &first.stop), (4, &StopReason::ToolCalls));
    read(&*model, call(name, answered(ask(), &first))).await.1.unwrap();
    let sent = server.requests()[1].text.clone();
    assert!(sent.contains(r#""thoughtSignature":"R1NJRzE=""#), "{sent}");
}

// rows: SK-C11
#[tokio::test]
async fn claude_speaks_its_own_wire_there_with_marks() {
    let settings = |call: &mut ModelCall| call.request.settings.cache = CacheMarks::Hour;
    let request = sent("anth-ok", "vertex/claude-haiku-4-5@20251001", by_name, settings).await;
    assert_eq!(
        request.path,
        format!("{PROJECT}/publishers/anthropic/models/claude-haiku-4-5@20251001:streamRawPredict")
    );
    assert_eq!(request.header("authorization"), Some("Bearer test-key"));
    assert_eq!(request.header("x-api-key"), None);
    assert_eq!(request.header("anthropic-version"), None);
    assert_eq!(request.body["anthropic_version"], "vertex-2023-10-16");
    assert_eq!(request.body["model"], Value::Null);
    assert_eq!(request.body["stream"], true);
    assert_eq!(request.body["max_tokens"], 64_000);
    assert_eq!(request.body["thinking"], json!({"type": "enabled", "budget_tokens": 4096}));
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    assert_eq!(request.body["system"][0]["cache_control"], mark);
    assert_eq!(request.body["tools"][1]["cache_control"], mark);
}

#[tokio::test]
async fn claude_thinks_there_as_it_does_at_home() {
    let thinking = |name: &'static str, reasoning: Reasoning| async move {
        let body =
            sent("anth-ok", name, by_name, |call| call.request.settings.reasoning = reasoning).await.body;
        format!("{} {}", body["thinking"], body["output_config"])
    };
    let (haiku, opus) = ("vertex/claude-haiku-4-5@20251001", "vertex/claude-opus-4-8");
    assert_eq!(
        thinking(haiku, Reasoning::BudgetTokens(2_000)).await,
        r#"{"type":"enabled","budget_tokens":2000} null"#
    );
    assert_eq!(thinking(haiku, Reasoning::Off).await, r#"{"type":"disabled"} null"#);
    assert_eq!(thinking(opus, Reasoning::Auto).await, r#"{"type":"adaptive"} {"effort":"high"}"#);
    assert_eq!(thinking(opus, Reasoning::Off).await, r#"{"type":"disabled"} null"#);
}

#[tokio::test]
async fn other_makers_speak_chat_there() {
    let request = sent("oai-ok", "vertex/meta/llama-3.3-70b-instruct-maas", by_name, |_| {}).await;
    assert_eq!(request.path, format!("{PROJECT}/endpoints/openapi/chat/completions"));
    assert_eq!(request.header("authorization"), Some("Bearer test-key"));
    assert_eq!(request.body["model"], "meta/llama-3.3-70b-instruct-maas");
}

#[tokio::test]
async fn failures_are_typed() {
    let server = ProviderServer::start().await.unwrap();
    for (scenario, name, class) in [
        ("anth-ok-429", "vertex/claude-haiku-4-5@20251001", FailureClass::RateLimited),
        ("gem-ok-401", "vertex/gemini-2.5-flash", FailureClass::Auth),
        ("anth-ok-stall", "vertex/claude-haiku-4-5@20251001", FailureClass::Timeout),
        ("gem-cut", "vertex/gemini-2.5-flash", FailureClass::Truncated),
    ] {
        let model = model(&server, scenario, name, by_name);
        let error = read(&*model, call(name, ask())).await.1.unwrap_err();
        assert_eq!(error.class, class, "{scenario}: {error}");
    }
}

#[test]
fn a_project_is_needed_and_the_list_is_the_clouds_own() {
    let name = ModelName::from("vertex/gemini-2.5-flash");
    let config = || ProviderConfig { api_key: Some(Secret::new("k")), ..ProviderConfig::default() };
    let bare = ProviderCatalog::builder().variables(|_| None).provider("vertex", config()).build().unwrap();
    let Err(error) = bare.resolve(&name) else { panic!("there is no project") };
    assert_eq!(error.message, "provider `vertex` has no project: set GOOGLE_CLOUD_PROJECT");
    let astray =
        |name: &str| Some(if name == "GOOGLE_CLOUD_LOCATION" { "a.test/" } else { "house" }.to_owned());
    let astray = move |name: &str| astray(name).filter(|_| name.starts_with("GOOGLE_CLOUD"));
    let astray = ProviderCatalog::builder().variables(astray).provider("vertex", config()).build().unwrap();
    let Err(error) = astray.resolve(&name) else { panic!("the token would go astray") };
    assert_eq!(
        error.message,
        "GOOGLE_CLOUD_LOCATION=`a.test/` is not a valid location; use a name such as `europe-west1`"
    );

    let catalog = ProviderCatalog::builder().variables(place).provider("vertex", config()).build().unwrap();
    let info = |name: &str| catalog.resolve(&ModelName::from(name)).unwrap().info().clone();
    assert_eq!(info("vertex/gemini-2.5-flash").tool_calls, Some(true));
    assert_eq!(info("vertex/claude-opus-4-8").api, "anthropic");
    assert!(info("vertex/claude-opus-4-8").price.is_some());
    assert!(info("vertex/claude-haiku-4-5@20251001").price.is_some());
}

/// Sends a request without a configured token.
async fn asked() -> (Result<(), ModelError>, Vec<LoggedRequest>) {
    let server = ProviderServer::start().await.unwrap();
    let name = "vertex/gemini-2.5-flash";
    let model = model(&server, "gem-ok", name, |config| {
        by_name(config);
        config.api_key = None;
        config.stall_timeout = Duration::from_secs(60);
    });
    let outcome = read(&*model, call(name, ask())).await.1.map(|_| ());
    (outcome, server.requests())
}

#[test]
fn default_credentials_sign_in_as_for_every_other_program() {
    let home = tempfile::tempdir().unwrap();
    let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let der: Pkcs8V1Der<'_> = key.as_der().unwrap();
    let body = BASE64_STANDARD.encode(der.as_ref());
    let account = json!({
        "type": "service_account", "project_id": "house", "client_email": "agent@house.test",
        "private_key_id": "1", "private_key": format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"),
    });
    let file = home.path().join("account.json");
    std::fs::write(&file, account.to_string()).unwrap();
    let variables = [("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap())];
    super::alone("provider::vertex::with_a_service_account", home.path(), &variables);
}

/// The process of the test above. A service account signs its token itself.
#[tokio::test]
async fn with_a_service_account() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let (outcome, requests) = asked().await;
    outcome.unwrap();
    let token = requests[0].header("authorization").unwrap();
    assert!(token.starts_with("Bearer ey") && token.matches('.').count() == 2, "{token}");
}

#[test]
fn missing_credentials_are_reported() {
    let home = tempfile::tempdir().unwrap();
    super::alone(
        "provider::vertex::without_credentials",
        home.path(),
        &[("GCE_METADATA_HOST", "127.0.0.1:9")],
    );
}

/// The process of the test above.
#[tokio::test]
async fn without_credentials() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let (outcome, requests) = asked().await;
    let error = outcome.unwrap_err();
    // The machine's account was tried last, and its server is unreachable, possibly only for now.
    assert_eq!(error.class, FailureClass::Transient);
    assert!(error.message.starts_with("no Google Cloud credentials: "), "{error}");
    assert!(error.message.contains("\nrun `gcloud auth application-default login`"), "{error}");
    assert_eq!(requests, []);
}
