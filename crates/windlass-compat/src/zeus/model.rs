//! The client's model settings: model, endpoint and key. (ZE-C7)
//!
//! A client's endpoint receives conversations and everything that tools read, so the settings decide whether
//! it is used. With `client_endpoints`, the run calls the endpoint with the client's key, which is never
//! recorded. Without this setting, the address only selects a configured provider; that provider's key is
//! used and the client's is discarded.

use serde_json::{Map, Value};
use windlass::AgentConfig;
use windlass::machine::ModelName;
use windlass::secret::Secret;
use windlass_server::config::provider_of;
use windlass_server::endpoints::ClientEndpoint;
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::problem::Problem;
use windlass_server::http::start::agent::choose;

use super::body::{refuse, taken};

#[derive(Debug, Default)]
pub struct LlmConfig {
    name: Option<String>,
    temperature: Option<f64>,
    /// The endpoint, with its key.
    endpoint: Option<ClientEndpoint>,
}

impl LlmConfig {
    /// Parses the settings. A key without an address is discarded, because it belongs to no endpoint.
    pub fn read(mut said: Map<String, Value>) -> Result<Self, Problem> {
        let url = text(&mut said, ["baseUrl", "base_url"])?;
        let key = text(&mut said, ["apiKey", "api_key"])?.map(Secret::new);
        let endpoint = url.map(|url| ClientEndpoint { url, key });
        let name = text(&mut said, ["modelName", "model_name"])?;
        let temperature: Option<f64> = taken(&mut said, "temperature")?;
        if let Some(wrong) = temperature.filter(|figure| !(0.0..=2.0).contains(figure)) {
            return Err(Problem::invalid(format!("`llm_config.temperature` is {wrong}; it must be 0 to 2")));
        }
        refuse("llm_config.", &said)?;
        Ok(Self { name, temperature, endpoint })
    }

    /// Returns the agent with the requested model and the dialect's step limit. (ZE-X8)
    pub fn agent(&self, app: &Shared, caller: &Caller) -> Result<AgentConfig, Problem> {
        let dialect = &app.config.settings.server.dialect.zeus;
        let mut agent = match &self.endpoint {
            None => {
                let known = app.config.settings.models.iter().collect();
                let model = self.name.as_deref().map(|name| configured(known, name)).transpose()?;
                choose(app, None, model.map(ModelName::as_str))?
            }
            Some(endpoint) => {
                let there = configured_at(app, &endpoint.url);
                // With the client's key, the client pays for the calls.
                if dialect.client_endpoints() && (there.is_empty() || endpoint.key.is_some()) {
                    self.own_agent(app, caller, endpoint)?
                } else {
                    let model = self.at_configured(endpoint, there)?;
                    choose(app, None, Some(model.as_str()))?
                }
            }
        };
        agent.settings.temperature = self.temperature.or(agent.settings.temperature);
        agent.limits.max_steps = dialect.max_steps.unwrap_or(agent.limits.max_steps);
        Ok(agent)
    }

    /// Returns the agent with a model at the client's endpoint. The agent has no fallback model: the operator
    /// must not pay if the endpoint fails.
    fn own_agent(
        &self,
        app: &Shared,
        caller: &Caller,
        endpoint: &ClientEndpoint,
    ) -> Result<AgentConfig, Problem> {
        let name = self.name.as_deref().ok_or_else(|| {
            Problem::invalid("`llm_config.modelName` is required with `llm_config.baseUrl`")
        })?;
        let opened = app.models.endpoints.open(caller.workspace(), caller.user(), endpoint, name);
        let model = opened.map_err(|error| {
            Problem::invalid(format!("`llm_config`: {error}"))
                .hint("`[outbound]` defines which hosts and ports may be called")
        })?;
        let mut agent = choose(app, None, None)?;
        agent.models = vec![model];
        Ok(agent)
    }

    /// Returns the model of the configured provider at this address.
    fn at_configured<'a>(
        &self,
        endpoint: &ClientEndpoint,
        there: Vec<&'a ModelName>,
    ) -> Result<&'a ModelName, Problem> {
        let Some(first) = there.first().copied() else {
            let shown = windlass_server::text::first_line(&endpoint.url, 200);
            let detail =
                format!("`llm_config.baseUrl` is `{shown}`, which is not the address of a configured model");
            return Err(Problem::invalid(detail).hint(
                "omit it, or ask an administrator to add the endpoint as `[providers.NAME]` and its model \
                 to `models` of `[agent]`, or to allow endpoints of clients with `[server.dialect.zeus] \
                 client_endpoints`",
            ));
        };
        self.name.as_deref().map_or(Ok(first), |name| configured(there, name))
    }
}

/// Takes a text under either of two names. Treats an empty text as absent.
fn text(said: &mut Map<String, Value>, names: [&str; 2]) -> Result<Option<String>, Problem> {
    let mut found = None;
    for name in names {
        // The parser's message would repeat a value of another type, which may be a key.
        let value: Option<Value> = taken(said, name)?;
        found = match value {
            None => found,
            Some(Value::String(text)) => found.or(Some(text).filter(|text| !text.is_empty())),
            Some(_) => return Err(Problem::invalid(format!("`llm_config.{name}` must be a string"))),
        };
    }
    Ok(found)
}

/// Returns the configured models whose provider has this address.
fn configured_at<'a>(app: &'a Shared, url: &str) -> Vec<&'a ModelName> {
    let providers = app.models.now();
    let is_there = |model: &&ModelName| {
        let address = providers.address(provider_of(model));
        address.is_some_and(|address| address.trim_end_matches('/') == url.trim_end_matches('/'))
    };
    app.config.settings.models.iter().filter(is_there).collect()
}

/// Returns the configured model of this name, with or without its provider.
fn configured<'a>(models: Vec<&'a ModelName>, name: &str) -> Result<&'a ModelName, Problem> {
    let bare = |model: &&&ModelName| model.as_str().split_once('/').is_some_and(|(_, rest)| rest == name);
    let found = models.iter().find(|model| model.as_str() == name).or_else(|| models.iter().find(bare));
    found.copied().ok_or_else(|| {
        let shown = windlass_server::text::first_line(name, 64);
        Problem::invalid(format!("`llm_config.modelName` is `{shown}`, which is not configured")).hint(
            "`GET /api/v1/models` lists the configured models; an administrator can add one to `models` of \
             `[agent]`",
        )
    })
}
