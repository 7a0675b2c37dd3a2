//! Lists the tools of a store: tools that are available to models, and tools that are not, with the reason.
//!
//! The gate decides which calls may run.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use serde::Serialize;
use utoipa::ToSchema;
use windlass::machine::{Mode, ToolName};
use windlass::port::tool::OutputPart;
use windlass::tool::{Typed, TypedContent};
use windlass::{Engine, EngineError, OfferedTool, TrialResult};

use crate::config::{Settings, suggest};
use crate::trouble::Trouble;

/// A tool in the list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Name that models and rules use.
    pub name: ToolName,
    pub state: State,
    /// The reason why the tool is not available, or how it becomes available.
    pub why: Option<String>,
    /// The tool; `None` if it does not exist.
    pub tool: Option<OfferedTool>,
}

/// The availability of a tool to models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Every model request contains the tool.
    Direct,
    /// The tool becomes available after the model has loaded its toolset or found the tool.
    Loadable,
    /// The tool is offered, but its calls fail, because its server is unavailable.
    Away,
    /// Not available: the user must configure the tool first.
    Unavailable,
    /// Not available: an administrator has disabled the tool.
    Disabled,
}

impl State {
    /// Returns the name of the state.
    pub fn word(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Loadable => "loadable",
            Self::Away => "away",
            Self::Unavailable => "unavailable",
            Self::Disabled => "disabled",
        }
    }
}

/// Returns a hint for an unknown tool: the reason why it is not available, or a similar name.
pub fn instead(engine: &Engine, name: &ToolName) -> Option<String> {
    if let Some((_, why)) = CONDITIONAL.iter().find(|(known, _)| name.as_str() == *known) {
        return Some((*why).to_owned());
    }
    let tools = engine.tools().list();
    let known: Vec<&str> = tools.iter().map(|tool| tool.spec.name.as_str()).collect();
    suggest::nearest(name.as_str(), &known).map(|near| format!("did you mean `{near}`?"))
}

/// Converts an engine error for a terminal, with a hint if a tool is unknown.
pub fn missing(engine: &Engine, error: EngineError) -> anyhow::Error {
    match &error {
        EngineError::NoTool(name) => {
            let hint = instead(engine, name);
            let hint =
                hint.unwrap_or_else(|| "run `windlass tools list` to see the available tools".to_owned());
            Trouble::usage(error.to_string()).hint(hint).into()
        }
        _ => error.into(), // tidy: the others name no tool
    }
}

/// Tools that require configuration, with a hint. (LM-T18)
const CONDITIONAL: [(&str, &str); 7] = [
    ("ApiCall", "this tool requires a service in `[api.<name>]`"),
    ("Bash", "this tool requires Linux and `[tools.bash] enabled = true`"),
    ("BashOutput", "this tool requires Linux and `[tools.bash] enabled = true`"),
    ("FetchData", "this tool requires `[agent.offload] enabled = true`"),
    ("KillBash", "this tool requires Linux and `[tools.bash] enabled = true`"),
    ("WebFetch", "this tool is disabled by `[web] fetch = false`"),
    (
        "WebSearch",
        "this tool requires a search engine that can be reached: check `[web.search]` and `[outbound]`",
    ),
];

/// Lists all tools, sorted by name.
pub fn list(engine: &Engine, settings: &Settings) -> Vec<Listed> {
    let mut all: Vec<Listed> = engine.tools().list().into_iter().map(Listed::of).collect();
    let disabled = &settings.tools.disabled;
    all.extend(disabled.iter().map(|name| Listed {
        name: ToolName::from(name.as_str()),
        state: State::Disabled,
        why: Some("disabled by `tools.disabled`".into()),
        tool: None,
    }));
    let missing = CONDITIONAL.iter().filter(|(name, _)| !all.iter().any(|it| it.name.as_str() == *name));
    let missing: Vec<Listed> = missing.map(|(name, why)| Listed::missing(name, why)).collect();
    all.extend(missing);
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

impl Listed {
    fn of(tool: OfferedTool) -> Self {
        let why =
            tool.toolset.as_ref().map(|toolset| format!("loaded on demand with the toolset `{toolset}`"));
        let state = if why.is_some() { State::Loadable } else { State::Direct };
        let (state, why) = match &tool.unavailable {
            Some(away) => (State::Away, Some(away.clone())),
            None => (state, why),
        };
        Self { name: tool.spec.name.clone(), state, why, tool: Some(tool) }
    }

    fn missing(name: &str, why: &str) -> Self {
        Self { name: name.into(), state: State::Unavailable, why: Some(why.into()), tool: None }
    }
}

/// Returns the modes in which a tool is available.
pub fn modes(tool: &OfferedTool) -> Vec<Mode> {
    Mode::ALL.into_iter().filter(|mode| !tool.spec.withheld.contains(mode)).collect()
}

/// Maximum size of an image that a result contains inline, in bytes: the largest image that the UI displays.
const IMAGE_MAX_BYTES: usize = 5 * 1024 * 1024;

/// Converts a call's result to typed content blocks, so that a client knows how to display each one. (ZE-H15)
pub fn content(result: &TrialResult) -> Vec<Content> {
    let of = |given: &OutputPart| match given {
        OutputPart::Text(text) if result.error => Content::of("error", text.clone()),
        OutputPart::Text(_) | OutputPart::Image { .. } | OutputPart::File { .. } => part(given),
    };
    let typed = |part: &OutputPart| match part {
        OutputPart::Text(text) => said(text),
        OutputPart::Image { .. } | OutputPart::File { .. } => None,
    };
    result.parts.iter().map(|part| typed(part).unwrap_or_else(|| of(part))).collect()
}

/// Converts an output part of a tool or server to a typed content block.
pub fn part(part: &OutputPart) -> Content {
    match part {
        OutputPart::Text(text) if is_json(text) => Content::of("json", text.clone()),
        OutputPart::Text(text) => Content::of("text", text.clone()),
        OutputPart::Image { media_type, bytes } if bytes.len() <= IMAGE_MAX_BYTES => Content {
            title: Some(media_type.clone()),
            ..Content::of("image", format!("data:{media_type};base64,{}", STANDARD.encode(bytes)))
        },
        OutputPart::Image { media_type, bytes } => {
            Content::of("text", format!("[image: {media_type}, {} bytes]", bytes.len()))
        }
        OutputPart::File { name, media_type, bytes } => Content {
            title: Some(name.clone()),
            ..Content::of("text", format!("[file: {media_type}, {} bytes]", bytes.len()))
        },
    }
}

/// Returns the content with the type that the tool itself declares, if any.
fn said(text: &str) -> Option<Content> {
    let Typed { content, file_path, .. } = Typed::read(text)?;
    let TypedContent { kind, data, language, title, .. } = content?;
    let data = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
    Some(Content { kind: kind.word(), data, title, language, file_path })
}

/// Returns whether a text is a JSON object or array. Other JSON values are treated as text.
pub fn is_json(text: &str) -> bool {
    let text = text.trim_start();
    (text.starts_with('{') || text.starts_with('['))
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// A content block of a result.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = ToolContent)]
pub struct Content {
    /// Type of the content: `text`, `json`, `image` (a data URL) or `error`; a tool may also declare `html`,
    /// `markdown` or `code`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Content.
    pub data: String,
    /// Title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Language of code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Path of the file that it refers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
}

impl Content {
    fn of(kind: &'static str, data: String) -> Self {
        Self { kind, data, title: None, language: None, file_path: None }
    }
}
