//! What is put into a chat request that the library has encoded: the exact bytes of tool-call arguments, and marks
//! for a cache behind a gateway.
//!
//! What does not look as expected goes out as it is.

use bytes::Bytes;
use serde_json::{Value, json};

/// The arguments of one tool call of the history, where they must go out as the model wrote them.
pub(super) struct CallArguments {
    /// What the wire encodes; `None` where it repairs something that is no JSON object.
    pub encoded: Option<String>,
    /// The bytes; `None`: what the wire encodes is right.
    pub exact: Option<String>,
}

/// Puts into a chat request what the wire has no setting for.
pub(super) fn rewritten(body: Bytes, calls: &[CallArguments], mark: Option<&Value>) -> Bytes {
    if calls.is_empty() && mark.is_none() {
        return body;
    }
    if mark.is_none()
        && let Some(spliced) = spliced(&body, calls)
    {
        return spliced;
    }
    let Ok(mut request) = serde_json::from_slice::<Value>(&body) else { return body };
    exact_arguments(&mut request, calls);
    if let Some(mark) = mark {
        mark_instructions(&mut request, mark);
    }
    request.to_string().into()
}

/// Puts exact arguments into the bytes of a request: reading the whole conversation at each step would cost more than
/// everything else. `None` where the calls do not stand there as expected.
fn spliced(body: &[u8], calls: &[CallArguments]) -> Option<Bytes> {
    // No text can hold this: inside one the quotes are escaped.
    const NAME: &[u8] = b"\"arguments\":";
    let mut request = Vec::with_capacity(body.len() + 16 * calls.len());
    let mut done = 0;
    for call in calls {
        let value = done + memchr::memmem::find(&body[done..], NAME)? + NAME.len();
        let sent = serde_json::to_vec(call.encoded.as_deref()?).ok()?;
        let end = value + sent.len();
        if body.get(value..end) != Some(&sent) {
            return None;
        }
        request.extend_from_slice(&body[done..value]);
        match &call.exact {
            Some(exact) => serde_json::to_writer(&mut request, exact).ok()?,
            None => request.extend_from_slice(&sent),
        }
        done = end;
    }
    request.extend_from_slice(&body[done..]);
    Some(request.into())
}

/// Marks the last part of the system message. Tools come before it in Anthropic's prompt, so that the one mark
/// covers both; gateways document it for parts of messages only.
fn mark_instructions(request: &mut Value, mark: &Value) {
    let system = request
        .get_mut("messages")
        .and_then(Value::as_array_mut)
        .and_then(|messages| messages.first_mut())
        .filter(|message| message.get("role").and_then(Value::as_str) == Some("system"));
    let Some(content) = system.and_then(|message| message.get_mut("content")) else { return };
    if let Value::String(text) = content {
        *content = json!([{"type": "text", "text": text}]);
    }
    if let Some(Value::Object(part)) = content.as_array_mut().and_then(|parts| parts.last_mut()) {
        part.insert("cache_control".to_owned(), mark.clone());
    }
}

/// Writes tool-call arguments of a chat request as the model wrote them: the wire re-serialises them, and
/// other white space is another prefix for the provider's cache. Counts of calls that differ change nothing.
fn exact_arguments(request: &mut Value, calls: &[CallArguments]) {
    let mut sent: Vec<&mut Value> = request
        .get_mut("messages")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(|message| message.get_mut("tool_calls")?.as_array_mut())
        .flatten()
        .collect();
    if sent.len() != calls.len() {
        return;
    }
    for (item, call) in sent.iter_mut().zip(calls) {
        let Some((exact, arguments)) = call.exact.as_ref().zip(item.pointer_mut("/function/arguments"))
        else {
            continue;
        };
        // The same object in other bytes, or something that is left alone.
        let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
        if arguments.as_str().and_then(parsed) == parsed(exact) {
            *arguments = Value::String(exact.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_out_as_written() {
        let body = Bytes::from(
            r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}]}"#,
        );
        let (encoded, exact) = (r#"{"x":1}"#.to_owned(), r#"{ "x": 1 }"#.to_owned());
        let calls = [CallArguments { encoded: Some(encoded), exact: Some(exact) }];
        let sent: Value = serde_json::from_slice(&rewritten(body, &calls, None)).unwrap();
        assert_eq!(sent.pointer("/messages/0/tool_calls/0/function/arguments").unwrap(), r#"{ "x": 1 }"#);
    }

    #[test]
    fn arguments_are_put_in_as_reading_the_request_would() {
        let call = |encoded: &str, exact: Option<&str>| CallArguments {
            encoded: Some(encoded.into()),
            exact: exact.map(Into::into),
        };
        let tricky = r#"{"q":"\"arguments\":\"{}\" \\ ü"}"#;
        let calls = [
            call(r#"{"x":1}"#, None),
            call(r#"{"x":1}"#, Some("{ \"x\" : 1 }")),
            call(tricky, Some(&format!(" {tricky} "))),
        ];
        let sent = |call: &CallArguments| json!({"function": {"name": "f", "arguments": call.encoded}});
        let body = |calls: &[CallArguments]| {
            let said = r#"say "arguments":"{\"x\":1}" to me"#;
            let turns: Vec<Value> =
                calls.iter().map(|call| json!({"role": "assistant", "tool_calls": [sent(call)]})).collect();
            let tools = json!([{"arguments": "{\"x\":1}"}]);
            let first = json!([{"role": "user", "content": said}]);
            let messages = [first.as_array().unwrap().as_slice(), &turns].concat();
            Bytes::from(json!({"messages": messages, "tools": tools}).to_string())
        };
        let read = |body: &Bytes| {
            let mut request = serde_json::from_slice::<Value>(body).unwrap();
            exact_arguments(&mut request, &calls);
            request.to_string()
        };
        let whole = body(&calls);
        assert_eq!(spliced(&whole, &calls).unwrap(), read(&whole));
        assert!(read(&whole).contains(r#"{ \"x\" : 1 }"#));
        // Other calls than expected are left to whoever reads the request.
        assert_eq!(spliced(&body(&calls[1..]), &calls), None);
        assert_eq!(spliced(&body(&[]), &calls), None);
    }
}
