//! The second step: the history that is sent back to the provider of the first.

use serde_json::{Value, json};
use windlass::models::WireKind;
use windlass::testing::provider::ProviderServer;

use super::{answered, ask, call, kind_of, model, name_of, read};

/// Takes two steps, and formats the assistant's side of the second request.
async fn replayed(scenario: &str) -> String {
    let server = ProviderServer::start().await.unwrap();
    let name = name_of(kind_of(scenario));
    let model = model(&server, scenario, name, |_| {});
    let first = read(&*model, call(name, ask())).await.1.unwrap();
    read(&*model, call(name, answered(ask(), &first))).await.1.unwrap();
    assistant_side(&server.requests()[1].body)
}

/// The assistant's items of a request and the results' ids, one per line.
fn assistant_side(body: &Value) -> String {
    let mut lines = Vec::new();
    for key in ["messages", "input", "contents"] {
        for message in body.get(key).and_then(Value::as_array).into_iter().flatten() {
            let text = message.to_string();
            let theirs = message["role"] == "assistant" && key == "messages" || message["role"] == "model";
            let item = key == "input" && message["role"] != "user" && message["role"] != "system";
            if theirs && message["content"].is_array() {
                lines.extend(message["content"].as_array().unwrap().iter().map(Value::to_string));
            } else if theirs && message["parts"].is_array() {
                lines.extend(message["parts"].as_array().unwrap().iter().map(Value::to_string));
            } else if theirs
                || item
                || message["role"] == "tool"
                || text.contains("tool_result")
                || text.contains("functionResponse")
            {
                lines.push(text);
            }
        }
    }
    lines.join("\n")
}

#[tokio::test]
async fn anthropic_items_go_back_byte_for_byte() {
    insta::assert_snapshot!(replayed("anth-ok").await, @r#"
        {"type":"thinking","thinking":"Let me think.","signature":"EuYBCkQYAiJAsignatureONE=="}
        {"type":"text","text":"I will call two tools."}
        {"type":"tool_use","id":"toolu_A","name":"get_weather","input":{"city":"Paris"}}
        {"type":"tool_use","id":"toolu_B","name":"get_time","input":{"tz":"CET"}}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_A","content":[{"type":"text","text":"ok"}]},{"type":"tool_result","tool_use_id":"toolu_B","content":[{"type":"text","text":"ok"}]}]}
    "#);
    insta::assert_snapshot!(replayed("anth-inter").await, @r#"
        {"type":"thinking","thinking":"T1","signature":"SIG-ONE"}
        {"type":"text","text":"text-1"}
        {"type":"thinking","thinking":"T2","signature":"SIG-TWO"}
        {"type":"redacted_thinking","data":"REDACTED-DATA"}
        {"type":"text","text":"text-2"}
        {"type":"tool_use","id":"toolu_C","name":"get_weather","input":{"city":"Rome"}}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_C","content":[{"type":"text","text":"ok"}]}]}
    "#);
    insta::assert_snapshot!(replayed("anth-emptythink").await, @r#"
        {"type":"thinking","thinking":"","signature":"SIG-EMPTY"}
        {"type":"tool_use","id":"toolu_E","name":"get_weather","input":{"city":"Rome"}}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_E","content":[{"type":"text","text":"ok"}]}]}
    "#);
}

#[tokio::test]
async fn opaque_items_go_back_byte_for_byte() {
    insta::assert_snapshot!(replayed("anth-server").await, @r#"
        {"type":"text","text":"Searching."}
        {"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"rust"}}
        {"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://x","title":"X","encrypted_content":"ENC"}]}
        {"type":"text","text":"Rust is nice","citations":[{"type":"web_search_result_location","url":"https://x","title":"X","encrypted_index":"EI","cited_text":"nice"}]}
    "#);
    insta::assert_snapshot!(replayed("anth-unknown").await, @r#"
        {"type":"text","text":"Look."}
        {"type":"hologram","beam":{"z":1,"a":2.5}}
    "#);
}

// rows: SK-L10
#[tokio::test]
async fn chat_calls_go_back_as_written() {
    insta::assert_snapshot!(replayed("oai-spaces").await, @r#"
        {"role":"assistant","tool_calls":[{"type":"function","id":"call_A","function":{"name":"get_weather","arguments":"{ \"city\" : \"Paris\", \"t\": 1.50 }"}}]}
        {"role":"tool","tool_call_id":"call_A","content":"ok"}
    "#);
    insta::assert_snapshot!(replayed("oai-longid").await, @r#"
        {"role":"assistant","tool_calls":[{"id":"call_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa__thought__bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","type":"function","function":{"name":"get_weather","arguments":"{\"city\": \"Paris\"}"}}]}
        {"role":"tool","tool_call_id":"call_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa__thought__bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","content":"ok"}
    "#);
    insta::assert_snapshot!(replayed("oai-noid").await, @r#"
        {"role":"assistant","tool_calls":[{"function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"},"id":"call_0","type":"function"},{"function":{"name":"get_time","arguments":"{\"tz\":\"CET\"}"},"id":"call_1","type":"function"}]}
        {"role":"tool","tool_call_id":"call_0","content":"ok"}
        {"role":"tool","tool_call_id":"call_1","content":"ok"}
    "#);
    insta::assert_snapshot!(replayed("oai-sameid").await, @r#"
        {"role":"assistant","tool_calls":[{"type":"function","id":"call_A","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}},{"type":"function","id":"call_1","function":{"name":"get_time","arguments":"{\"tz\":\"CET\"}"}}]}
        {"role":"tool","tool_call_id":"call_A","content":"ok"}
        {"role":"tool","tool_call_id":"call_1","content":"ok"}
    "#);
    insta::assert_snapshot!(replayed("oai-badargs").await, @r#"
        {"role":"assistant","tool_calls":[{"type":"function","id":"call_A","function":{"name":"get_weather","arguments":"{}"}}]}
        {"role":"tool","tool_call_id":"call_A","content":"ok"}
    "#);
}

// rows: SK-L5
#[tokio::test]
async fn chat_reasoning_goes_back() {
    insta::assert_snapshot!(replayed("oai-ok").await, @r#"
        {"role":"assistant","content":"Calling tools.","reasoning_content":"Hmm ok.","tool_calls":[{"type":"function","id":"call_A","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}},{"type":"function","id":"call_B","function":{"name":"get_time","arguments":"{\"tz\":\"CET\"}"}}]}
        {"role":"tool","tool_call_id":"call_A","content":"ok"}
        {"role":"tool","tool_call_id":"call_B","content":"ok"}
    "#);
    insta::assert_snapshot!(replayed("oai-rdetails").await, @r#"
        {"role":"assistant","content":"hi","reasoning":"R","reasoning_details":[{"type":"reasoning.text","text":"R","format":"anthropic-claude-v1","index":0,"signature":"SIGOR"}],"tool_calls":[{"type":"function","id":"call_A","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}]}
        {"role":"tool","tool_call_id":"call_A","content":"ok"}
    "#);
}

#[tokio::test]
async fn responses_items_go_back_byte_for_byte() {
    insta::assert_snapshot!(replayed("resp-ok").await, @r#"
        {"id":"rs_1","type":"reasoning","encrypted_content":"gAAAENC1","summary":[{"type":"summary_text","text":"Sum"}]}
        {"id":"msg_1","type":"message","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"Calling.","annotations":[]}]}
        {"id":"fc_1","type":"function_call","status":"completed","call_id":"call_A","name":"get_weather","arguments":"{\"city\":\"Paris\"}"}
        {"id":"rs_2","type":"reasoning","encrypted_content":"gAAAENC2","summary":[]}
        {"id":"fc_2","type":"function_call","status":"completed","call_id":"call_B","name":"get_time","arguments":"{\"tz\":\"CET\"}"}
        {"type":"function_call_output","call_id":"call_A","output":"ok","status":"completed"}
        {"type":"function_call_output","call_id":"call_B","output":"ok","status":"completed"}
    "#);
}

#[tokio::test]
async fn gemini_signatures_go_back() {
    insta::assert_snapshot!(replayed("gem-ok").await, @r#"
        {"text":"thinking..","thought":true}
        {"text":"Calling "}
        {"functionCall":{"id":"g1","name":"get_weather","args":{"city":"Paris"}},"thoughtSignature":"R1NJRzE="}
        {"functionCall":{"id":"g2","name":"get_time","args":{"tz":"CET"}}}
        {"parts":[{"functionResponse":{"name":"get_weather","id":"g1","response":{"result":"ok"}}},{"functionResponse":{"name":"get_time","id":"g2","response":{"result":"ok"}}}],"role":"user"}
    "#);
}

/// The history in a request's body, without the tail. On the chat wire, a plain text equals a single text part.
fn history(body: &Value, field: &str) -> Vec<Value> {
    let mut items = body[field].as_array().unwrap().clone();
    for content in items.iter_mut().filter_map(|item| item.get_mut("content")) {
        if let Value::String(text) = content {
            *content = json!([{"type": "text", "text": text}]);
        }
    }
    match items.last_mut().unwrap()["content"].as_array_mut() {
        Some(parts) if parts.len() > 1 => drop(parts.pop()),
        _ => drop(items.pop()),
    }
    items
}

// rows: SK-C10
#[tokio::test]
async fn openai_requests_extend_the_ones_before_them() {
    for (scenario, name, field) in
        [("oai-ok", "openai-chat/gpt-4.1", "messages"), ("resp-ok", "openai/gpt-5.2", "input")]
    {
        let server = ProviderServer::start().await.unwrap();
        let model = model(&server, scenario, name, |_| {});
        let mut messages = ask();
        for time in ["It is noon.", "It is one.", "It is two."] {
            let mut call = call(name, messages.clone());
            call.request.tail = vec![time.to_owned()];
            let reply = read(&*model, call).await.1.unwrap();
            messages = answered(messages, &reply);
        }
        let bodies: Vec<Value> = server.requests().into_iter().map(|request| request.body).collect();
        for pair in bodies.windows(2) {
            let (before, after) = (history(&pair[0], field), history(&pair[1], field));
            assert!(before.len() < after.len());
            assert_eq!(before, after[..before.len()], "{scenario}");
            let others = |body: &Value| {
                let mut body = body.clone();
                body.as_object_mut().unwrap().shift_remove(field);
                body.to_string()
            };
            assert_eq!(others(&pair[0]), others(&pair[1]), "{scenario}");
        }
        assert!(!bodies[2].to_string().contains("cache"), "nothing is sent for it");
    }
}

/// Starts at Anthropic with interleaved thinking, takes a step at another provider, and returns.
async fn switched(scenario: &str, name: &str) -> [String; 2] {
    let server = ProviderServer::start().await.unwrap();
    let home = "anthropic/claude-opus-4-6";
    let claude = model(&server, "anth-inter", home, |_| {});
    let first = read(&*claude, call(home, ask())).await.1.unwrap();
    let history = answered(ask(), &first);
    let other = model(&server, scenario, name, |_| {});
    let second = read(&*other, call(name, history.clone())).await.1.unwrap();
    read(&*claude, call(home, answered(history, &second))).await.1.unwrap();
    let requests = server.requests();
    [assistant_side(&requests[1].body), assistant_side(&requests[2].body)]
}

#[tokio::test]
async fn a_thread_goes_to_openai_compatible_and_back() {
    let [there, back] = switched("oai-ok", "openai-compatible/model-x").await;
    insta::assert_snapshot!(there, @r#"
        {"role":"assistant","content":"text-1text-2","tool_calls":[{"type":"function","id":"toolu_C","function":{"name":"get_weather","arguments":"{\"city\":\"Rome\"}"}}]}
        {"role":"tool","tool_call_id":"toolu_C","content":"ok"}
    "#);
    insta::assert_snapshot!(back, @r#"
        {"type":"thinking","thinking":"T1","signature":"SIG-ONE"}
        {"type":"text","text":"text-1"}
        {"type":"thinking","thinking":"T2","signature":"SIG-TWO"}
        {"type":"redacted_thinking","data":"REDACTED-DATA"}
        {"type":"text","text":"text-2"}
        {"type":"tool_use","id":"toolu_C","name":"get_weather","input":{"city":"Rome"}}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_C","content":[{"type":"text","text":"ok"}]}]}
        {"type":"text","text":"Calling tools."}
        {"type":"tool_use","id":"call_A","name":"get_weather","input":{"city":"Paris"}}
        {"type":"tool_use","id":"call_B","name":"get_time","input":{"tz":"CET"}}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_A","content":[{"type":"text","text":"ok"}]},{"type":"tool_result","tool_use_id":"call_B","content":[{"type":"text","text":"ok"}]}]}
    "#);
}

#[tokio::test]
async fn a_thread_goes_to_openai_and_back() {
    let [there, back] = switched("resp-ok", "openai/gpt-5.2").await;
    insta::assert_snapshot!(there, @r#"
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"text-1","annotations":[]}],"status":"completed","id":"msg_windlass_1"}
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"text-2","annotations":[]}],"status":"completed","id":"msg_windlass_2"}
        {"type":"function_call","call_id":"toolu_C","name":"get_weather","arguments":"{\"city\":\"Rome\"}"}
        {"type":"function_call_output","call_id":"toolu_C","output":"ok","status":"completed"}
    "#);
    insta::assert_snapshot!(back, @r#"
        {"type":"thinking","thinking":"T1","signature":"SIG-ONE"}
        {"type":"text","text":"text-1"}
        {"type":"thinking","thinking":"T2","signature":"SIG-TWO"}
        {"type":"redacted_thinking","data":"REDACTED-DATA"}
        {"type":"text","text":"text-2"}
        {"type":"tool_use","id":"toolu_C","name":"get_weather","input":{"city":"Rome"}}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_C","content":[{"type":"text","text":"ok"}]}]}
        {"type":"text","text":"Calling."}
        {"type":"tool_use","id":"call_A","name":"get_weather","input":{"city":"Paris"}}
        {"type":"tool_use","id":"call_B","name":"get_time","input":{"tz":"CET"}}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_A","content":[{"type":"text","text":"ok"}]},{"type":"tool_result","tool_use_id":"call_B","content":[{"type":"text","text":"ok"}]}]}
    "#);
}

#[tokio::test]
async fn a_thread_goes_to_gemini_and_back() {
    let [there, back] = switched("gem-ok", "gemini/gemini-3.8-flash").await;
    insta::assert_snapshot!(there, @r#"
        {"text":"text-1"}
        {"text":"text-2"}
        {"functionCall":{"name":"get_weather","args":{"city":"Rome"},"id":"toolu_C"},"thoughtSignature":"skip_thought_signature_validator"}
        {"parts":[{"functionResponse":{"name":"get_weather","id":"toolu_C","response":{"result":"ok"}}}],"role":"user"}
    "#);
    insta::assert_snapshot!(back, @r#"
        {"type":"thinking","thinking":"T1","signature":"SIG-ONE"}
        {"type":"text","text":"text-1"}
        {"type":"thinking","thinking":"T2","signature":"SIG-TWO"}
        {"type":"redacted_thinking","data":"REDACTED-DATA"}
        {"type":"text","text":"text-2"}
        {"type":"tool_use","id":"toolu_C","name":"get_weather","input":{"city":"Rome"}}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_C","content":[{"type":"text","text":"ok"}]}]}
        {"type":"text","text":"Calling "}
        {"type":"tool_use","id":"g1","name":"get_weather","input":{"city":"Paris"}}
        {"type":"tool_use","id":"g2","name":"get_time","input":{"tz":"CET"}}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"g1","content":[{"type":"text","text":"ok"}]},{"type":"tool_result","tool_use_id":"g2","content":[{"type":"text","text":"ok"}]}]}
    "#);
}

#[tokio::test]
async fn a_thread_goes_to_mistral_and_back() {
    let [there, back] = switched("oai-ok", "mistral/large").await;
    insta::assert_snapshot!(there, @r#"
        {"role":"assistant","content":"text-1text-2","tool_calls":[{"type":"function","id":"00ba0cdfb","function":{"name":"get_weather","arguments":"{\"city\":\"Rome\"}"}}]}
        {"role":"tool","tool_call_id":"00ba0cdfb","content":"ok"}
    "#);
    insta::assert_snapshot!(back, @r#"
        {"type":"thinking","thinking":"T1","signature":"SIG-ONE"}
        {"type":"text","text":"text-1"}
        {"type":"thinking","thinking":"T2","signature":"SIG-TWO"}
        {"type":"redacted_thinking","data":"REDACTED-DATA"}
        {"type":"text","text":"text-2"}
        {"type":"tool_use","id":"toolu_C","name":"get_weather","input":{"city":"Rome"}}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_C","content":[{"type":"text","text":"ok"}]}]}
        {"type":"text","text":"Calling tools."}
        {"type":"tool_use","id":"call_A","name":"get_weather","input":{"city":"Paris"}}
        {"type":"tool_use","id":"call_B","name":"get_time","input":{"tz":"CET"}}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_A","content":[{"type":"text","text":"ok"}]},{"type":"tool_result","tool_use_id":"call_B","content":[{"type":"text","text":"ok"}]}]}
    "#);
}

#[tokio::test]
async fn what_is_recorded_is_small() {
    let server = ProviderServer::start().await.unwrap();
    for (scenario, most) in [("anth-ok", 450), ("oai-ok", 400), ("resp-ok", 1_400), ("gem-ok", 800)] {
        let name = name_of(kind_of(scenario));
        let model = model(&server, scenario, name, |_| {});
        let reply = read(&*model, call(name, ask())).await.1.unwrap();
        let size = serde_json::to_string(&reply.blocks).unwrap().len();
        assert!(size <= most, "{scenario}: {size} bytes");
    }
}

// rows: SK-L10
#[tokio::test]
async fn repeated_ids_across_steps_are_made_unique() {
    let server = ProviderServer::start().await.unwrap();
    let name = name_of(WireKind::OpenaiChat);
    let model = model(&server, "oai-spaces", name, |_| {});
    let first = read(&*model, call(name, ask())).await.1.unwrap();
    let twice = answered(answered(ask(), &first), &first);
    read(&*model, call(name, twice)).await.1.unwrap();
    insta::assert_snapshot!(assistant_side(&server.requests()[1].body), @r#"
    {"role":"assistant","tool_calls":[{"type":"function","id":"call_A","function":{"name":"get_weather","arguments":"{ \"city\" : \"Paris\", \"t\": 1.50 }"}}]}
    {"role":"tool","tool_call_id":"call_A","content":"ok"}
    {"role":"assistant","tool_calls":[{"type":"function","id":"call_1","function":{"name":"get_weather","arguments":"{ \"city\" : \"Paris\", \"t\": 1.50 }"}}]}
    {"role":"tool","tool_call_id":"call_1","content":"ok"}
    "#);
}
