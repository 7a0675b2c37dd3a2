//! Classifies providers' errors into failure classes.
//!
//! The machine decides whether to retry.

use serde_json::Value;
use windlass_engine::port::model::ModelError;
use windlass_machine::FailureClass;

use super::transport::{Answer, LinkError, TransportError, root_cause};

/// Maximum length of a copied provider message, in characters.
const MESSAGE_MAX_CHARS: usize = 600;

/// Maximum number of characters copied from a body that is not an error document. A
/// login page is recognizable from this many.
const BODY_MAX_CHARS: usize = 200;

/// Returns the error of a stream that ended before the provider completed the reply.
pub(super) fn truncated() -> ModelError {
    ModelError::new(FailureClass::Truncated, "the provider's stream ended before the reply was complete")
}

/// Returns the error of an unknown finish reason.
pub(super) fn unknown_reason(reason: &str) -> ModelError {
    let text = format!("the reply ended with the unknown finish reason `{reason}`");
    ModelError::new(FailureClass::Malformed, text)
}

/// Returns the error of an event that is not valid JSON.
pub(super) fn malformed(error: &serde_json::Error) -> ModelError {
    ModelError::new(FailureClass::Malformed, shortened(&format!("the provider sent invalid JSON: {error}")))
}

/// Classifies an error that arrived inside a stream.
pub(super) fn in_band(body: &str) -> ModelError {
    ModelError { retry_after_ms: retry_info_ms(body), ..answered(None, None, body) }
}

/// Classifies an error of the transport.
pub(super) fn transport(error: TransportError) -> ModelError {
    match error {
        TransportError::Link(error) => link(&error),
        TransportError::Http(error) => client(&error),
        TransportError::Answer(answer) => answer_of(&answer),
    }
}

fn answer_of(answer: &Answer) -> ModelError {
    let status = Some(answer.status.as_u16());
    if let Some(redirected) = redirected(status, &answer.headers) {
        return redirected;
    }
    let mut error = answered(status, None, &answer.body);
    error.retry_after_ms = retry_after_ms(&answer.headers).or_else(|| retry_info_ms(&answer.body));
    error
}

/// Classifies a connection failure below the protocol.
pub(super) fn link(error: &LinkError) -> ModelError {
    match error {
        LinkError::Unready(error) => ModelError::clone(error),
        LinkError::Stalled(_) => ModelError::new(FailureClass::Timeout, error.to_string()),
        LinkError::Cut => ModelError::new(FailureClass::Truncated, error.to_string()),
    }
}

/// Classifies an error of the HTTP client.
fn client(error: &reqwest::Error) -> ModelError {
    let cause = root_cause(error);
    if error.is_timeout() {
        return ModelError::new(
            FailureClass::Timeout,
            format!("the provider did not respond in time: {cause}"),
        );
    }
    if error.is_builder() {
        return ModelError::new(FailureClass::Config, format!("the request cannot be sent: {cause}"));
    }
    // The message omits the path, the query and the user, which may contain a key.
    let origin = error.url().map(|url| url.origin().ascii_serialization());
    let named = origin.map_or("the provider".to_owned(), |origin| format!("`{origin}`"));
    let what = if error.is_connect() { "cannot reach" } else { "no valid response from" };
    ModelError::new(FailureClass::Transient, format!("{what} {named}: {cause}"))
}

/// Rejects a redirect, because the key would be sent to its target.
pub(super) fn redirected(status: Option<u16>, headers: &http::HeaderMap) -> Option<ModelError> {
    let status = status.filter(|status| (300..400).contains(status))?;
    let target = headers.get(http::header::LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()));
    // A query may contain parts of the request.
    let target = target.as_deref().and_then(|target| target.split(['?', '#']).next()).unwrap_or("nowhere");
    let message = format!(
        "HTTP {status}: the provider redirects to `{}`, and the key is not sent there; set `base_url` to the \
         intended address",
        shortened(target)
    );
    Some(ModelError { status: Some(status), ..ModelError::new(FailureClass::Config, message) })
}

/// Classifies a provider's error response, or an error inside a stream. `code` is set if a provider's SDK has parsed
/// the error.
pub(super) fn answered(status: Option<u16>, code: Option<&str>, body: &str) -> ModelError {
    let document = serde_json::from_str::<Value>(body).ok();
    let told = match (&document, code) {
        (Some(document), _) => Told::read(document),
        (None, Some(code)) => Told { words: code.to_owned(), message: body.to_owned(), status: None },
        (None, None) => Told::default(),
    };
    // Inside a stream, only the error itself may contain the status.
    let effective = status.filter(|status| *status >= 400).or(told.status);
    let html = document.is_none() && code.is_none() && status == Some(200);
    let class = if html {
        FailureClass::Malformed
    } else {
        by_words(&told.words)
            .or_else(|| by_words_of_message(effective, &told.message))
            .unwrap_or_else(|| by_status(effective))
    };
    let message = if told.message.is_empty() { body } else { &told.message };
    let message = match (html, effective) {
        (true, _) => format!("the response is not an event stream: {}", beginning(message)),
        (false, Some(status)) => format!("HTTP {status}: {}", shortened(message)),
        (false, None) => shortened(message),
    };
    ModelError { status: status.or(told.status), ..ModelError::new(class, message) }
}

/// The contents of an error document.
#[derive(Default)]
struct Told {
    /// The document's types and codes.
    words: String,
    message: String,
    status: Option<u16>,
}

impl Told {
    fn read(document: &Value) -> Self {
        let response = document.get("response").unwrap_or(document);
        let error = response.get("error").filter(|error| !error.is_null()).unwrap_or(response);
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let words = ["type", "code", "status"].map(|key| text(error, key)).join(" ");
        let message = match error {
            Value::String(message) => message.clone(),
            error => text(error, "message"),
        };
        let status = ["code", "status"]
            .iter()
            .find_map(|key| error.get(*key)?.as_u64())
            .and_then(|status| u16::try_from(status).ok())
            .filter(|status| (400..600).contains(status));
        Self { words, message, status }
    }
}

/// Returns the class of a provider's error code. The code takes precedence over the status: a 400 may report
/// a prompt that is too long, a 429 an unpaid bill.
pub(super) fn by_words(words: &str) -> Option<FailureClass> {
    let words = words.to_ascii_lowercase();
    let has = |needle: &str| words.contains(needle);
    if has("overloaded") || has("unavailable") && has("capacity") {
        Some(FailureClass::Overloaded)
    } else if has("context_length") || has("request_too_large") || has("context_window") {
        Some(FailureClass::ContextTooLong)
    } else if [
        "insufficient_quota",
        "billing",
        "authentication",
        "permission",
        "invalid_api_key",
        "unauthenticated",
        "accessdenied",
        "expiredtoken",
        "unrecognizedclient",
    ]
    .iter()
    .any(|word| has(word))
    {
        Some(FailureClass::Auth)
    } else if ["rate_limit", "resource_exhausted", "too_many_requests", "throttling"]
        .iter()
        .any(|word| has(word))
    {
        Some(FailureClass::RateLimited)
    } else if has("not_found") {
        Some(FailureClass::InvalidRequest)
    } else {
        None
    }
}

/// Returns the class by the message text. Some providers report a prompt that is too
/// long, or a wrong key, only in this text.
fn by_words_of_message(status: Option<u16>, message: &str) -> Option<FailureClass> {
    let message = message.to_ascii_lowercase();
    let has = |needle: &str| message.contains(needle);
    let client_error = status.is_none_or(|status| (400..500).contains(&status) && status != 429);
    if client_error
        && (has("prompt is too long")
            || has("maximum context length")
            || has("context window")
            || has("context_length")
            || has("input token count")
            || has("too many tokens")
            || has("input is too long")
            || has("range of input length"))
    {
        Some(FailureClass::ContextTooLong)
    } else if status == Some(400) && has("api key not valid") {
        Some(FailureClass::Auth)
    } else if matches!(status, None | Some(503 | 529)) && has("overloaded") {
        Some(FailureClass::Overloaded)
    } else if status.is_none() && has("rate limit") {
        Some(FailureClass::RateLimited)
    } else {
        None
    }
}

fn by_status(status: Option<u16>) -> FailureClass {
    match status {
        Some(429) => FailureClass::RateLimited,
        Some(529) => FailureClass::Overloaded,
        Some(401..=403) => FailureClass::Auth,
        Some(413) => FailureClass::ContextTooLong,
        Some(408 | 425) => FailureClass::Transient,
        Some(400..=499) => FailureClass::InvalidRequest,
        // 5xx, and an error inside a stream without a status.
        Some(_) | None => FailureClass::Transient,
    }
}

/// Parses the retry delay: milliseconds, seconds, or a date relative to the response's own `Date`.
pub(super) fn retry_after_ms(headers: &http::HeaderMap) -> Option<u64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|value| value.parse::<f64>().ok()) {
        return Some(ms.max(0.0) as u64);
    }
    let value = text("retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Some((seconds.max(0.0) * 1000.0) as u64);
    }
    // The port has no clock; the response's `Date` header has the provider's time.
    let date = |value: &str| httpdate::parse_http_date(value).ok();
    let (until, now) = (date(value)?, date(text("date")?)?);
    Some(until.duration_since(now).unwrap_or_default().as_millis() as u64)
}

/// Parses Gemini's delay from the body: `google.rpc.RetryInfo` with `"34s"` or `"0.5s"`.
/// <https://cloud.google.com/apis/design/errors#error_details>
pub(super) fn retry_info_ms(body: &str) -> Option<u64> {
    let document: Value = serde_json::from_str(body).ok()?;
    let details = document.get("error")?.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    Some((seconds.max(0.0) * 1000.0) as u64)
}

/// Returns the beginning of a page or a stream, in one line.
fn beginning(body: &str) -> String {
    let words: Vec<&str> = body.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(BODY_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

pub(super) fn shortened(message: &str) -> String {
    let message = message.trim();
    match message.char_indices().nth(MESSAGE_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_seconds_become_milliseconds() {
        let check = |pairs: &[(&'static str, &'static str)], expected: Option<u64>| {
            let headers = pairs.iter().map(|(name, value)| {
                (name.parse::<http::HeaderName>().unwrap(), http::HeaderValue::from_static(value))
            });
            assert_eq!(retry_after_ms(&headers.collect()), expected, "{pairs:?}");
        };
        check(&[("retry-after", "7")], Some(7_000));
        check(&[("retry-after", "0.5")], Some(500));
        check(&[("retry-after-ms", "120"), ("retry-after", "7")], Some(120));
        check(
            &[("retry-after", "Sun, 01 Mar 2026 00:00:10 GMT"), ("date", "Sat, 28 Feb 2026 23:59:50 GMT")],
            Some(20_000),
        );
        check(&[("retry-after", "soon")], None);
        for odd in ["18446744073709551615 Mar 2026 00:00:00", "01 Mar 18446744073709551615 00:00:00"] {
            let odd = http::HeaderValue::from_str(&format!("Sun, {odd} GMT")).unwrap();
            let date = http::HeaderValue::from_static("Sat, 28 Feb 2026 23:59:50 GMT");
            let headers = [(http::header::RETRY_AFTER, odd), (http::header::DATE, date)];
            assert_eq!(retry_after_ms(&headers.into_iter().collect()), None);
        }
    }

    #[test]
    fn a_delay_in_the_body_is_read() {
        let check = |delay: &str, expected: Option<u64>| {
            let body = serde_json::json!({"error": {"code": 429, "details": [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
            ]}});
            assert_eq!(retry_info_ms(&body.to_string()), expected, "{delay}");
        };
        check("34s", Some(34_000));
        check("0.5s", Some(500));
        check("34", None);
        assert_eq!(retry_info_ms("slow down"), None);
    }

    #[test]
    fn answers_are_typed_by_word_and_status() {
        use FailureClass::*;
        let check = |status: u16, body: &str, expected: FailureClass| {
            let error = answered((status != 0).then_some(status), None, body);
            assert_eq!(error.class, expected, "{status} {body}");
        };
        check(
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            Overloaded,
        );
        check(
            0,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            Overloaded,
        );
        check(400, r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#, ContextTooLong);
        check(
            400,
            r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}"#,
            ContextTooLong,
        );
        // rows: ZE-X1
        check(
            400,
            r#"{"error":{"code":"InvalidParameter","message":"Range of input length should be [1, 30720]"}}"#,
            ContextTooLong,
        );
        check(413, "", ContextTooLong);
        check(401, "{}", Auth);
        check(403, r#"{"error":{"type":"permission_error","message":"no"}}"#, Auth);
        check(429, r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#, Auth);
        check(429, "slow", RateLimited);
        check(404, r#"{"error":{"type":"not_found_error","message":"model: x"}}"#, InvalidRequest);
        check(422, "{}", InvalidRequest);
        check(500, r#"{"error":{"type":"api_error","message":"x"}}"#, Transient);
        check(503, "<html>", Transient);
        check(200, "<html>login</html>", Malformed);
        check(200, r#"{"error":{"message":"Rate limit","code":"rate_limit_exceeded"}}"#, RateLimited);
        check(0, r#"{"error":{"message":"upstream down","code":503}}"#, Transient);
    }
}
