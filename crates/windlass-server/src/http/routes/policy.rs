//! `/policy`: the rules that count, whether a text of rules can be used, and what the gate would say to a call.
//!
//! Nothing is called or changed here: rules stand in files on the server's machine, and count from its next start.

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

/// What a text of rules is called where it has no file.
const UNNAMED: &str = "the text";

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(shown)).routes(routes!(check)).routes(routes!(test))
}

/// The policy that counts.
#[derive(Serialize, ToSchema)]
struct Policy {
    /// Its files: the rules of all of them count together.
    files: Vec<PolicyFile>,
}

/// A policy file as it was read when the server started.
#[derive(Serialize, ToSchema)]
struct PolicyFile {
    /// Where it is on the server's machine.
    path: String,
    /// What stands in it.
    text: String,
    /// Whether all of its rules count; else nobody has trusted it, and only those that deny or ask do.
    whole: bool,
    /// Those of its rules that count.
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

/// The policy that counts, for those who run the store: its rules are about all workspaces
#[utoipa::path(get, path = "/policy", tag = "gate",
    responses((status = 200, body = Policy), (status = 403, body = Problem)))]
async fn shown(State(app): State<Shared>, _: Operator) -> Json<Policy> {
    Json(Policy { files: app.config.policies.iter().map(PolicyFile::from).collect() })
}

/// A text of rules.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"text": "[[rule]]\nverdict = 'deny'\ntools = ['Write']\n"}))]
struct Text {
    /// As a policy file has it, in TOML.
    text: String,
}

/// What is wrong with a text of rules.
#[derive(Serialize, ToSchema)]
struct Findings {
    /// Whether it can be used: there may still be warnings.
    usable: bool,
    /// How many rules it has.
    rules: usize,
    /// What is wrong with it.
    #[schema(value_type = Vec<Finding>)]
    problems: Vec<policy::Problem>,
}

/// Something that is wrong with a text of rules.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes `Problem` of the policy")]
struct Finding {
    /// `error`: the text cannot be used; `warning`: it may not say what was meant.
    severity: String,
    /// The line, from 1.
    line: usize,
    /// The character in the line, from 1.
    column: usize,
    /// What is wrong.
    message: String,
    /// What to do.
    hint: Option<String>,
    /// The line's text.
    text: String,
}

/// Says what is wrong with a text of rules, as `windlass policy check` does for a file
#[utoipa::path(post, path = "/policy/check", tag = "gate", params(IdempotencyKey), request_body = Text,
    responses((status = 200, body = Findings)))]
async fn check(caller: Caller, Body(Text { text }): Body<Text>) -> Result<Json<Findings>, Problem> {
    caller.runs()?;
    let PolicyText { rules, problems, .. } = PolicyText::parse(Path::new(UNNAMED), &text);
    let usable = problems.iter().all(|problem| problem.severity != policy::Word::Error);
    Ok(Json(Findings { usable, rules: rules.len(), problems }))
}

/// A call that nobody makes.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"tool": "Write", "arguments": {"file_path": "notes/a.md", "content": "x"}}))]
struct Call {
    /// The tool.
    #[schema(value_type = String)]
    tool: ToolName,
    /// The arguments.
    #[serde(default)]
    #[schema(value_type = Object)]
    arguments: Map<String, Value>,
    /// Rules in place of those that count, as a policy file has them.
    policy: Option<String>,
    /// Whose call it would be; another than oneself only for administrators.
    user: Option<String>,
}

/// What the gate would say.
#[derive(Serialize, ToSchema)]
struct Judged {
    /// `allow`, `ask` or `deny`.
    #[schema(example = "ask")]
    verdict: &'static str,
    /// What decided: a rule by its name, `annotations`, `allowlist`, `auto-run`, or a grant.
    #[schema(example = "annotations")]
    by: String,
    /// Whether the caller's own word would be enough, where it asks.
    yours: bool,
}

/// Says what the gate would say to a call in a conversation of its user that has no choices of its own
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

/// The rules of a text without errors.
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
