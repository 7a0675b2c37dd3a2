//! `/team`: the members of a workspace and their invitations, for its administrators.

mod sessions;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::machine::Principal;

use crate::account::Role;
use crate::account::link::{INVITE_S, Link, LinkUse, Maker};
use crate::account::people::member::{Member, MemberChange, NewMember};
use crate::account::people::user::fold_email;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::cookie::Base;
use crate::http::etag::{ETag, IfMatch, Seen};
use crate::http::input::{Body, Path, Query};
use crate::http::page::{Page, PageQuery};
use crate::http::problem::Problem;

pub fn routes() -> ApiRouter {
    ApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(one, change, deactivate))
        .routes(routes!(reset))
        .routes(routes!(invites, invite))
        .routes(routes!(take_back))
        .merge(sessions::routes())
}

/// A member of the workspace.
#[derive(Serialize, ToSchema)]
struct MemberInfo {
    /// Id of the account.
    id: String,
    /// Email address.
    email: Option<String>,
    /// Display name.
    name: String,
    /// Role of the account.
    role: Role,
    /// Whether the account may sign in.
    active: bool,
    /// Total credit for the member's runs, in US dollars; absent if only the budgets limit them.
    #[serde(skip_serializing_if = "Option::is_none")]
    credit_usd: Option<f64>,
    /// When the account was created, in milliseconds since the Unix epoch.
    created_at: u64,
}

impl From<Member> for MemberInfo {
    fn from(Member { user, .. }: Member) -> Self {
        Self {
            id: user.id.to_string(),
            email: user.email,
            name: user.name,
            role: user.role,
            active: user.active,
            credit_usd: user.credit_micro_usd.map(|credit| credit as f64 / 1e6),
            created_at: user.created_at.0,
        }
    }
}

fn tag(member: &Member) -> ETag {
    ETag::strong(&member.version)
}

/// Returns the version that `If-Match` requires, or `None` if the header is absent.
async fn meant(
    app: &Shared,
    caller: &Caller,
    id: &Principal,
    seen: Seen,
    headers: &HeaderMap,
) -> Result<Option<u64>, Problem> {
    if !headers.contains_key(header::IF_MATCH) {
        return Ok(None);
    }
    let member = app.accounts.member(caller.workspace(), id).await?;
    seen.allows(&tag(&member))?;
    Ok(Some(member.version))
}

/// List the members of the workspace, including inactive ones
#[utoipa::path(get, path = "/team/members", tag = "team", params(PageQuery),
    responses((status = 200, body = Page<MemberInfo>), (status = 403, body = Problem)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<MemberInfo>>, Problem> {
    caller.administers()?;
    let (limit, after) = (query.limit()?, query.after::<String>()?);
    let members = app.accounts.members(caller.workspace(), after.as_deref(), limit + 1).await?;
    let rows = members.into_iter().map(MemberInfo::from).collect();
    Ok(Json(Page::of(rows, limit, |row: &MemberInfo| row.id.clone())))
}

/// A member to add.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AddBody {
    email: String,
    /// 8 to 1,024 bytes.
    #[schema(format = Password)]
    password: String,
    /// Default: `member`.
    role: Option<Role>,
    #[serde(default)]
    name: String,
}

/// Add a member with a password; reactivates an inactive account with the same address
#[utoipa::path(post, path = "/team/members", tag = "team", request_body = AddBody,
    responses((status = 201, body = MemberInfo), (status = 403, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem)))]
async fn add(
    State(app): State<Shared>,
    caller: Caller,
    Body(body): Body<AddBody>,
) -> Result<impl IntoResponse, Problem> {
    caller.administers()?;
    let AddBody { email, password, role, name } = body;
    let draft = NewMember { email, password, role: role.unwrap_or(Role::Member), name };
    let member = app.accounts.add_member(&caller.0, draft).await?;
    let place = [(header::LOCATION, format!("/api/v1/team/members/{}", member.user.id))];
    let tag = tag(&member);
    Ok(tag.on((StatusCode::CREATED, place, Json(MemberInfo::from(member)))))
}

/// Get a member
#[utoipa::path(get, path = "/team/members/{member}", tag = "team",
    params(("member" = String, Path, description = "the account's id")),
    responses((status = 200, body = MemberInfo), (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<Principal>,
) -> Result<impl IntoResponse, Problem> {
    caller.administers()?;
    let member = app.accounts.member(caller.workspace(), &id).await?;
    Ok(tag(&member).json(MemberInfo::from(member)))
}

/// A change of a member. Absent fields stay unchanged.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChangeBody {
    role: Option<Role>,
    active: Option<bool>,
    name: Option<String>,
    /// Total credit for the member's runs, in US dollars; null removes the limit.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 1000000000)]
    credit_usd: Option<Option<f64>>,
}

/// Distinguishes null from an absent field.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::<f64>::deserialize(deserializer).map(Some)
}

/// Converts US dollars to the stored unit.
fn micro_usd(usd: f64) -> Result<u64, Problem> {
    if !(0.0..=1e9).contains(&usd) {
        return Err(Problem::invalid(format!("`credit_usd` is {usd}; it must be 0 to 1000000000")));
    }
    // The code above has checked the range, so the value fits. A fraction of a millionth is rounded.
    Ok((usd * 1e6).round() as u64)
}

/// Change a member's role, state, name or credit
#[utoipa::path(patch, path = "/team/members/{member}", tag = "team", request_body = ChangeBody,
    params(("member" = String, Path, description = "the account's id"), IfMatch),
    responses((status = 200, body = MemberInfo), (status = 403, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem), (status = 412, body = Problem)))]
async fn change(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<Principal>,
    seen: Seen,
    headers: HeaderMap,
    Body(body): Body<ChangeBody>,
) -> Result<impl IntoResponse, Problem> {
    caller.administers()?;
    let ChangeBody { role, active, name, credit_usd } = body;
    let credit_micro_usd = credit_usd.map(|usd| usd.map(micro_usd).transpose()).transpose()?;
    let change = MemberChange { role, active, name, email: None, credit_micro_usd };
    let version = meant(&app, &caller, &id, seen, &headers).await?;
    let member = app.accounts.change_member(&caller.0, &id, &change, version).await?;
    Ok(tag(&member).json(MemberInfo::from(member)))
}

/// Deactivate a member: revokes the sessions and API keys; their data remains
#[utoipa::path(delete, path = "/team/members/{member}", tag = "team",
    params(("member" = String, Path, description = "the account's id"), IfMatch),
    responses((status = 204), (status = 403, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem), (status = 412, body = Problem)))]
async fn deactivate(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<Principal>,
    seen: Seen,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    caller.administers()?;
    let change = MemberChange { active: Some(false), ..MemberChange::default() };
    let version = meant(&app, &caller, &id, seen, &headers).await?;
    app.accounts.change_member(&caller.0, &id, &change, version).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A one-time link that was just created. It is only returned in this response.
#[derive(Serialize, ToSchema)]
struct MadeLink {
    /// Id of the link, for revoking it.
    id: String,
    /// URL of the link.
    url: String,
    /// Token in the URL.
    token: String,
    /// When the link expires, in milliseconds since the Unix epoch.
    expires_at: u64,
}

impl MadeLink {
    fn of((link, token): (Link, String), base: &Base) -> Self {
        let url = crate::http::link(&base.url, &token);
        Self { id: link.id, url, token, expires_at: link.expires_at.0 }
    }
}

/// Create a one-time link with which a member sets a new password
#[utoipa::path(post, path = "/team/members/{member}/reset", tag = "team",
    params(("member" = String, Path, description = "the account's id")),
    responses((status = 201, body = MadeLink), (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn reset(
    State(app): State<Shared>,
    caller: Caller,
    base: Base,
    Path(id): Path<Principal>,
) -> Result<impl IntoResponse, Problem> {
    caller.administers()?;
    let made = app.accounts.reset_link(Maker::Caller(&caller.0), caller.workspace(), &id).await?;
    Ok((StatusCode::CREATED, Json(MadeLink::of(made, &base))))
}

/// An open invitation.
#[derive(Serialize, ToSchema)]
struct Invite {
    /// Id of the link.
    id: String,
    /// Role of the new member.
    role: Role,
    /// The email address that the invitation is restricted to.
    email: Option<String>,
    /// Id of the user who created it.
    made_by: Option<String>,
    /// When it was created, in milliseconds since the Unix epoch.
    created_at: u64,
    /// When it expires, in milliseconds since the Unix epoch.
    expires_at: u64,
}

/// The open invitations of a workspace.
#[derive(Serialize, ToSchema)]
struct Invites {
    /// Newest first.
    data: Vec<Invite>,
}

/// List the open invitations
#[utoipa::path(get, path = "/team/invites", tag = "team",
    responses((status = 200, body = Invites), (status = 403, body = Problem)))]
async fn invites(State(app): State<Shared>, caller: Caller) -> Result<Json<Invites>, Problem> {
    caller.administers()?;
    let links = app.accounts.links(caller.workspace()).await?;
    let open = links.into_iter().filter_map(|link| match link.used_for {
        LinkUse::Invite { role, email } => Some(Invite {
            id: link.id,
            role,
            email,
            made_by: link.made_by.map(|user| user.to_string()),
            created_at: link.created_at.0,
            expires_at: link.expires_at.0,
        }),
        LinkUse::SignIn { .. } | LinkUse::Reset { .. } => None,
    });
    Ok(Json(Invites { data: open.collect() }))
}

/// An invitation to create.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct InviteBody {
    /// Default: `member`.
    role: Option<Role>,
    /// The email address that the invitation is restricted to. Without it, any holder of the link can register.
    email: Option<String>,
    /// Lifetime in seconds: 60 to 2,592,000. Default: a week.
    expires_in: Option<u64>,
}

/// Create an invitation, a one-time link
#[utoipa::path(post, path = "/team/invites", tag = "team", request_body = InviteBody,
    responses((status = 201, body = MadeLink), (status = 403, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem)))]
async fn invite(
    State(app): State<Shared>,
    caller: Caller,
    base: Base,
    Body(body): Body<InviteBody>,
) -> Result<impl IntoResponse, Problem> {
    caller.administers()?;
    if app.config.settings.server.registration() == crate::account::Registration::Closed {
        let detail = "registration is closed; add the account with a password";
        return Err(Problem::conflict("registration_closed", detail));
    }
    let email = body.email.map(|email| fold_email(&email)).transpose()?;
    let used_for = LinkUse::Invite { role: body.role.unwrap_or(Role::Member), email };
    let seconds = body.expires_in.unwrap_or(INVITE_S);
    let maker = Maker::Caller(&caller.0);
    let made = app.accounts.make_link(maker, caller.workspace(), used_for, seconds).await?;
    Ok((StatusCode::CREATED, Json(MadeLink::of(made, &base))))
}

/// Revoke an invitation or a link to set a password
#[utoipa::path(delete, path = "/team/invites/{link}", tag = "team",
    params(("link" = String, Path, description = "the link's id")),
    responses((status = 204), (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn take_back(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.administers()?;
    app.accounts.take_link_back(&caller.0, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
