//! Tests of the scripts, with a client that keeps the conversation.

use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use super::*;

/// A turn that a client received: the text, and the calls as (id, name, arguments).
#[derive(Debug, Default, PartialEq)]
struct Turn {
    text: String,
    calls: Vec<(String, String, String)>,
}

async fn post(server: &ModelServer, path: &str, body: &Value) -> String {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::post(format!("{}{path}", server.origin()));
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let bytes = client.request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn events(stream: &str) -> Vec<Value> {
    let data = stream.split("\n\n").filter_map(|event| event.split_once("data: "));
    data.filter(|(_, data)| *data != "[DONE]").map(|(_, data)| serde_json::from_str(data).unwrap()).collect()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn chat_turn(stream: &str) -> Turn {
    assert!(stream.ends_with("data: [DONE]\n\n"), "{stream}");
    let mut turn = Turn::default();
    for event in events(stream) {
        let delta = &event["choices"][0]["delta"];
        turn.text += &string(&delta["content"]);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            if call["id"].is_string() {
                turn.calls.push((string(&call["id"]), string(&function["name"]), String::new()));
            }
            turn.calls[call["index"].as_u64().unwrap() as usize].2 += &string(&function["arguments"]);
        }
    }
    turn
}

fn messages_turn(stream: &str) -> Turn {
    let mut turn = Turn::default();
    for event in events(stream) {
        let (block, delta) = (&event["content_block"], &event["delta"]);
        if block["type"] == "tool_use" {
            turn.calls.push((string(&block["id"]), string(&block["name"]), String::new()));
        }
        turn.text += &string(&delta["text"]);
        if delta["type"] == "input_json_delta" {
            turn.calls[event["index"].as_u64().unwrap() as usize].2 += &string(&delta["partial_json"]);
        }
    }
    turn
}

fn responses_turn(stream: &str) -> Turn {
    let mut turn = Turn::default();
    for event in events(stream) {
        if event["type"] == "response.output_text.delta" {
            turn.text += &string(&event["delta"]);
        }
        let item = &event["item"];
        if event["type"] == "response.output_item.done" && item["type"] == "function_call" {
            turn.calls.push((string(&item["call_id"]), string(&item["name"]), string(&item["arguments"])));
        }
    }
    turn
}

/// Plays a script to its end over chat completions. `window` is the number of messages kept after the first.
async fn play_chat(server: &ModelServer, model: &str, window: usize) -> Vec<Turn> {
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    let mut turns = Vec::new();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tools = ["other", "echo"]
        .map(|name| json!({"type": "function", "function": {"name": name, "parameters": schema}}));
    loop {
        let body = json!({"model": model, "stream": true, "messages": messages, "tools": tools});
        let turn = chat_turn(&post(server, "/v1/chat/completions", &body).await);
        let calls: Vec<Value> = turn
            .calls
            .iter()
            .map(
                |(id, name, arguments)| json!({"id": id, "function": {"name": name, "arguments": arguments}}),
            )
            .collect();
        let ids: Vec<String> = turn.calls.iter().map(|(id, ..)| id.clone()).collect();
        turns.push(turn);
        if ids.is_empty() {
            return turns;
        }
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
        messages.extend(ids.iter().map(|id| json!({"role": "tool", "tool_call_id": id, "content": "ok"})));
        messages.drain(1..messages.len().saturating_sub(window).max(1));
    }
}

fn calls_of(turns: &[Turn]) -> Vec<String> {
    let calls = turns.iter().flat_map(|turn| &turn.calls);
    calls.map(|(_, name, arguments)| format!("{name} {arguments}")).collect()
}

#[tokio::test]
async fn a_loop_calls_the_echo_tool_and_ends_with_a_text() {
    let server = ModelServer::start(0).await.unwrap();
    let turns = play_chat(&server, "loop-4", usize::MAX).await;
    assert_eq!(calls_of(&turns), ["echo {\"n\":0}", "echo {\"n\":1}", "echo {\"n\":2}"]);
    assert_eq!(turns[3].text.matches(" tok").count(), 50);
    assert_eq!(server.stats().requests(), 4);
}

#[tokio::test]
async fn a_script_continues_after_the_client_drops_old_messages() {
    let server = ModelServer::start(0).await.unwrap();
    assert_eq!(play_chat(&server, "loop-20", 4).await, play_chat(&server, "loop-20", usize::MAX).await);
}

#[tokio::test]
async fn parallel_calls_have_ids_of_their_own() {
    let server = ModelServer::start(0).await.unwrap();
    let turns = play_chat(&server, "loop-5-par3", usize::MAX).await;
    let mut ids: Vec<&str> = turns.iter().flat_map(|turn| &turn.calls).map(|(id, ..)| id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((turns.len(), ids.len()), (5, 12));
}

#[tokio::test]
async fn files_are_written_in_a_known_order() {
    let server = ModelServer::start(0).await.unwrap();
    let turns = play_chat(&server, "files-5-delay1ms", usize::MAX).await;
    let expected = [
        r#"Write {"file_path":"log.txt","content":"END\n"}"#,
        r#"Edit {"file_path":"log.txt","old_string":"END","new_string":"line 1\nEND"}"#,
        r#"Edit {"file_path":"log.txt","old_string":"END","new_string":"line 2\nEND"}"#,
        r#"Write {"file_path":"out-3.txt","content":"3"}"#,
    ];
    assert_eq!(calls_of(&turns), expected);
    assert!(turns[4].text.starts_with("done tok0001"), "{}", turns[4].text);
}

#[tokio::test]
async fn messages_and_responses_say_the_same_as_chat() {
    let server = ModelServer::start(0).await.unwrap();
    let chat = play_chat(&server, "files-3", usize::MAX).await;

    let id = "call_0_0_00000000";
    let user = json!({"role": "user", "content": "go"});
    let result = json!([{"type": "tool_result", "tool_use_id": id, "content": "ok"}]);
    let body =
        json!({"model": "files-3", "stream": true, "messages": [user, {"role": "user", "content": result}]});
    let turn = messages_turn(&post(&server, "/v1/messages", &body).await);
    assert_eq!(turn, chat[1]);
    let body = json!({"model": "stream-3", "stream": true, "messages": [user]});
    assert_eq!(messages_turn(&post(&server, "/v1/messages", &body).await).text, " tok0000 tok0001 tok0002");

    let result = json!({"type": "function_call_output", "call_id": id, "output": "ok"});
    let body = json!({"model": "files-3", "stream": true, "input": [user, result]});
    assert_eq!(responses_turn(&post(&server, "/v1/responses", &body).await), chat[1]);
    let body = json!({"model": "stream-3", "stream": true, "input": "go"});
    assert_eq!(responses_turn(&post(&server, "/v1/responses", &body).await).text, " tok0000 tok0001 tok0002");
}

#[tokio::test]
async fn a_new_user_message_restarts_the_script_with_new_ids() {
    let server = ModelServer::start(0).await.unwrap();
    let first = play_chat(&server, "files-3", usize::MAX).await;
    let result = json!({"role": "tool", "tool_call_id": first[0].calls[0].0, "content": "ok"});
    let user = json!({"role": "user", "content": "go"});
    let body = json!({"model": "files-3", "stream": true, "messages": [user, result, user]});
    let again = chat_turn(&post(&server, "/v1/chat/completions", &body).await);
    assert_eq!(calls_of(&[again]), calls_of(&first)[..1]);
    let again = chat_turn(&post(&server, "/v1/chat/completions", &body).await);
    assert_ne!(again.calls[0].0, first[0].calls[0].0);
}

#[tokio::test]
async fn a_message_with_the_time_continues_the_script() {
    let server = ModelServer::start(0).await.unwrap();
    let first = play_chat(&server, "files-3", usize::MAX).await;
    let user = json!({"role": "user", "content": "go"});
    let result = json!({"role": "tool", "tool_call_id": first[0].calls[0].0, "content": "ok"});
    let time = json!("Current date and time: 2026-11-21 06:30 (UTC+00:00)");
    for content in [time.clone(), json!([{"type": "text", "text": time}])] {
        let messages = json!([user, result, {"role": "user", "content": content}]);
        let body = json!({"model": "files-3", "stream": true, "messages": messages});
        let turn = chat_turn(&post(&server, "/v1/chat/completions", &body).await);
        assert_eq!(turn, first[1]);
    }
}

#[tokio::test]
async fn the_usage_comes_where_it_is_asked_for_and_a_document_where_nothing_streams() {
    let server = ModelServer::start(0).await.unwrap();
    let user = json!({"role": "user", "content": "go"});
    let options = json!({"include_usage": true});
    let body = json!({"model": "stream-3", "stream": true, "stream_options": options, "messages": [user]});
    let stream = post(&server, "/v1/chat/completions", &body).await;
    assert_eq!(events(&stream).last().unwrap()["usage"]["completion_tokens"], 3);

    let body = json!({"model": "stream-3", "messages": [user]});
    let document: Value = serde_json::from_str(&post(&server, "/v1/chat/completions", &body).await).unwrap();
    assert_eq!(document["choices"][0]["message"]["content"], " tok0000 tok0001 tok0002");
    assert!(post(&server, "/v1/nothing", &json!({})).await.contains("/v1/nothing"));
}
