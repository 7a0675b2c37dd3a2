//! What a client says of the model: it chooses among those that are configured, and never where or with whose key. (ZE-C7)
//!
//! An endpoint of the client's choice would send conversations, and whatever tools read, to anywhere; so it is refused
//! here, before anything is recorded, and a key is dropped unread.

use serde_json::{Map, Value};
use windlass::AgentConfig;
use windlass::machine::ModelName;

use super::body::{refuse, taken};
use crate::http::Shared;
use crate::http::agents;
use crate::http::problem::Problem;

/// What a client says of the model.
#[derive(Debug, Default, PartialEq)]
pub struct LlmConfig {
    name: Option<String>,
    temperature: Option<f64>,
}

/// Members that say where a model is called, and with which key.
const FOREIGN: &[&str] = &["baseUrl", "base_url", "apiKey", "api_key"];

impl LlmConfig {
    /// Reads it.
    pub fn read(mut said: Map<String, Value>) -> Result<Self, Problem> {
        for name in FOREIGN {
            let value = said.remove(*name);
            if value.is_some_and(|value| !value.is_null() && value != "") {
                let detail = format!(
                    "`llm_config.{name}` is set, and models are called only where the configuration says"
                );
                return Err(Problem::invalid(detail).hint(
                    "leave it away and name a configured model; an administrator adds an endpoint as `[providers.NAME]` \
                     with `base_url` and `api_key`, and its model to `models` of `[agent]`",
                ));
            }
        }
        let name = taken(&mut said, "modelName")?.or(taken(&mut said, "model_name")?);
        let temperature: Option<f64> = taken(&mut said, "temperature")?;
        if let Some(wrong) = temperature.filter(|figure| !(0.0..=2.0).contains(figure)) {
            return Err(Problem::invalid(format!("`llm_config.temperature` is {wrong}; it must be 0 to 2")));
        }
        refuse("llm_config.", &said)?;
        Ok(Self { name: name.filter(|name: &String| !name.is_empty()), temperature })
    }

    /// The agent with the model that is named.
    pub fn agent(&self, app: &Shared) -> Result<AgentConfig, Problem> {
        let model = self.name.as_deref().map(|name| configured(app, name)).transpose()?;
        let mut agent = agents::choose(app, None, model.map(ModelName::as_str))?;
        agent.settings.temperature = self.temperature.or(agent.settings.temperature);
        Ok(agent)
    }
}

/// The configured model of a name, with or without its provider.
fn configured<'a>(app: &'a Shared, name: &str) -> Result<&'a ModelName, Problem> {
    let models = &app.settings.models;
    let bare = |model: &&ModelName| model.as_str().split_once('/').is_some_and(|(_, rest)| rest == name);
    let found = models.iter().find(|model| model.as_str() == name).or_else(|| models.iter().find(bare));
    found.ok_or_else(|| {
        let shown = crate::console::first_line(name, 64);
        Problem::invalid(format!("`llm_config.modelName` is `{shown}`, which is not configured")).hint(
            "`GET /api/v1/models` lists those that are; an administrator adds one to `models` of `[agent]`",
        )
    })
}
