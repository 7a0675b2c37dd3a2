//! `/grants` and `/allowlist`: the tools that run without approval, for each user.
//!
//! Members manage their own grants; administrators manage those of their whole workspace. The gate decides which calls
//! a grant allows.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use windlass::machine::{Condition, Predicate, Principal, Timestamp, ToolName};
use windlass::{EngineError, GrantDraft};

use super::auto_run::OfUser;
use crate::account::audit::Note;
use crate::clock::now;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::{Body, Path, Query};
use crate::http::middleware::idempotency::IdempotencyKey;
use crate::http::page::{Page, PageQuery};
use crate::http::problem::Problem;
use crate::toolbox;

/// Maximum number of grants of a user. The gate checks all grants of a user for each call.
const GRANTS_MAX: usize = 1_000;
/// Maximum number of conditions of a grant.
const CONDITIONS_MAX: usize = 32;
/// Maximum length of a tool name, in characters.
const TOOL_MAX_CHARS: usize = 64;

pub fn routes() -> ApiRouter {
    ApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(one, revoke))
        .routes(routes!(allowed))
        .routes(routes!(allow, disallow))
}

/// A user's permission for matching calls to run without approval.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Grant {
    /// Id of the grant.
    id: String,
    /// Id of the user whose runs it applies to.
    user: String,
    /// Name of the tool.
    tool: String,
    /// MCP server that must provide the tool; null for a built-in tool.
    server: Option<String>,
    /// Conditions on the arguments.
    #[schema(value_type = Vec<ArgumentCondition>)]
    arguments: Vec<Condition>,
    /// Remaining number of calls; null means no limit.
    remaining: Option<u32>,
    /// When it expires, in milliseconds since the Unix epoch.
    expires_at: Option<u64>,
    /// Id of the user who created it.
    by: String,
}

impl From<(Principal, windlass::machine::Grant)> for Grant {
    fn from((user, grant): (Principal, windlass::machine::Grant)) -> Self {
        Self {
            id: grant.id,
            user: user.to_string(),
            tool: grant.tool.to_string(),
            server: grant.server,
            arguments: grant.arguments,
            remaining: grant.remaining,
            expires_at: grant.expires_at.map(|at| at.0),
            by: grant.by.to_string(),
        }
    }
}

/// A condition on one argument.
#[derive(ToSchema)]
#[schema(as = Condition)]
#[allow(dead_code, reason = "it describes `Condition` of the library")]
pub struct ArgumentCondition {
    /// The argument as a JSON pointer, such as `/path`; empty for the arguments as a whole.
    #[schema(example = "/path")]
    argument: String,
    /// One of `{"equals": …}`, `{"one_of": […]}`, `{"not_one_of": […]}`, `{"matches": "…"}`, `{"between": {"min": …,
    /// "max": …}}`, `{"under": "…"}`, `"present"` and `"absent"`.
    #[schema(value_type = Value, example = json!({"under": "notes"}))]
    is: Value,
}

/// A grant to create.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"tool": "Write", "arguments": [{"argument": "/file_path", "is": {"under": "notes"}}], "count": 5}))]
struct NewGrant {
    /// Name of the tool.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$", example = "write")]
    tool: String,
    /// Conditions on the arguments. Default: any arguments.
    #[serde(default)]
    #[schema(value_type = Vec<ArgumentCondition>, max_items = 32)]
    arguments: Vec<Condition>,
    /// Number of calls that it allows. Default: no limit.
    #[schema(minimum = 1)]
    count: Option<u32>,
    /// Lifetime in milliseconds. Default: no expiry.
    #[schema(minimum = 1)]
    expires_in_ms: Option<u64>,
    /// Id of the user whose runs it applies to. Only administrators may name another user.
    user: Option<String>,
}

/// Filters for grants.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct GrantFilter {
    /// Grants of another user of the workspace; only for administrators.
    user: Option<String>,
    /// All grants of the workspace; only for administrators.
    all: Option<bool>,
}

/// List grants
#[utoipa::path(get, path = "/grants", tag = "gate", params(PageQuery, GrantFilter),
    responses((status = 200, body = Page<Grant>)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(page): Query<PageQuery>,
    Query(filter): Query<GrantFilter>,
) -> Result<Json<Page<Grant>>, Problem> {
    caller.reads()?;
    let (limit, after) = (page.limit()?, page.after::<String>()?);
    let mut grants = match filter.all.unwrap_or_default() {
        true => {
            caller.administers_or(|| "only an administrator may list `all` grants of the workspace")?;
            of_workspace(&app, &caller).await?
        }
        false => {
            let user = caller.user_or_self(&app, filter.user.as_deref()).await?;
            app.engine.policy().grants(Some(&user)).await?
        }
    };
    grants.retain(|(_, grant)| after.as_ref().is_none_or(|after| grant.id > *after));
    Ok(Json(Page::of(grants, limit, |(_, grant)| grant.id.clone()).map(Grant::from)))
}

async fn of_workspace(
    app: &Shared,
    caller: &Caller,
) -> Result<Vec<(Principal, windlass::machine::Grant)>, Problem> {
    let people = app.accounts.refresh().await?;
    let here =
        |user: &Principal| people.find(user).is_some_and(|found| found.workspace == caller.workspace());
    let mut grants = app.engine.policy().grants(None).await?;
    grants.retain(|(user, _)| here(user));
    Ok(grants)
}

/// Finds a grant that the caller may manage.
async fn find(app: &Shared, caller: &Caller, id: &str) -> Result<Grant, Problem> {
    let grants = match caller.is_admin() {
        true => of_workspace(app, caller).await?,
        false => app.engine.policy().grants(Some(caller.user())).await?,
    };
    let found = grants.into_iter().find(|(_, grant)| grant.id == id);
    found.map(Grant::from).ok_or_else(|| Problem::not_found(format!("grant `{id}`")))
}

/// Get a grant
#[utoipa::path(get, path = "/grants/{grant}", tag = "gate",
    params(("grant" = String, Path, description = "the grant's id")), responses((status = 200, body = Grant)))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(grant): Path<String>,
) -> Result<Json<Grant>, Problem> {
    caller.reads()?;
    find(&app, &caller, &grant).await.map(Json)
}

/// Create a grant that lets calls of a tool run without approval
#[utoipa::path(post, path = "/grants", tag = "gate", params(IdempotencyKey), request_body = NewGrant,
    responses((status = 201, body = Grant, headers(("Location" = String, description = "the grant"))),
        (status = 422, body = Problem, description = "the tool does not exist, or the grant is invalid")))]
async fn add(
    State(app): State<Shared>,
    caller: Caller,
    Body(new): Body<NewGrant>,
) -> Result<Response, Problem> {
    caller.approves()?;
    let user = caller.user_or_self(&app, new.user.as_deref()).await?;
    let offer = Offer { arguments: new.arguments, count: new.count, expires_in_ms: new.expires_in_ms };
    let draft = offer.draft(&app, &caller, user.clone(), tool(&new.tool)?).await?;
    let granted = app.engine.policy().grant(draft).await.map_err(|error| missing_tool(&app, error))?;
    let grant = Grant::from((user, granted));
    let note = Note::by(&caller.0, "grant.made").on(&grant.id);
    app.accounts.record(note.with("user", &*grant.user).with("tool", &*grant.tool)).await?;
    let at = format!("/api/v1/grants/{}", grant.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, at)], Json(grant)).into_response())
}

/// The scope of a grant to create.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Conditions on the arguments.
    pub arguments: Vec<Condition>,
    /// Number of calls that it allows; `None` means no limit.
    pub count: Option<u32>,
    /// Lifetime in milliseconds; `None` means no expiry.
    pub expires_in_ms: Option<u64>,
}

impl Offer {
    /// Validates the scope.
    pub fn check(&self) -> Result<(), Problem> {
        if self.arguments.len() > CONDITIONS_MAX {
            let detail = format!(
                "`arguments` has {} conditions; at most {CONDITIONS_MAX} are allowed",
                self.arguments.len()
            );
            return Err(Problem::invalid(detail));
        }
        let pointer = |text: &str| text.is_empty() || text.starts_with('/');
        if let Some(odd) = self.arguments.iter().find(|condition| !pointer(&condition.argument)) {
            let detail = format!("`argument` is `{}`, which is not a JSON pointer", odd.argument);
            return Err(Problem::invalid(detail).hint("a JSON pointer begins with `/`, such as `/path`"));
        }
        for condition in &self.arguments {
            if let Predicate::Matches(pattern) = &condition.is
                && let Err(why) = pattern.compile()
            {
                return Err(Problem::invalid(format!(
                    "`matches` of `{}` is not a regular expression: {why}",
                    condition.argument
                )));
            }
        }
        if self.count == Some(0) {
            return Err(Problem::invalid("`count` is 0; omit it to allow any number of calls"));
        }
        if self.expires_in_ms == Some(0) {
            return Err(Problem::invalid("`expires_in_ms` is 0; omit it for a grant without an expiry"));
        }
        Ok(())
    }

    /// Builds the grant. Returns an error if its user has the maximum number of grants.
    pub async fn draft(
        self,
        app: &Shared,
        caller: &Caller,
        user: Principal,
        tool: ToolName,
    ) -> Result<GrantDraft, Problem> {
        self.check()?;
        if app.engine.policy().grants(Some(&user)).await?.len() >= GRANTS_MAX {
            let detail = format!("`{user}` already has {GRANTS_MAX} grants");
            return Err(Problem::conflict("too_many", detail).hint("revoke grants that are no longer needed"));
        }
        let Self { arguments, count, expires_in_ms } = self;
        let expires_at: Option<Timestamp> = expires_in_ms.map(|ms| now().plus_ms(ms));
        let by = caller.user().clone();
        Ok(GrantDraft { user, tool, arguments, count, expires_at, by })
    }
}

/// Revoke a grant
///
/// It no longer applies to calls that have not started.
#[utoipa::path(delete, path = "/grants/{grant}", tag = "gate",
    params(("grant" = String, Path, description = "the grant's id")),
    responses((status = 204, description = "the grant was revoked")))]
async fn revoke(
    State(app): State<Shared>,
    caller: Caller,
    Path(grant): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.approves()?;
    let found = find(&app, &caller, &grant).await?;
    app.engine.policy().revoke(&found.id, None).await?;
    let note = Note::by(&caller.0, "grant.revoked").on(&found.id);
    app.accounts.record(note.with("user", found.user).with("tool", found.tool)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Validates the name of a tool.
fn tool(name: &str) -> Result<ToolName, Problem> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=TOOL_MAX_CHARS).contains(&name.len()) && name.chars().all(plain) {
        return Ok(ToolName::from(name));
    }
    let shown = crate::text::first_line(name, TOOL_MAX_CHARS);
    Err(Problem::invalid(format!("`{shown}` is not a valid tool name"))
        .hint("use 1 to 64 of A-Z, a-z, 0-9, `_` and `-`; `GET /api/v1/tools` lists the available tools"))
}

/// Converts an engine error. If a tool is unknown, adds a hint, such as a similar tool name.
pub fn missing_tool(app: &Shared, error: EngineError) -> Problem {
    match &error {
        EngineError::NoTool(name) => {
            let hint = toolbox::instead(&app.engine, name);
            let hint = hint.unwrap_or_else(|| "`GET /api/v1/tools` lists the available tools".to_owned());
            Problem::from(error).hint(hint)
        }
        _ => error.into(), // tidy: the others name no tool
    }
}

/// Tools that run without approval if `auto_run` is `allowlist`.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct AllowList {
    /// Tool names, sorted.
    data: Vec<String>,
}

/// Get the user's allow list, which applies if `auto_run` is `allowlist`
#[utoipa::path(get, path = "/allowlist", tag = "gate", params(OfUser),
    responses((status = 200, body = AllowList)))]
async fn allowed(
    State(app): State<Shared>,
    caller: Caller,
    Query(of): Query<OfUser>,
) -> Result<Json<AllowList>, Problem> {
    caller.reads()?;
    let user = caller.user_or_self(&app, of.user.as_deref()).await?;
    let tools = app.engine.policy().allowed(&user).await?;
    Ok(Json(AllowList { data: tools.iter().map(ToolName::to_string).collect() }))
}

/// Add a tool to the user's allow list
#[utoipa::path(put, path = "/allowlist/{tool}", tag = "gate",
    params(("tool" = String, Path, description = "the tool's name"), OfUser),
    responses((status = 204, description = "the tool is on the list"),
        (status = 409, body = Problem, description = "the list is full"),
        (status = 422, body = Problem, description = "the tool does not exist")))]
async fn allow(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Query(of): Query<OfUser>,
) -> Result<StatusCode, Problem> {
    caller.approves()?;
    let (name, user) = (tool(&name)?, caller.user_or_self(&app, of.user.as_deref()).await?);
    let tools = app.engine.policy().allowed(&user).await?;
    if tools.len() >= GRANTS_MAX && !tools.contains(&name) {
        let detail = format!("`{user}` already has {GRANTS_MAX} tools on the allow list");
        return Err(Problem::conflict("too_many", detail).hint("remove a tool first"));
    }
    app.engine.policy().allow(&user, &name).await.map_err(|error| missing_tool(&app, error))?;
    let note = Note::by(&caller.0, "allowlist.added").on(user.as_str());
    app.accounts.record(note.with("tool", name.as_str())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remove a tool from the user's allow list
#[utoipa::path(delete, path = "/allowlist/{tool}", tag = "gate",
    params(("tool" = String, Path, description = "the tool's name"), OfUser),
    responses((status = 204, description = "the tool is not on the list")))]
async fn disallow(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Query(of): Query<OfUser>,
) -> Result<StatusCode, Problem> {
    caller.approves()?;
    let (name, user) = (tool(&name)?, caller.user_or_self(&app, of.user.as_deref()).await?);
    app.engine.policy().disallow(&user, &name).await?;
    let note = Note::by(&caller.0, "allowlist.removed").on(user.as_str());
    app.accounts.record(note.with("tool", name.as_str())).await?;
    Ok(StatusCode::NO_CONTENT)
}
