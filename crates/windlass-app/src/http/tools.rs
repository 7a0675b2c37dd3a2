//! `/tools`: what agents can do here, with the hints that the gate goes by.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass::OfferedTool;
use windlass::machine::{Annotations, EffectClass};

use super::Shared;
use super::caller::Caller;
use super::input::Path;
use super::page::Page;
use super::problem::Problem;

/// The routes.
pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(one))
}

/// A tool.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Tool {
    /// The name that models and rules use.
    #[schema(example = "write")]
    name: String,
    /// The name for people.
    #[schema(example = "Write")]
    title: String,
    /// What it does.
    description: String,
    /// JSON schema of the arguments.
    #[schema(value_type = Object)]
    input_schema: Value,
    /// Hints about what a call does.
    #[schema(value_type = Hints)]
    annotations: Annotations,
    /// Whether the hints are believed.
    trusted: bool,
    /// What may be done again when a call's outcome was lost.
    effect_class: Class,
    /// Whether people are shown what a call would do before they are asked.
    previews: bool,
    /// The server that it belongs to; null for the engine's own.
    server: Option<String>,
    /// Words to find and group tools by: where it comes from, then what it does.
    tags: Vec<String>,
}

/// Hints about what a call does, as in MCP; a missing hint counts as the careful answer.
#[derive(ToSchema)]
#[schema(as = Annotations)]
#[allow(dead_code, reason = "it describes `Annotations` of the library")]
#[serde(rename_all = "camelCase")]
struct Hints {
    /// Changes nothing.
    read_only_hint: bool,
    /// May destroy something.
    destructive_hint: bool,
    /// Repeating it with the same arguments changes nothing more.
    idempotent_hint: bool,
    /// Talks to the outside world.
    open_world_hint: bool,
}

/// What may be done again when a call's outcome was lost.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Class {
    /// Changes nothing: repeated freely.
    Pure,
    /// Repeating changes nothing more: repeated.
    Idempotent,
    /// The far side knows the effect's id: repeated with the same one.
    Keyed,
    /// A read may find whether it was done.
    Reconcile,
    /// Never repeated by itself: a person decides.
    Once,
}

impl From<EffectClass> for Class {
    fn from(class: EffectClass) -> Self {
        match class {
            EffectClass::Pure => Self::Pure,
            EffectClass::Idempotent => Self::Idempotent,
            EffectClass::Keyed => Self::Keyed,
            EffectClass::Reconcile { .. } => Self::Reconcile,
            EffectClass::Once => Self::Once,
        }
    }
}

impl From<OfferedTool> for Tool {
    fn from(tool: OfferedTool) -> Self {
        let hints = tool.spec.annotations;
        let mut tags = vec![tool.server.clone().unwrap_or_else(|| "builtin".into())];
        let said = [
            (hints.read_only_hint, "read_only"),
            (hints.destructive_hint, "destructive"),
            (hints.open_world_hint, "open_world"),
        ];
        tags.extend(said.into_iter().filter(|(hint, _)| *hint).map(|(_, word)| word.to_owned()));
        Self {
            title: title(tool.spec.name.as_str()),
            name: tool.spec.name.to_string(),
            description: tool.spec.description,
            input_schema: tool.spec.input_schema,
            annotations: hints,
            trusted: tool.trusted,
            effect_class: tool.class.into(),
            previews: tool.previews,
            server: tool.server,
            tags,
        }
    }
}

/// A name as people write it: `request_human_approval` is "Request human approval".
fn title(name: &str) -> String {
    let words = name.replace(['_', '-'], " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Tools, by name
#[utoipa::path(get, path = "/tools", tag = "tools", responses((status = 200, body = Page<Tool>)))]
async fn list(State(app): State<Shared>, caller: Caller) -> Result<Json<Page<Tool>>, Problem> {
    caller.reads()?;
    Ok(Json(Page { data: app.engine.tools().into_iter().map(Tool::from).collect(), next_cursor: None }))
}

/// One tool
#[utoipa::path(get, path = "/tools/{tool}", tag = "tools",
    params(("tool" = String, Path, description = "the tool's name")), responses((status = 200, body = Tool)))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Tool>, Problem> {
    caller.reads()?;
    let found = app.engine.tools().into_iter().find(|tool| tool.spec.name.as_str() == name);
    found.map(|tool| Json(tool.into())).ok_or_else(|| Problem::not_found(format!("tool `{name}`")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn titles_are_words() {
        assert_eq!(super::title("request_human_approval"), "Request human approval");
        assert_eq!((super::title("grep").as_str(), super::title("").as_str()), ("Grep", ""));
    }
}
