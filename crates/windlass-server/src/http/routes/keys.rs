//! `/keys`: API keys for programs.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::machine::{Principal, Timestamp};

use crate::account::Scope;
use crate::account::key::{ApiKey, KeyDraft};
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::{Caller, Peer};
use crate::http::input::{Body, Path, Query};
use crate::http::problem::Problem;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list, make)).routes(routes!(revoke))
}

/// Whose keys.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct KeysOf {
    /// An account of the workspace; only for administrators. Default: the caller's own account.
    #[param(value_type = Option<String>)]
    user: Option<Principal>,
}

impl KeysOf {
    /// Returns the account, or an error if the caller may not manage the account's keys.
    async fn user(self, app: &Shared, caller: &Caller) -> Result<Principal, Problem> {
        match self.user {
            Some(user) if user != *caller.user() => {
                caller.administers()?;
                Ok(app.accounts.member(caller.workspace(), &user).await?.user.id)
            }
            Some(_) | None => Ok(caller.user().clone()),
        }
    }
}

/// An API key, without its secret.
#[derive(Serialize, ToSchema)]
struct KeyInfo {
    /// Id of the key.
    id: String,
    /// Display name.
    name: String,
    /// Scopes of the key. An empty list means all permissions of its user.
    scopes: Vec<Scope>,
    /// First characters of the secret.
    begins: String,
    /// Id of the key's user.
    user: String,
    /// When it was created, in milliseconds since the Unix epoch.
    created_at: u64,
    /// When it expires, in milliseconds since the Unix epoch.
    expires_at: Option<u64>,
}

impl From<ApiKey> for KeyInfo {
    fn from(key: ApiKey) -> Self {
        Self {
            id: key.id,
            name: key.name,
            scopes: key.scopes,
            begins: key.begins,
            user: key.user.to_string(),
            created_at: key.created_at.0,
            expires_at: key.expires_at.map(|end| end.0),
        }
    }
}

/// The keys of an account.
#[derive(Serialize, ToSchema)]
struct Keys {
    /// Newest first; at most 100.
    data: Vec<KeyInfo>,
}

/// List API keys
#[utoipa::path(get, path = "/keys", tag = "keys", params(KeysOf),
    responses((status = 200, body = Keys), (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(query): Query<KeysOf>,
) -> Result<Json<Keys>, Problem> {
    caller.reads()?;
    let user = query.user(&app, &caller).await?;
    let keys = app.accounts.keys(&user).await?;
    Ok(Json(Keys { data: keys.into_iter().map(KeyInfo::from).collect() }))
}

/// A key to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct MakeBody {
    /// Display name: 1 to 100 characters.
    name: String,
    /// Scopes of the key. An empty list means all permissions of its user.
    #[serde(default)]
    scopes: Vec<Scope>,
    /// When it expires, in milliseconds since the Unix epoch.
    expires_at: Option<u64>,
    /// The caller's password. An account without a password must have signed in within the last 5 minutes. A request
    /// with an API key needs neither.
    #[schema(format = Password)]
    password: Option<String>,
}

/// A key that was just created.
#[derive(Serialize, ToSchema)]
struct MadeKey {
    /// The secret. It is only returned in this response.
    secret: String,
    #[serde(flatten)]
    key: KeyInfo,
}

/// Create an API key for the caller; a request with a key cannot create a key with more scopes
#[utoipa::path(post, path = "/keys", tag = "keys", request_body = MakeBody,
    responses((status = 201, body = MadeKey), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem),
        (status = 429, body = Problem, description = "too many password attempts")))]
async fn make(
    State(app): State<Shared>,
    caller: Caller,
    Peer(client): Peer,
    Body(body): Body<MakeBody>,
) -> Result<impl IntoResponse, Problem> {
    caller.manages_itself()?;
    let name = crate::account::people::user::check_name(&body.name)?;
    if name.is_empty() {
        return Err(Problem::invalid("`name` is empty; enter the name of the program that uses the key"));
    }
    let mut scopes = Vec::new();
    for scope in body.scopes {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    let expires_at = body.expires_at.map(Timestamp);
    let draft = KeyDraft { user: caller.user().clone(), name, scopes, expires_at };
    let (key, secret) = app.accounts.make_key(&caller.0, draft, body.password, &client).await?;
    Ok((StatusCode::CREATED, Json(MadeKey { secret, key: key.into() })))
}

/// Revoke an API key immediately
#[utoipa::path(delete, path = "/keys/{key}", tag = "keys",
    params(("key" = String, Path, description = "the key's id"), KeysOf),
    responses((status = 204), (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn revoke(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<KeysOf>,
) -> Result<StatusCode, Problem> {
    caller.manages_itself()?;
    let user = query.user(&app, &caller).await?;
    app.accounts.revoke_key(&caller.0, &user, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
