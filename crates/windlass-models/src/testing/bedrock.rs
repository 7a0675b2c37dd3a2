//! Scenarios of Bedrock's Converse wire, in the binary frames of AWS event streams.
//!
//! Events and framing follow the public protocol; the texts are invented. The test kit has a separate
//! encoder, so that it tests the SDK's decoder.

use serde_json::{Value, json};

/// The content type of the body.
pub(super) const CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";

/// Returns the frames of a scenario of this wire.
pub(super) fn frames(name: &str) -> Option<Vec<Vec<u8>>> {
    Some(match name {
        "br-ok" => ok(),
        "br-tools" => [
            vec![start()],
            reasoning(0, &["Hm, ", "weather."], "SIG-BR"),
            text(1, &["I will ", "look."]),
            tool(2, "tooluse_A", "get_weather", &[r#"{"ci"#, r#"ty": "Rome"}"#]),
            tool(3, "tooluse_B", "get_time", &[]),
            end("tool_use"),
        ]
        .concat(),
        "br-maxtok" => [
            vec![start()],
            text(0, &["x"]),
            vec![
                opened(1, json!({"toolUse": {"toolUseId": "tooluse_Z", "name": "get_weather"}})),
                grown(1, json!({"toolUse": {"input": r#"{"city":"Pa"#}})),
            ],
            end("max_tokens"),
        ]
        .concat(),
        "br-stopseq" => [vec![start()], text(0, &["Par"]), end("stop_sequence")].concat(),
        "br-guardrail" => [vec![start()], text(0, &["No."]), end("guardrail_intervened")].concat(),
        "br-exception" => [
            beginning(),
            vec![frame("exception", "throttlingException", &json!({"message": "Too many tokens in flight"}))],
        ]
        .concat(),
        "br-cut" => beginning(),
        _ => return None,
    })
}

/// Returns the first frames of a reply that stalls.
pub(super) fn beginning() -> Vec<Vec<u8>> {
    vec![start(), grown(0, json!({"text": "partial"}))]
}

fn ok() -> Vec<Vec<u8>> {
    [vec![start()], text(0, &["All ", "fine."]), end("end_turn")].concat()
}

fn start() -> Vec<u8> {
    event("messageStart", &json!({"role": "assistant", "p": "abcd"}))
}

fn opened(index: usize, start: Value) -> Vec<u8> {
    event("contentBlockStart", &json!({"contentBlockIndex": index, "start": start}))
}

fn grown(index: usize, delta: Value) -> Vec<u8> {
    event("contentBlockDelta", &json!({"contentBlockIndex": index, "delta": delta, "p": "abc"}))
}

fn stop(index: usize) -> Vec<u8> {
    event("contentBlockStop", &json!({"contentBlockIndex": index}))
}

fn text(index: usize, fragments: &[&str]) -> Vec<Vec<u8>> {
    let grown = fragments.iter().map(|text| grown(index, json!({"text": text})));
    grown.chain([stop(index)]).collect()
}

fn reasoning(index: usize, fragments: &[&str], signature: &str) -> Vec<Vec<u8>> {
    let grown_text = fragments.iter().map(|text| grown(index, json!({"reasoningContent": {"text": text}})));
    let signed = grown(index, json!({"reasoningContent": {"signature": signature}}));
    grown_text.chain([signed, stop(index)]).collect()
}

fn tool(index: usize, id: &str, name: &str, fragments: &[&str]) -> Vec<Vec<u8>> {
    let started = opened(index, json!({"toolUse": {"toolUseId": id, "name": name}}));
    let grown = fragments.iter().map(|input| grown(index, json!({"toolUse": {"input": input}})));
    [started].into_iter().chain(grown).chain([stop(index)]).collect()
}

fn end(reason: &str) -> Vec<Vec<u8>> {
    let usage = json!({"inputTokens": 20, "outputTokens": 7, "totalTokens": 1027,
        "cacheReadInputTokens": 900, "cacheWriteInputTokens": 100});
    vec![
        event("messageStop", &json!({"stopReason": reason})),
        event("metadata", &json!({"usage": usage, "metrics": {"latencyMs": 5}})),
    ]
}

fn event(kind: &str, payload: &Value) -> Vec<u8> {
    frame("event", kind, payload)
}

/// Encodes one message of the AWS specification "Amazon Event Stream". It has a prelude of both lengths with
/// its checksum, string headers, the payload, and a checksum of the whole message.
fn frame(message_type: &str, kind: &str, payload: &Value) -> Vec<u8> {
    /// The type byte of a string header.
    const STRING: u8 = 7;
    let payload = payload.to_string();
    let mut headers = Vec::new();
    let kind_header = format!(":{message_type}-type");
    for (name, value) in
        [(":message-type", message_type), (kind_header.as_str(), kind), (":content-type", "application/json")]
    {
        // Names and values in the test kit are shorter than 256 bytes.
        headers.push(name.len() as u8);
        headers.extend_from_slice(name.as_bytes());
        headers.push(STRING);
        headers.extend_from_slice(&(value.len() as u16).to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let mut whole = Vec::new();
    let total = 16 + headers.len() + payload.len();
    whole.extend_from_slice(&(total as u32).to_be_bytes());
    whole.extend_from_slice(&(headers.len() as u32).to_be_bytes());
    whole.extend_from_slice(&crc32(&whole).to_be_bytes());
    whole.extend_from_slice(&headers);
    whole.extend_from_slice(payload.as_bytes());
    whole.extend_from_slice(&crc32(&whole).to_be_bytes());
    whole
}

/// Computes CRC-32 as in ISO 3309, bit by bit. The input is only a few hundred bytes per scenario.
fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xEDB8_8320;
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (POLYNOMIAL & (sum & 1).wrapping_neg()))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(super::crc32(b"123456789"), 0xCBF4_3926);
    }
}
