//! Chooses the agent of a new run.

use windlass::AgentConfig;
use windlass::machine::ModelName;

use crate::endpoints::ClientEndpoints;
use crate::http::Shared;
use crate::http::problem::Problem;

/// Returns the requested agent, or the configured agent if the request names none. A requested model becomes the
/// agent's first model.
pub fn choose(app: &Shared, agent: Option<&str>, model: Option<&str>) -> Result<AgentConfig, Problem> {
    if let Some(agent) = agent.filter(|agent| *agent != app.config.agent.name) {
        return Err(Problem::invalid(format!("agent `{agent}` does not exist"))
            .hint(format!("omit `agent`, or send `{}`", app.config.agent.name)));
    }
    let mut chosen = app.config.agent.clone();
    if let Some(model) = model {
        let name = ModelName::from(model);
        if ClientEndpoints::names(&name) {
            let what =
                format!("the model `{model}` belongs to an endpoint that a client sent for its own runs");
            return Err(Problem::invalid(what).hint("`GET /api/v1/models` lists the available models"));
        }
        if let Err(error) = app.engine.model(&name) {
            return Err(Problem::invalid(format!("the model `{model}` cannot be used: {error}"))
                .hint("`GET /api/v1/models` lists the configured models"));
        }
        // The requested model comes first; the other models remain as fallbacks.
        chosen.models.retain(|known| *known != name);
        chosen.models.insert(0, name);
    }
    Ok(chosen)
}
