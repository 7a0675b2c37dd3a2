//! Chooses the agent of a new run.

use windlass::AgentConfig;
use windlass::machine::ModelName;

use crate::endpoints::ClientEndpoints;
use crate::http::Shared;
use crate::http::problem::Problem;

/// The requested agent, or the configured one if the request names none. A requested model becomes its first model.
pub fn choose(app: &Shared, agent: Option<&str>, model: Option<&str>) -> Result<AgentConfig, Problem> {
    if let Some(agent) = agent.filter(|agent| *agent != app.config.agent.name) {
        return Err(Problem::invalid(format!("there is no agent `{agent}`"))
            .hint(format!("leave `agent` away, or name `{}`", app.config.agent.name)));
    }
    let mut chosen = app.config.agent.clone();
    if let Some(model) = model {
        let name = ModelName::from(model);
        if ClientEndpoints::names(&name) {
            let what = format!("the model `{model}` is at an endpoint that a client named for its own runs");
            return Err(Problem::invalid(what).hint("`GET /api/v1/models` lists those that can be named"));
        }
        if let Err(error) = app.engine.model(&name) {
            return Err(Problem::invalid(format!("the model `{model}` cannot be used: {error}"))
                .hint("`GET /api/v1/models` lists those that are configured"));
        }
        // The requested model comes first; the others remain as fallbacks.
        chosen.models.retain(|known| *known != name);
        chosen.models.insert(0, name);
    }
    Ok(chosen)
}
