//! Parses request bodies member by member. Rejects an unknown member with a
//! non-default value; the error names the member.
//!
//! Default values (absent, false, empty, `none`) are ignored, because clients send them for every option.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use windlass::machine::Mode;
use windlass::mcp::McpServer;
use windlass_server::http::problem::Problem;
use windlass_server::http::start::send::MESSAGE_MAX_CHARS;

use super::super::history::Line;
use super::model::LlmConfig;
use super::tools;

/// A message for the agent. (ZE-E13)
#[derive(Debug)]
pub struct Invoke {
    pub message: String,
    /// The client's model settings.
    pub llm: LlmConfig,
    pub session: Option<String>,
    /// The client's conversation before the session began.
    pub history: Vec<Line>,
    /// Which tools require approval.
    pub guards: Guards,
    /// Tool servers of this run only.
    pub servers: Vec<McpServer>,
    pub mode: Option<Mode>,
}

/// Answers to a run's waiting calls. (ZE-E14)
#[derive(Debug)]
pub struct Resume {
    pub session: String,
    /// The client's model settings.
    pub llm: LlmConfig,
    pub results: Vec<CallResult>,
    /// A further instruction.
    pub order: Option<String>,
    /// Which tools require approval.
    pub guards: Guards,
}

/// Guards by tool name.
pub type Guards = BTreeMap<String, Guard>;

/// A client's restrictions of a tool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Guard {
    /// Whether the tool may be called.
    pub enabled: Option<bool>,
    /// Whether the tool's calls require approval.
    #[serde(alias = "requiresInterrupt")]
    pub requires_interrupt: bool,
    /// The accepted decisions; empty accepts any.
    #[serde(alias = "allowedDecisions")]
    pub allowed_decisions: Vec<Decision>,
}

/// The answer to a waiting call.
#[derive(Clone, Debug, Deserialize)]
pub struct CallResult {
    pub tool_call_id: String,
    #[serde(default)]
    pub tool_name: Option<String>,
    pub decision: Decision,
    /// Replacement arguments of the call.
    #[serde(default, alias = "tool_args", alias = "modified_parameters")]
    pub parameters: Option<Map<String, Value>>,
    #[serde(default)]
    pub reason: Option<String>,
}

/// A decision about a call. (ZE-H6)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    #[serde(alias = "approve")]
    Approved,
    #[serde(alias = "reject")]
    Rejected,
    /// The call may run with other arguments.
    #[serde(alias = "modify", alias = "edit")]
    Modified,
    /// No answer arrived in time.
    Timeout,
}

impl Decision {
    /// Returns the decision's name on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Modified => "modified",
            Self::Timeout => "timeout",
        }
    }
}

impl Invoke {
    pub fn read(mut body: Map<String, Value>) -> Result<Self, Problem> {
        let message = taken(&mut body, "message")?.unwrap_or_default();
        let llm = LlmConfig::read(taken(&mut body, "llm_config")?.unwrap_or_default())?;
        let session = session(&mut body)?;
        let history: Vec<Line> = taken(&mut body, "chat_history")?.unwrap_or_default();
        if let Some(long) = history.iter().find(|line| line.content.chars().count() > MESSAGE_MAX_CHARS) {
            let detail = format!(
                "`chat_history` has a message of {} characters; at most {MESSAGE_MAX_CHARS} are allowed",
                long.content.chars().count()
            );
            return Err(Problem::invalid(detail));
        }
        let guards = taken(&mut body, "tool_interrupt_config")?.unwrap_or_default();
        let mode = mode(taken(&mut body, "mode")?)?;
        let servers = tools::read(taken(&mut body, "tools")?.unwrap_or_default())?;
        refuse("", &body)?;
        Ok(Self { message, llm, session, history, guards, servers, mode })
    }
}

impl Resume {
    pub fn read(mut body: Map<String, Value>) -> Result<Self, Problem> {
        let session = session(&mut body)?.ok_or_else(|| Problem::invalid("`session_id` is required"))?;
        let llm = LlmConfig::read(taken(&mut body, "llm_config")?.unwrap_or_default())?;
        let results: Vec<CallResult> = taken(&mut body, "tool_call_results")?.unwrap_or_default();
        if results.is_empty() {
            return Err(Problem::invalid("`tool_call_results` is empty"));
        }
        let order = taken(&mut body, "human_order")?.filter(|order: &String| !order.trim().is_empty());
        let guards = taken(&mut body, "tool_interrupt_config")?.unwrap_or_default();
        refuse("", &body)?;
        Ok(Self { session, llm, results, order, guards })
    }
}

/// Removes a member from a body and parses it.
pub fn taken<T: DeserializeOwned>(body: &mut Map<String, Value>, name: &str) -> Result<Option<T>, Problem> {
    match body.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value)
            .map(Some)
            .map_err(|error| Problem::invalid(format!("`{name}` is invalid: {error}"))),
    }
}

/// Parses the session's name. An empty name is treated as absent.
fn session(body: &mut Map<String, Value>) -> Result<Option<String>, Problem> {
    Ok(taken(body, "session_id")?.filter(|name: &String| !name.is_empty()))
}

/// Parses the mode. An empty mode is treated as absent. (ZE-E15)
fn mode(mode: Option<String>) -> Result<Option<Mode>, Problem> {
    let Some(word) = mode.filter(|word| !word.is_empty()) else { return Ok(None) };
    let shown = windlass_server::text::first_line(&word, 32);
    let unknown = |_| Problem::invalid(format!("`mode` is `{shown}`; write `agent`, `ask` or `plan`"));
    word.parse().map(Some).map_err(unknown)
}

/// Rejects a body if a remaining member has a non-default value.
pub fn refuse(of: &str, rest: &Map<String, Value>) -> Result<(), Problem> {
    let asked = rest.iter().filter(|(_, value)| asks(value));
    let names: Vec<String> =
        asked.map(|(name, _)| format!("`{of}{}`", windlass_server::text::first_line(name, 64))).collect();
    if names.is_empty() {
        return Ok(());
    }
    let detail = format!("this server does not accept {} from clients", names.join(", "));
    Err(Problem::invalid(detail)
        .hint("omit it; tools and files are configured on the server, and uploads go to `/api/v1/files`"))
}

/// Whether a value differs from the default.
fn asks(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty() && text != "none",
        Value::Array(values) => !values.is_empty(),
        Value::Object(members) => members.values().any(asks),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Result<Invoke, String> {
        let Value::Object(body) = body else { panic!("no object") };
        Invoke::read(body).map_err(|problem| problem.detail)
    }

    // rows: ZE-E13, ZE-E15
    #[test]
    fn what_asks_for_something_unknown_is_refused_by_name() {
        for (asks, named) in [
            (json!({"tools": [{"type": "oauth", "name": "slack"}]}), "`tools[0].type` is `oauth`"),
            (json!({"enable_sandbox": true}), "`enable_sandbox`"),
            (json!({"code_env": "cloud"}), "`code_env`"),
            (json!({"enable_web_search": true}), "`enable_web_search`"),
            (json!({"knowledge_base_ids": ["kb"]}), "`knowledge_base_ids`"),
            (json!({"enable_memory": true}), "`enable_memory`"),
            (json!({"skills": {"names": ["x"]}}), "`skills`"),
            (json!({"attachments": [{"id": "1"}]}), "`attachments`"),
            (json!({"mode": "asks"}), "`mode` is `asks`"),
            (json!({"llm_config": {"baseUrl": 7}}), "`llm_config.baseUrl`"),
            (json!({"llm_config": {"apiKey": {"key": "sk-secret"}}}), "`llm_config.apiKey`"),
            (json!({"llm_config": {"top_k": 5}}), "`llm_config.top_k`"),
        ] {
            let detail = read(asks.clone()).unwrap_err();
            assert!(detail.contains(named) && !detail.contains("sk-secret"), "{asks}: {detail}");
        }
        let nothing = json!({
            "message": "hi", "mode": "agent", "tools": [], "enable_memory": false, "code_env": "none",
            "skills": {"names": [], "auto_match": false}, "attachments": null, "session_id": "",
            "llm_config": {"baseUrl": "", "apiKey": null},
        });
        assert_eq!(read(nothing).unwrap().session, None);
        assert_eq!(read(json!({"message": "hi", "mode": "plan"})).unwrap().mode, Some(Mode::Plan));
        assert_eq!(read(json!({"message": "hi", "mode": ""})).unwrap().mode, None);
    }
}
