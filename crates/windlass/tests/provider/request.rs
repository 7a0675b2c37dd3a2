//! The contents of a request: settings, marks, media, keys.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use windlass::models::{Auth, ProviderConfig, Secret, WireKind};
use windlass::port::model::ModelCall;
use windlass::testing::provider::{LoggedRequest, ProviderServer};
use windlass_machine::{
    Agent, AtLimit, Attempt, BlobRef, Block, CacheMarks, Content, Digest, Effort, FailureClass, Fingerprint,
    Input, Limits, Machine, Message, ModelReplied, ModelRequest, ModelSettings, NewMessage, Reasoning, Role,
    RunOptions, StopReason, Surface, Timestamp, ToolCall, ToolResult, Usage, View, WhenBusy,
};

use super::{ask, call, kind_of, model, name_of, read};

/// Sends one request and formats what arrived.
pub async fn sent(
    scenario: &str,
    name: &str,
    configure: impl FnOnce(&mut ProviderConfig),
    edit: impl FnOnce(&mut ModelCall),
) -> LoggedRequest {
    let server = ProviderServer::start().await.unwrap();
    let model = model(&server, scenario, name, configure);
    let mut call = call(name, ask());
    edit(&mut call);
    read(&*model, call).await.1.unwrap();
    server.requests().remove(0)
}

/// The body of a request with these settings.
async fn with(scenario: &str, name: &str, settings: ModelSettings) -> Value {
    sent(scenario, name, |_| {}, |call| call.request.settings = settings).await.body
}

fn reasoning(reasoning: Reasoning) -> ModelSettings {
    ModelSettings { reasoning, ..ModelSettings::default() }
}

/// The fields of a body, without those named.
fn without(mut body: Value, names: &[&str]) -> String {
    for name in names {
        body.as_object_mut().unwrap().shift_remove(*name);
    }
    body.to_string()
}

// rows: SK-L2, SK-C11
#[tokio::test]
async fn anthropic_marks_system_and_tools() {
    let request = sent(
        "anth-ok",
        "anthropic/claude-haiku-4-5",
        |_| {},
        |call| {
            call.request.settings.reasoning = Reasoning::Off;
            call.request.system.push(Content::from("Stable second part."));
            call.request.tail = vec!["It is noon.".to_owned()];
        },
    )
    .await;
    insta::assert_snapshot!(without(request.body, &["tools"]), @r#"
    {"model":"claude-haiku-4-5","messages":[{"role":"user","content":[{"type":"text","text":"What is the weather?"},{"type":"text","text":"It is noon."}]}],"system":[{"type":"text","text":"Be brief."},{"type":"text","text":"Stable second part.","cache_control":{"type":"ephemeral","ttl":"5m"}}],"max_tokens":64000,"tool_choice":{"type":"auto"},"thinking":{"type":"disabled"},"stream":true}
    "#);
}

// rows: SK-C11
#[tokio::test]
async fn the_last_tool_carries_the_mark_of_its_age() {
    for (marks, expected) in [
        (CacheMarks::Off, Value::Null),
        (CacheMarks::Short, json!({"type": "ephemeral", "ttl": "5m"})),
        (CacheMarks::Hour, json!({"type": "ephemeral", "ttl": "1h"})),
    ] {
        let settings = ModelSettings { cache: marks, ..ModelSettings::default() };
        let body = with("anth-ok", "anthropic/claude-haiku-4-5", settings).await;
        assert_eq!(body["tools"][1]["cache_control"], expected);
        assert_eq!(body["tools"][0]["cache_control"], Value::Null);
        assert_eq!(body["system"][0]["cache_control"], expected);
    }
}

// rows: SK-C11
#[tokio::test]
async fn claude_behind_a_gateway_is_marked_on_the_chat_wire() {
    let content = |name: &'static str, cache: CacheMarks| async move {
        let stable = |call: &mut ModelCall| {
            call.request.settings.cache = cache;
            call.request.system.push(Content::from("Stable second part."));
            call.request.tail = vec!["It is noon.".to_owned()];
        };
        let body = sent("oai-ok", name, |_| {}, stable).await.body;
        let marks = body.to_string().matches("cache_control").count();
        (body["messages"][0]["content"].clone(), marks)
    };
    let text = "Be brief.\n\nStable second part.";
    let part = |mark: Value| json!([{"type": "text", "text": text, "cache_control": mark}]);
    let claude = "openrouter/anthropic/claude-sonnet-4.5";
    assert_eq!(content(claude, CacheMarks::Short).await, (part(json!({"type": "ephemeral"})), 1));
    assert_eq!(content(claude, CacheMarks::Hour).await, (part(json!({"type": "ephemeral", "ttl": "1h"})), 1));
    assert_eq!(content(claude, CacheMarks::Off).await.1, 0);
    assert_eq!(content("openrouter/x-lab/y", CacheMarks::Short).await.1, 0);
    assert_eq!(content("openai-compatible/anthropic/claude-y", CacheMarks::Short).await.1, 0);
}

// rows: SK-L2
#[tokio::test]
async fn chat_asks_for_a_stream_with_usage() {
    let request = sent(
        "oai-ok",
        "openai-chat/gpt-4.1",
        |_| {},
        |call| {
            call.request.settings.temperature = Some(0.5);
            call.request.settings.max_output_tokens = Some(100);
            call.request.tail = vec!["It is noon.".to_owned()];
        },
    )
    .await;
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(request.header("authorization"), Some("Bearer test-key"));
    insta::assert_snapshot!(request.body, @r#"
    {"model":"gpt-4.1","messages":[{"role":"system","content":[{"type":"text","text":"Be brief."}]},{"role":"user","content":[{"type":"text","text":"What is the weather?"},{"type":"text","text":"It is noon."}]}],"tools":[{"type":"function","function":{"name":"get_weather","description":"the get_weather tool","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}},{"type":"function","function":{"name":"get_time","description":"the get_time tool","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}],"tool_choice":"auto","temperature":0.5,"max_tokens":100,"stream_options":{"include_usage":true},"stream":true}
    "#);
}

#[tokio::test]
async fn responses_are_never_stored() {
    let request = sent("resp-ok", "openai/gpt-5.2", |_| {}, |call| call.tools = Vec::new().into()).await;
    assert_eq!(request.path, "/v1/responses");
    insta::assert_snapshot!(request.body, @r#"
    {"model":"gpt-5.2","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"What is the weather?"}]}],"instructions":"Be brief.","reasoning":{"effort":"high"},"store":false,"stream":true,"include":["reasoning.encrypted_content"]}
    "#);
}

// rows: SK-C18
#[tokio::test]
async fn gemini_gets_its_key_in_a_header_and_a_clean_schema() {
    let request = sent("gem-ok", "gemini/gemini-2.5-flash", |_| {}, |call| {
        let mut tools = call.tools.to_vec();
        tools[0].input_schema =
            json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {"type": "integer"}]}},
                "additionalProperties": false});
        call.tools = tools.into();
    })
    .await;
    assert_eq!(request.path, "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
    assert_eq!(request.header("x-goog-api-key"), Some("test-key"));
    insta::assert_snapshot!(request.body, @r#"
    {"contents":[{"parts":[{"text":"What is the weather?"}],"role":"user"}],"systemInstruction":{"parts":[{"text":"Be brief."}],"role":"model"},"generationConfig":{"thinkingConfig":{"thinkingBudget":4096,"includeThoughts":true}},"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},"tools":[{"functionDeclarations":[{"name":"get_weather","description":"the get_weather tool","parametersJsonSchema":{"type":"object","properties":{"a":{"anyOf":[{"type":"null"},{"type":"integer"}]}},"additionalProperties":false}},{"name":"get_time","description":"the get_time tool","parametersJsonSchema":{"type":"object","properties":{"city":{"type":"string"}}}}]}]}
    "#);
}

// rows: SK-L3, SK-L4
#[tokio::test]
async fn reasoning_is_budget_then_effort_then_what_the_model_can() {
    let haiku = "anthropic/claude-haiku-4-5";
    let opus = "anthropic/claude-opus-4-8";
    let shown =
        |body: &Value| format!("{} {} {}", body["thinking"], body["output_config"], body["max_tokens"]);
    let anthropic = |name: &'static str, setting: Reasoning| async move {
        shown(&with("anth-ok", name, reasoning(setting)).await)
    };
    insta::assert_snapshot!(anthropic(haiku, Reasoning::BudgetTokens(2_000)).await, @r#"{"type":"enabled","budget_tokens":2000} null 16384"#);
    insta::assert_snapshot!(anthropic(haiku, Reasoning::BudgetTokens(20_000)).await, @r#"{"type":"enabled","budget_tokens":20000} null 40000"#);
    insta::assert_snapshot!(anthropic(haiku, Reasoning::Effort(Effort::Medium)).await, @r#"{"type":"enabled","budget_tokens":2048} null 64000"#);
    insta::assert_snapshot!(anthropic(haiku, Reasoning::Auto).await, @r#"{"type":"enabled","budget_tokens":4096} null 64000"#);
    insta::assert_snapshot!(anthropic(haiku, Reasoning::Off).await, @r#"{"type":"disabled"} null 64000"#);
    insta::assert_snapshot!(anthropic(opus, Reasoning::Auto).await, @r#"{"type":"adaptive"} {"effort":"high"} 128000"#);
    insta::assert_snapshot!(anthropic(opus, Reasoning::Effort(Effort::Minimal)).await, @r#"{"type":"adaptive"} {"effort":"low"} 128000"#);
    insta::assert_snapshot!(anthropic(opus, Reasoning::BudgetTokens(2_000)).await, @r#"{"type":"adaptive"} {"effort":"medium"} 128000"#);
    insta::assert_snapshot!(anthropic("anthropic/claude-unheard-of", Reasoning::Auto).await, @r#"null null 8192"#);
    insta::assert_snapshot!(anthropic("anthropic/claude-unheard-of", Reasoning::BudgetTokens(3_000)).await, @r#"{"type":"enabled","budget_tokens":3000} null 16384"#);
}

// rows: SK-L3
#[tokio::test]
async fn other_wires_say_effort_in_their_own_words() {
    let high = || reasoning(Reasoning::Effort(Effort::High));
    assert_eq!(with("resp-ok", "openai/gpt-5.2", high()).await["reasoning"], json!({"effort": "high"}));
    assert_eq!(with("oai-ok", "openai-chat/gpt-5.2", high()).await["reasoning_effort"], "high");
    assert_eq!(with("oai-ok", "openai-chat/gpt-4.1", high()).await["reasoning_effort"], Value::Null);
    assert_eq!(with("oai-ok", "fireworks/some-model", high()).await["reasoning_effort"], "high");
    assert_eq!(with("oai-ok", "openrouter/x-lab/y", high()).await["reasoning"], json!({"effort": "high"}));
    let gemini = with("gem-ok", "gemini/gemini-3.8-flash", high()).await;
    assert_eq!(
        gemini["generationConfig"]["thinkingConfig"],
        json!({"thinkingLevel": "high", "includeThoughts": true})
    );
}

// rows: SK-L2
#[tokio::test]
async fn what_a_model_does_not_take_is_dropped() {
    let warm = || ModelSettings { temperature: Some(0.7), ..ModelSettings::default() };
    assert_eq!(with("anth-ok", "anthropic/claude-opus-4-8", warm()).await["temperature"], Value::Null);
    assert_eq!(with("anth-ok", "anthropic/claude-unheard-of", warm()).await["temperature"], 0.7);
    assert_eq!(with("resp-ok", "openai/gpt-5.2", warm()).await["temperature"], Value::Null);
}

// rows: SK-L5
#[tokio::test]
async fn reasoning_content_is_stripped_filled_or_left() {
    let history = |origin: &str| {
        let native =
            json!({"origin": {"api": "openai-chat", "model": origin}, "item": {"reasoning_content": null}});
        let reasoned: Message = serde_json::from_value(json!({"role": "assistant", "blocks": [
            {"kind": "reasoning", "text": "Hm", "native": native}, {"kind": "text", "text": "A"}]}))
        .unwrap();
        vec![
            Message::text(Role::User, "1"),
            reasoned,
            Message::text(Role::User, "2"),
            Message::text(Role::Assistant, "B"),
            Message::text(Role::User, "3"),
        ]
    };
    let fields = |name: &'static str| async move {
        let body = sent(
            "oai-ok",
            name,
            |_| {},
            |call| {
                call.request.messages = history(name).into_iter().map(Into::into).collect();
            },
        )
        .await
        .body;
        [body["messages"][2]["reasoning_content"].clone(), body["messages"][4]["reasoning_content"].clone()]
    };
    assert_eq!(fields("openai-compatible/k").await, [json!("Hm"), json!("")]);
    assert_eq!(fields("moonshot/kimi-k2-thinking").await, [json!("Hm"), json!("")]);
    assert_eq!(fields("qwen/qwen3").await, [Value::Null, Value::Null]);
    assert_eq!(fields("openai-chat/gpt-5.2").await, [Value::Null, Value::Null]);
}

#[tokio::test]
async fn an_answer_is_held_to_a_schema() {
    let schema = json!({"title": "The answer", "type": "object", "properties": {"a": {"type": "string"}},
        "required": ["a"], "additionalProperties": false});
    let wanted = || ModelSettings { output_schema: Some(schema.clone()), ..ModelSettings::default() };
    let chat = with("oai-ok", "openai-chat/gpt-4.1", wanted()).await;
    assert_eq!(
        chat["response_format"],
        json!({"type": "json_schema", "json_schema": {"name": "The_answer", "strict": true, "schema": schema}})
    );
    let deepseek = with("oai-ok", "deepseek/deepseek-chat", wanted()).await;
    assert_eq!(deepseek["response_format"], json!({"type": "json_object"}));
    let responses = with("resp-ok", "openai/gpt-5.2", wanted()).await;
    assert_eq!(responses["text"]["format"]["type"], "json_schema");
    let anthropic = with("anth-ok", "anthropic/claude-opus-4-8", wanted()).await;
    assert_eq!(anthropic["output_config"]["format"]["type"], "json_schema");
    let gemini = with("gem-ok", "gemini/gemini-3.8-flash", wanted()).await;
    assert_eq!(gemini["generationConfig"]["responseMimeType"], "application/json");
}

/// A history with an image, a PDF and a text file from a person, and an image and a PDF from a tool.
fn media(call: &mut ModelCall) {
    let mut blob = |bytes: &'static [u8], media_type: &str| {
        let digest = Digest::of(bytes);
        call.blobs.insert(digest, Bytes::from_static(bytes));
        BlobRef { digest, media_type: media_type.to_owned(), size_bytes: bytes.len() as u64, tokens: 1 }
    };
    let (picture, pdf, text) =
        (blob(b"PNG", "image/png"), blob(b"PDF", "application/pdf"), blob(b"a,b", "text/csv"));
    let long = blob(b"long", "text/plain");
    let asked = json!({"role": "assistant", "blocks": [
        {"kind": "tool_call", "id": "call_A", "name": "get_weather", "asked": "{}"}]});
    let file = |name: &str, blob: &BlobRef| Block::File { name: name.to_owned(), blob: blob.clone() };
    let result = ToolResult {
        call_id: "call_A".into(),
        name: "get_weather".into(),
        content: vec![Block::text("see"), Block::Image { blob: picture.clone() }, file("r.pdf", &pdf)],
        error: true,
    };
    let shown = Block::Text { text: Content::Blob(long), native: None };
    let first = Message {
        role: Role::User,
        blocks: vec![shown, Block::Image { blob: picture }, file("d.pdf", &pdf), file("t.csv", &text)],
    };
    let messages = vec![
        first,
        serde_json::from_value(asked).unwrap(),
        Message { role: Role::Tool, blocks: vec![Block::ToolResult(result)] },
    ];
    call.request.messages = messages.into_iter().map(Into::into).collect();
}

#[tokio::test]
async fn pictures_and_files_come_from_blobs() {
    let messages = |scenario: &'static str, key: &'static str| async move {
        let body = sent(scenario, name_of(kind_of(scenario)), |_| {}, media).await.body;
        body[key].as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(messages("anth-ok", "messages").await, @r#"
    {"role":"user","content":[{"type":"text","text":"long"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"UE5H"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"UERG"},"title":"d.pdf"},{"type":"text","text":"<file name=\"t.csv\">\na,b\n</file>"}]}
    {"role":"assistant","content":[{"type":"tool_use","id":"call_A","name":"get_weather","input":{}}]}
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_A","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"UE5H"}},{"type":"text","text":"(file `r.pdf` follows)"}],"is_error":true},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"UERG"},"title":"r.pdf"}]}
    "#);
    insta::assert_snapshot!(messages("oai-ok", "messages").await, @r#"
    {"role":"system","content":[{"type":"text","text":"Be brief."}]}
    {"role":"user","content":[{"type":"text","text":"long"},{"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H","detail":"auto"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,UERG","filename":"document.pdf"}},{"type":"text","text":"<file name=\"t.csv\">\na,b\n</file>"}]}
    {"role":"assistant","tool_calls":[{"type":"function","id":"call_A","function":{"name":"get_weather","arguments":"{}"}}]}
    {"role":"tool","tool_call_id":"call_A","content":"see\n(see attached image)\n(file `r.pdf` follows)"}
    {"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,UERG","filename":"document.pdf"}},{"type":"text","text":"Attached image(s) from tool result:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H","detail":"auto"}}]}
    "#);
    insta::assert_snapshot!(messages("resp-ok", "input").await, @r#"
    {"type":"message","role":"user","content":[{"type":"input_text","text":"long"}]}
    {"type":"message","role":"user","content":[{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,UE5H"}]}
    {"type":"message","role":"user","content":[{"type":"input_file","file_data":"data:application/pdf;base64,UERG","filename":"document.pdf"}]}
    {"type":"message","role":"user","content":[{"type":"input_text","text":"<file name=\"t.csv\">\na,b\n</file>"}]}
    {"type":"function_call","call_id":"call_A","name":"get_weather","arguments":"{}"}
    {"type":"function_call_output","call_id":"call_A","output":[{"type":"input_text","text":"see"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,UE5H"},{"type":"input_text","text":"(file `r.pdf` follows)"}],"status":"completed"}
    {"type":"message","role":"user","content":[{"type":"input_file","file_data":"data:application/pdf;base64,UERG","filename":"document.pdf"}]}
    "#);
    insta::assert_snapshot!(messages("gem-ok", "contents").await, @r#"
    {"parts":[{"text":"long"},{"inlineData":{"mimeType":"image/png","data":"UE5H"}},{"inlineData":{"mimeType":"application/pdf","data":"UERG"}},{"text":"<file name=\"t.csv\">\na,b\n</file>"}],"role":"user"}
    {"parts":[{"functionCall":{"name":"get_weather","args":{},"id":"call_A"},"thoughtSignature":"skip_thought_signature_validator"}],"role":"model"}
    {"parts":[{"functionResponse":{"name":"get_weather","id":"call_A","response":{"error":["see","(file `r.pdf` follows)"]},"parts":[{"inlineData":{"mimeType":"image/png","data":"UE5H"}}]}}],"role":"user"}
    {"parts":[{"inlineData":{"mimeType":"application/pdf","data":"UERG"}}],"role":"user"}
    "#);
}

#[tokio::test]
async fn a_missing_blob_is_typed() {
    let server = ProviderServer::start().await.unwrap();
    let name = name_of(WireKind::Anthropic);
    let model = model(&server, "anth-ok", name, |_| {});
    let mut call = call(name, ask());
    media(&mut call);
    call.blobs.clear();
    let error = read(&*model, call).await.1.unwrap_err();
    assert_eq!(error.class, FailureClass::MissingBlob);
    assert_eq!(server.requests(), []);
}

// rows: LM-G7
#[tokio::test]
async fn keys_and_headers_go_where_they_are_configured() {
    let name = name_of(WireKind::Anthropic);
    let usual = sent("anth-ok", name, |_| {}, |_| {}).await;
    assert_eq!((usual.path.as_str(), usual.header("x-api-key")), ("/v1/messages", Some("test-key")));

    let bearer = sent("anth-ok", name, |config| config.auth = Auth::Bearer, |_| {}).await;
    assert_eq!(bearer.header("authorization"), Some("Bearer test-key"));
    assert_eq!(bearer.header("x-api-key"), None);

    let own = |config: &mut ProviderConfig| {
        config.auth = Auth::Header("x-gate".to_owned());
        config.headers.push(("anthropic-version".to_owned(), Secret::new("2099-01-01")));
        config.extra_body.insert("metadata".to_owned(), json!({"user_id": "u"}));
    };
    let gate = sent("anth-ok", name, own, |_| {}).await;
    assert_eq!(gate.header("x-gate"), Some("test-key"));
    assert_eq!(gate.header("x-api-key"), None);
    assert_eq!(gate.header("anthropic-version"), Some("2099-01-01"));
    assert_eq!(gate.body["metadata"], json!({"user_id": "u"}));

    let azure = |config: &mut ProviderConfig| {
        config.base_url = config.base_url.take().map(|base| base.trim_end_matches("/v1").to_owned());
    };
    let deployed = sent("oai-ok", "azure/my-deployment", azure, |_| {}).await;
    assert_eq!(deployed.path, "/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21");
    assert_eq!(deployed.header("api-key"), Some("test-key"));

    let mistral = sent("oai-ok", "mistral/mistral-large", |_| {}, |_| {}).await;
    assert_eq!(mistral.path, "/v1/chat/completions");
}

#[tokio::test]
async fn a_paused_reply_goes_back_as_it_is() {
    let paused = |call: &mut ModelCall| {
        call.request.messages.push(Message::text(Role::Assistant, "Par").into());
        call.request.tail = vec!["It is noon.".to_owned()];
    };
    let body = sent("anth-ok", name_of(WireKind::Anthropic), |_| {}, paused).await.body;
    let last = body["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(*last, json!({"role": "assistant", "content": [{"type": "text", "text": "Par"}]}));
}

// rows: LM-G6
#[tokio::test]
async fn other_endpoints_speak_the_messages_wire_too() {
    for name in ["anthropic-compatible/claude-y", "openrouter/lab/claude-y", "house/claude-y"] {
        let thinking = |call: &mut ModelCall| {
            call.request.settings = reasoning(Reasoning::Effort(Effort::High));
        };
        let request = sent("anth-ok", name, |_| {}, thinking).await;
        assert_eq!(request.path, "/v1/messages", "{name}");
        assert_eq!(request.body["thinking"], json!({"type": "enabled", "budget_tokens": 4096}), "{name}");
        assert_eq!(request.body["max_tokens"], 16_384, "{name}");
        assert_eq!(
            request.body["system"][0]["cache_control"],
            json!({"type": "ephemeral", "ttl": "5m"}),
            "{name}"
        );
        assert_eq!(request.body["model"], name.split_once('/').unwrap().1);
    }
}

/// The request of a run at its step limit, after the model has replied with text and a call.
fn last_request(name: &str) -> ModelRequest {
    let agent = Agent {
        name: "clerk".into(),
        models: vec![name.into()],
        instructions: Vec::new(),
        tools: None,
        settings: ModelSettings::default(),
        limits: Limits { max_steps: 1, ..Limits::default() },
        mode: None,
    };
    let message = NewMessage {
        id: "m".into(),
        message: Arc::new(Message::text(Role::User, "What is the weather?")),
        by: "ann".into(),
        workspace: "w".into(),
        folder: None,
        run: "r".into(),
        agent: Arc::new(agent),
        options: RunOptions {
            surface: Surface::Chat,
            at_limit: Some(AtLimit::Answer),
            utc_offset_minutes: Some(0),
            ..RunOptions::default()
        },
        when_busy: WhenBusy::Queue,
        note: None,
    };
    let call = ToolCall { id: "call_A".into(), name: "nope".into(), asked: "{}".into(), native: None };
    let reply = ModelReplied {
        attempt: Attempt { step: 1, attempt: 1 },
        blocks: vec![Block::text("Looking."), Block::ToolCall(call)],
        stop: StopReason::ToolCalls,
        usage: Usage::default(),
        cost: None,
        request: Fingerprint::default(),
        ttft_ms: None,
        thoughts_ms: Vec::new(),
        duration_ms: 1,
        view: View::default(),
    };
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    for input in [Input::Message(Box::new(message)), Input::ModelReplied(Box::new(reply))] {
        machine.handle(&input, Timestamp(0)).unwrap();
    }
    machine.request().unwrap()
}

// rows: WT-L11
#[tokio::test]
async fn the_last_answer_is_asked_for_in_words() {
    for scenario in ["anth-ok", "oai-ok", "resp-ok", "gem-ok"] {
        let name = name_of(kind_of(scenario));
        let request = sent(
            scenario,
            name,
            |_| {},
            |call| {
                call.request = last_request(name);
                call.tools = Vec::new().into();
            },
        );
        let body = request.await.body.to_string();
        let said = body.find("Looking.").unwrap();
        let instruction = body.find("No more steps are left. Answer now").unwrap_or_default();
        let time = body.find("Current date and time: 1970-01-01 00:00").unwrap_or_default();
        assert!(said < instruction && instruction < time, "{scenario}: {body}");
    }
}
