//! `/tools` and `/toolsets`: the available tools with their annotations, and trial calls of tools.

mod trial;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass::machine::{Annotations, EffectClass, Mode};
use windlass::{OfferedTool, OfferedToolset};

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::Path;
use crate::http::page::Page;
use crate::http::problem::Problem;
use crate::toolbox::modes;

pub fn routes() -> ApiRouter {
    ApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .merge(trial::routes())
        .routes(routes!(sets))
        .routes(routes!(set))
}

/// A tool.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Tool {
    /// Name that models and rules use.
    #[schema(example = "write")]
    name: String,
    /// Name for people.
    #[schema(example = "Write")]
    title: String,
    /// Description of the tool.
    description: String,
    /// JSON schema of the arguments.
    #[schema(value_type = Object)]
    input_schema: Value,
    /// Annotations about the effects of a call.
    #[schema(value_type = Hints)]
    annotations: Annotations,
    /// Whether the annotations are trusted.
    trusted: bool,
    /// Whether a call may be repeated if its outcome is lost.
    effect_class: Class,
    /// Whether approval requests contain a preview of the call's effect.
    previews: bool,
    /// MCP server that provides it; null for built-in tools.
    server: Option<String>,
    /// Toolset that it belongs to.
    toolset: Option<String>,
    /// Whether a model must load its toolset before it can call the tool. Otherwise every model request contains the
    /// tool.
    loadable: bool,
    /// Why calls currently fail, for example because the server is unavailable; null if they can succeed.
    unavailable: Option<String>,
    /// Modes in which the tool is available.
    modes: Vec<&'static str>,
    /// Estimated tokens of its definition in a model request.
    tokens: u64,
    /// Keywords for search and grouping: its origin, followed by its effects.
    tags: Vec<String>,
}

/// Annotations as in MCP. A missing annotation counts as the more dangerous value.
#[derive(ToSchema)]
#[schema(as = Annotations)]
#[allow(dead_code, reason = "it describes `Annotations` of the library")]
#[serde(rename_all = "camelCase")]
struct Hints {
    /// The tool changes nothing.
    read_only_hint: bool,
    /// The tool may destroy data.
    destructive_hint: bool,
    /// Repeating a call with the same arguments has no further effect.
    idempotent_hint: bool,
    /// The tool interacts with external systems.
    open_world_hint: bool,
}

/// Whether a call may be repeated if its outcome is lost.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Class {
    /// Changes nothing, so it is repeated.
    Pure,
    /// A repeated call has no further effect, so it is repeated.
    Idempotent,
    /// The external system deduplicates by the effect's id, so the call is repeated with the same id.
    Keyed,
    /// A read may determine whether the call was executed.
    Reconcile,
    /// Never repeated automatically; a person decides.
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
        let modes = modes(&tool).into_iter().map(Mode::word).collect();
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
            loadable: tool.toolset.is_some(),
            toolset: tool.group,
            unavailable: tool.unavailable,
            modes,
            tokens: tool.tokens,
            tags,
        }
    }
}

/// Converts a tool name to a title: `request_human_approval` becomes "Request human approval".
fn title(name: &str) -> String {
    let words = name.replace(['_', '-'], " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// List tools, sorted by name
#[utoipa::path(get, path = "/tools", tag = "tools", responses((status = 200, body = Page<Tool>)))]
async fn list(State(app): State<Shared>, caller: Caller) -> Result<Json<Page<Tool>>, Problem> {
    caller.reads()?;
    Ok(Json(Page {
        data: app.engine.tools().list_in(caller.workspace()).into_iter().map(Tool::from).collect(),
        next_cursor: None,
    }))
}

/// Get a tool
#[utoipa::path(get, path = "/tools/{tool}", tag = "tools",
    params(("tool" = String, Path, description = "the tool's name")), responses((status = 200, body = Tool)))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Tool>, Problem> {
    caller.reads()?;
    let found = app
        .engine
        .tools()
        .list_in(caller.workspace())
        .into_iter()
        .find(|tool| tool.spec.name.as_str() == name);
    found.map(|tool| Json(tool.into())).ok_or_else(|| Problem::not_found(format!("tool `{name}`")))
}

/// A group of tools.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Toolset {
    /// Name that models use.
    name: String,
    /// Description of the toolset.
    description: String,
    /// Names of its tools, sorted.
    tools: Vec<String>,
    /// Those of its tools that a model must load before calling them.
    loadable: Vec<String>,
}

impl Toolset {
    fn of(set: OfferedToolset, tools: &[OfferedTool]) -> Self {
        let is_loadable = |name: &String| {
            tools.iter().any(|tool| tool.spec.name.as_str() == *name && tool.toolset.is_some())
        };
        let names: Vec<String> = set.tools.iter().map(ToString::to_string).collect();
        let loadable = names.iter().filter(|name| is_loadable(name)).cloned().collect();
        Self { name: set.name, description: set.description, loadable, tools: names }
    }
}

fn all_sets(app: &Shared) -> Vec<Toolset> {
    let tools = app.engine.tools().list();
    app.engine.tools().toolsets().into_iter().map(|set| Toolset::of(set, &tools)).collect()
}

/// List toolsets, sorted by name
#[utoipa::path(get, path = "/toolsets", tag = "tools", responses((status = 200, body = Page<Toolset>)))]
async fn sets(State(app): State<Shared>, caller: Caller) -> Result<Json<Page<Toolset>>, Problem> {
    caller.reads()?;
    Ok(Json(Page { data: all_sets(&app), next_cursor: None }))
}

/// Get a toolset
#[utoipa::path(get, path = "/toolsets/{toolset}", tag = "tools",
    params(("toolset" = String, Path, description = "the toolset's name")), responses((status = 200, body = Toolset)))]
async fn set(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Toolset>, Problem> {
    caller.reads()?;
    let found = all_sets(&app).into_iter().find(|set| set.name == name);
    found.map(Json).ok_or_else(|| Problem::not_found(format!("toolset `{name}`")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn titles_are_words() {
        assert_eq!(super::title("request_human_approval"), "Request human approval");
        assert_eq!((super::title("grep").as_str(), super::title("").as_str()), ("Grep", ""));
    }
}
