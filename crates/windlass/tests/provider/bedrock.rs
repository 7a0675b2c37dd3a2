//! Bedrock over the AWS SDK: the signed request, the binary event stream, failures.

use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use windlass::models::{Auth, ProviderCatalog, ProviderConfig, Secret, WireKind};
use windlass::port::model::{ModelCall, ModelError, Models};
use windlass::testing::provider::{LoggedRequest, ProviderServer};
use windlass_machine::{CacheMarks, Effort, FailureClass, ModelName, Reasoning};

use super::request::sent;
use super::{ALONE, answered, ask, call, config, model, name_of, place, read, transcript};

const CLAUDE: &str = "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0";

/// The body of a request to a model, without the parts common to all.
async fn body(name: &str, edit: impl FnOnce(&mut ModelCall)) -> Value {
    sent("br-ok", name, |_| {}, edit).await.body
}

/// How a scenario failed.
async fn failure(scenario: &str) -> String {
    let shown = tokio::time::timeout(Duration::from_secs(10), transcript(scenario)).await;
    shown.unwrap_or_else(|_| panic!("{scenario} hangs")).lines().last().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_reply_streams_from_binary_frames() {
    insta::assert_snapshot!(transcript("br-tools").await, @r#"
        ~ 0 reasoning: Hm, weather.
        ~ 1 text: I will look.
        ~ 2 call: get_weather {"city": "Rome"}
        ~ 3 call: get_time {}
        reasoning "Hm, weather." + {"reasoningContent":{"reasoningText":{"text":null,"signature":"SIG-BR"}}}
        text "I will look."
        call "tooluse_A get_weather {\"city\": \"Rome\"}"
        call "tooluse_B get_time {}"
        stop ToolCalls, in 1020 (cached 900, written 100), out 7 (reasoning -), by -
    "#);
    insta::assert_snapshot!(transcript("br-maxtok").await, @r#"
        ~ 0 text: x
        ~ 1 call: get_weather {"city":"Pa
        text "x"
        stop MaxTokens, in 1020 (cached 900, written 100), out 7 (reasoning -), by -
    "#);
    insta::assert_snapshot!(transcript("br-stopseq").await, @r#"
        ~ 0 text: Par
        text "Par"
        stop StopSequence, in 1020 (cached 900, written 100), out 7 (reasoning -), by -
    "#);
    insta::assert_snapshot!(transcript("br-guardrail").await, @r#"
        ~ 0 text: No.
        text "No."
        stop Refusal, in 1020 (cached 900, written 100), out 7 (reasoning -), by -
    "#);
}

#[tokio::test]
async fn items_go_back_as_they_came() {
    let server = ProviderServer::start().await.unwrap();
    let model = model(&server, "br-tools", CLAUDE, |_| {});
    let first = read(&*model, call(CLAUDE, ask())).await.1.unwrap();
    read(&*model, call(CLAUDE, answered(ask(), &first))).await.1.unwrap();
    let messages = server.requests()[1].body["messages"].clone();
    let shown: Vec<String> = messages.as_array().unwrap().iter().map(Value::to_string).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
        {"role":"user","content":[{"text":"What is the weather?"}]}
        {"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"Hm, weather.","signature":"SIG-BR"}}},{"text":"I will look."},{"toolUse":{"toolUseId":"tooluse_A","name":"get_weather","input":{"city":"Rome"}}},{"toolUse":{"toolUseId":"tooluse_B","name":"get_time","input":{}}}]}
        {"role":"user","content":[{"toolResult":{"toolUseId":"tooluse_A","content":[{"text":"ok"}]}},{"toolResult":{"toolUseId":"tooluse_B","content":[{"text":"ok"}]}}]}
    "#);
}

#[tokio::test]
async fn a_request_says_what_converse_takes() {
    let thinking = |call: &mut ModelCall| {
        call.request.settings.reasoning = Reasoning::Effort(Effort::Low);
        call.request.settings.max_output_tokens = Some(4_000);
        call.request.tail = vec!["It is noon.".to_owned()];
    };
    let extra = |config: &mut ProviderConfig| {
        config.extra_body.insert("top_k".to_owned(), json!(5));
        config.headers.push(("X-Team".to_owned(), Secret::new("red")));
    };
    let request = sent("br-ok", CLAUDE, extra, thinking).await;
    assert_eq!(request.path, "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream");
    assert_eq!(request.header("x-team"), Some("red"));
    insta::assert_snapshot!(request.body, @r#"{"system":[{"text":"Be brief."},{"cachePoint":{"type":"default"}}],"inferenceConfig":{"maxTokens":4000},"toolConfig":{"tools":[{"toolSpec":{"name":"get_weather","description":"the get_weather tool","inputSchema":{"json":{"type":"object","properties":{"city":{"type":"string"}}}}}},{"toolSpec":{"name":"get_time","description":"the get_time tool","inputSchema":{"json":{"type":"object","properties":{"city":{"type":"string"}}}}}},{"cachePoint":{"type":"default"}}],"toolChoice":{"auto":{}}},"messages":[{"role":"user","content":[{"text":"What is the weather?"},{"text":"It is noon."}]}],"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":1024},"top_k":5}}"#);
}

// rows: SK-C11
#[tokio::test]
async fn claude_is_marked_after_instructions_and_after_tools() {
    let marks = |name: &'static str, cache: CacheMarks| async move {
        let body = body(name, |call| call.request.settings.cache = cache).await;
        let last = |value: &Value| value.as_array().unwrap().last().unwrap()["cachePoint"].clone();
        let count = body.to_string().matches("cachePoint").count();
        (last(&body["system"]), last(&body["toolConfig"]["tools"]), count)
    };
    let short = json!({"type": "default"});
    let hour = json!({"type": "default", "ttl": "1h"});
    assert_eq!(marks(CLAUDE, CacheMarks::Short).await, (short.clone(), short, 2));
    assert_eq!(marks(CLAUDE, CacheMarks::Hour).await, (hour.clone(), hour, 2));
    assert_eq!(marks(CLAUDE, CacheMarks::Off).await, (Value::Null, Value::Null, 0));
    // A model that does not accept marks rejects the whole call.
    for name in ["bedrock/amazon.nova-lite-v1:0", "bedrock/anthropic.claude-3-haiku-20240307-v1:0"] {
        assert_eq!(marks(name, CacheMarks::Short).await, (Value::Null, Value::Null, 0), "{name}");
    }
}

/// Sends a request with these variables and without a configured key.
async fn asked(
    variables: &'static [(&'static str, &'static str)],
) -> (Result<(), ModelError>, Vec<LoggedRequest>) {
    let server = ProviderServer::start().await.unwrap();
    let config = ProviderConfig { api_key: None, ..config(&server, "br-ok", WireKind::Converse) };
    let lookup =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let catalog = ProviderCatalog::builder().variables(lookup).provider("bedrock", config).build().unwrap();
    let model = catalog.resolve(&ModelName::from(CLAUDE)).unwrap();
    let outcome = read(&*model, call(CLAUDE, ask())).await.1.map(|_| ());
    (outcome, server.requests())
}

#[tokio::test]
async fn requests_are_signed_with_keys_or_carry_a_token() {
    const KEYS: &[(&str, &str)] = &[
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "AKIDTEST"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SESSION_TOKEN", "session"),
    ];
    let (outcome, requests) = asked(KEYS).await;
    outcome.unwrap();
    let signature = requests[0].header("authorization").unwrap();
    assert!(signature.starts_with("AWS4-HMAC-SHA256 Credential=AKIDTEST/"), "{signature}");
    assert!(signature.contains("/eu-west-1/bedrock/aws4_request"), "{signature}");
    assert_eq!(requests[0].header("x-amz-security-token"), Some("session"));

    const TOKEN: &[(&str, &str)] =
        &[("AWS_DEFAULT_REGION", "us-east-1"), ("AWS_BEARER_TOKEN_BEDROCK", "bedrock-key")];
    let (outcome, requests) = asked(TOKEN).await;
    outcome.unwrap();
    assert_eq!(requests[0].header("authorization"), Some("Bearer bedrock-key"));
}

#[test]
fn a_key_has_one_place_only() {
    let config = ProviderConfig { auth: Auth::Header("x-gate".to_owned()), ..ProviderConfig::default() };
    let catalog = ProviderCatalog::builder().variables(place).provider("bedrock", config).build().unwrap();
    let Err(error) = catalog.resolve(&ModelName::from(CLAUDE)) else { panic!("it was taken") };
    assert_eq!(error.class, FailureClass::Config);
    assert!(error.message.contains("`x-gate`"), "{error}");
}

// rows: SK-L6, SK-L7, SK-L8
#[tokio::test]
async fn failures_are_typed() {
    insta::assert_snapshot!(failure("br-ok-429").await, @"error RateLimited: HTTP 429: Too many [429]");
    insta::assert_snapshot!(failure("br-ok-500").await, @"error Transient: HTTP 500: Internal [500]");
    insta::assert_snapshot!(failure("br-ok-403").await, @"error Auth: HTTP 403: You have no access to the model. [403]");
    insta::assert_snapshot!(failure("br-ok-toolong").await, @"error ContextTooLong: HTTP 400: Input is too long for requested model. [400]");
    insta::assert_snapshot!(failure("br-ok-502html").await, @"error Transient: HTTP 502: <html>bad gateway</html> [502]");
    insta::assert_snapshot!(failure("br-exception").await, @"error RateLimited: Too many tokens in flight");
    insta::assert_snapshot!(failure("br-cut").await, @"error Truncated: the provider's stream ended before \
                                                       the reply was complete");
    insta::assert_snapshot!(failure("br-cut@clean").await, @"error Truncated: the provider's stream ended \
                                                             before the reply was complete");
    insta::assert_snapshot!(failure("br-cut@reset").await, @"error Truncated: the connection was lost before \
                                                             the reply was complete");
    insta::assert_snapshot!(failure("br-ok-stall").await, @"error Timeout: no data for 400 ms");
    insta::assert_snapshot!(failure("br-ok-noheaders").await, @"error Timeout: no data for 400 ms");
}

// rows: SK-L6, SK-L7
#[tokio::test]
async fn the_sdk_tries_nothing_again() {
    let server = ProviderServer::start().await.unwrap();
    let model = model(&server, "br-ok-500", CLAUDE, |_| {});
    read(&*model, call(CLAUDE, ask())).await.1.unwrap_err();
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_dropped_stream_closes_the_connection() {
    let server = ProviderServer::start().await.unwrap();
    let model = model(&server, "br-ok-stall", name_of(WireKind::Converse), |config| {
        config.stall_timeout = Duration::from_secs(60);
    });
    let mut stream = model.stream(call(CLAUDE, ask()));
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let gone = tokio::time::timeout(Duration::from_secs(5), server.disconnected(1)).await;
    assert!(gone.is_ok(), "the provider still waits");
}

#[test]
fn what_is_known_comes_from_the_clouds_own_list() {
    let catalog = ProviderCatalog::builder().variables(place).build().unwrap();
    let info = |name: &str| catalog.resolve(&ModelName::from(name)).unwrap().info().clone();
    let claude = info(CLAUDE);
    assert_eq!((claude.api.as_str(), claude.tool_calls), ("bedrock-converse", Some(true)));
    assert!(claude.price.is_some());
    assert_eq!(info("bedrock/us.deepseek.r1-v1:0").tool_calls, Some(false));
    assert_eq!(info("bedrock/arn:aws:bedrock:eu-west-1:1:application-inference-profile/x").tool_calls, None);
}

#[test]
fn missing_credentials_are_reported() {
    let home = tempfile::tempdir().unwrap();
    super::alone(
        "provider::bedrock::without_credentials",
        home.path(),
        &[("AWS_EC2_METADATA_DISABLED", "true")],
    );
}

/// The process of the test above.
#[tokio::test]
async fn without_credentials() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let (outcome, requests) = asked(&[]).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.message, "no AWS region: set AWS_REGION, or `region` in the profile");
    assert_eq!(error.class, FailureClass::Config);
    let (outcome, more) = asked(&[("AWS_REGION", "eu-west-1")]).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.class, FailureClass::Auth);
    assert!(error.message.starts_with("no AWS credentials: "), "{error}");
    assert!(error.message.contains("\nset AWS_BEARER_TOKEN_BEDROCK, "), "{error}");
    assert_eq!((requests, more), (Vec::new(), Vec::new()));
}

#[test]
fn a_profile_signs_in_as_for_every_other_program() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    let profile =
        "[profile house]\nregion = eu-north-1\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = s\n";
    std::fs::write(home.path().join(".aws/config"), profile).unwrap();
    let variables = [("AWS_PROFILE", "house"), ("AWS_EC2_METADATA_DISABLED", "true")];
    super::alone("provider::bedrock::with_a_profile", home.path(), &variables);
}

/// The process of the test above.
#[tokio::test]
async fn with_a_profile() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let (outcome, requests) = asked(&[]).await;
    outcome.unwrap();
    let signature = requests[0].header("authorization").unwrap();
    assert!(signature.contains("Credential=AKIDPROFILE/"), "{signature}");
    assert!(signature.contains("/eu-north-1/bedrock/aws4_request"), "{signature}");
}
