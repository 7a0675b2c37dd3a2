//! `load_toolset` and `tool_search`: a model's access to tools that requests do not contain yet. (SK-C2..C6, LM-T12)
//!
//! Both tools only read and change the thread's own tool state, so no approval is needed. Loaded tools are shown from
//! the next step. Loading a tool does not allow its calls.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_machine::{Annotations, EffectClass, LOADED_TOOLS, ToolSpec};

use super::Shelf;
use super::loaded::Loaded;
use crate::port::tool::{CallContext, Tool, ToolOutcome, ToolOutput, ToolTraits};

/// The names of the loading tools.
pub(crate) const NAMES: [&str; 2] = ["load_toolset", "tool_search"];

/// Minimum number of loadable tools for which search is offered; fewer tools are easy to find in their toolsets.
const SEARCH_FROM: usize = 20;
/// Maximum number of toolsets that are listed with descriptions; longer lists contain only names.
const DESCRIBED: usize = 12;
/// Maximum number of characters of a toolset's description in the list.
const DESCRIPTION_CHARS: usize = 100;
/// Maximum and default number of search results.
const FOUND_MAX: u64 = 20;
const FOUND: u64 = 5;
/// Maximum number of characters of a description in search results; the loaded tool has the full description.
const SHOWN_CHARS: usize = 160;
/// Maximum size of the stored state in bytes, equal to the limit for every tool state.
const LOADED_MAX_BYTES: usize = 256 * 1024;

/// Returns the loading tools that a shelf needs: none if no tool has to be loaded.
pub(crate) fn shelf_tools(shelf: &Arc<Shelf>) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if !shelf.is_empty() {
        tools.push(Arc::new(LoadToolset { spec: load_spec(shelf), shelf: shelf.clone() }));
    }
    if shelf.tools.len() >= SEARCH_FROM {
        tools.push(Arc::new(ToolSearch { spec: search_spec(shelf), shelf: shelf.clone() }));
    }
    tools
}

fn traits() -> ToolTraits<'static> {
    // The tools are not pure: two parallel calls would overwrite each other's state.
    ToolTraits { class: Some(EffectClass::Idempotent), keeps: Some(LOADED_TOOLS), ..ToolTraits::default() }
}

struct LoadToolset {
    spec: ToolSpec,
    shelf: Arc<Shelf>,
}

struct ToolSearch {
    spec: ToolSpec,
    shelf: Arc<Shelf>,
}

#[async_trait]
impl Tool for LoadToolset {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn traits(&self) -> ToolTraits<'_> {
        ToolTraits { checks_arguments: true, ..traits() }
    }
    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome {
        let toolset = arguments.get("toolset").map(shown).unwrap_or_default();
        let names: Vec<&str> = self.shelf.toolsets().map(|(name, _)| name).collect();
        if !names.contains(&&*toolset) {
            return ToolOutcome::error(format!(
                "Unknown toolset '{toolset}'. Available: {}",
                names.join(", ")
            ));
        }
        let writes = match flag(&arguments) {
            Ok(writes) => writes,
            Err(problem) => return ToolOutcome::error(problem),
        };
        let mut loaded = Loaded::read(context.kept.as_deref(), &context.run);
        let before = loaded.clone();
        let had = self.shelf.has_loaded_set(&loaded, &toolset);
        // A toolset that was loaded with its writing tools keeps these tools. (SK-C4)
        let writes = writes || loaded.toolset(&toolset).unwrap_or_default();
        self.shelf.load(&mut loaded, &toolset, writes, &context.run);
        let how = if writes { "read and write" } else { "read-only" };
        let text = match had {
            Some(had) if had == writes => format!("Toolset '{toolset}' is already loaded ({how})."),
            Some(_) | None => {
                format!("Toolset '{toolset}' loaded ({how}). You can now use {toolset} tools.")
            }
        };
        if loaded == before { ToolOutcome::text(text) } else { keep(text, &loaded) }
    }
}

#[async_trait]
impl Tool for ToolSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn traits(&self) -> ToolTraits<'_> {
        traits()
    }
    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome {
        let query = arguments["query"].as_str().unwrap_or_default();
        let limit = arguments["limit"].as_u64().unwrap_or(FOUND).min(FOUND_MAX);
        let writes = arguments["include_write_tools"].as_bool().unwrap_or_default();
        let found = self.shelf.index.search(query, usize::try_from(limit).unwrap_or_default());
        let mut loaded = Loaded::read(context.kept.as_deref(), &context.run);
        let before = loaded.clone();
        let mut lines = Vec::with_capacity(found.len());
        for shelved in found.into_iter().filter_map(|name| self.shelf.get(name.as_str())) {
            let held_back = !shelved.reads && !writes && !self.shelf.has_loaded(&loaded, &shelved.spec.name);
            if !held_back {
                self.shelf.part(&mut loaded, &shelved.spec.name, &context.run).add(&shelved.spec);
            }
            let note = if held_back { " (not loaded: it may change things)" } else { "" };
            let description = first_line(&shelved.spec.description, SHOWN_CHARS);
            lines.push(format!("- {}{note} [{}]: {description}", shelved.spec.name, shelved.toolset));
        }
        if lines.is_empty() {
            return ToolOutcome::text(format!("No tool fits '{query}'. Try other words, or load_toolset."));
        }
        let text = format!("{}\n\nThose that are loaded can be called in the next step.", lines.join("\n"));
        if loaded == before { ToolOutcome::text(text) } else { keep(text, &loaded) }
    }
}

fn keep(text: String, loaded: &Loaded) -> ToolOutcome {
    // Tool specs contain only what JSON can represent.
    let kept = serde_json::to_string(loaded).unwrap_or_default();
    if kept.len() > LOADED_MAX_BYTES {
        return ToolOutcome::error(format!(
            "Not loaded: the conversation's tools would take {} bytes, and {LOADED_MAX_BYTES} are the most. Load \
             fewer of them by name with tool_search",
            kept.len()
        ));
    }
    ToolOutput::text(text).keeping(kept).into()
}

/// Parses the flag for writing tools; models also write the flag as a string. (SK-C5)
fn flag(arguments: &Value) -> Result<bool, String> {
    match arguments.get("include_write_tools") {
        None | Some(Value::Null) => {
            Err("Missing required argument 'include_write_tools' (boolean): true where you \
             mean to change something, false for reading"
                .into())
        }
        Some(Value::Bool(writes)) => Ok(*writes),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(other) => {
            Err(format!("Invalid 'include_write_tools' value: {}; it is true or false", shown(other)))
        }
    }
}

fn shown(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().take(DESCRIPTION_CHARS).collect()
}

fn first_line(text: &str, chars: usize) -> String {
    text.lines().next().unwrap_or_default().chars().take(chars).collect()
}

fn load_spec(shelf: &Shelf) -> ToolSpec {
    let sets: Vec<(&str, &str)> = shelf.toolsets().collect();
    let names: Vec<&str> = sets.iter().map(|(name, _)| *name).collect();
    let mut description =
        "Loads a toolset: its tools can be called from the next step on. Load one before you say that you cannot do \
         something."
            .to_owned();
    for (name, text) in sets.iter().filter(|(_, text)| !text.is_empty() && sets.len() <= DESCRIBED) {
        description += &format!("\n- {name}: {}", first_line(text, DESCRIPTION_CHARS));
    }
    let input_schema = json!({
        "type": "object",
        "properties": {
            "toolset": {"type": "string", "enum": names},
            "include_write_tools": {
                "type": "boolean",
                "description": "Those that change something as well.",
            },
        },
        "required": ["toolset", "include_write_tools"],
        "additionalProperties": false,
    });
    spec(NAMES[0], description, input_schema)
}

fn search_spec(shelf: &Shelf) -> ToolSpec {
    let description = format!(
        "Finds tools among {} that are not shown, by names and descriptions, and loads those that fit best: they can be \
         called from the next step on.",
        shelf.tools.len()
    );
    let input_schema = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "maxLength": 400, "description": "What the tool should do."},
            "limit": {"type": "integer", "minimum": 1, "maximum": FOUND_MAX, "description": "How many; 5 unless told."},
            "include_write_tools": {
                "type": "boolean",
                "description": "Those that change something as well.",
            },
        },
        "required": ["query"],
        "additionalProperties": false,
    });
    spec(NAMES[1], description, input_schema)
}

fn spec(name: &str, description: String, input_schema: Value) -> ToolSpec {
    let annotations = Annotations { read_only_hint: true, idempotent_hint: true, ..Annotations::default() };
    ToolSpec { name: name.into(), description, input_schema, annotations, withheld: Vec::new() }
}
