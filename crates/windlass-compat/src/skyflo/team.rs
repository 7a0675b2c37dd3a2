//! The members of a workspace, for its administrators. (SK-R8)

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::machine::Principal;
use windlass_server::account::Role;
use windlass_server::account::error::AccountError;
use windlass_server::account::people::member::{MemberChange, NewMember};
use windlass_server::account::people::user::User;
use windlass_server::http::Shared;
use windlass_server::http::caller::Caller;
use windlass_server::http::input::{Body, Path};
use windlass_server::http::problem::Problem;

use crate::date::iso;

/// Number of accounts per read.
const PAGE: usize = 500;

fn told(user: &User) -> Value {
    json!({
        "id": user.id.as_str(),
        "email": user.email.as_deref().unwrap_or_default(),
        "name": user.name,
        "role": user.role.word(),
        "status": if user.active { "active" } else { "inactive" },
        "created_at": iso(user.created_at),
    })
}

/// Lists all accounts of the workspace.
pub async fn members(State(app): State<Shared>, caller: Caller) -> Result<Json<Vec<Value>>, Problem> {
    caller.administers()?;
    let mut all = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = app.accounts.members(caller.workspace(), after.as_deref(), PAGE).await?;
        all.extend(page.iter().filter(|member| member.user.active).map(|member| told(&member.user)));
        if page.len() < PAGE {
            return Ok(Json(all));
        }
        after = page.last().map(|member| member.user.id.to_string());
    }
}

#[derive(Deserialize)]
pub struct Add {
    email: String,
    password: String,
    #[serde(default)]
    role: Option<Role>,
}

/// Adds a member with a password. A deactivated member is reactivated.
pub async fn add(
    State(app): State<Shared>,
    caller: Caller,
    Body(add): Body<Add>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    caller.administers()?;
    let Add { email, password, role } = add;
    let draft = NewMember { email, password, role: role.unwrap_or(Role::Member), name: String::new() };
    match app.accounts.add_member(&caller.0, draft).await {
        Ok(member) => Ok((StatusCode::CREATED, Json(told(&member.user)))),
        Err(AccountError::Taken { email }) => {
            Err(Problem::bad_request(format!("User with email {email} already exists")))
        }
        Err(error) => Err(error.into()),
    }
}

#[derive(Deserialize)]
pub struct Change {
    role: Role,
}

/// Changes a member's role.
pub async fn change(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<Principal>,
    Body(change): Body<Change>,
) -> Result<Json<Value>, Problem> {
    caller.administers()?;
    let change = MemberChange { role: Some(change.role), ..MemberChange::default() };
    Ok(Json(told(&app.accounts.change_member(&caller.0, &id, &change, None).await?.user)))
}

/// Deactivates another member.
pub async fn remove(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<Principal>,
) -> Result<StatusCode, Problem> {
    caller.administers()?;
    if id == *caller.user() {
        return Err(Problem::bad_request("You cannot remove yourself"));
    }
    let change = MemberChange { active: Some(false), ..MemberChange::default() };
    app.accounts.change_member(&caller.0, &id, &change, None).await?;
    Ok(StatusCode::NO_CONTENT)
}
