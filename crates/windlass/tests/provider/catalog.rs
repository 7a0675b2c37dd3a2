//! Models by name: providers, keys, and facts about models.

use std::time::Duration;

use windlass::models::{DemoModel, KnownModel, ProviderCatalog, ProviderConfig, Secret, WireKind};
use windlass::port::model::{ModelInfo, Models, Price};
use windlass::testing::provider::ProviderServer;
use windlass::{AgentConfig, Task};
use windlass_machine::{FailureClass, Message, ModelName, Role, StopReason, ToolSpec};

use super::ALONE;

/// Resolves a name with these variables and configurations, and formats the result.
fn check(name: &str, variables: &[&'static str], providers: &[(&str, ProviderConfig)]) -> String {
    let variables = variables.to_vec();
    let mut builder = ProviderCatalog::builder()
        .variables(move |name| variables.contains(&name).then(|| "https://value.test".to_owned()));
    for (name, config) in providers {
        builder = builder.provider(*name, config.clone());
    }
    match builder.build().unwrap().resolve(&ModelName::from(name)) {
        Ok(model) => format!("{} over {}", model.info().name, model.info().api),
        Err(error) => {
            assert_eq!(error.class, FailureClass::Config);
            error.message
        }
    }
}

// rows: SK-L1, SK-L14, LM-G6
#[test]
fn names_resolve_to_providers() {
    let found = |name: &str, variable: &'static str| check(name, &[variable], &[]);
    assert_eq!(found("gpt-5.2", "OPENAI_API_KEY"), "openai/gpt-5.2 over openai-responses");
    assert_eq!(found("openai-chat/gpt-5.2", "OPENAI_API_KEY"), "openai-chat/gpt-5.2 over openai-chat");
    assert_eq!(found("anthropic/claude-x", "ANTHROPIC_API_KEY"), "anthropic/claude-x over anthropic");
    assert_eq!(found("gemini/gemini-x", "GEMINI_API_KEY"), "gemini/gemini-x over gemini");
    assert_eq!(found("gemini/gemini-x", "GOOGLE_API_KEY"), "gemini/gemini-x over gemini");
    assert_eq!(found("ollama/llama3:8b", "NONE"), "ollama/llama3:8b over openai-chat");
    assert_eq!(found("openrouter/a/b", "OPENROUTER_API_KEY"), "openrouter/a/b over openai-chat");
    assert_eq!(found("demo/script", "NONE"), "demo/script over demo");
    for (provider, variable) in [
        ("cohere", "COHERE_API_KEY"),
        ("mistral", "MISTRAL_API_KEY"),
        ("groq", "GROQ_API_KEY"),
        ("perplexity", "PERPLEXITY_API_KEY"),
        ("fireworks", "FIREWORKS_API_KEY"),
        ("together", "TOGETHER_API_KEY"),
        ("deepinfra", "DEEPINFRA_API_KEY"),
        ("huggingface", "HUGGINGFACE_API_KEY"),
        ("xai", "XAI_API_KEY"),
        ("moonshot", "MOONSHOT_API_KEY"),
        ("deepseek", "DEEPSEEK_API_KEY"),
        ("nvidia", "NVIDIA_API_KEY"),
        ("qwen", "QWEN_API_KEY"),
    ] {
        let name = format!("{provider}/m");
        assert_eq!(found(&name, variable), format!("{name} over openai-chat"));
    }
    let azure = check("azure/d", &["AZURE_API_KEY", "AZURE_ENDPOINT"], &[]);
    assert_eq!(azure, "azure/d over openai-chat");
    let own =
        ProviderConfig { base_url: Some("http://localhost:1/v1".to_owned()), ..ProviderConfig::default() };
    assert_eq!(check("house/m", &[], &[("house", own)]), "house/m over openai-chat");
}

// rows: LM-G2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_in_the_environment_is_all_that_an_engine_needs() {
    let server = ProviderServer::start().await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let url = server.url("anth-unknown");
    let variables = [("ANTHROPIC_API_KEY", "key-of-the-house"), ("ANTHROPIC_BASE_URL", url.as_str())];
    tokio::task::block_in_place(|| {
        super::alone("provider::catalog::an_engine_without_options", home.path(), &variables);
    });
    assert_eq!(server.requests()[0].header("x-api-key"), Some("key-of-the-house"));
}

/// The process of the test above.
#[tokio::test]
async fn an_engine_without_options() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let engine = windlass::builder().build().await.unwrap();
    let task = Task::new(AgentConfig::from("anthropic/claude-haiku-4-5"), "Look.");
    assert_eq!(engine.run_task(task).await.unwrap().text.as_deref(), Some("Look."));
}

#[test]
fn a_configured_secret_does_not_follow_to_the_address_of_a_variable() {
    let secret = || Some(Secret::new("configured"));
    let with_key = || ProviderConfig { api_key: secret(), ..ProviderConfig::default() };
    let found = |name: &str, variables: &[&'static str], config: ProviderConfig| {
        let provider = name.split('/').next().unwrap().to_owned();
        check(name, variables, &[(&provider, config)])
    };
    insta::assert_snapshot!(found("openai/m", &["OPENAI_BASE_URL", "OPENAI_API_KEY"], with_key()), @"
    the configured key and headers of provider `openai` are not sent to the address in OPENAI_BASE_URL
    set `base_url` to the address they belong to, or unset OPENAI_BASE_URL
    ");
    assert!(found("azure/d", &["AZURE_ENDPOINT"], with_key()).contains("address in AZURE_ENDPOINT"));
    let header = ProviderConfig {
        headers: vec![("x-team".to_owned(), Secret::new("configured"))],
        ..ProviderConfig::default()
    };
    #[cfg(feature = "bedrock")]
    for variable in ["BEDROCK_BASE_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL"] {
        assert!(found("bedrock/m", &[variable], with_key()).contains(&format!("address in {variable}")));
    }
    #[cfg(feature = "vertex")]
    assert!(
        found("vertex/m", &["VERTEX_BASE_URL", "GOOGLE_CLOUD_PROJECT"], with_key())
            .contains("VERTEX_BASE_URL")
    );
    assert!(found("house/m", &["HOUSE_BASE_URL"], header).contains("address in HOUSE_BASE_URL"));

    // A key from a variable is sent to the URL from a variable; a configured key is sent to the URL configured with it.
    let plain = ProviderConfig { lenient: false, ..ProviderConfig::default() };
    let reached = "openai/m over openai-responses";
    assert_eq!(found("openai/m", &["OPENAI_BASE_URL", "OPENAI_API_KEY"], plain), reached);
    let beside = ProviderConfig { base_url: Some("https://house.test/v1".to_owned()), ..with_key() };
    assert_eq!(found("openai/m", &["OPENAI_BASE_URL"], beside), reached);
    // The variable repeats the default.
    let catalog = ProviderCatalog::builder()
        .variables(|name| (name == "OPENAI_BASE_URL").then(|| "https://api.openai.com/v1/".to_owned()))
        .provider("openai", with_key());
    assert!(catalog.build().unwrap().resolve(&ModelName::from("openai/m")).is_ok());
}

// rows: SK-L1
#[test]
fn what_is_missing_is_named_with_the_way_out() {
    insta::assert_snapshot!(check("anthropic/claude-x", &[], &[]), @r#"
    no key for provider `anthropic`: set ANTHROPIC_API_KEY or configure its `api_key`
    "#);
    insta::assert_snapshot!(check("gemini/g", &[], &[]), @r#"
    no key for provider `gemini`: set GEMINI_API_KEY or GOOGLE_API_KEY or configure its `api_key`
    "#);
    insta::assert_snapshot!(check("databricks/m", &["DATABRICKS_API_KEY"], &[]), @r#"
    provider `databricks` has no address: configure its `base_url` or set DATABRICKS_BASE_URL
    "#);
    insta::assert_snapshot!(check("antropic/claude-x", &[], &[]), @r#"
    unknown provider `antropic`; did you mean `anthropic`?
    name a model as `provider/model`, or configure the provider with a `base_url`
    "#);
    insta::assert_snapshot!(check("openai/", &["OPENAI_API_KEY"], &[]), @r#"model name `openai/` has no model after the provider"#);
}

#[cfg(not(any(feature = "bedrock", feature = "vertex")))]
#[test]
fn a_cloud_that_is_not_built_in_names_its_feature() {
    for cloud in ["bedrock", "vertex"] {
        let error = check(&format!("{cloud}/m"), &["AWS_REGION", "GOOGLE_CLOUD_PROJECT"], &[]);
        let expected = format!(
            "this build does not support provider `{cloud}`\nbuild Windlass with its cargo feature: \
             `--features {cloud}`"
        );
        assert_eq!(error, expected);
    }
    let config = ProviderConfig {
        wire: Some(WireKind::Converse),
        base_url: Some("http://localhost:1".to_owned()),
        ..ProviderConfig::default()
    };
    assert!(check("house/m", &[], &[("house", config)]).contains("`--features bedrock`"));
}

// rows: SK-L12, SK-L13
#[test]
fn facts_come_from_the_catalogue_and_the_configuration() {
    let info = |name: &str, config: ProviderConfig| -> ModelInfo {
        let provider = name.split('/').next().unwrap().to_owned();
        let catalog =
            ProviderCatalog::builder().variables(|_| None).provider(provider, config).build().unwrap();
        catalog.resolve(&ModelName::from(name)).unwrap().info().clone()
    };
    let with_key = || ProviderConfig { api_key: Some(Secret::new("k")), ..ProviderConfig::default() };
    let haiku = ModelInfo {
        name: "anthropic/claude-haiku-4-5".to_owned(),
        api: "anthropic".to_owned(),
        context_tokens: Some(200_000),
        max_output_tokens: Some(64_000),
        tool_calls: Some(true),
        structured_output: Some(true),
        reasoning: Some(true),
        price: Some(Price { input: 1.0, output: 5.0, cached: Some(0.1), cache_written: Some(1.25) }),
    };
    assert_eq!(info("anthropic/claude-haiku-4-5", with_key()), haiku);
    let dated = info("anthropic/claude-haiku-4-5-20251001", with_key());
    assert_eq!((dated.context_tokens, dated.price), (haiku.context_tokens, haiku.price));

    let unknown = info("anthropic/claude-unheard-of", with_key());
    assert_eq!((unknown.context_tokens, unknown.reasoning, unknown.price), (None, None, None));

    let price = Price { input: 2.0, ..Price::default() };
    let known = KnownModel { context_tokens: Some(9), price: Some(price), ..KnownModel::default() };
    let models = [("claude-haiku-4-5".to_owned(), known)].into();
    let told = info("anthropic/claude-haiku-4-5", ProviderConfig { models, ..with_key() });
    assert_eq!(told, ModelInfo { context_tokens: Some(9), price: Some(price), ..haiku });
}

#[test]
fn the_listing_says_what_can_be_called() {
    let catalog = ProviderCatalog::builder()
        .variables(|name| (name == "GROQ_API_KEY").then(|| "k".to_owned()))
        .build()
        .unwrap();
    let ready: Vec<String> =
        catalog.providers().into_iter().filter(|status| status.ready).map(|status| status.name).collect();
    assert_eq!(ready, ["groq", "llamacpp", "lmstudio", "ollama", "vllm"]);
}

// rows: LM-G7
#[tokio::test]
async fn the_callers_own_http_client_is_used() {
    let server = ProviderServer::start().await.unwrap();
    let client = reqwest::Client::builder().user_agent("house/1").build().unwrap();
    let config = super::config(&server, "anth-ok", WireKind::Anthropic);
    let catalog = ProviderCatalog::builder()
        .variables(|_| None)
        .provider("anthropic", config)
        .http_client(client)
        .build()
        .unwrap();
    let name = super::name_of(WireKind::Anthropic);
    let model = catalog.resolve(&ModelName::from(name)).unwrap();
    super::read(&*model, super::call(name, super::ask())).await.1.unwrap();
    assert_eq!(server.requests()[0].header("user-agent"), Some("house/1"));
}

#[tokio::test]
async fn the_demo_model_speaks_word_by_word() {
    let demo = DemoModel::with_pause(Duration::ZERO);
    let mut call = super::call("demo/script", vec![Message::text(Role::User, "Read data.csv")]);
    let (parts, outcome) = super::read(&demo, call.clone()).await;
    let reply = outcome.unwrap();
    let said = Message { role: Role::Assistant, blocks: reply.blocks }.plain_text();
    assert_eq!(parts, [format!("text: {said}")]);

    let glob = ToolSpec { name: "Glob".into(), ..call.tools[0].clone() };
    call.tools = vec![glob].into();
    let (parts, outcome) = super::read(&demo, call).await;
    assert_eq!(parts[1], r#"call: Glob {"pattern":"*"}"#);
    assert_eq!(outcome.unwrap().stop, StopReason::ToolCalls);
}
