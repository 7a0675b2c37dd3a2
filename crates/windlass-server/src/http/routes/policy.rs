//! `/policy`: the active rules, validation of policy texts, and evaluation of hypothetical calls.
//!
//! No route calls a tool or changes a rule. Rules are in files on the server's machine, which the server reads at
//! startup.

use std::path::Path;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use windlass::Supposed;
use windlass::machine::{Party, Rule, ToolName};

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::Body;
use crate::http::middleware::idempotency::IdempotencyKey;
use crate::http::operator::Operator;
use crate::http::problem::Problem;
use crate::policy::{self, Extent, InForce, PolicyText};

/// Name for a policy text that is not in a file.
const UNNAMED: &str = "the text";

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(shown)).routes(routes!(check)).routes(routes!(test))
}

/// The active policy.
#[derive(Serialize, ToSchema)]
struct Policy {
    /// The policy files. The rules of all files apply together.
    files: Vec<PolicyFile>,
}

/// A policy file, as read at the server's start.
#[derive(Serialize, ToSchema)]
struct PolicyFile {
    /// Path on the server's machine.
    path: String,
    /// Content of the file.
    text: String,
    /// Whether all of its rules are active. In an untrusted file, only rules that deny or ask are.
    whole: bool,
    /// Its active rules.
    #[schema(value_type = Vec<Object>)]
    rules: Vec<Rule>,
}

impl From<&InForce> for PolicyFile {
    fn from(file: &InForce) -> Self {
        let path = file.path.display().to_string();
        let (text, rules) = (file.text.clone(), file.rules.clone());
        Self { path, text, whole: file.extent == Extent::Whole, rules }
    }
}

/// Get the active policy; only for operators, because rules apply to all workspaces
#[utoipa::path(get, path = "/policy", tag = "gate",
    responses((status = 200, body = Policy), (status = 403, body = Problem)))]
async fn shown(State(app): State<Shared>, _: Operator) -> Json<Policy> {
    Json(Policy { files: app.config.policies.iter().map(PolicyFile::from).collect() })
}

/// A policy text.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"text": "[[rule]]\nverdict = 'deny'\ntools = ['Write']\n"}))]
struct Text {
    /// TOML, as in a policy file.
    text: String,
}

/// The result of validating a policy text.
#[derive(Serialize, ToSchema)]
struct Findings {
    /// Whether the text has no errors; it may still have warnings.
    usable: bool,
    /// Number of rules.
    rules: usize,
    /// Errors and warnings.
    #[schema(value_type = Vec<Finding>)]
    problems: Vec<policy::Problem>,
}

/// An error or warning about a policy text.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes `Problem` of the policy")]
struct Finding {
    /// `error`: the text is unusable. `warning`: the text may not have the intended meaning.
    severity: String,
    /// Line number, from 1.
    line: usize,
    /// Column in characters, from 1.
    column: usize,
    /// What is wrong.
    message: String,
    /// How to fix it.
    hint: Option<String>,
    /// Text of the line.
    text: String,
}

/// Validate a policy text, as `windlass policy check` does for a file
#[utoipa::path(post, path = "/policy/check", tag = "gate", params(IdempotencyKey), request_body = Text,
    responses((status = 200, body = Findings)))]
async fn check(caller: Caller, Body(Text { text }): Body<Text>) -> Result<Json<Findings>, Problem> {
    caller.runs()?;
    let PolicyText { rules, problems, .. } = PolicyText::parse(Path::new(UNNAMED), &text);
    let usable = problems.iter().all(|problem| problem.severity != policy::Word::Error);
    Ok(Json(Findings { usable, rules: rules.len(), problems }))
}

/// A hypothetical call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"tool": "Write", "arguments": {"file_path": "notes/a.md", "content": "x"}}))]
struct Call {
    /// Name of the tool.
    #[schema(value_type = String)]
    tool: ToolName,
    /// Arguments of the call.
    #[serde(default)]
    #[schema(value_type = Object)]
    arguments: Map<String, Value>,
    /// Policy text to use instead of the active rules.
    policy: Option<String>,
    /// User who would make the call; only administrators may name another user.
    user: Option<String>,
}

/// The decision of the gate.
#[derive(Serialize, ToSchema)]
struct Judged {
    /// `allow`, `ask` or `deny`.
    #[schema(example = "ask")]
    verdict: &'static str,
    /// What decided: the name of a rule, `annotations`, `allowlist`, `auto-run`, or a grant.
    #[schema(example = "annotations")]
    by: String,
    /// For `ask`: whether the caller's approval alone is sufficient.
    yours: bool,
}

/// Evaluate a hypothetical call, in a conversation without its own auto-run setting
#[utoipa::path(post, path = "/policy/test", tag = "gate", params(IdempotencyKey), request_body = Call,
    responses((status = 200, body = Judged), (status = 404, body = Problem), (status = 422, body = Problem)))]
async fn test(
    State(app): State<Shared>,
    caller: Caller,
    Body(call): Body<Call>,
) -> Result<Json<Judged>, Problem> {
    caller.runs()?;
    let principal = caller.user_or_self(&app, call.user.as_deref()).await?;
    let roles = app.accounts.refresh().await?.roles(&principal);
    let rules = match &call.policy {
        None => None,
        Some(text) => Some(usable(text)?),
    };
    let missing = || Problem::not_found(format!("tool `{}`", call.tool));
    let by = Party { principal, workspace: caller.workspace().to_owned(), roles };
    let arguments = Some(Value::Object(call.arguments));
    let supposed = Supposed { tool: call.tool.clone(), arguments, by, rules };
    let said = app.engine.policy().standing(&supposed).await?.ok_or_else(missing)?;
    Ok(Json(Judged { verdict: policy::word(said.verdict), by: said.by, yours: said.yours }))
}

/// Parses a policy text, and returns its first error.
fn usable(text: &str) -> Result<Vec<Rule>, Problem> {
    let read = PolicyText::parse(Path::new(UNNAMED), text);
    match read.problems.into_iter().find(|problem| problem.severity == policy::Word::Error) {
        None => Ok(read.rules),
        Some(wrong) => {
            let (line, column) = (wrong.line, wrong.column);
            let problem =
                Problem::invalid(format!("`policy`, line {line}, column {column}: {}", wrong.message));
            Err(wrong.hint.into_iter().fold(problem, Problem::hint))
        }
    }
}
