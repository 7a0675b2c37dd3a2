//! Failures: each is classified, the output before it is known, and none of it counts as an end.

use std::time::Duration;

use windlass::models::{ProviderConfig, WireKind};
use windlass::testing::provider::ProviderServer;
use windlass_machine::{Effort, FailureClass, ModelSettings, Reasoning};

use super::{ask, call, kind_of, model, name_of, read, transcript};

/// Requests a scenario and formats its end, without fragments.
async fn failure(scenario: &str) -> String {
    // The stall timeout is far shorter. A call that hangs must fail the test and not block it.
    let ended = tokio::time::timeout(Duration::from_secs(10), transcript(scenario));
    let shown = ended.await.unwrap_or_else(|_| panic!("{scenario} hangs"));
    let last = shown.lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("error "), "{scenario} did not fail:\n{shown}");
    last
}

// rows: SK-L6, SK-L7, SK-L8, OV-8
#[tokio::test]
async fn statuses_are_typed() {
    assert_eq!(
        failure("anth-ok-429").await,
        r#"error RateLimited: HTTP 429: Too many [429] [again in 7000 ms]"#
    );
    assert_eq!(
        failure("oai-x-429").await,
        r#"error RateLimited: HTTP 429: Too many [429] [again in 7000 ms]"#
    );
    assert_eq!(failure("anth-x-529").await, r#"error Overloaded: HTTP 529: Overloaded [529]"#);
    assert_eq!(
        failure("anth-ok-502html").await,
        r#"error Transient: HTTP 502: <html>bad gateway</html> [502]"#
    );
    assert_eq!(
        failure("oai-x-502html").await,
        r#"error Transient: HTTP 502: <html>bad gateway</html> [502]"#
    );
    assert_eq!(failure("anth-x-500").await, r#"error Transient: HTTP 500: Internal [500]"#);
    assert_eq!(failure("anth-x-401").await, r#"error Auth: HTTP 401: invalid x-api-key [401]"#);
    assert_eq!(failure("anth-x-413").await, r#"error ContextTooLong: HTTP 413: too long [413]"#);
    assert_eq!(failure("anth-x-400").await, r#"error InvalidRequest: HTTP 400: bad field [400]"#);
}

#[tokio::test]
async fn a_redirect_is_reported_and_not_followed() {
    let told = "error Config: HTTP 307: the provider redirects to `http://elsewhere.invalid/login`, and the \
                key is not sent there; set `base_url` to the intended address [307]";
    assert_eq!(failure("anth-ok-307").await, told);
    assert_eq!(failure("oai-ok-307").await, told);
    assert_eq!(failure("gem-ok-307").await, told);
}

#[tokio::test]
async fn a_success_that_is_no_stream_is_read() {
    assert_eq!(
        failure("anth-ok-html200").await,
        r#"error Malformed: the response is not an event stream: <html>login</html> [200]"#
    );
    assert_eq!(
        failure("oai-x-html200").await,
        r#"error Malformed: the response is not an event stream: <html>login</html> [200]"#
    );
    assert_eq!(failure("anth-x-json200").await, r#"error Overloaded: in a success [200]"#);
    assert_eq!(failure("oai-x-json200").await, r#"error RateLimited: in a success [200]"#);
}

// rows: SK-L7
#[tokio::test]
async fn errors_inside_a_stream_are_typed() {
    assert_eq!(failure("anth-errevent").await, r#"error Overloaded: Overloaded"#);
    assert_eq!(failure("oai-errmid").await, r#"error Overloaded: HTTP 503: upstream overloaded [503]"#);
    assert_eq!(failure("resp-failed").await, r#"error RateLimited: slow down"#);
    assert_eq!(failure("resp-errevent").await, r#"error Transient: boom"#);
    assert_eq!(failure("gem-errmid").await, r#"error Overloaded: HTTP 503: The model is overloaded. [503]"#);
}

// rows: SK-L7
#[tokio::test]
async fn a_cut_stream_is_no_end() {
    assert_eq!(
        failure("anth-cut").await,
        r#"error Truncated: the provider's stream ended before the reply was complete"#
    );
    assert_eq!(
        failure("anth-cut@clean").await,
        r#"error Truncated: the provider's stream ended before the reply was complete"#
    );
    assert_eq!(
        failure("anth-cut@reset").await,
        r#"error Truncated: the connection was lost before the reply was complete"#
    );
    assert_eq!(
        failure("anth-cut-afterdelta").await,
        r#"error Truncated: the provider's stream ended before the reply was complete"#
    );
    assert_eq!(
        failure("anth-cut-nostop").await,
        r#"error Truncated: the provider's stream ended before the reply was complete"#
    );
    assert_eq!(
        failure("oai-cut").await,
        r#"error Truncated: the provider's stream ended before the reply was complete"#
    );
    assert_eq!(
        failure("oai-cut@clean").await,
        r#"error Truncated: the provider's stream ended before the reply was complete"#
    );
    assert_eq!(
        failure("oai-cut@reset").await,
        r#"error Truncated: the connection was lost before the reply was complete"#
    );
    assert_eq!(
        failure("resp-cut").await,
        r#"error Truncated: the provider's stream ended before the reply was complete"#
    );
    assert_eq!(
        failure("resp-cut@reset").await,
        r#"error Truncated: the connection was lost before the reply was complete"#
    );
    assert_eq!(
        failure("gem-cut").await,
        r#"error Truncated: the provider's stream ended before the reply was complete"#
    );
    assert_eq!(
        failure("gem-cut@reset").await,
        r#"error Truncated: the connection was lost before the reply was complete"#
    );
}

// rows: SK-L2, WT-L13
#[tokio::test]
async fn silence_times_out() {
    assert_eq!(ProviderConfig::default().stall_timeout, Duration::from_secs(120));
    assert_eq!(failure("anth-ok-noheaders").await, r#"error Timeout: no data for 400 ms"#);
    assert_eq!(failure("anth-ok-stall").await, r#"error Timeout: no data for 400 ms"#);
}

// rows: SK-L9
#[tokio::test]
async fn what_came_before_a_failure_is_known() {
    insta::assert_snapshot!(transcript("anth-errevent").await, @r#"
        ~ 0 text: partial
        error Overloaded: Overloaded
    "#);
    insta::assert_snapshot!(transcript("anth-cut@reset").await, @r#"
        ~ 0 reasoning: Let me think.
        ~ 1 text: I will
        error Truncated: the connection was lost before the reply was complete
    "#);
    insta::assert_snapshot!(transcript("anth-ok-stall").await, @r#"
        ~ 0 reasoning: Let me think.
        error Timeout: no data for 400 ms
    "#);
    insta::assert_snapshot!(transcript("oai-cut").await, @r#"
        ~ 0 reasoning: Hmm ok.
        ~ 1 text: Calling tools.
        ~ 2 call: get_weather {"ci
        error Truncated: the provider's stream ended before the reply was complete
    "#);
}

// rows: SK-L7
#[tokio::test]
async fn an_address_without_anyone_is_transient() {
    let server = ProviderServer::start().await.unwrap();
    let free = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    let name = name_of(WireKind::Gemini);
    let model = model(&server, "gem-ok", name, |config| config.base_url = Some(format!("http://{free}")));
    let error = read(&*model, call(name, ask())).await.1.unwrap_err();
    assert_eq!(error.class, FailureClass::Transient);
    let named = format!("cannot reach `http://{free}`: ");
    assert!(error.message.starts_with(&named), "{}", error.message);
    assert!(!error.message.contains("test-key"), "{}", error.message);
}

#[tokio::test]
async fn a_strict_endpoint_takes_nothing_unknown() {
    let server = ProviderServer::start().await.unwrap();
    for (scenario, settings, class) in [
        ("anth-newstop", ModelSettings::default(), FailureClass::Malformed),
        ("oai-newstop", ModelSettings::default(), FailureClass::Malformed),
        ("oai-noreason", ModelSettings::default(), FailureClass::Truncated),
        (
            "anth-ok",
            ModelSettings { reasoning: Reasoning::Effort(Effort::Minimal), ..ModelSettings::default() },
            FailureClass::InvalidRequest,
        ),
    ] {
        let name = name_of(kind_of(scenario));
        let model = model(&server, scenario, name, |config| config.lenient = false);
        let mut call = call(name, ask());
        call.request.settings = settings;
        let error = read(&*model, call).await.1.unwrap_err();
        assert_eq!(error.class, class, "{scenario}: {}", error.message);
    }
}
