//! `/tools` and `/toolsets`: what agents can do here, with the hints that the gate goes by, and trial calls of it.

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

/// The routes.
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
    /// The toolset that it belongs to.
    toolset: Option<String>,
    /// Whether its toolset has to be loaded before a model can call it; else every request carries it.
    loadable: bool,
    /// Why its calls can do nothing at the moment: its server is away, for example; null where they can.
    unavailable: Option<String>,
    /// The modes that have any of its calls.
    modes: Vec<&'static str>,
    /// Estimated tokens that its shape takes in a request.
    tokens: u64,
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
    Ok(Json(Page {
        data: app.engine.tools().list_in(caller.workspace()).into_iter().map(Tool::from).collect(),
        next_cursor: None,
    }))
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
    /// What models call it.
    name: String,
    /// What it is for.
    description: String,
    /// Its tools, by name.
    tools: Vec<String>,
    /// Those of them that a model has to load first.
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

/// Toolsets, by name
#[utoipa::path(get, path = "/toolsets", tag = "tools", responses((status = 200, body = Page<Toolset>)))]
async fn sets(State(app): State<Shared>, caller: Caller) -> Result<Json<Page<Toolset>>, Problem> {
    caller.reads()?;
    Ok(Json(Page { data: all_sets(&app), next_cursor: None }))
}

/// One toolset
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
